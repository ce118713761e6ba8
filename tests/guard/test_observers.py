"""Who stands beside the guard is told once of each grant that is over, and of no other."""

import numpy as np
import pytest

import privledger as pl
from privledger.guard.inside import Observer, _observing
from tests.worlds import schema_of

SCHEMA = schema_of("t", {"x": (0.0, 1.0)}, y=(0.0, 1.0))
PLAN = pl.Gaussian(50.0)


class _Ends(Observer):
    def __init__(self):
        self.told = []

    def settled(self, granted):
        self.told.append((granted.grant, granted.receipt is not None))


@pytest.mark.parametrize("way", ["finished", "failed", "nothing was asked", "closed twice"])
def test_each_grant_is_settled_once(way):
    ledger, ends = pl.Ledger.create(None, budget=pl.Budget(5.0, 1e-6)), _Ends()
    data = ledger.protect({"x": np.ones(9)}, np.zeros(9), SCHEMA)
    with _observing(ends):
        session = ledger.request(PLAN, data)
        assert ends.told == []
        try:
            with session:
                if way != "nothing was asked":
                    session.release(PLAN, data.count())
                if way == "closed twice":
                    session.close()
                if way == "failed":
                    raise ZeroDivisionError
        except ZeroDivisionError:
            assert way == "failed"
    assert ends.told == [(session.grant, True)]
    ledger.request(PLAN, data).close()
    assert len(ends.told) == 1, "nobody stands there any more"
