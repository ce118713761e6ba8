"""The workloads of the accounting benchmark, and what each accountant makes of them.

A workload is (name, delta, parts, sampling rate, rounds); a part is (kind, number): Gaussian
noise multiplier, Laplace scale, or epsilon of an exponential mechanism.
"""

from __future__ import annotations

import functools
import importlib.util
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import privledger as pl
from privledger.graph import fold, price

MESH = 1e-4
TARGET = (1.0, 1e-6)  # what workload g calibrates to
G_RATE, G_ROUNDS = 0.05, 500
Part = tuple[str, float]


class Workload(NamedTuple):
    name: str
    delta: float
    parts: tuple[Part, ...]
    rate: float = 1.0
    rounds: int = 1

    @property
    def node(self) -> pl.Node:
        leaf = {"gaussian": pl.Gaussian, "laplace": pl.Laplace, "exponential": pl.Exponential}
        nodes: list[pl.Node] = [leaf[kind](number) for kind, number in self.parts]
        if self.rate < 1:
            nodes = [pl.PoissonSample(self.rate, node) for node in nodes]
        return pl.Repeat(nodes[0] if len(nodes) == 1 else pl.Sequential(nodes), self.rounds)


def _mixture() -> tuple[Part, ...]:
    source = np.random.default_rng(20260101)
    return tuple(
        (kind, float(np.exp(value)))
        for kind, low, high, count in (("laplace", 20, 200, 300), ("gaussian", 20, 200, 300),
                                       ("exponential", 0.005, 0.05, 400))
        for value in source.uniform(np.log(low), np.log(high), count))


WORKLOADS = (
    Workload("a: Gaussian, noise 1, rate .01, 1,000 rounds", 1e-5, (("gaussian", 1.0),),
             0.01, 1000),
    Workload("b: Gaussian, noise .8, rate .001, 100,000 rounds", 1e-6, (("gaussian", 0.8),),
             0.001, 100_000),
    Workload("c: Gaussian, noise 5, rate .1, 500 rounds", 1e-6, (("gaussian", 5.0),), 0.1, 500),
    Workload("d: 300 Laplace, 300 Gaussian, 400 exponential, all different", 1e-6, _mixture()),
    Workload("e: Laplace, epsilon .1, 10,000 times", 1e-6, (("laplace", 10.0),), 1.0, 10_000),
    Workload("f: Laplace, scale 1, rate .01, 1,000 rounds", 1e-6, (("laplace", 1.0),), 0.01,
             1000))


def forget() -> None:
    """A new price each time: what is kept would make the figure meaningless."""
    fold._cached.cache_clear()
    price._certified.cache_clear()


def ours(work: Workload, accountant: str = "best") -> float:
    forget()
    return pl.epsilon(work.node, work.delta, accountant=accountant)


def ours_noise(accountant: str = "best", rate: float = G_RATE, rounds: int = G_ROUNDS) -> float:
    """Smallest noise for TARGET."""
    forget()

    def build(noise: float) -> pl.Node:
        return pl.Repeat(pl.PoissonSample(rate, pl.Gaussian(noise)), rounds)

    return pl.calibrate(build, *TARGET, accountant=accountant)


def _event(work: Workload) -> Any:
    import dp_accounting as dp

    make: dict[str, Callable[[float], Any]] = {
        "gaussian": dp.GaussianDpEvent, "laplace": dp.LaplaceDpEvent,
        # Bounded range epsilon implies zCDP at epsilon^2 / 8.
        "exponential": lambda epsilon: dp.ZCDpEvent(epsilon**2 / 8)}
    events = [make[kind](number) for kind, number in work.parts]
    if work.rate < 1:
        events = [dp.PoissonSampledDpEvent(work.rate, event) for event in events]
    whole = events[0] if len(events) == 1 else dp.ComposedDpEvent(events)
    return dp.SelfComposedDpEvent(whole, work.rounds) if work.rounds > 1 else whole


