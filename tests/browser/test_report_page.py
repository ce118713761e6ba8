"""The report in a browser: it opens, unfolds, answers, and stays on its own."""

import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main
from tests.browser.conftest import FILTER, ROUND, SCHEMA, written
from tests.faults.hostile import RAW, SHORT

WIDTHS = (1280, 390)


def rows(page):
    return page.locator("#grants tbody tr[data-grant]")


def axe_findings(page, *, undecided=True):
    """What is wrong, and what is undecided but for what axe never decides: words on a drawing,
    which have their contrast by the tokens (tests/reports/test_colours.py).

    Args:
        undecided: on a narrow page, cells that are scrolled out of sight are undecided, too.
    """
    axe = pytest.importorskip("axe_playwright_python.sync_playwright",
                              reason="axe-playwright-python is not installed (extra: browser)")
    found = axe.Axe().run(page, options={"resultTypes": ["violations", "incomplete"]}).response
    open_ = [(one["id"], node["html"][:200]) for one in found["incomplete"]
             for node in one["nodes"] if not (one["id"] == "color-contrast"
                                              and node["html"].startswith("<text"))]
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in found["violations"]] + (
        open_ if undecided else [])


def test_the_verdict_comes_first(visit, pages):
    page = visit(pages["plain"])
    assert page.locator(".verdict").first.inner_text().split("\n")[0] == "Promise kept"
    assert "CONFIDENTIAL" in page.locator("header").inner_text()
    assert page.locator(".gauge").count() == 3 and page.locator(".chip").count() == 4
    assert rows(page).count() == 3
    bottom = page.locator(".gauges").bounding_box()
    assert bottom["y"] + bottom["height"] < 800  # on the first screen


def test_the_icicle_filters_with_the_keyboard(visit, pages):
    page = visit(pages["plain"])
    page.locator(".cell[tabindex='0']").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.get_by_text("1 grant of 3").wait_for()
    chosen = rows(page).first.inner_text()
    assert chosen.split("\t")[2].strip().split("\n")[0] in page.locator("#crumbs").inner_text()
    assert page.locator("#dots .dim").count() == 2
    page.keyboard.press("Escape")
    page.get_by_text("3 grants: ").wait_for()
    assert rows(page).count() == 3 and page.locator("#dots .dim").count() == 0


def test_a_click_zooms_and_a_second_one_goes_back(visit, pages):
    page = visit(pages["plain"])
    cell = page.locator(".cell[role=button][data-path='0/1']")
    was = cell.bounding_box()["width"]
    cell.click()
    page.get_by_text("1 grant of 3").wait_for()
    assert cell.bounding_box()["width"] > 1.5 * was
    cell.click()
    assert rows(page).count() == 3


def test_a_column_sorts_and_says_so(visit, pages):
    page = visit(pages["plain"])
    head = page.locator("th", has_text="Epsilon alone")

    def shown():
        return [float(text) for text in page.locator("#grants td.c-eps").all_inner_texts()]

    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert shown() == sorted(shown(), reverse=True)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending" and shown() == sorted(shown())


def test_a_row_opens_to_its_plan_and_answers(visit, pages):
    page = visit(pages["plain"])
    button = rows(page).filter(has_text="departments").locator(".open")
    button.focus()
    page.keyboard.press("Enter")
    opened = page.locator("tr.more")
    text = opened.inner_text()
    for words in ("Parallel", "noise_multiplier", "mu squared", "grant-", "departments"):
        assert words in text, words
    page.keyboard.press("Enter")
    assert page.locator("tr.more").count() == 0


