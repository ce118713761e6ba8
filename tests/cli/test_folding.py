"""What `show` and `diff` fold so that a ledger fits a screen, and that no number is lost by it."""

import numpy as np
import pytest

import privledger as pl
from privledger.ledger.view import ReleaseLine
from privledger.reports.changes import MOST_CHANGES, Change, Changes, briefly
from privledger.reports.outline import gist, outline, released_line, reserved_line
from tests.worlds import schema_of

SCHEMA = schema_of("s", {"x": (0.0, 1.0)}, y=(0.0, 1.0))
X, Y = {"x": np.linspace(0, 1, 60)}, np.linspace(0, 1, 60)


def released(*nodes):
    return [ReleaseLine(pl.nodes.label(node), "q", 1, 1, False, type(node).__name__)
            for node in nodes]


def test_only_the_alternative_that_ran_is_left():
    first, second, shared = pl.Laplace(9.0), pl.Laplace(7.0), pl.Gaussian(9.0)
    node = pl.nodes.OneOf([pl.Sequential([first, shared]), pl.Sequential([second, shared])])
    found = gist(outline(node), released(second, shared))
    assert "1 did not run" in found.label
    assert [line.label for line in found.children[0].children] == [
        pl.nodes.label(second), pl.nodes.label(shared)]
    assert gist(outline(node), ()).children == outline(node).children


def test_many_siblings_that_look_alike_are_one_line_and_keep_their_number():
    trees = [pl.Sequential([pl.Laplace(float(place)), pl.Gaussian(float(place))])
             for place in range(1, 11)]
    found = gist(outline(pl.Sequential(trees)), ())
    assert [(line.kind, line.members) for line in found.children] == [("Sequential", 10)]
    assert [line.times for line in found.children[0].children] == [10, 10]
    two = outline(pl.Sequential(trees[:2]))
    assert gist(two, ()) == two
    assert reserved_line(outline(pl.Sequential(trees))) == "10 x Laplace, 10 x Gaussian"
    run = pl.nodes.Correlated(pl.Gaussian(9.0), (1.0, 0.5), 4, 1, 4)
    assert reserved_line(outline(run)) == "run with correlated noise"


def test_questions_are_added_up():
    lines = [ReleaseLine("m", "count", 2, 1, False), ReleaseLine("n", "count", 3, 1, False),
             ReleaseLine("m", "sum", 1, 1, False)]
    assert released_line(lines) == "5 x count, sum"


@pytest.fixture(scope="module")
def fourteen(tmp_path_factory):
    """A ledger of fourteen grants; commands only read it."""
    from privledger_learners import DPBoostRegressor, JointTreeRegressor, SGBDTRegressor

    path = tmp_path_factory.mktemp("folding") / "fourteen.ledger"
    with pl.Ledger.create(path, budget=pl.Budget(40.0, 1e-5), filter="zcdp") as ledger:
        data = ledger.protect(X, Y, SCHEMA, name="people")
        for kind in (DPBoostRegressor, JointTreeRegressor, SGBDTRegressor):
            delta = 0.0 if kind is JointTreeRegressor else 1e-7
            for _ in range(3):
                kind(epsilon=0.3, delta=delta, schema=SCHEMA).fit(data)
        for noise in (10.0, 20.0, 30.0, 40.0, 50.0):
            with ledger.request(pl.Gaussian(noise), data, learner="count") as session:
                session.release(pl.Gaussian(noise), data.count())
    return path


def test_fourteen_grants_fit_a_screen_and_all_unfolds_them(call, as_json, fourteen):
    folded, whole = call("show", fourteen).stdout, call("show", fourteen, "--all").stdout
    assert len(folded.splitlines()) <= 60
    assert len(whole.splitlines()) > 2 * len(folded.splitlines())
    assert folded.count("grant-") == whole.count("grant-") == 14
    assert "one of" not in whole
    assert len(as_json("show", fourteen)["grants"]) == 14


def test_diff_of_fourteen_grants_is_folded_too(call, fourteen, tmp_path):
    pl.Ledger.create(tmp_path / "empty.ledger", budget=pl.Budget(40.0, 1e-5)).close()
    folded = call("diff", tmp_path / "empty.ledger", fourteen).stdout
    whole = call("diff", tmp_path / "empty.ledger", fourteen, "--all").stdout
    assert len(folded.splitlines()) <= 60 < len(whole.splitlines()) + 20
    assert "3 grants" in folded
    assert folded.count("grant-") == 0
    assert whole.count("grant-") == 14


def test_few_changes_stay_as_they_are_and_sums_are_kept():
    nodes = tuple(Change(f"Gaussian({place})", place, None) for place in range(MOST_CHANGES + 1))
    found = briefly(Changes(None, (), (), nodes)).nodes
    assert found == (Change(f"Gaussian ({MOST_CHANGES + 1} kinds)", sum(range(MOST_CHANGES + 1)),
                            None),)
    few = Changes(None, (), (), nodes[:MOST_CHANGES])
    assert briefly(few) == few
