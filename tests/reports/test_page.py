"""The page: its numbers are the ledger's, its texts are texts, and it says no more than it may."""

import base64
import html
import json
import re
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import privledger as pl
from privledger.ledger.view import UNNOTICED
from privledger.reports import audited, ledger_report
from privledger.reports.page import ShownPerson, page_of, render_page
from privledger.reports.page.people import packed
from privledger.reports.page.render import at_least, inert_json, short
from tests.faults.hostile import RAW, SHORT
from tests.worlds import refused, schema_of

SCHEMA = schema_of("stays", {"stay": (0.0, 60.0)})
ROUND = pl.Gaussian(20.0)
FILTER = pl.IndividualFilter("gdp", 0.01, node=pl.Repeat(ROUND, 8))


def lived(values=None, *, fail=None, learner="sums", name="patients", mode="private",
          path=None, seed=None):
    """A ledger with a whole plan, an individual filter and a refusal."""
    more = {"mode": mode, **({} if seed is None else {"seed": seed})}
    ledger = pl.Ledger.create(path, budget=pl.Budget(2.0, 1e-6), filter="gdp", **more)
    rows = np.linspace(0, 60, 40) if values is None else values
    data = ledger.protect({"stay": rows}, SCHEMA, name=name)
    with ledger.request(pl.Repeat(ROUND, 2), data, learner=learner) as session:
        for _ in range(2):
            session.release(ROUND, data.count())
    try:
        with ledger.request(FILTER, data, learner=learner) as session:
            handle = session.filtered(FILTER)
            for place in range(8):
                if place == fail:
                    raise RuntimeError
                session.release(ROUND, handle.sum("stay"))
    except RuntimeError:
        pass
    refused(pl.BudgetExceeded, lambda: ledger.request(pl.Gaussian(0.5), data, learner="greedy"))
    ledger._history.flush()
    return ledger


def page(ledger, **options):
    store = ledger._history.store
    entries, findings = audited(store)
    state = ledger.state
    report = ledger_report(store, state, (entries, findings))
    return page_of(store, state, report, entries, **options)


