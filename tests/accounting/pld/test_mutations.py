"""Each deliberate fault in the accountant must break a law; the laws hold without it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath as mp  # type: ignore[import-untyped]
import numpy as np
import pytest
from attrs import evolve

from privledger.accounting.pld import (
    Losses,
    accountant,
    both_ways,
    by_pld,
    compose,
    losses,
    masses,
    pairs,
    sampled_pairs,
)
from privledger.accounting.pld.accountant import profile
from privledger.accounting.pld.lattice import Lattice
from privledger.accounting.pld.pairs import BoundedRangePair, GaussianPair, LaplacePair, pure_pair
from tests.accounting.pld import exact

Patch = Callable[[pytest.MonkeyPatch], None]
GAUSS, LAPLACE, COIN = GaussianPair(1.0), LaplacePair(1.0), pure_pair(0.8)
STEP = 0.125


# --- laws -------------------------------------------------------------------------------------


def masses_are_exact_within_their_slack() -> None:
    """On edges whose arithmetic is exact."""
    edges = np.arange(-40, 41) / 4.0
    bands = GAUSS.bands(edges)
    with mp.workdps(exact.DIGITS):
        for i in range(len(edges) - 1):
            low, high = (mp.mpf(float(edges[k])) for k in (i, i + 1))
            for shift, mass, slack in ((-0.5, bands.p, bands.slack_p),
                                       (0.5, bands.q, bands.slack_q)):
                true = mp.ncdf(high + shift) - mp.ncdf(low + shift)
                assert abs(true - mass[i]) <= slack[i], (i, shift)


def one_run_is_the_closed_form() -> None:
    """Each pair, and both lanes of a sample."""
    sample = losses.poisson(0.3, both_ways(LAPLACE))
    sharp = losses.poisson(0.1, both_ways(GAUSS))
    for lane, known in (
            (GAUSS, exact.gaussian(1.0)), (LAPLACE, exact.laplace(1.0)),
            (BoundedRangePair(1.0), exact.bounded_range(1.0)),
            (sample.remove, exact.removed(0.3, exact.laplace(1.0))),
            (sample.add, exact.added(0.3, exact.laplace(1.0))),
            (sharp.remove, exact.removed(0.1, exact.gaussian(1.0))),
            (sharp.add, exact.added(0.1, exact.gaussian(1.0)))):
        (pair, count), = losses.resolve(lane, 1e-20)
        assert count == 1
        for x in (0.0, 0.05, 0.21, 0.4):
            found = by_pld.delta_of_one(pair, x)
            true = exact.at(known, x)
            assert true <= found <= true + 1e-12, (lane, x)


def lattices_dominate() -> None:
    """Near the largest loss, where a rounding the wrong way shows."""
    for step, last in ((2.0**-7, 2**7), (2.0**-9, 2**9)):
        upper = masses.upper_masses(BoundedRangePair(1.0), step, last - 20, last)
        points = [step * (last - k) for k in range(20, 0, -1)]
        for x, found in zip(points, exact.of_masses(upper, step, points), strict=True):
            assert exact.at(exact.bounded_range(1.0), x) <= found, x


def small_windows_do_not_underprice() -> None:
    items = [(masses.upper_masses(LaplacePair(0.5), STEP, -4, 4), 10)]
    total = exact.convolved(items)
    for tilt in (0.0, 3.0):
        for first in (-36, -20, 0):
            lattice = Lattice(STEP, first, 32, tilt, STEP * (first + 16), 0.0,
                              (-2.0, 2.0, 2.0), 0.0)
            composed = compose.compose(items, lattice)
            start = composed.lattice.first * STEP
            curve = profile(composed, upper=True)
            points = np.linspace(max(start, -5.0), min(start + 32 * STEP, 5.0), 9).tolist()
            for x, true in zip(points, exact.of_masses(total, STEP, points), strict=True):
                assert true <= curve.delta(x), (tilt, x)


def compositions_are_not_underpriced() -> None:
    """Five or so runs of coins, of leaking coins, and of sampled coins in both lanes."""
    coin = exact.coin(0.8)
    leaking = pure_pair(0.3, 1e-4)
    sample = losses.poisson(0.4, both_ways(COIN))
    for one, tables, count in (
            (both_ways(leaking), [exact.coin(0.3, 1e-4)], 4),
            (sample, [coin.sampled(0.4, "remove"), coin.sampled(0.4, "add")], 5),
            (both_ways(pairs.response_pair(0.5, 3)), [exact.response(0.5, 3)], 4)):
        plan = losses.together([(one, count)])
        for lane, table in zip((plan.remove, plan.add), tables, strict=False):
            items = losses.resolve(lane, 1e-20)
            true = table.power(count)
            for x in (0.1, 0.9):
                found = accountant.delta_upper(items, x).value
                assert exact.at(true, x) <= found <= exact.at(true, x) * 1.001 + 1e-6, (lane, x)
                back = accountant.epsilon_upper(items, found).value
                assert back >= x * (1 - 1e-3)


LAWS = (masses_are_exact_within_their_slack, one_run_is_the_closed_form, lattices_dominate,
        small_windows_do_not_underprice, compositions_are_not_underpriced)


def broken() -> list[str]:
    """Laws that do not hold now. A fault may also show as an error of arithmetic."""
    found = []
    for law in LAWS:
        try:
            law()
        except (AssertionError, ArithmeticError, ValueError):
            found.append(law.__name__)
    return found


# --- faults -----------------------------------------------------------------------------------


def changed(owner: Any, name: str, change: Callable[[Any], Any]) -> Patch:
    """`change` maps the right function to the wrong one."""
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(owner, name, change(getattr(owner, name)))

    return patch


def after(edit: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The right function with its result edited."""
    return lambda right: lambda *args, **kwargs: edit(right(*args, **kwargs))


