"""Findings in S-GBDT's accounting, and in floating-point noise: F8, F12, F14."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr
from scipy.stats import norm

import privledger as pl
from privledger.broker.child import BrokeredLedger
from tests.bench.published.base import N, Row, charged, guarded, refused


def printed_epsilon(mu: float, delta: float, most_order: int = 200) -> float:
    """Algorithm 7, line 6: exp(bound - order epsilon) = delta, smallest over whole orders."""
    return min((order * mu**2 / 2 - math.log(delta)) / order for order in range(2, most_order + 1))


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Exact delta of a Gaussian mechanism."""
    return float(norm.cdf(mu / 2 - epsilon / mu)
                 - math.exp(epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))))


def gaussian_epsilon(mu: float, delta: float) -> float:
    return float(brentq(lambda epsilon: gaussian_delta(mu, epsilon) - delta, 1e-9, 100.0))


def f8() -> Row:
    delta, plan = 1e-5, pl.Gaussian(1.0)
    claimed = printed_epsilon(1.0, delta)
    ledger, data = guarded(epsilon=claimed, delta=delta, filter="gdp")
    words = refused(lambda: ledger.request(plan, data, claimed=claimed), pl.BudgetExceeded, data,
                    ledger)
    price = charged(plan, delta=delta, filter="gdp")
    quiet = pl.Gaussian(pl.calibrate(pl.Gaussian, claimed, delta))
    return Row("F8", "Renyi bound to epsilon with exp(bound - order eps) = delta",
               "003 Alg. 7, line 6; Thm 18", claimed, gaussian_epsilon(1.0, delta),
               f"{words}; charged {price:.4g}",
               f"{quiet.noise_multiplier:.3g} times the noise", pl.epsilon(quiet, delta), delta)


def unreachable_mass() -> float:
    """Naive Laplace noise in single precision, all 2^24 uniforms: P(an output in (1, 2) of
    f = 1 that f = 0 can never give)."""
    step = np.float32(2.0**-24)

    def outputs(f: float, low: float, high: float) -> np.ndarray:
        uniform = np.arange(int(low * 2**24), int(high * 2**24) + 1).astype(np.float32) * step
        found = np.float32(f) - np.log(uniform)
        return found[(found > 1) & (found < 2)]

    one = outputs(1.0, math.exp(-1.01), 1.0)
    zero = outputs(0.0, math.exp(-2.01), math.exp(-0.99))
    return float((~np.isin(one, np.unique(zero))).sum()) / 2**24 / 2


class QuietLaplace(pl.Laplace):
    """A learner's own sampler under the ledger's name."""


def f12() -> Row:
    ledger, data = guarded(delta=0.0)
    node, quiet = pl.Laplace(1.0), QuietLaplace(1.0)
    with ledger.request(pl.Repeat(node, 9), data) as session:
        words = refused(lambda: session.release(quiet, data.count()), pl.errors.UnsupportedNode,
                        data, ledger)
        outputs = [float(session.release(node, data.count())) for _ in range(9)]
    # One public lattice for every count: no output tells which table it came from.
    assert all((each * 2**20).is_integer() for each in outputs)
    return Row("F12", "Laplace noise by inversion in floating point",
               "no paper names a sampler; the usual one", 1.0, math.inf,
               f"noise of one's own {words}", "integer noise on a public grid", charged(node),
               shortfall=unreachable_mass())


def read_back(noise: float = 4.0) -> float:
    """Largest error when every record's value is computed from its individual spend alone."""
    ledger, data = guarded(filter="gdp")
    cap = pl.IndividualFilter("gdp", 10.0, node=pl.Gaussian(noise))
    with ledger.request(cap, data) as session:
        session.release(pl.Gaussian(noise), session.filtered(cap).sum("y"))
    sizes = [math.sqrt(ledger.record(row).total) * noise for row in range(N)]
    return float(np.abs(np.array(sizes) - np.abs(np.linspace(-1, 1, N))).max())


def f14() -> Row:
    assert read_back() < 1e-6
    ledger, data = guarded(filter="gdp")
    own = object.__new__(BrokeredLedger)  # what a learner in its own process holds
    words = refused(lambda: own.record, pl.NotGranted, data, ledger)
    with ledger.request(pl.Gaussian(4.0), data) as session:
        assert not [name for name in dir(session)
                    if not name.startswith("_") and ("spen" in name or "record" in name)]
    return Row("F14", "individual spends published, record by record", "003 Fig. 3", 0.0, math.inf,
               f"`ledger.record` is for the owner's auditor; asked by a brokered learner {words}",
               "a noisy histogram of spends", charged(pl.Laplace(1.0)), shortfall=1.0)


ROWS = (f8, f12, f14)