class Reader(HTMLParser):
    """Elements, attributes and texts, as a browser would take them apart."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.blocks, self.text = [], [], {}, ""
        self._block = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "script":
            self._block = dict(attrs).get("id", "script")

    def handle_endtag(self, tag):
        self._block = None

    def handle_data(self, data):
        if self._block:
            self.blocks[self._block] = self.blocks.get(self._block, "") + data
        else:
            self.text += data


def test_the_page_tells_the_ledgers_own_numbers():
    ledger = lived()
    made = page(ledger)
    read = Reader(render_page(made))
    for words in ("Promise kept", "Within budget", "add_remove", "Gaussian-DP",
                  "operating-system entropy", "guarded", "no fault found",
                  ledger.receipt.head, "CONFIDENTIAL", "1 refused"):
        assert words in read.text, words
    assert f"epsilon {short(ledger.spent):g} of 2 spent" in read.text
    view = made.content.report.view
    spent, _, risk = made.head.gauges
    assert (spent.number, spent.share) == (view.spent.text(4), view.total.share.value)
    words = " ".join(made.content.risk.sentences)
    assert all(line.removesuffix(" This is for the whole budget.") in words for line in risk.lines)
    assert float(spent.number) >= ledger.spent and f"{risk.number} instead" in read.text
    assert made.content.history.moves[-1].share == view.total.share.value
    assert sum(row.keys[2] for row in made.content.rows) == pytest.approx(view.total.share.value)
    assert made.head.facts.startswith("Promise: epsilon 2 at delta 1e-06 for each record. 2 grants")


def test_without_script_the_page_has_every_number_that_a_reader_needs():
    """The script sorts and filters; charts, gauges, grants and folds are written beforehand."""
    ledger = lived()
    data = ledger.protect({"stay": np.linspace(0, 60, 40)}, SCHEMA, name="more")
    ledger.request(ROUND, data).close()
    made = page(ledger)
    text = render_page(made)
    still = text.partition("<script")[0]
    for row in made.content.rows:
        assert all(f">{html.escape(cell)}" in still for cell in row.cells)
    assert still.count('class="cell"') == len(made.content.icicle.cells)
    assert made.content.time_line.path in still
    assert all(html.escape(plan.text) in still for plan in made.content.plans)


def test_the_stair_of_many_charges_is_whole(monkeypatch):
    monkeypatch.setattr("privledger.reports.page.charts.MOST_DOTS", 2)
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter="gdp")
    data = ledger.protect({"stay": np.linspace(0, 60, 30)}, SCHEMA, name="patients")
    for _ in range(60):
        ledger.request(pl.Gaussian(100.0), data).close()
    made = page(ledger)
    path = made.content.time_line.path.replace("H", "H" + "0" * 100)  # 6,000 signs
    assert re.fullmatch(r"M[\d.]+,208(H[\d.]+V[\d.]+){60}H0*1000", path)
    line = evolve(made.content.time_line, path=path)
    assert path in render_page(evolve(made, content=evolve(made.content, time_line=line)))


def test_a_refusal_names_the_cap_that_refused():
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter="gdp", caps=[
        pl.Cap(pl.Budget(0.5, 1e-6), labels={"team": "a"})])
    data = ledger.protect({"stay": np.linspace(0, 60, 40)}, SCHEMA, name="patients")
    for labels, node in (({"team": "a"}, pl.Gaussian(5.0)), ({}, pl.Gaussian(1.0))):
        with pytest.raises(pl.BudgetExceeded):
            ledger.request(node, data, learner="greedy", labels=labels)
    ledger._history.flush()
    made = page(ledger)
    assert [one.by for one in made.content.refusals] == ["team a", "the whole ledger"]
    assert made.head.chips[2].title == "2 refusals"
    tightest = made.head.gauges[1]
    assert tightest.title == "Tightest cap: team a" and tightest.of == "of 0.5 epsilon"


def test_amber_is_for_something_to_do():
    ledger = lived()
    assert {one.tone for one in page(ledger).head.chips} == {"ok", "info"}
    data = ledger.protect({"stay": np.linspace(0, 60, 40)}, SCHEMA, name="more")
    ledger.request(pl.Asserted(0.001, "an author's word"), data, learner="claimed").close()
    made = page(ledger)
    assert [one.tone for one in made.head.chips] == ["ok", "todo", "info", "info"]
    assert made.head.chips[1].title == "1 unverified claim"
    assert [row.unverified for row in made.content.rows] == [True, False, False]
    assert len(made.content.claims) == 1 and "an author's word" in made.content.claims[0]
    ledger.correct(next(iter(ledger.state.grants)), pl.Gaussian(0.1), "too little noise")
    made = page(ledger)
    assert (made.head.tone, made.head.word) == ("bad", "Promise broken") and made.head.todo
    notes = [dict(row.facts)["Status"] for row in made.content.rows]
    assert sum("too little noise" in note and ": " in note for note in notes) == 1
    assert not any(note.endswith(": ") for note in notes)
    assert made.head.gauges[0].tone == made.head.gauges[2].tone == "bad"
    assert made.head.gauges[2].number == "no bound" and not made.content.people


def test_a_ledger_of_many_grants_keeps_the_dearest_and_counts_the_rest(monkeypatch):
    monkeypatch.setattr("privledger.reports.page.facts.MOST_GRANTS", 3)
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter="gdp")
    data = ledger.protect({"stay": np.linspace(0, 60, 30)}, SCHEMA, name="patients")
    for noise in (40.0, 10.0, 30.0, 20.0, 50.0):
        ledger.request(pl.Gaussian(noise), data, learner=f"noise {noise:g}").close()
    made = page(ledger)
    assert [row.cells[2] for row in made.content.rows] == ["noise 20", "noise 30", "noise 10"]
    count, share = made.content.more
    left = sum(one.amount.share.value for one in ledger_report(
        ledger._history.store, ledger.state).view.charges) - sum(
        row.keys[2] for row in made.content.rows)
    assert count == 2 and float(share.removesuffix(" %")) >= 100 * left > 0
    assert "2 grants with smaller charges" in Reader(render_page(made)).text


def test_every_records_spend_is_the_one_that_record_tells():
    ledger = lived()
    (one,) = page(ledger, shown=ShownPerson(vectors=True)).content.people
    assert one.records == 40 and sum(one.counts) == 40
    for top in one.top:
        spend = ledger.record(top.row, "patients")
        assert top.total == pytest.approx(spend.total, rel=1e-12)
        counted = [(line.amount, line.rounds) for line in spend.lines if line.basis == "individual"]
        assert list(top.lines) == counted
    rounds = [ledger.record(row, "patients").lines[-1].rounds for row in range(40)]
    assert one.stopped == sum(many < 8 for many in rounds) > 0
    (source,) = one.sources
    step = source.cap / one.levels
    spent, took = numbers(source.spent, 40), numbers(source.took, 40)
    for row in range(40):
        truth = ledger.record(row, "patients").lines[-1]
        assert truth.amount * (1 - 1e-11) <= spent[row] * step <= truth.amount + step * 1.01
        assert took[row] == truth.rounds


def numbers(text, length):
    planes = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.uint8)
    assert len(planes) == 2 * length
    return planes[:length].astype(int) * 256 + planes[length:]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.floats(1e-6, 1e3))
def test_packed_spends_are_never_too_low(shares, cap):
    values = np.array(shares) * cap
    found = numbers(packed(values, cap, 4095), len(values)) * (cap / 4095)
    assert np.all(found >= values * (1 - 1e-11))
    assert np.all(found <= values + cap / 4095 * 1.01)


def test_vectors_are_in_the_page_only_when_asked_for():
    ledger = lived()
    for shown, there in ((ShownPerson(), False), (ShownPerson(vectors=True), True)):
        blocks = Reader(render_page(page(ledger, shown=shown))).blocks
        (one,) = json.loads(blocks["spends"])
        assert bool(one["sources"][0][4]) is there and len(one["top"]) == 20


def test_too_many_sources_leave_the_total_only(monkeypatch):
    from privledger.reports.page import people
    monkeypatch.setattr(people, "MOST_VALUES", 39)
    ledger = lived()
    (one,) = page(ledger, shown=ShownPerson(vectors=True)).content.people
    assert one.sources[0].spent == "" and one.total
    found = numbers(one.total, 40) * (one.cap / one.levels)
    assert found[0] >= ledger.record(0, "patients").total * (1 - 1e-11)


def normal(text):
    """Without what is drawn afresh for every ledger: names, hashes, identities."""
    for pattern in ("grant-[0-9a-f]{12}", "[0-9a-f]{64}", "[0-9a-f]{16}",
                    r'&#34;entries&#34;:\d+', "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"):
        text = re.sub(pattern, "*", text)
    return text


def test_a_publishable_page_is_the_same_whatever_the_rows_are():
    """Other rows, other spends, fits that failed half-way: what was paid for is the same.

    The receipt, which is public, tells the number of entries; nothing else does."""
    ledgers = lived(), lived(np.zeros(40), fail=3), lived(np.ones(40), fail=1)
    whole = {normal(render_page(page(ledger))) for ledger in ledgers}
    assert len(whole) == len(ledgers)
    texts = [normal(render_page(page(ledger, publishable=True, shown=ShownPerson(vectors=True))))
             for ledger in ledgers]
    assert texts[0] == texts[1] == texts[2]
    text = Reader(texts[0]).text.replace('"entries"', "").replace(UNNOTICED, "")
    assert "entry " not in text and "entries" not in text
    assert "CONFIDENTIAL" not in texts[0].partition("<script")[0].partition("</style>")[2]
    said = Reader(texts[0]).text + texts[0].split('"data">')[1].split("</script>")[0]
    assert not re.search(r"20\d\d-\d\d-\d\d|[A-Z][a-z][a-z] 20\d\d", said)
    still = texts[0].partition("<script")[0]
    assert not re.search("settled|finished|failed|running|crashed", still)


def test_simulation_labels_only_and_distrust_come_first():
    simulated = Reader(render_page(page(lived(mode="simulation", seed=3)))).text
    assert "NOT PRIVATE" in simulated and "within budget" not in simulated
    ledger = lived()
    entries, _ = audited(ledger._history.store)
    report = ledger_report(ledger._history.store, ledger.state, (
        entries, [pl.Finding("chain-holds", 3, "<b>edited</b>")]))
    text = render_page(page_of(ledger._history.store, ledger.state, report, entries))
    assert "NOT TRUSTED: 1 finding" in text and "&lt;b&gt;edited" in text
    assert "within budget" not in text


def test_labels_only_is_said():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), relation="replace_label")
    text = Reader(render_page(page(ledger))).text
    assert "LABELS ONLY" in text and "Nothing was granted yet" in text


TAGS = set(Reader(render_page(page(lived()))).tags)


@pytest.mark.parametrize("name", SHORT)
def test_hostile_texts_are_texts(name):
    text = SHORT[name]
    ledger = lived(learner=text[:200], name=text)
    ledger.correct(next(iter(ledger.state.grants)), ROUND, f"{text}x"[:2000])
    made = render_page(page(ledger, shown=ShownPerson(vectors=True)))
    made.encode("utf-8")
    read = Reader(made)
    assert set(read.tags) <= TAGS
    assert not [key for key, _ in read.attributes if key.startswith("on") or key == "style"]
    assert not [value for key, value in read.attributes if key in ("href", "src")
                and not value.startswith("#")]
    assert read.tags.count("script") == 3
    for block in ("data", "spends"):
        assert "<" not in read.blocks[block] and json.loads(read.blocks[block])
        assert not [sign for sign in str(json.loads(read.blocks[block])) if sign in RAW]
    assert not [sign for sign in read.text if sign in RAW]


@given(st.text())
def test_a_json_block_cannot_be_left(text):
    held = inert_json(json.dumps(text))
    assert not set("<>&") & set(held) and json.loads(held) == text


def test_the_policy_allows_the_one_script_and_style_only():
    import hashlib

    text = render_page(page(lived()))
    policy = next(value for key, value in Reader(text).attributes
                  if key == "content" and "default-src" in value)
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    for tag in ("style", "script"):
        body = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL).group(1)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    script = Reader(text).blocks["script"]
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "fetch(",
                 "XMLHttpRequest", "import(", "http:", "https:", "setAttribute(\"on"):
        assert word not in script, word


@given(st.floats(1e-12, 1e12))
def test_shown_numbers_are_never_too_low(value):
    assert value <= short(value) <= value * 1.0011


@given(st.floats(1e-12, 1e12))
def test_what_is_left_is_never_shown_as_more(value):
    assert value * 0.998 <= float(at_least(value)) <= value * (1 + 1e-15)


def test_a_page_of_an_unchanged_ledger_is_the_same_again():
    ledger = lived()
    assert render_page(page(ledger)) == render_page(page(ledger))


def test_scopes_and_late_arrivals_add_up_as_record_says():
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter="gdp")
    data = ledger.protect({"stay": np.linspace(0, 60, 30)}, SCHEMA, name="patients")
    caps = pl.IndividualFilter("gdp", 0.01)
    scope = ledger.open_scope(caps, name="shared")
    use = pl.IndividualFilter("gdp", 0.01, node=pl.Repeat(ROUND, 3))
    for learner in ("first", "second"):
        with ledger.request(use, data, scope=scope, learner=learner) as session:
            handle = session.filtered()
            for _ in range(3):
                session.release(ROUND, handle.sum("stay"))
        if learner == "first":
            data = ledger.append(data, {"stay": np.full(10, 60.0)})
    ledger.request(ROUND, data, learner="whole").close()
    made = page(ledger, shown=ShownPerson(vectors=True))
    (one,) = made.content.people
    assert [source.length for source in one.sources] == [30, 40]
    assert one.cap == pytest.approx(0.01 + ROUND.noise_multiplier**-2, rel=1e-9)
    for top in one.top:
        assert top.total == pytest.approx(ledger.record(top.row, "patients").total, rel=1e-12)
    assert {rounds for top in one.top for _, rounds in top.lines if top.row >= 30} >= {-1}
    assert [dict(row.facts).get("Paid for by") for row in made.content.rows] == [
        None, "shared", "shared", None]
    assert [row.keys[2] > 0 for row in made.content.rows] == [True, False, False, True]


def test_what_was_handed_back_is_back():
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter="gdp")
    data = ledger.protect({"stay": np.linspace(0, 60, 30)}, SCHEMA, name="patients")
    with pytest.raises(RuntimeError), ledger.request(ROUND, data):
        raise RuntimeError
    ledger.request(pl.Gaussian(30.0), data, learner="stays").close()
    made = page(ledger)
    moves, view = made.content.history.moves, made.content.report.view
    assert len(moves) == 3 and moves[1].share == 0.0
    assert [cell.name for cell in made.content.icicle.cells if cell.level == 2] == ["stays"]
    assert moves[-1].share == view.total.share.value


INNER = pl.Sequential([pl.Gaussian(30.0), pl.nodes.PostProcess("rounded"),
                       pl.nodes.Public("known")])
PLANS = {
    "pure": (pl.Budget(3.0, 0.0), "add_remove", "auto",
             pl.Parallel([pl.Repeat(pl.Laplace(10.0, 1.0), 3), pl.Exponential(0.1)])),
    "basic": (pl.Budget(3.0, 1e-6), "add_remove", "basic",
              pl.PoissonSample(0.05, pl.Repeat(pl.Gaussian(2.0), 1))),
    "rdp": (pl.Budget(3.0, 1e-6), "add_remove", "rdp",
            pl.Sequential([pl.PoissonSample(0.05, pl.Gaussian(2.0)), pl.TopK(3, 0.05)])),
    "zcdp": (pl.Budget(3.0, 1e-6), "add_remove", "zcdp",
             pl.nodes.OneOf([INNER, pl.DiscreteLaplace(0.1, 1)])),
    "replaced": (pl.Budget(3.0, 1e-6), "replace_one", "gdp",
                 pl.Sequential([pl.nodes.AsReplaceOne(INNER), pl.Gaussian(40.0)])),
    "labels": (pl.Budget(3.0, 1e-6), "replace_label", "gdp", pl.nodes.LabelOnly(pl.Gaussian(20.0))),
    "asserted": (pl.Budget(3.0, 1e-6), "add_remove", "basic",
                 pl.Asserted(0.1, "somebody's word", 1e-9))}


@pytest.mark.parametrize("case", PLANS)
def test_every_kind_of_ledger_and_node_has_a_page(case):
    budget, relation, filter_, plan = PLANS[case]
    ledger = pl.Ledger.create(None, budget=budget, relation=relation, filter=filter_)
    columns = {"stay": np.linspace(0, 60, 30)}
    if relation == "replace_label":
        schema = pl.Schema("stays", (*SCHEMA.columns, pl.Column(
            "ill", "categorical", "target", categories=("no", "yes"))))
        data = ledger.protect(columns, np.array(["no", "yes"] * 15), schema, name="patients",
                              public_features=True)
    else:
        data = ledger.protect(columns, SCHEMA, name="patients")
    ledger.request(plan, data, learner="any", delta=budget.delta / 2).close()
    made = page(ledger)
    text = Reader(render_page(made)).text
    assert "Within budget" in text and "What single" not in text and not made.content.people
    (row,) = made.content.rows
    assert row.keys[1] == ledger.spent and row.plan == 0
    (kept,) = made.content.plans
    assert kept.grants == 1 and kept.text.partition("(")[0] == type(plan).__name__
    assert made.head.chips[1].tone == ("todo" if case == "asserted" else "ok")