def test_any_record_can_be_followed_to_its_grant(visit, pages, ledger):
    page = visit(pages["records"])
    for row in (0, 77, 111, 150, 299):  # among the dearest and not, with large and small spends
        page.locator("form.record input").fill(str(row))
        page.locator("form.record button").click()
        page.get_by_text(f"Record {row} of patients spent").wait_for()
        with pl.Ledger.open(ledger, read_only=True) as opened:
            truth = opened.record(row, "patients")
        (line,) = [line for line in truth.lines if line.basis == "individual"]
        cells = page.locator("#answer0 tbody tr").first.locator("td").all_inner_texts()
        assert cells[0].startswith("stay model")
        assert line.amount <= float(cells[1]) <= line.amount * 1.002 + 1e-6
        assert cells[3] == f"{line.rounds} of 8"
    page.locator("#answer0 tbody button").first.click()
    assert line.grant in page.locator("tr.more").inner_text()
    assert "IndividualFilter" in page.locator("tr.more").inner_text()
    assert page.evaluate("document.activeElement.className") == "open"


def test_without_vectors_only_the_dearest_answer(visit, pages):
    page = visit(pages["plain"])
    page.locator("button[data-row]").first.click()
    page.locator("#answer0 table").wait_for()
    known = page.evaluate(
        "JSON.parse(document.getElementById('spends').textContent)[0].top.map(one => one[0])")
    other = next(row for row in range(300) if row not in known)  # with equal spends, any may lead
    page.locator("form.record input").fill(str(other))
    page.locator("form.record button").click()
    page.get_by_text(f"run privledger record LEDGER {other}").wait_for()


@pytest.fixture(scope="session")
def many(tmp_path_factory):
    """Three tables, 240 grants: more than are written beforehand, and than are drawn at once."""
    path = tmp_path_factory.mktemp("many") / "many.ledger"
    with pl.Ledger.create(path, budget=pl.Budget(2.0, 1e-6), filter="gdp") as ledger:
        data = [ledger.protect({"stay": [1.0]}, SCHEMA, name=f"table-{place}")
                for place in range(3)]
        for place in range(240):
            ledger.request(pl.Gaussian(100.0 + place), data[place % 3],
                           learner=f"learner-{place % 4}",
                           labels={"team": "ab"[place % 2]}).close()
    return written(path)


def test_search_uses_all_grants_and_comes_back(visit, many):
    page = visit(many)
    assert rows(page).count() == 100
    page.get_by_role("button", name="Show 200 more").click()
    assert rows(page).count() == 240
    page.locator("#q").fill("LEARNER-1 table-2")
    page.get_by_text("20 grants of 240").wait_for()
    page.locator("select[data-column='3']").select_option("a")
    page.get_by_text("0 grants of 240").wait_for()
    page.get_by_role("button", name="Clear filters").click()
    page.get_by_text("240 grants: ").wait_for()
    assert page.locator("#dots .dot").count() == 0  # a stair without marks
    page.locator("#q").fill("learner-3 table-0")
    page.locator("#dots .extra").first.wait_for()
    assert page.locator("#dots .extra").count() == 20


def test_the_page_reads_without_script(chromium, pages, many):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    for place, number in ((pages["plain"], 3), (many, 200)):
        page.goto(place.as_uri())
        assert page.locator("#grants tbody tr").count() == number
        for part in (".p-icicle rect", ".p-time path", ".gauge"):
            assert page.locator(part).first.is_visible(), part
        assert not page.locator(".tools").first.is_visible()
    context.close()


def test_the_publishable_page_has_no_section_about_records(visit, pages):
    page = visit(pages["publishable"])
    assert page.locator("#people").count() == 0
    rows(page).first.locator(".open").click()
    assert "charged in full" in page.locator("tr.more").inner_text()
    assert "Publishable" in page.locator("header").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_light_and_dark_and_narrow_without_a_barrier(visit, pages, scheme, width):
    page = visit(pages["records"], color_scheme=scheme, viewport={"width": width, "height": 800})
    page.locator("button[data-row]").first.click()
    page.locator("#answer0 button.link").first.click()
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    back, ink = page.evaluate("""() => ['backgroundColor', 'color'].map((name) =>
        Number(getComputedStyle(document.body)[name].match(/\\d+/)[0]))""")
    assert (back < ink) is (scheme == "dark")
    assert axe_findings(page, undecided=width == 1280) == []