def half_counts(right: Any) -> Any:
    return lambda items, lattice, *rest: right(
        [(one, math.ceil(count / 2)) for one, count in items], lattice, *rest)


def exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(losses._KINDS, "remove", sampled_pairs.AddPair)
    monkeypatch.setitem(losses._KINDS, "add", sampled_pairs.RemovePair)


def without_add_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    def poisson(rate: float, inner: Losses) -> Losses:
        return both_ways(losses.Sampled("remove", rate, inner.remove))

    monkeypatch.setattr(losses, "poisson", poisson)


def nothing_infinite(masses_of: Any) -> Any:
    return after(lambda found: evolve(found, infinite=0.0))(masses_of)


FAULTS: list[tuple[str, Patch]] = [
    ("half of mu", changed(GaussianPair, "bands", lambda right: lambda self, edges: right(
        GaussianPair(self.mu / 2), edges))),
    ("half of epsilon, density", changed(
        LaplacePair, "bands", lambda right: lambda self, edges: right(
            LaplacePair(self.epsilon / 2), edges))),
    ("half of epsilon, atoms", changed(LaplacePair, "atoms", lambda right: lambda self: right(
        LaplacePair(self.epsilon / 2)))),
    ("no add lane", without_add_lane),
    ("remove and add exchanged", exchanged),
    ("Q for P in a removal", changed(sampled_pairs.RemovePair, "bands", after(
        lambda bands: evolve(bands, p=bands.q)))),
    ("P for Q in an addition", changed(sampled_pairs.AddPair, "bands", after(
        lambda bands: evolve(bands, q=bands.p)))),
    ("rate not applied to atoms", changed(sampled_pairs.RemovePair, "atoms", lambda right: (
        lambda self: self.inner.atoms()))),
    ("no slack", changed(GaussianPair, "bands", after(
        lambda bands: evolve(bands, slack_p=0 * bands.slack_p, slack_q=0 * bands.slack_q)))),
    ("splits rounded down", changed(masses, "dots", lambda right: lambda *args: right(
        *args[:-1], -1))),
    ("splits all down", changed(masses, "dots", after(
        lambda found: (0 * found[0], found[1])))),
    ("masses without infinity", changed(accountant, "upper_masses", nothing_infinite)),
    ("sums without infinity", changed(compose, "_infinite", after(lambda found: 0.0))),
    ("nothing beyond the window", changed(compose, "_outside", after(
        lambda found: (0.0, found[1])))),
    ("half of the counts", changed(accountant, "compose", half_counts)),
    ("half of the counts, when collected", changed(
        losses, "_collect", lambda right: lambda lane, times, *rest: right(
            lane, times if times == 1 else math.ceil(times / 2), *rest))),
    ("moments without counts", changed(compose, "_power", lambda right: (
        lambda value, count, reach: right(value, max(1, count - 1), reach)))),
]


def test_the_laws_hold() -> None:
    for law in LAWS:
        law()


@pytest.mark.parametrize(("name", "patch"), FAULTS, ids=[name for name, _ in FAULTS])
def test_every_fault_breaks_a_law(
    name: str, patch: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch(monkeypatch)
    assert broken(), name
    monkeypatch.undo()


def test_faults_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    for _, patch in FAULTS:
        with monkeypatch.context() as inside:
            patch(inside)
    assert not broken()
