"""Prices beyond the first table, by this library or by dp-accounting, one process for each.

    python tests/benchmarks/wide_prices.py ours      (here)
    python tests/benchmarks/wide_prices.py peer      (where dp-accounting is installed)

One line for each workload: letter, epsilon, lower bound (ours only), CPU seconds, cache empty.
"""

from __future__ import annotations

import sys
import time

NOISES = [0.8 + 0.01 * place for place in range(200)]
# letter: what, delta
PLANS: dict[str, tuple[str, float]] = {
    "k": ("exchange", 1e-5), "l": ("laplace group", 1e-5), "m": ("group", 1e-5),
    "n": ("rare", 1e-9), "o": ("rare and few", 1.17e-8), "p": ("noises", 1e-6),
    "q": ("discrete gaussian", 1e-6), "r": ("discrete laplace", 1e-6),
    "s": ("exponential", 1e-6), "t": ("fixed size", 1e-6), "u": ("sampled laplace", 1e-6),
    "v": ("sgd", 1e-15), "w": ("sgd", 1e-30),
}


def ours(what: str, delta: float) -> tuple[float, float, float]:
    """Upper bound, the process time when it was there, lower bound."""
    import privledger as pl
    from privledger.accounting import DEFAULT_ORDERS
    from privledger.accounting.certificate import epsilon_at, epsilon_at_least
    from privledger.graph.fold import cost_of

    def sgd(rate: float, noise: float, count: int) -> pl.Node:
        return pl.Repeat(pl.PoissonSample(rate, pl.Gaussian(noise)), count)

    node, relation = {
        "exchange": lambda: (pl.nodes.AsReplaceOne(sgd(0.01, 1.0, 1000)), "replace_one"),
        "laplace group": lambda: (
            pl.nodes.Group(3, pl.Repeat(pl.Laplace(10.0), 100)), "add_remove"),
        "group": lambda: (pl.nodes.Group(5, sgd(0.01, 1.0, 1000)), "add_remove"),
        "rare": lambda: (sgd(1e-4, 1.0, 10**6), "add_remove"),
        "rare and few": lambda: (sgd(1.417e-4, 1.6, 400), "add_remove"),
        "noises": lambda: (pl.Sequential(tuple(
            pl.PoissonSample(0.01, pl.Gaussian(noise)) for noise in NOISES)), "add_remove"),
        "discrete gaussian": lambda: (pl.Repeat(pl.DiscreteGaussian(10.0), 50), "add_remove"),
        "discrete laplace": lambda: (pl.Repeat(pl.DiscreteLaplace(0.1), 100), "add_remove"),
        "exponential": lambda: (pl.Repeat(pl.Exponential(0.1), 100), "add_remove"),
        "fixed size": lambda: (pl.Repeat(
            pl.nodes.FixedSizeSample(100, 10_000, pl.Gaussian(1.0)), 1000), "replace_one"),
        "sampled laplace": lambda: (
            pl.Repeat(pl.PoissonSample(0.01, pl.Laplace(1.0)), 1000), "add_remove"),
        "sgd": lambda: (sgd(0.01, 1.0, 1000), "add_remove"),
    }[what]()
    cost = cost_of(node, relation, DEFAULT_ORDERS)
    upper = epsilon_at(cost, delta).epsilon
    spent = time.process_time()
    return upper, spent, epsilon_at_least(cost, delta)


def peer(what: str, delta: float) -> tuple[float, float, float]:
    """The same; no lower bound is offered."""
    import math

    import dp_accounting as dp
    from dp_accounting.pld import pld_privacy_accountant as pld

    relation = dp.NeighboringRelation.ADD_OR_REMOVE_ONE
    if what == "exchange":
        relation = dp.NeighboringRelation.REPLACE_ONE

    def sgd(rate: float, noise: float, count: int) -> dp.DpEvent:
        return dp.SelfComposedDpEvent(
            dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)), count)

    def binomial(rows: int, rate: float) -> list[float]:
        return [math.comb(rows, j) * rate**j * (1 - rate) ** (rows - j)
                for j in range(rows + 1)]

    event = {
        "exchange": lambda: sgd(0.01, 1.0, 1000),
        "laplace group": lambda: dp.SelfComposedDpEvent(dp.LaplaceDpEvent(10.0 / 3), 100),
        "group": lambda: dp.SelfComposedDpEvent(dp.MixtureOfGaussiansDpEvent(
            1.0, [0, 1, 2, 3, 4, 5], binomial(5, 0.01)), 1000),
        "rare": lambda: sgd(1e-4, 1.0, 10**6),
        "rare and few": lambda: sgd(1.417e-4, 1.6, 400),
        "noises": lambda: dp.ComposedDpEvent([
            dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(noise)) for noise in NOISES]),
        "discrete gaussian": lambda: dp.SelfComposedDpEvent(
            dp.DiscreteGaussianDpEvent(10.0), 50),
        "sampled laplace": lambda: dp.SelfComposedDpEvent(
            dp.PoissonSampledDpEvent(0.01, dp.LaplaceDpEvent(1.0)), 1000),
        "sgd": lambda: sgd(0.01, 1.0, 1000),
    }[what]()
    accountant = pld.PLDAccountant(relation)
    accountant.compose(event)
    found = accountant.get_epsilon(delta)
    return found, time.process_time(), 0.0


def main() -> None:
    """Print one line for each workload that was asked for, or for all."""
    who = ours if sys.argv[1] == "ours" else peer
    for letter in sys.argv[2:] or PLANS:
        what, delta = PLANS[letter]
        try:
            if who is ours:
                from privledger.graph.fold import cost_of  # noqa: F401
            else:
                import dp_accounting.pld.pld_privacy_accountant  # noqa: F401
            start = time.process_time()
            upper, end, lower = who(what, delta)
            print(f"{letter} {what} {upper:.6f} {lower:.6f} {end - start:.3f}", flush=True)
        except Exception as error:
            print(f"{letter} {what} none: {type(error).__name__} {str(error)[:80]}", flush=True)


if __name__ == "__main__":
    main()
