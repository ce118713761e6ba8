"""History: a run of another library was handed back when its process failed after the fit."""

import numpy as np
import pytest

import privledger as pl
from tests.worlds import schema_of

SCHEMA = schema_of("t", {"x": (0, 1)})
VOUCHED = pl.Asserted(0.5, "another library's fit")
PLANS = [
    VOUCHED, pl.AssertedZCDP(0.1, "so they say"),
    pl.Sequential([pl.Gaussian(9.0), VOUCHED]),
    pl.Repeat(pl.PoissonSample(0.1, VOUCHED), 3),
    pl.nodes.Tuning(VOUCHED, success=0.5)]


def protected():
    ledger = pl.Ledger.create(None, budget=pl.Budget(20.0, 1e-6), filter="rdp", order=4.0)
    return ledger, ledger.protect({"x": np.arange(50) / 50}, SCHEMA)


def end(ledger, plan, data):
    with pytest.raises(RuntimeError), ledger.request(plan, data):
        raise RuntimeError("after the fit")


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: type(plan).__name__)
def test_what_runs_elsewhere_is_never_handed_back(plan):
    ledger, data = protected()
    end(ledger, plan, data)
    (grant,) = ledger.state.grants.values()
    assert grant.status == "settled" and grant.end.failed
    assert ledger.spent >= pl.epsilon(plan, 1e-6) * 0.999 > 0
    assert ledger.verify() == []


def test_what_runs_here_and_touched_nothing_still_is():
    ledger, data = protected()
    end(ledger, pl.Sequential([pl.Gaussian(9.0), pl.Laplace(3.0)]), data)
    assert ledger.spent == 0


def test_a_part_that_runs_elsewhere_inside_a_filter_is_refused():
    """Its records were charged nothing in the scope, and the next grant had the whole cap."""
    ledger, data = protected()
    cap = {"kind": "renyi", "cap": 0.5, "order": 4.0}
    scope = ledger.open_scope(pl.IndividualFilter(**cap))
    inside = pl.IndividualFilter(**cap, node=pl.Repeat(VOUCHED, 2))
    for plan, drawn in ((inside, scope), (inside, None), (pl.Sequential([inside]), None)):
        with pytest.raises(pl.errors.UnsupportedNode, match="othing was read"):
            ledger.request(plan, data, scope=drawn)
    assert not ledger.state.grants
