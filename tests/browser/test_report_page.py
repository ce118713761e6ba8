"""The report in a browser: it opens, unfolds, answers, and stays on its own."""

from __future__ import annotations

from io import BytesIO

import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main
from tests.browser.conftest import FILTER, ROUND, SCHEMA, written
from tests.faults.hostile import RAW, SHORT

WIDTHS = (1280, 390)


def summaries(page):
    return page.locator("#tree summary").all_inner_texts()


def test_the_verdict_comes_first(visit, pages):
    page = visit(pages["plain"])
    assert page.locator(".verdict").first.inner_text().startswith("within budget: epsilon")
    assert "CONFIDENTIAL" in page.locator("header").inner_text()
    assert len(summaries(page)) == 3


def test_the_tree_unfolds_with_the_keyboard(visit, pages):
    page = visit(pages["plain"])
    last = page.locator("#tree summary").nth(2)
    last.focus()
    page.keyboard.press("Enter")
    page.locator("#tree summary").nth(3).wait_for()
    page.keyboard.press("Tab")
    while page.evaluate("document.activeElement.tagName") != "SUMMARY":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    found = page.get_by_text("members 101 to 200", exact=True)
    found.wait_for()
    found.focus()
    page.keyboard.press("Enter")
    one = page.get_by_text("noise_multiplier=160 ", exact=False)
    one.wait_for()
    one.click()
    details = one.locator("xpath=ancestor::details[1]")
    details.locator("dl").wait_for()
    facts = details.inner_text()
    for words in ("noise_multiplier=160", "mu squared", "replace_one", "departments", "grant-"):
        assert words in facts


def test_a_drawn_box_opens_its_node(visit, pages):
    page = visit(pages["plain"])
    page.locator("[data-path='2/0']").first.click()
    page.locator("summary.found").wait_for()
    assert "noise_multiplier=50" in page.locator("summary.found").inner_text()
    assert page.evaluate("document.activeElement.className") == "found"


def test_any_record_can_be_followed_to_its_nodes(visit, pages, ledger):
    page = visit(pages["records"])
    for row in (0, 77, 111, 150, 299):  # among the dearest and not, with large and small spends
        page.locator("form.record input").fill(str(row))
        page.locator("form.record button").click()
        page.get_by_text(f"Record {row} of patients spent").wait_for()
        with pl.Ledger.open(ledger, read_only=True) as opened:
            truth = opened.record(row, "patients")
        (line,) = [line for line in truth.lines if line.basis == "individual"]
        cells = page.locator("#answer0 tbody tr").first.locator("td").all_inner_texts()
        assert cells[0] == line.grant and cells[1] == "stay model"
        assert float(cells[3]) == pytest.approx(line.amount, rel=2e-3, abs=1e-6)
        assert cells[5] == f"{line.rounds} of 8"
    page.locator("#answer0 tbody button").first.click()
    assert line.grant in page.locator("summary.found").inner_text()
    page.locator("#tree summary", has_text="IndividualFilter").wait_for()


def test_without_vectors_only_the_dearest_answer(visit, pages):
    page = visit(pages["plain"])
    page.locator("button[data-row]").first.click()
    page.locator("#answer0 table").wait_for()
    known = page.evaluate(
        "JSON.parse(document.getElementById('people').textContent)[0].top.map(one => one[0])")
    other = next(row for row in range(300) if row not in known)  # with equal spends, any may lead
    page.locator("form.record input").fill(str(other))
    page.locator("form.record button").click()
    page.get_by_text(f"run privledger record LEDGER {other}").wait_for()


def test_find_and_come_back(visit, pages):
    page = visit(pages["plain"])
    page.locator("#word").fill("DEPART")
    page.keyboard.press("Enter")
    page.get_by_text("1 of 3").wait_for()
    assert len(summaries(page)) == 1
    page.locator("[data-path='0']").first.click()
    assert len(summaries(page)) >= 3


