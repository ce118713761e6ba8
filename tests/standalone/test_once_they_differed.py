"""Doctored histories of which the two readers once said different things, or both the wrong one."""

from __future__ import annotations

import copy
import sqlite3
import time

import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main
from privledger.ledger import audit
from privledger.ledger.state import folded
from privledger.storage import store_at
from tests.alone import verify_history
from tests.doctored import entries_of
from tests.standalone import histories
from tests.standalone.conftest import chained
from tests.standalone.test_two_verifiers import alone, ours


@pytest.fixture(scope="module")
def worlds():
    return {"gdp": histories.everything("gdp"), "sampled": histories.sampled()}


def doctored(world, kind, change):
    lines = copy.deepcopy(world[0])
    change(next(line for line in lines if line["kind"] == kind)["body"])
    return chained(lines), world[1]


def as_float(body, *path):
    for key in path[:-1]:
        body = body[key]
    body[path[-1]] = float(body[path[-1]])


@pytest.mark.parametrize(("name", "kind", "change"), [
    ("gdp", "granted", lambda body: body["holder"].update(pid=25.0)),
    ("gdp", "granted", lambda body: as_float(body, "units")),
    ("sampled", "granted", lambda body: body["holder"].update(pid=0.0)),
    ("gdp", "released", lambda body: body["nodes"][0]["leaf"].update(shares="")),
    ("gdp", "granted", lambda body: body["plan"].update(shares="")),
    ("sampled", "filter", lambda body: body.update(order=1e308)),
    ("sampled", "filter", lambda body: body.update(order=10**16)),
    ("sampled", "filter", lambda body: body.update(order=10**400)),
], ids=[f"{number}" for number in range(8)])  # a function's name has an address in it
def test_both_find_it(worlds, name, kind, change):
    lines, kept = doctored(worlds[name], kind, change)
    assert ours(lines, kept) and alone(lines, kept)


def test_neither_stops_where_something_is_handed_back_before_a_filter(worlds):
    lines, kept = worlds["gdp"]
    made = [line for line in copy.deepcopy(lines) if line["kind"] != "filter"]
    for line in made:
        if line["kind"] == "granted":
            line["body"].update(units=0)
    first = next(line["body"]["grant"] for line in made if line["kind"] == "granted")
    made.append({**made[-1], "kind": "aborted", "body": {
        "grant": first, "touched": False, "releases": 0}})
    assert ours(chained(made), kept) and alone(chained(made), kept)


def test_a_scope_that_names_a_grant_still_falls_under_every_cap():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="gdp", caps=[
        pl.Cap(pl.Budget(0.5, 1e-6), data="people")])
    ledger.open_scope(pl.IndividualFilter("gdp", 1e-3), name="s")
    right = ledger.state.cap_spent
    lines, _ = doctored((histories.lines_of(ledger), {}), "scope",
                        lambda body: body.update(grant="g", data="nobody"))
    assert folded(entries_of(lines)).cap_spent == right != [(0, 0)]
    assert bool(ours(lines, {})) == bool(alone(lines, {}))


def test_an_order_that_no_reader_takes_is_not_written():
    with pytest.raises(pl.InvalidValue, match="at most 1e"):
        pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="rdp", order=1e7)


@pytest.mark.parametrize("plan", [
    {"node": "Gaussian", "noise_multiplier": 20.0, "shares": ""},
    {"node": "Gaussian", "noise_multiplier": 20.0, "shares": {}},
    {"node": "Sequential", "nodes": ""}, {"node": "Sequential", "nodes": {}},
    {"node": "IndividualFilter", "kind": "gdp", "cap": 0.1, "order": False, "inner": None},
    {"node": "Tuning", "inner": {"node": "Laplace", "scale": 60.0}, "success": 0.5, "mean": False},
    {"node": "Tuning", "inner": {"node": "Laplace", "scale": 60.0}, "distribution": "poisson",
     "mean": 3.0, "success": False},
])
def test_a_text_is_no_list_and_false_is_no_zero(plan):
    with pytest.raises(pl.PrivledgerError):
        pl.nodes.from_json(plan)


def test_both_find_releases_that_were_handed_back(worlds):
    lines, kept = worlds["gdp"]
    made = copy.deepcopy(lines)
    grant = next(line["body"]["grant"] for line in made if line["kind"] == "released")
    over = next(line for line in made if line["kind"] == "settled"
                and line["body"]["grant"] == grant)
    over["kind"] = "aborted"
    over["body"] = {"grant": grant, "touched": False, "releases": 0}
    rules = {one.rule for one in ours(chained(made), kept)}
    assert "releases-are-granted" in rules and alone(chained(made), kept)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "l.ledger"
    with pl.Ledger.create(path, budget=pl.Budget(1.0, 1e-6), filter="gdp"):
        pass
    return path


@pytest.mark.parametrize("statement", [
    "INSERT INTO entries VALUES (-7, 'refused', '{}', '', '')",
    "PRAGMA user_version = 0", "PRAGMA user_version = -5"])
def test_both_find_it_in_a_file(file, statement):
    with sqlite3.connect(file) as connection:
        connection.execute(statement)
    connection.close()
    assert verify_history.read_history(str(file)).faults
    assert CliRunner().invoke(main, ["verify", str(file)]).exit_code == 3
    with pytest.raises(pl.errors.LedgerCorrupt):
        pl.Ledger.open(file)