def test_hostile_texts_do_nothing(visit, tmp_path):
    """All of them in one ledger, as learner, table and label; every part of the page is opened."""
    path = tmp_path / "hostile.ledger"
    with pl.Ledger.create(path, budget=pl.Budget(20.0, 1e-6), filter="gdp") as ledger:
        for text in SHORT.values():
            data = ledger.protect({"stay": [1.0, 60.0, 30.0]}, SCHEMA, name=text)
            with ledger.request(FILTER, data, learner=text[:200],
                                labels={text[:200]: text[:200]}) as session:
                session.release(ROUND,
                                session.filtered(FILTER).query((pl.questions.Ones(),), None, text))
    page = visit(written(path, "--include-records"))
    for place in range(len(SHORT)):
        rows(page).nth(place).locator(".open").press("Enter")
        one = page.locator(f"form.record[data-people='{place}'] input")
        one.fill("1")  # by keys: a mouse waits two seconds for a page that scrolls
        one.press("Enter")
        page.locator(f"#answer{place} table").wait_for()
    page.locator("#answer0 button.link").first.click()
    assert page.locator("script").count() == 3
    assert page.locator("img, iframe, object, form[action], a[href*=':'], [style]").count() == 0
    assert page.evaluate("({}).polluted") is None
    text = page.locator("body").inner_text()  # a table's cells are divided by tabs
    assert [sign for sign in RAW - {"\t"} if sign in text] == []


def test_it_prints(visit, pages):
    page = visit(pages["plain"], viewport={"width": 695, "height": 1000})
    page.emulate_media(media="print")
    assert not page.locator("form.record").first.is_visible()
    assert page.locator(".verdict").first.is_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    small = page.evaluate("""[...document.querySelectorAll('body *')].filter((one) =>
        one.checkVisibility() && [...one.childNodes].some((part) =>
            part.nodeType === 3 && part.data.trim())
        && parseFloat(getComputedStyle(one).fontSize) < 11.9).map((one) => one.outerHTML)""")
    assert small == []  # 9 points
    assert len(page.pdf()) > 10_000
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0


def test_a_finding_leads_to_its_entry_and_on_to_its_grant(visit, ledger, tmp_path):
    import shutil

    from tests.doctored import doctor
    over = tmp_path / "over.ledger"
    shutil.copy(ledger, over)
    with pl.Ledger.open(over) as opened:
        opened.correct(next(iter(opened.state.grants)), pl.Gaussian(0.4), "far too little noise")
    page = visit(written(over, code=3))
    assert page.locator(".verdict").inner_text().startswith("Promise broken")
    page.locator("a[href^='#entry-']").first.click()
    page.locator("tr:target button").click()
    assert "grant-" in page.locator("tr.more").inner_text()
    assert axe_findings(page) == []
    broken = tmp_path / "broken.ledger"
    shutil.copy(ledger, broken)
    doctor(broken, "UPDATE entries SET hash = '00' WHERE position = 5")
    page = visit(written(broken, code=3))
    assert page.locator("body").inner_text().startswith("NOT TRUSTED")
    page.locator("a[href^='#entry-']").first.click()
    assert page.locator("tr:target").count() == 1
    assert axe_findings(page) == []


def test_totals_are_right_where_single_grants_were_too_many(visit, ledger, monkeypatch, tmp_path):
    monkeypatch.setattr("privledger.reports.page.people.MOST_VALUES", 10)
    place = tmp_path / "totals.html"
    done = CliRunner().invoke(main, ["report", str(ledger), "-o", str(place), "--include-records"])
    assert done.exit_code == 0
    page = visit(place)
    for row in (77, 111):
        with pl.Ledger.open(ledger, read_only=True) as opened:
            truth = opened.record(row, "patients")
        page.locator("form.record input").fill(str(row))
        page.locator("form.record button").click()
        said = page.get_by_text(f"Record {row} of patients spent")
        said.wait_for()
        assert float(said.inner_text().split()[5]) == pytest.approx(truth.total, rel=1e-3)
        assert "too many grants" in page.locator("#answer0").inner_text()