def google_rdp(work: Workload) -> float:
    from dp_accounting.rdp import RdpAccountant

    return float(RdpAccountant().compose(_event(work)).get_epsilon(work.delta))


def google_pld(work: Workload) -> float:
    """It has no exponential mechanism: in a mixture that is pure DP at the same epsilon."""
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.pld.common import DifferentialPrivacyParameters
    from dp_accounting.pld.pld_privacy_accountant import PLDAccountant

    if len(work.parts) == 1:
        accountant = PLDAccountant(value_discretization_interval=MESH)
        return float(accountant.compose(_event(work)).get_epsilon(work.delta))
    make: dict[str, Callable[[float], Any]] = {
        "gaussian": lambda noise: pld.from_gaussian_mechanism(
            noise, value_discretization_interval=MESH),
        "laplace": lambda scale: pld.from_laplace_mechanism(
            scale, value_discretization_interval=MESH),
        "exponential": lambda epsilon: pld.from_privacy_parameters(
            DifferentialPrivacyParameters(epsilon, 0.0), value_discretization_interval=MESH)}
    whole = functools.reduce(lambda one, two: one.compose(two),
                             (make[kind](number) for kind, number in work.parts))
    return float(whole.get_epsilon_for_delta(work.delta))


def google_noise(accountant: str) -> float:
    import dp_accounting as dp
    from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    make = RdpAccountant if accountant == "rdp" else PLDAccountant
    found = dp.calibrate_dp_mechanism(
        make, lambda noise: dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(
            G_RATE, dp.GaussianDpEvent(noise)), G_ROUNDS), *TARGET)
    return float(found)


def autodp_rdp(work: Workload) -> float:
    from autodp import mechanism_zoo as zoo
    from autodp.transformer_zoo import AmplificationBySampling, Composition

    make: dict[str, Callable[[float], Any]] = {
        "gaussian": zoo.ExactGaussianMechanism, "exponential": zoo.ExponentialMechanism,
        "laplace": zoo.LaplaceMechanism}
    if work.rate < 1:
        make["gaussian"] = zoo.GaussianMechanism
    found = [make[kind](number) for kind, number in work.parts]
    if work.rate < 1:
        found = [AmplificationBySampling(PoissonSampling=True)(
            one, work.rate, improved_bound_flag=True) for one in found]
    whole = Composition()(found, [work.rounds] * len(found))
    return float(whole.get_approxDP(work.delta))


def prv(work: Workload) -> float | None:
    """Error .01 in epsilon (.15 if not sampled); None where it cannot, or not in memory (d)."""
    from prv_accountant import LaplaceMechanism, PoissonSubsampledGaussianMechanism, PRVAccountant

    ((kind, number), *more) = work.parts
    if more or (kind, work.rate < 1) not in (("gaussian", True), ("laplace", False)):
        return None
    one = (PoissonSubsampledGaussianMechanism(work.rate, number) if kind == "gaussian"
           else LaplaceMechanism(1 / number))
    accountant = PRVAccountant(one, eps_error=0.01 if work.rate < 1 else 0.15,
                               delta_error=work.delta / 1000,
                               max_self_compositions=work.rounds)
    return float(accountant.compute_epsilon(work.delta, [work.rounds])[2])


Price = Callable[[Workload], float | None]


def peers() -> list[tuple[str, Price]]:
    """What can be imported here."""
    found: list[tuple[str, str, Price]] = [
        ("dp_accounting", f"dp-accounting PLD, mesh {MESH:g}", google_pld),
        ("dp_accounting", "dp-accounting RDP", google_rdp),
        ("prv_accountant", "prv-accountant", prv), ("autodp", "autodp RDP", autodp_rdp)]
    warnings.filterwarnings("ignore", module="autodp|prv_accountant|dp_accounting")
    return [(name, price) for module, name, price in found if importlib.util.find_spec(module)]
