"""The page of a ledger of people, in a browser: an id is found under the key typed in, and both
stay in the page."""

import pytest

import privledger as pl
from privledger.tables.person_ids import spelt
from privledger.tables.person_keys import make_people_key
from tests.browser.conftest import written

SCHEMA = pl.Schema("t", (pl.Column("x", "numeric", lower=-1.0, upper=1.0),))
IDS = ["17", "Anna B", "stra\u00dfe", "\u00c5ngstr\u00f6m", "b-9zq"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    make_people_key(folder / "k")
    with pl.Ledger.create(folder / "l", budget=pl.Budget(1.0, 1e-6), filter="gdp", unit="person",
                          people_key=folder / "k") as ledger:
        scope = ledger.open_scope(pl.IndividualFilter("gdp", 1e-2), name="scope")
        for name, ids in (("first", IDS), ("second", IDS[::-1])):
            data = ledger.protect({"x": [1.0, 0.8, 0.6, 0.4, 0.2]}, schema=SCHEMA, name=name,
                                  people=ids)
            with ledger.request(scope.node, data, scope=scope, learner="sum") as session:
                session.release(pl.Gaussian(20.0), session.filtered().sum("x"))
        totals = {spelt(one): ledger.record(person=one).total for one in IDS}
    key = (folder / "k").read_text().split()[-1]
    return written(folder / "l", "--include-records"), written(folder / "l"), key, totals


def find(page, who, key):
    page.fill("#id0", who)
    page.fill("#key0", key)
    page.click("form.person button")
    page.wait_for_function("document.getElementById('answer0').textContent !== ''")
    said = page.text_content("#answer0")
    page.evaluate("document.getElementById('answer0').replaceChildren()")
    return said


@pytest.mark.parametrize("width", [320, 1280])
def test_an_id_is_found_under_its_key(visit, world, width):
    page = visit(world[0], viewport={"width": width, "height": 800})
    for who in ("17", " 17.0 ", "+017", "anna  b", "ANNA B", "STRASSE", "\u212bngstr\u00f6m",
                "B-9zq", "b\u20139ZQ", "anna\ufe0f b"):
        said = find(page, who, world[2])
        spent = float(said.partition(" spent ")[2].partition(" ")[0])
        right = world[3][spelt(who)]
        assert right <= spent <= right * 1.02, who
        assert "first" not in said or "second" in said
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_who_is_not_there_and_what_is_no_key(visit, world):
    page = visit(world[0])
    assert "No person here" in find(page, "18", world[2])
    assert "No person here" in find(page, "17", "0" * 64)
    assert "no key" in find(page, "17", "secret")


def test_the_page_speaks_of_people(world):
    for place in world[:2]:
        shown = place.read_text().partition("<script")[0].partition("<main")[2]
        for markup in ("privledger record", 'class="record', 'id="records"', '="records"'):
            shown = shown.replace(markup, "")
        assert "Position of a person" in shown
        assert [line for line in shown.splitlines() if "record" in line.lower()] == []


def test_only_digests_are_in_the_page(world):
    full, plain = world[0].read_text(), world[1].read_text()
    assert '"digests":' in full and '"digests":' not in plain and 'contains("person")' in plain
    for text in (full, plain):
        assert world[2] not in text
        for who in IDS[1:]:
            assert who not in text and spelt(who) not in text
