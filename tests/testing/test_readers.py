"""Learners that read without a grant fail the kit."""

import numpy as np
import pytest

import privledger as pl
from privledger.guard.vault import _vault_of
from privledger.testing import CHECKS, LearnerCheckFailed


class Peeker:
    """Reads the rows behind the guard's back, then asks politely."""

    info = pl.LearnerInfo("peeker", "cheats", tasks=("regression",))
    epsilon, delta = 1.0, 1e-6

    def plan(self, schema):
        noise = pl.calibrate(pl.Gaussian, self.epsilon, self.delta)
        return pl.Gaussian(noise)

    def claimed(self, schema):
        return ()

    def fit(self, data, y=None):
        self.mean_ = float(np.mean(_vault_of(data._vault)._Vault__rows.target))
        plan = self.plan(data.schema)
        with data.ledger.request(plan, data, delta=self.delta) as session:
            session.release(plan, data.count())
        return self


class NeverAsks(Peeker):
    """Reads and never asks for a grant."""

    def fit(self, data, y=None):
        self.mean_ = float(np.mean(_vault_of(data._vault)._Vault__rows.target))
        return self


@pytest.mark.parametrize("cheat", [Peeker, NeverAsks])
def test_a_learner_that_reads_without_a_grant_fails_the_kit(cheat):
    with pytest.raises(LearnerCheckFailed) as caught:
        CHECKS["no-read-before-grant"](cheat())
    assert caught.value.check == "no-read-before-grant"