def test_the_publishable_page_has_no_section_about_records(visit, pages):
    page = visit(pages["publishable"])
    assert page.locator("#records").count() == 0
    page.locator("#tree summary").first.click()
    assert "charged in full" in page.locator("#tree").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_light_and_dark_and_narrow(visit, pages, scheme, width):
    page = visit(pages["records"], color_scheme=scheme, viewport={"width": width, "height": 800})
    page.locator("button[data-row]").first.click()
    page.locator("#answer0 button.link").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    back, ink = page.evaluate("""() => ['backgroundColor', 'color'].map((name) =>
        Number(getComputedStyle(document.body)[name].match(/\\d+/)[0]))""")
    assert (back < ink) is (scheme == "dark")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_barrier_and_no_doubt(visit, pages, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright",
                              reason="axe-playwright-python is not installed (extra: browser)")
    page = visit(pages["records"], color_scheme=scheme)
    page.locator("button[data-row]").first.click()
    page.locator("#answer0 button.link").first.click()
    found = axe.Axe().run(page, options={"resultTypes": ["violations", "incomplete"]}).response
    assert [(one["id"], one["nodes"][0]["html"][:200])
            for kind in ("violations", "incomplete") for one in found[kind]] == []


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
        page.locator("#tree > ul > li > details > summary").nth(place).click()
        page.locator(f"form.record[data-people='{place}'] input").fill("1")
        page.locator(f"form.record[data-people='{place}'] button").click()
        page.locator(f"#answer{place} table").wait_for()
    page.locator("#answer0 button.link").first.click()
    assert page.locator("script").count() == 3
    assert page.locator("img, iframe, object, form[action], a[href*=':'], [style]").count() == 0
    assert page.evaluate("({}).polluted") is None
    text = page.locator("body").inner_text()  # a table's cells are divided by tabs
    assert [sign for sign in RAW - {"\t"} if sign in text] == []


def test_it_prints(visit, pages):
    page = visit(pages["plain"])
    page.emulate_media(media="print")
    assert not page.locator("form.record").first.is_visible()
    assert page.locator(".verdict").first.is_visible()
    assert page.locator(".sheet").first.is_visible()  # the graph, cut between rows
    assert page.evaluate("""[...document.querySelectorAll('.sheet')].every((sheet) =>
        sheet.getBoundingClientRect().height <= 1.2 * sheet.getBoundingClientRect().width)""")
    assert len(page.pdf()) > 10_000
    image = pytest.importorskip("matplotlib.image", reason="matplotlib is not installed")
    drawn = image.imread(BytesIO(page.locator(".sheet").first.screenshot()))[..., :3]
    assert (drawn.mean(axis=2) < 0.3).mean() < 0.03  # words in boxes, and no black bars


def test_a_finding_leads_to_its_entry_and_on_to_its_grant(visit, ledger, tmp_path):
    import shutil

    from tests.doctored import doctor
    over = tmp_path / "over.ledger"
    shutil.copy(ledger, over)
    with pl.Ledger.open(over) as opened:
        opened.correct(next(iter(opened.state.grants)), pl.Gaussian(0.4), "far too little noise")
    place = written(over, code=3)
    page = visit(place)
    assert page.locator("header").inner_text().startswith("OVER BUDGET")
    page.locator("a[href^='#entry-']").first.click()
    page.locator("tr:target button").click()
    assert page.locator("summary.found").inner_text().startswith("grant-")
    broken = tmp_path / "broken.ledger"
    shutil.copy(ledger, broken)
    doctor(broken, "UPDATE entries SET hash = '00' WHERE position = 5")
    page = visit(written(broken, code=3))
    assert page.locator("body").inner_text().startswith("NOT TRUSTED")
    page.locator("a[href^='#entry-']").first.click()
    assert page.locator("tr:target").count() == 1


def test_totals_are_right_where_single_grants_were_too_many(visit, ledger, monkeypatch, tmp_path):
    monkeypatch.setattr("privledger.reports.page.people.MOST_VALUES", 10)
    place = tmp_path / "totals.html"
    done = CliRunner().invoke(main, ["report", str(ledger), "-o", str(place),
                                     "--include-records"])
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