def test_both_stop_where_far_too_much_is_wrong(file):
    with sqlite3.connect(file) as connection:
        connection.execute(
            "WITH RECURSIVE n(x) AS (SELECT 100 UNION ALL SELECT x + 1 FROM n WHERE x < 60000) "
            "INSERT INTO entries SELECT x, 'refused', '{}', '', '' FROM n")
    connection.close()
    store = store_at(file, read_only=True)
    found = audit(store)
    store.close()
    book = verify_history.read_history(str(file))
    assert 5_000 <= len(found) < 6_000 and 9_000 < len(book.faults) <= 10_000
    assert "othing was read" in str(found) and "othing was read" in book.faults[-1][1]


def test_many_windows_take_no_longer_for_the_one_than_for_the_other():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    lines = histories.lines_of(ledger)
    lines += [{"position": 1, "kind": "window", "body": {"window": f"w{number}"}, "previous": "",
               "hash": ""} for number in range(20_000)]
    begun = time.process_time()
    assert alone(chained(lines), {}) == []
    assert time.process_time() - begun < 20


# --- Honest plans that the stand-alone reader priced 1,300 times too high, or not at all.


@pytest.mark.parametrize(("node", "relation", "delta", "below"), [
    (pl.Repeat(pl.PoissonSample(1e-4, pl.Gaussian(1.0)), 10**6), "add_remove", 1e-9, 1e-3),
    (pl.Repeat(pl.PoissonSample(1e-3, pl.Gaussian(0.8)), 10**5), "add_remove", 1e-6, 1e-3),
    (pl.Repeat(pl.PoissonSample(0.01, pl.Gaussian(1.0)), 1000), "add_remove", 1e-15, 1e-3),
    (pl.Repeat(pl.nodes.TruncatedPoissonSample(1e-4, 20, 10**5, pl.Gaussian(1.0)), 10**5),
     "add_remove", 1e-6, 1e-3),
    (pl.Repeat(pl.nodes.FixedSizeSample(1, 10**4, pl.Gaussian(1.0)), 10**5), "replace_one", 1e-6,
     1e-3),
    (pl.Repeat(pl.nodes.RandomAllocation(10, pl.Gaussian(1.0)), 10), "add_remove", 1e-6, 1e-3),
    (pl.nodes.AsReplaceOne(pl.nodes.RandomAllocation(10, pl.Gaussian(5.0))), "replace_one", 1e-7,
     1e-2),
    (pl.nodes.Group(4, pl.DiscreteGaussian(30.0)), "add_remove", 1e-7, 1e-3),
    (pl.Sequential([pl.Repeat(pl.Laplace(2.0), 3), pl.Gaussian(2.0)]), "add_remove", 1e-13, 1e-3),
], ids=str)
def test_a_composition_is_priced_to_a_percent_whatever_the_rate_and_delta(
        node, relation, delta, below):
    made = verify_history.Table().node(pl.nodes.to_json(node))
    found = verify_history.due(made, relation, "basic", 0.0, (1000.0, delta), delta)
    price = pl.epsilon(node, delta, relation)
    assert 1 - below < float(found.units / verify_history.UNIT) / price < 1 + 2e-3


# --- What was compared by its delta alone, or, of very much noise, called too cheap.

CUT = pl.nodes.PartitionSelection


@pytest.mark.parametrize(("node", "delta", "least"), [
    (CUT(300.0, 10.0), 1e-4, 0.99), (CUT(90.0, 5.0, 3, "geometric"), 1e-4, 0.99),
    (CUT(200.0, 20.0, 3, "gaussian"), 1e-4, 0.99), (CUT(90.0, 5.0, 2), 1e-4, 0.97),
    (pl.PoissonSample(0.3, CUT(300.0, 10.0)), 1e-4, 0.99),
    (pl.Sequential([CUT(300.0, 10.0), pl.Gaussian(9.0)]), 1e-4, 0.97),
    (pl.Repeat(pl.PoissonSample(0.1, pl.Laplace(0.5)), 20), 1e-5, 0.97),
    (pl.nodes.RandomAllocation(10, pl.Laplace(1.0)), 1e-3, 0.1),
    (pl.Repeat(pl.nodes.RandomAllocation(10, pl.Laplace(1.0)), 10), 1e-6, 0.1),
    (pl.nodes.RandomAllocation(10, pl.Sequential([pl.Laplace(1.0), pl.Gaussian(2.0)])), 1e-3, 0.1),
    (pl.nodes.RandomAllocation(5, pl.nodes.MixtureOfGaussians(
        1.0, (0.5, 1.0, 2.0), (0.5, 0.25, 0.25))), 1e-3, 0.1),
    (pl.nodes.RandomAllocation(2, pl.Gaussian(833.0)), 1e-3, 0.0),
    (pl.nodes.RandomAllocation(2, pl.Gaussian(833.0)), 1e-5, 0.1),
    (pl.nodes.RandomAllocation(3, pl.Repeat(pl.Gaussian(641.0), 2)), 2.7e-4, 0.01)], ids=str)
def test_what_names_groups_and_rounds_of_any_noise_are_compared_from_below(node, delta, least):
    """Never above what is charged, and for what is attained about all of it."""
    made = verify_history.Table().node(pl.nodes.to_json(node))
    found = verify_history.due(made, "add_remove", "basic", 0.0, (1e-6, delta), delta)
    due = float(found.units / verify_history.UNIT) * (1 - found.near)
    assert "only the delta" not in found.about
    assert least * 0.98 * pl.epsilon(node, delta) <= due <= pl.epsilon(node, delta)
