"""Leases: a holder on another host that is never heard of again is recorded as gone."""

import numpy as np
import pytest
from attrs import evolve

import privledger as pl
from privledger.ledger.codec import decode
from privledger.ledger.entries import lease_is_over
from tests.worlds import schema_of

SMALL = schema_of("one", {"x": (0.0, 1.0)})
BEGUN, LATER = "2026-01-01T00:00:00+00:00", "2026-01-01T01:00:00+00:00"


@pytest.mark.parametrize(("lease", "over"), [
    (None, False), (3599, True), (3600, False), (1e300, False), (True, False), ("60", False)])
def test_when_a_lease_is_over(lease, over):
    assert lease_is_over(decode("granted", {"time": BEGUN, "lease": lease}), LATER) is over


@pytest.mark.parametrize("body", [{}, {"lease": 1}, {"lease": 1, "time": "soon"},
                                  {"lease": 1, "time": "2026-01-01T00:00:00"}])
def test_a_malformed_lease_is_never_over(body):
    assert lease_is_over(decode("granted", body), LATER) is False


def requested(ledger, **options):
    data = ledger.protect({"x": np.linspace(0, 1, 5)}, SMALL)
    return ledger.request(pl.Gaussian(20.0), data, **options), data


def test_an_expired_lease_is_recorded_and_the_charge_stays():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    session, data = requested(ledger, lease=1e-9)
    other, _ = requested(ledger, lease=1e9)
    spent = ledger.spent
    grant = ledger._history.state.grants[session.grant]
    grant.event = evolve(grant.event, time=BEGUN)
    assert ledger._history.mark_crashed() == 1
    states = ledger.state.grants
    assert states[session.grant].status == "crashed" and states[other.grant].status == "granted"
    assert ledger.spent == spent
    session.release(pl.Gaussian(20.0), data.count())  # alive after all
    session.close()
    other.close()
    assert ledger.state.grants[session.grant].status == "settled" and ledger.verify() == []
