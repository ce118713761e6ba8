"""The published rule is reproduced, and is too small."""

import math

import pytest

from privledger.accounting import epsilon_from_mu, gaussian_rdp, published_sgbdt_epsilon
from privledger.errors import InvalidValue


def test_published_rule_is_below_the_truth() -> None:
    claim = published_sgbdt_epsilon(1000.0, gaussian_rdp(1.0, (1000.0,)).bounds[0], 1e-5)
    assert claim == pytest.approx(0.5115, abs=1e-4)
    assert epsilon_from_mu(1.0, 1e-5) == pytest.approx(4.377, abs=1e-3)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, True, "1", None])
def test_bad_numbers_are_refused(bad: float) -> None:
    for values in ((bad, 1.0, 0.1), (2.0, bad, 0.1), (2.0, 1.0, bad)):
        with pytest.raises(InvalidValue):
            published_sgbdt_epsilon(*values)
