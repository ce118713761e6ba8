"""Lower bounds on epsilon from first principles: what no sound accountant may go below.

Nothing here is shared with `privledger.accounting` or with another accounting library. A node is
turned into *blocks*: a pair of output laws (R without the record, R' with it), a sampling rate
and a number of rounds. With P, Q the two worlds and L = log dP/dQ,

    delta(epsilon) = E_P[(1 - exp(epsilon - L))_+],    L the sum over all rounds,

and each of the following can only make that smaller, hence the bound valid:

- leaving out a release, or choosing one of the worlds that a node allows (post-processing);
- merging outputs into bands (post-processing): a band has loss log P(band)/Q(band);
- rounding a loss down, or forgetting some of the mass of P (the mean grows with L).

Four independent ways, weakest assumptions first:

`gaussian_delta`, `single_delta`   closed forms in mpmath, exact;
`enumerated_delta`                 every multinomial outcome in mpmath, exact, few rounds;
`binomial_epsilon`                 one yes/no test per round, any number of rounds, no transforms;
`convolved_epsilon`                losses on a grid, tilted to where delta lives, any mixture.

Floats are used in the last two only. What they lose is covered by `SAFETY`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import Literal

import mpmath as mp  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import brentq
from scipy.signal import fftconvolve
from scipy.special import gammaln, ndtr, xlogy

import privledger as pl

Array = NDArray[np.float64]
Direction = Literal["remove", "add"]
Relation = Literal["add_remove", "replace_one"]
DIRECTIONS: tuple[Direction, ...] = ("remove", "add")

SAFETY = 1e-6
"""Share of delta that is given away for rounding errors; epsilon hardly notices."""

_LOSS_SLACK = 4e-12  # relative: what cdf differences may add to a loss
_DIGITS = 80
_WORLDS = 6


# --- pairs of output laws ---------------------------------------------------------------------


@dataclass(frozen=True)
class GaussianLaw:
    """N(0, 1) without the record, N(mu, 1) with it."""

    mu: float

    def coarse(self, delta: float) -> Array:
        """Edges, in terms of log R'/R, of bands that show the shape of the pair."""
        reach = 8 + math.sqrt(-2 * math.log(delta))
        x = np.linspace(-reach, self.mu + reach, 3001)
        return np.concatenate(([-np.inf], self.mu * x - self.mu**2 / 2, [np.inf]))

    def masses(self, edges: Array) -> tuple[Array, Array]:
        """Masses of the bands between `edges` under R and under R'."""
        with np.errstate(invalid="ignore"):
            x = edges / self.mu + self.mu / 2
        return _between(ndtr(x), ndtr(-x)), _between(ndtr(x - self.mu), ndtr(self.mu - x))

    def cdf(self, log_ratio: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
        """R and R' of {log R'/R <= log_ratio}, to many digits."""
        mu = mp.mpf(self.mu)
        x = log_ratio / mu + mu / 2
        return mp.ncdf(x), mp.ncdf(x - mu)


@dataclass(frozen=True)
class LaplaceLaw:
    """Laplace of scale 1 around 0 without the record, around `epsilon` with it."""

    epsilon: float

    def coarse(self, delta: float) -> Array:
        """See `GaussianLaw.coarse`; the two ends are atoms and get bands of their own."""
        inside = np.linspace(-self.epsilon, self.epsilon, 1001)
        inside[0], inside[-1] = inside[0] * (1 - 1e-12), inside[-1] * (1 - 1e-12)
        return np.concatenate(([-np.inf], inside, [np.inf]))

    def masses(self, edges: Array) -> tuple[Array, Array]:
        """See `GaussianLaw.masses`; bands are open below and closed above."""
        inside = np.clip((edges + self.epsilon) / 2, 0, self.epsilon)
        below, above = edges < -self.epsilon, edges >= self.epsilon
        left = np.exp(-inside) / 2
        right = np.exp(inside - self.epsilon) / 2
        plain = _between(np.where(below, 0, np.where(above, 1, 1 - left)),
                         np.where(below, 1, np.where(above, 0, left)))
        moved = _between(np.where(below, 0, np.where(above, 1, right)),
                         np.where(below, 1, np.where(above, 0, 1 - right)))
        return plain, moved

    def cdf(self, log_ratio: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
        """See `GaussianLaw.cdf`."""
        epsilon = mp.mpf(self.epsilon)
        if log_ratio < -epsilon:
            return mp.mpf(0), mp.mpf(0)
        if log_ratio >= epsilon:
            return mp.mpf(1), mp.mpf(1)
        x = (log_ratio + epsilon) / 2
        return 1 - mp.exp(-x) / 2, mp.exp(x - epsilon) / 2


@dataclass(frozen=True)
class FiniteLaw:
    """Outcomes of mass `plain` without the record and `moved` with it, by growing ratio.

    `log_ratio` is log moved/plain, kept apart because a closed form has more digits than a
    quotient; `step` is the lattice it lies on, if it does.
    """

    plain: tuple[float, ...]
    moved: tuple[float, ...]
    log_ratio: tuple[float, ...]
    step: float | None = None


Law = GaussianLaw | LaplaceLaw | FiniteLaw


def _between(low: Array, high: Array) -> Array:
    """Masses between edges from both tails, each used where it has more digits."""
    return np.maximum(0.0, np.where(low[1:] < 0.5, np.diff(low), -np.diff(high)))


def randomized_response(epsilon: float, others: int = 0) -> FiniteLaw:
    """The truth e^epsilon times as likely as any other answer; `others` answers are neither."""
    low = 1 / (math.exp(epsilon) + 1 + others)
    high = math.exp(epsilon) * low
    if not others:
        return FiniteLaw((high, low), (low, high), (-epsilon, epsilon), 2 * epsilon)
    middle = others * low
    return FiniteLaw((high, middle, low), (low, middle, high), (-epsilon, 0.0, epsilon), epsilon)


def two_candidates(epsilon: float, centre: float) -> FiniteLaw:
    """Exponential mechanism, two candidates whose scores move apart: the log-odds of the second
    go from centre - epsilon/2 to centre + epsilon/2."""
    before, after = centre - epsilon / 2, centre + epsilon / 2
    plain, moved = _expit(before), _expit(after)
    stay = _log_expit(-after) - _log_expit(-before)
    rise = stay + epsilon
    return FiniteLaw((1 - plain, plain), (_expit(-after), moved), (stay, rise), epsilon)


def _expit(value: float) -> float:
    return math.exp(_log_expit(value))


def _log_expit(value: float) -> float:
    return -math.log1p(math.exp(-value)) if value > 0 else value - math.log1p(math.exp(value))


def discrete_laplace(parameter: float, shift: int) -> FiniteLaw:
    """Integer noise exp(-parameter |x|) on 0 or on `shift`. Outcomes of equal ratio are one."""
    mass = math.tanh(parameter / 2)
    tail = 1 / (1 + math.exp(-parameter))  # mass of {x <= 0}
    inside = range(1, shift)
    plain = (tail, *(mass * math.exp(-parameter * x) for x in inside),
             tail * math.exp(-parameter * shift))
    ratios = tuple(parameter * (2 * x - shift) for x in range(shift + 1))
    return FiniteLaw(plain, plain[::-1], ratios, 2 * parameter)


def discrete_gaussian(sigma: float, shift: int, delta: float = 1e-30) -> FiniteLaw:
    """Integer noise exp(-x^2 / 2 sigma^2) on 0 or on `shift`, without far tails."""
    reach = math.ceil(sigma * (8 + math.sqrt(-2 * math.log(delta))))
    x = np.arange(-reach, reach + shift + 1, dtype=float)
    total = math.fsum(np.exp(-0.5 * (np.arange(-45 * sigma // 1, 45 * sigma + 1) / sigma) ** 2))
    plain, moved = (np.exp(-0.5 * ((x - at) / sigma) ** 2) / total for at in (0, shift))
    ratios = (x - shift / 2) * shift / sigma**2
    return FiniteLaw(tuple(plain.tolist()), tuple(moved.tolist()), tuple(ratios.tolist()),
                     step=shift / sigma**2)


def product(first: FiniteLaw, second: FiniteLaw) -> FiniteLaw:
    """Both outputs, seen together."""
    ratios = np.add.outer(first.log_ratio, second.log_ratio).ravel()
    order = np.argsort(ratios)
    plain = np.multiply.outer(first.plain, second.plain).ravel()[order]
    moved = np.multiply.outer(first.moved, second.moved).ravel()[order]
    return FiniteLaw(tuple(plain.tolist()), tuple(moved.tolist()), tuple(ratios[order].tolist()))


# --- from a node to blocks --------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """`count` independent rounds of one law, each on a fresh sample at `rate`."""

    law: Law
    rate: float = 1.0
    count: int = 1


World = tuple[Block, ...]


def worlds(node: pl.Node, relation: Relation = "add_remove") -> list[World]:
    """Some of the situations that `node` allows; each gives a lower bound of its own."""
    match node:
        case pl.nodes.PostProcess() | pl.nodes.Public():
            return [()]
        case pl.Sequential(nodes=nodes):
            return _together([worlds(child, relation) for child in nodes])
        case pl.Repeat(node=child, count=count):
            return [tuple(replace(block, count=block.count * count) for block in world)
                    for world in worlds(child, relation)]
        case pl.Parallel():
            return _parallel(node, relation)
        case pl.PoissonSample(rate=rate, node=child):
            return [(Block(law, rate * inner),) for world in worlds(child, relation)
                    for law, inner in _on_one_sample(world)] or [()]
        case pl.IndividualFilter(kind=kind, cap=cap, order=order):
            return [(Block(GaussianLaw(math.sqrt(cap if kind == "gdp" else 2 * cap / order))),)]
        case pl.nodes.Group(rows=rows, node=child):
            return [tuple(replace(block, law=_for_group(block.law, rows)) for block in world)
                    for world in worlds(child, relation)]
        case _:
            return [(Block(law),) for law in leaf_laws(node)]


def leaf_laws(node: pl.Node) -> list[Law]:
    """Instances of one mechanism call."""
    match node:
        case pl.Gaussian(noise_multiplier=noise):
            return [GaussianLaw(1 / noise)]
        case pl.Laplace(scale=scale, l1_sensitivity=sensitivity):
            return [LaplaceLaw(sensitivity / scale)]
        case pl.DiscreteLaplace(parameter=parameter, sensitivity=shift):
            return [discrete_laplace(parameter, shift)]
        case pl.DiscreteGaussian(sigma=sigma, sensitivity=shift):
            return [discrete_gaussian(sigma, shift)]
        case pl.Exponential(epsilon=epsilon, score_change=(low, high)):
            return [two_candidates(epsilon * (high - low) / 2, centre)
                    for centre in (0.0, -2.0, -6.0, -1.0, -4.0, -16.0)]
        case pl.RandomizedResponse(noise_parameter=noise, num_buckets=buckets):
            epsilon = math.log1p(buckets * (1 - noise) / noise)
            return [randomized_response(epsilon, buckets - 2)] if epsilon else []
        case pl.Asserted(epsilon=epsilon):
            return [randomized_response(epsilon)]
    raise TypeError(f"no lower bound is known for {type(node).__name__}")


def _together(choices: Sequence[list[World]]) -> list[World]:
    """All releases on the same record: the first few combinations of their worlds."""
    combined = itertools.islice(itertools.product(*choices), _WORLDS)
    return [tuple(itertools.chain.from_iterable(worlds)) for worlds in combined]


def _parallel(node: pl.Parallel, relation: Relation) -> list[World]:
    """The record sits in one part; replaced, it may also leave one part for another."""
    if relation == "add_remove":
        return [world for part in node.nodes for world in worlds(part)]
    stays = [world for part in node.nodes for world in worlds(part, relation)]
    if node.certificate == "index":
        return stays
    moves = [both for two in itertools.combinations(node.nodes, 2)
             for both in _together([worlds(part) for part in two])]
    # One direction is reversed; unsampled pairs mirror each other, sampled ones do not.
    mirrored = [world for world in moves if all(block.rate == 1 for block in world)]
    return [*stays, *mirrored]


def _on_one_sample(world: World) -> Iterator[tuple[Law, float]]:
    """Laws that can be seen on one sample: all Gaussians at once, small products, or one."""
    own = [block for block in world if block.rate == 1]
    square = sum(block.count * block.law.mu**2 for block in own
                 if isinstance(block.law, GaussianLaw))
    if square:
        yield GaussianLaw(math.sqrt(square)), 1.0
    finite = [block.law for block in own for _ in range(min(block.count, 5))
              if isinstance(block.law, FiniteLaw)]
    if len(finite) > 1 and math.prod(len(law.plain) for law in finite) <= 3000:
        yield reduce(product, finite), 1.0
    for block in world:
        if not (isinstance(block.law, GaussianLaw) and block.rate == 1):
            yield block.law, block.rate


def _for_group(law: Law, rows: int) -> Law:
    """The same noise on a query that moves `rows` times as far, where that is known."""
    if isinstance(law, GaussianLaw):
        return GaussianLaw(law.mu * rows)
    if isinstance(law, LaplaceLaw):
        return LaplaceLaw(law.epsilon * rows)
    return law


# --- closed forms and enumeration, in mpmath --------------------------------------------------


def gaussian_delta(mu: float, epsilon: float) -> mp.mpf:
    """Exact delta of mu-Gaussian DP."""
    with mp.workdps(_DIGITS):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


def single_delta(
    law: GaussianLaw | LaplaceLaw, rate: float, direction: Direction, epsilon: float
) -> mp.mpf:
    """Exact delta of one sampled round: the best test is a threshold on log R'/R.

    `remove` is P = (1 - rate) R + rate R' against Q = R, `add` the reverse.
    """
    with mp.workdps(_DIGITS):
        q, e = mp.mpf(rate), mp.mpf(epsilon)
        ratio = 1 + mp.expm1(e if direction == "remove" else -e) / q
        if ratio <= 0:
            return mp.mpf(0)  # (1 - q) R is never below R / e^epsilon
        plain, moved = law.cdf(mp.log(ratio))
        if direction == "add":
            return plain - mp.exp(e) * ((1 - q) * plain + q * moved)
        return (1 - q) * (1 - plain) + q * (1 - moved) - mp.exp(e) * (1 - plain)


def enumerated_delta(
    law: FiniteLaw, rate: float, direction: Direction, count: int, epsilon: float
) -> mp.mpf:
    """Exact delta of `count` sampled rounds: a sum over all multinomial outcomes."""
    with mp.workdps(_DIGITS):
        gain = mp.exp(mp.mpf(epsilon))
        return mp.fsum(max(mp.mpf(0), one - gain * other)
                       for one, other in _outcomes(law, rate, direction, count))


@lru_cache(maxsize=64)
def _outcomes(law: FiniteLaw, rate: float, direction: Direction,
              count: int) -> tuple[tuple[mp.mpf, mp.mpf], ...]:
    """The probabilities of every outcome of the rounds, in both worlds. No epsilon is in them."""
    with mp.workdps(_DIGITS):
        q = mp.mpf(rate)
        plain = [mp.mpf(value) for value in law.plain]
        mixed = [value * (1 + q * mp.expm1(mp.mpf(ratio)))
                 for value, ratio in zip(plain, law.log_ratio, strict=True)]
        p, other = (mixed, plain) if direction == "remove" else (plain, mixed)
        return tuple((ways * mp.fprod(a**k for a, k in zip(p, ks, strict=True)),
                      ways * mp.fprod(b**k for b, k in zip(other, ks, strict=True)))
                     for ks, ways in _multinomials(count, len(plain)))


def _multinomials(count: int, kinds: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """All ways to split `count` into `kinds` numbers, with their multiplicities."""
    if kinds == 1:
        yield (count,), 1
        return
    for first in range(count + 1):
        for rest, ways in _multinomials(count - first, kinds - 1):
            yield (first, *rest), ways * math.comb(count, first)


def laplace_twice_delta(epsilon: float, target: float) -> mp.mpf:
    """Exact delta of two Laplace releases, by quadrature over the loss of the first."""
    with mp.workdps(30):
        e, goal = mp.mpf(epsilon), mp.mpf(target)

        def once(level: mp.mpf) -> mp.mpf:
            if level >= e:
                return mp.mpf(0)
            if level <= -e:
                return 1 - mp.exp(level)
            return 1 - mp.exp((level - e) / 2)

        corners = sorted({-e, e, *(c for c in (goal - e, goal + e) if -e < c < e)})
        inside = mp.quad(lambda loss: mp.exp((loss - e) / 2) / 4 * once(goal - loss), corners)
        return once(goal - e) / 2 + mp.exp(-e) / 2 * once(goal + e) + inside


def lower_epsilon(
    lower_delta: Callable[[float], mp.mpf | float], delta: float, most: float = 1e9,
    least: float = 0.0
) -> float:
    """The largest epsilon, to a float or nearly, at which `lower_delta` still exceeds `delta`.

    Zero where it is no more than `least`: somebody who looks for the largest of several bounds
    need not find one that is smaller than another.
    """
    if not lower_delta(least) > delta:
        return 0.0
    low, high = least, max(1.0, 2 * least)
    while high < most and lower_delta(high) > delta:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if high - low <= 1e-13 * high or not low < middle < high:
            break
        low, high = (middle, high) if lower_delta(middle) > delta else (low, middle)
    return low


# --- losses of one round ----------------------------------------------------------------------


@dataclass(frozen=True)
class Losses:
    """Mass under P and log P/Q of each outcome, by growing loss."""

    mass: Array
    loss: Array


def losses(block: Block, direction: Direction, delta: float, edges: Array | None = None) -> Losses:
    """One round, sampled: the exact outcomes of a finite law, else bands between loss `edges`."""
    law = block.law
    if isinstance(law, FiniteLaw):
        plain, moved, ratio = map(np.array, (law.plain, law.moved, law.log_ratio))
    else:
        cuts = law.coarse(delta) if edges is None else _ratio_of(edges, block.rate, direction)
        plain, moved = law.masses(cuts)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.clip(np.log(moved / plain), cuts[:-1], cuts[1:])
    kept = (plain > 1e-290) & (moved > 1e-290)
    plain, moved, ratio = plain[kept], moved[kept], ratio[kept]
    if block.rate == 1:
        loss, mass = (ratio, moved) if direction == "remove" else (-ratio, plain)
    else:
        loss = _mixed(ratio, block.rate)
        mixture = (1 - block.rate) * plain + block.rate * moved
        loss, mass = (loss, mixture) if direction == "remove" else (-loss, plain)
    return Losses(mass, loss) if direction == "remove" else Losses(mass[::-1], loss[::-1])


def _mixed(ratio: Array, rate: float) -> Array:
    """log(1 - rate + rate exp(ratio)), relative to its own size."""
    big = np.maximum(ratio, 50.0)
    far = big + math.log(rate) + np.log1p((1 - rate) / rate * np.exp(-big))
    return np.where(ratio > 50, far, np.log1p(rate * np.expm1(np.minimum(ratio, 50.0))))


def _ratio_of(edges: Array, rate: float, direction: Direction) -> Array:
    """The log R'/R at which the sampled round has the losses `edges`, growing."""
    signed = edges if direction == "remove" else -edges[::-1]
    if rate < 1:
        with np.errstate(divide="ignore", over="ignore"):
            near = np.log1p(np.maximum(np.expm1(np.minimum(signed, 600.0)) / rate, -1.0))
        signed = np.where(signed > 600, signed - math.log(rate), near)
    return np.concatenate(([-np.inf], signed, [np.inf]))


# --- one yes/no test per round ----------------------------------------------------------------


def binomial_epsilon(block: Block, direction: Direction, delta: float, tests: int = 12,
                     least: float = 0.0) -> float:
    """Best of some thresholds: each round says whether its loss is high, and all are counted.

    `least` as for `lower_epsilon`.
    The number of high rounds is Binomial(count, p) in one world, Binomial(count, p') in the
    other, and its loss is linear in that number; the sum for delta is taken in logarithms.
    """
    single = losses(block, direction, delta)
    order = len(single.mass)
    if order < 2:
        return 0.0
    cuts = sorted({min(order - 1, max(1, round(order * k / tests))) for k in range(tests + 1)})
    best = 0.0
    for cut in cuts:
        best = max(best, _binomial(_two_cells(single, cut), block.count, delta, max(best, least)))
    return best


def _two_cells(single: Losses, cut: int) -> Losses:
    """All outcomes below index `cut` are one, all others the other one."""
    parts = [_merged(Losses(single.mass[part], single.loss[part]))
             for part in (slice(None, cut), slice(cut, None))]
    return Losses(np.array([mass for mass, _ in parts]), np.array([loss for _, loss in parts]))


def _merged(bands: Losses) -> tuple[float, float]:
    """Mass and loss of all `bands` taken as one, to many digits of the loss."""
    centre = float(bands.loss[np.argmax(bands.mass)])
    total = math.fsum(bands.mass)
    gap = bands.loss - centre
    some = bands.mass > 0
    tilted = (logsumexp(np.log(bands.mass[some] / total) - gap[some]) if gap.min() < -1
              else math.log1p(math.fsum(bands.mass * np.expm1(-gap)) / total))
    return total, centre - tilted


def logsumexp(logs: Array) -> float:
    """log of the sum of exp(logs). SciPy's own spends ten times as long on what it checks."""
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum())) if math.isfinite(top) else top


def _binomial(two: Losses, count: int, delta: float, least: float) -> float:
    no, yes = (float(value) for value in two.mass)
    if not 0 < yes < 1 or not 0 < no < 1:
        return 0.0
    spread = 45 * math.sqrt(count * yes * no) + 200
    k = np.arange(max(0, math.floor(count * yes - spread)),
                  min(count, math.ceil(count * yes + spread)) + 1, dtype=float)
    log_mass = (gammaln(count + 1) - gammaln(k + 1) - gammaln(count - k + 1)
                + xlogy(k, yes) + xlogy(count - k, no))
    # yes + no may fall short of 1 by what was left out, which only lowers P.
    loss = k * two.loss[1] + (count - k) * two.loss[0]
    return _solve(loss - _LOSS_SLACK * np.abs(loss), log_mass, delta, least)


def _solve(loss: Array, log_mass: Array, delta: float, least: float) -> float:
    """The epsilon at which outcomes of these losses and log P-masses reach `delta`.

    `least` as for `lower_epsilon`.
    """
    target = math.log(delta) - math.log1p(-SAFETY)

    def gap(epsilon: float) -> float:
        above = loss > epsilon
        if not above.any():
            return -math.inf
        terms = log_mass[above] + np.log(-np.expm1(epsilon - loss[above]))
        return max(-1e6, logsumexp(terms) - target)

    high = float(loss.max(initial=0.0))
    if high <= least or gap(least) <= 0:
        return 0.0
    found = float(brentq(lambda e: max(-1e6, gap(e)), least, high, xtol=1e-300, rtol=1e-13))
    for margin in (1e-12, 1e-10, 1e-8):
        if gap(found * (1 - margin)) >= 0:
            return found * (1 - margin)
    return 0.0


# --- losses on a grid -------------------------------------------------------------------------


@dataclass(frozen=True)
class Tilted:
    """A composed law: P-mass at `loss` is weight * exp(shift - tilt * loss)."""

    loss: Array
    weight: Array
    shift: float
    tilt: float


def convolved_epsilon(
    world: World, direction: Direction, delta: float, least: float = 0.0
) -> float:
    """Lower bound for all blocks of `world` together; `least` as for `lower_epsilon`."""
    square = sum(block.count * block.law.mu**2 for block in world
                 if isinstance(block.law, GaussianLaw) and block.rate == 1)
    others = [block for block in world
              if not (isinstance(block.law, GaussianLaw) and block.rate == 1)]
    if not others:
        return _exact_gaussian(square, delta, least)
    shapes = [losses(block, direction, delta) for block in others]
    tilt = _tilt(others, shapes, square, delta)
    parts = [_composed(block, direction, delta, shape, tilt)
             for block, shape in zip(others, shapes, strict=True)]
    if square:
        parts.append(_gaussian_part(square, tilt))
    total = parts[0] if len(parts) == 1 else _convolved(parts)
    with np.errstate(divide="ignore"):
        log_mass = np.log(total.weight) + total.shift - total.tilt * total.loss
    slack = _LOSS_SLACK * sum(
        block.count * float(np.dot(shape.mass, np.abs(shape.loss)))
        for block, shape in zip(others, shapes, strict=True))
    kept = total.weight > 0
    return max(0.0, _solve(total.loss[kept] - slack, log_mass[kept], delta, least))


def _exact_gaussian(square: float, delta: float, least: float) -> float:
    mu = math.sqrt(square)
    return lower_epsilon(lambda e: gaussian_delta(mu, e), delta, least=least) if mu else 0.0


def _cumulant(shape: Losses, tilt: float) -> tuple[float, float, Array]:
    """log E_P[exp(tilt L)], its slope, and the tilted masses."""
    logs = np.log(shape.mass) + tilt * shape.loss
    value = logsumexp(logs)
    tilted = np.exp(logs - value)
    return value, float(np.dot(tilted, shape.loss)), tilted


def _tilt(blocks: Sequence[Block], shapes: Sequence[Losses], square: float, delta: float) -> float:
    """The exponent at which what adds to delta is typical.

    Any exponent is right; this one minimises the Renyi bound
    exp(K(t) - t epsilon) t^t / (1 + t)^(1 + t) where it equals delta.
    """
    spans = [float(np.ptp(shape.loss)) for shape in shapes if np.ptp(shape.loss) > 0]
    goal = math.log(delta)
    largest = sum(block.count * math.log(shape.mass[-1])
                  for block, shape in zip(blocks, shapes, strict=True))
    # If even the largest outcome is likelier than delta, no tilt shows only what matters.
    steepest = 60 if largest > goal and not square else 1e4
    low, high = 0.0, steepest / min(spans) if spans else 1.0
    for _ in range(60):
        middle = (low + high) / 2
        rate = -square * middle**2 / 2 - math.log1p(middle)
        for block, shape in zip(blocks, shapes, strict=True):
            value, slope, _ = _cumulant(shape, middle)
            rate += block.count * (value - middle * slope)
        low, high = (middle, high) if rate > goal else (low, middle)
    return low


def _reach(shape: Losses, count: int, tilt: float) -> tuple[float, float]:
    """Distances below and above the tilted mean that `count` rounds leave with chance 1e-15."""
    value, mean, tilted = _cumulant(shape, tilt)
    span = float(np.ptp(shape.loss))
    variance = float(np.dot(tilted, (shape.loss - mean) ** 2))
    spread = math.sqrt(max(variance, 1e-24 * span**2, 1e-300))
    found = [count * (mean - float(shape.loss[0])), count * (float(shape.loss[-1]) - mean)]
    for side, sign in enumerate((-1.0, 1.0)):
        for scale in np.geomspace(1e-3, 30, 40):
            step = sign * scale / (spread * math.sqrt(count))
            rise = count * (_cumulant(shape, tilt + step)[0] - value - step * mean)
            found[side] = min(found[side], (rise + 35) / abs(step))
    return found[0], found[1]


def _composed(
    block: Block, direction: Direction, delta: float, shape: Losses, tilt: float
) -> Tilted:
    """`block.count` rounds of one law."""
    below, above = _reach(shape, block.count, tilt)
    exact = _own_lattice(block, shape)
    if exact is not None:
        origin, step, mass = exact
    else:
        span = _relevant(shape, block.count, tilt)
        step = max((below + above) / 2**17, (span[1] - span[0]) / 2**16)
        if isinstance(block.law, LaplaceLaw):
            span = float(shape.loss[0]), float(shape.loss[-1])
            step = (span[1] - span[0]) / math.ceil((span[1] - span[0]) / step)
            origin, mass = _between_atoms(block, direction, delta, span, step)
        else:
            origin, mass = _anchored(block, direction, delta, span, step)
    return _power(origin, step, mass, block.count, tilt, (below, above))


def _own_lattice(block: Block, shape: Losses) -> tuple[float, float, Array] | None:
    """A finite law whose losses are equally spaced needs no grid but its own."""
    if not isinstance(block.law, FiniteLaw):
        return None
    if len(shape.loss) <= 2:
        step = float(np.ptp(shape.loss))
    elif block.rate == 1 and block.law.step is not None:
        step = block.law.step
    else:
        return None
    if step == 0:
        return None
    mass = np.zeros(round(float(np.ptp(shape.loss)) / step) + 1)
    mass[np.rint((shape.loss - shape.loss[0]) / step).astype(int)] = shape.mass
    return float(shape.loss[0]), step, mass


def _relevant(shape: Losses, count: int, tilt: float) -> tuple[float, float]:
    """The range of losses of one round that can matter to all of them."""
    tilted = _cumulant(shape, tilt)[2]
    inside = np.flatnonzero(tilted > 1e-17 / count)
    return float(shape.loss[inside[0]]), float(shape.loss[inside[-1]])


def _anchored(
    block: Block, direction: Direction, delta: float, span: tuple[float, float], step: float
) -> tuple[float, Array]:
    """Origin and masses of a grid that passes through the heaviest band."""
    origin, size = span[0] - 2 * step, math.ceil((span[1] - span[0]) / step) + 5
    for _ in range(3):
        bands = losses(block, direction, delta, _middles(origin, step, size))
        mass, gap = _gridded(bands, origin, step, size)
        origin += float(gap[np.argmax(mass)])
    mass, gap = _gridded(bands, origin, step, size)
    return origin, _on_grid(mass, gap, origin, step)


def _between_atoms(
    block: Block, direction: Direction, delta: float, span: tuple[float, float], step: float
) -> tuple[float, Array]:
    """Masses of a grid from one atom to the other, of which the upper one has its own band."""
    origin, size = span[0], round((span[1] - span[0]) / step) + 1
    edges = _middles(origin, step, size)
    edges[-1] = span[1] - 1e-7 * step
    bands = losses(block, direction, delta, edges)
    mass, gap = _gridded(bands, origin, step, size)
    return origin, _on_grid(mass, gap, origin, step)


def _middles(origin: float, step: float, size: int) -> Array:
    """Half a step below each of `size` grid points."""
    return np.asarray(origin + step * (np.arange(size) - 0.5), dtype=np.float64)


def _gridded(bands: Losses, origin: float, step: float, size: int) -> tuple[Array, Array]:
    """Outcomes merged into bands around grid points: masses, and losses less the point's."""
    index = np.rint((bands.loss - origin) / step)
    inside = index >= 0  # what lies below the grid is forgotten
    where = np.minimum(index[inside], size - 1).astype(int)
    mass, away = bands.mass[inside], bands.loss[inside] - (origin + step * where)
    total = np.asarray(np.bincount(where, mass, size), dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        rest = np.bincount(where, mass * np.expm1(-away), size) / total
        gap = np.where(total > 0, -np.log1p(rest), 0.0)
    return total, np.asarray(gap, dtype=np.float64)


def _on_grid(mass: Array, gap: Array, origin: float, step: float) -> Array:
    """Masses whose losses are exactly the grid's, by merging a little of one band into the next.

    First every band below its point takes what it lacks from the band above, then every band
    above its point takes from the band below. More than it lacks in the first case, less in the
    second leaves it above its point, from where it is rounded down. Where a neighbour has too
    little to give, the band moves down by one point.
    """
    # What is below its point by a rounding error only is covered by `_LOSS_SLACK`.
    near = 1e-12 * np.abs(origin + step * np.arange(len(mass)))
    gap = np.where((gap < 0) & (gap > -near), 0.0, gap)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = mass[:-1] * np.expm1(-gap[:-1]) / (-mass[1:] * np.expm1(-step - gap[1:]))
    lifted = (gap[:-1] < 0) & (share >= 0) & (share <= 0.4) & (step + gap[1:] > 0)
    share = np.where(lifted, share, 0.0)
    result = mass.copy()
    result[1:] -= share * mass[1:]
    result[:-1] += share * mass[1:]
    now = gap.copy()
    now[:-1][lifted] = 0.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        pull = result[1:] * -np.expm1(-now[1:]) / (result[:-1] * np.expm1(step - now[:-1]))
    pulled = (now[1:] > 0) & (pull >= 0) & (pull <= 0.4) & (step - now[:-1] > 0)
    pull = np.where(pulled, pull, 0.0)
    # The band that is pulled may itself give to the next one: it then needs no more than this.
    pull *= 1 - np.append(pull[1:], 0.0)
    given = pull * result[:-1]
    result[:-1] -= given
    result[1:] += given
    low = np.flatnonzero(now < 0)
    down = np.clip(np.ceil(-now[low] / step), 1, None).astype(int)
    moved, result[low] = result[low].copy(), 0.0
    kept = low - down >= 0
    np.add.at(result, (low - down)[kept], moved[kept])
    return result


def _power(
    origin: float, step: float, mass: Array, count: int, tilt: float, reach: tuple[float, float]
) -> Tilted:
    """The law of the sum of `count` rounds, by one transform of the tilted law.

    The transform is cyclic: it is told apart by `reach`, outside which there is next to nothing.
    """
    index = np.arange(len(mass))
    with np.errstate(divide="ignore"):
        logs = np.log(mass) + tilt * step * index
    scale = logsumexp(logs)
    tilted = np.exp(logs - scale)
    centre = count * float(np.dot(index, tilted))
    low = max(0, math.floor(centre - 1.05 * reach[0] / step) - 32)
    high = min((len(mass) - 1) * count, math.ceil(centre + 1.05 * reach[1] / step) + 32)
    size = next_fast_len(max(high - low + 1, 2), real=True)
    if count == 1:
        low, size = 0, len(mass)
    folded: Array = np.asarray(np.bincount(index % size, tilted, size), dtype=np.float64)
    density: Array = folded if count == 1 else _certain(irfft(_raised(rfft(folded), count), size),
                                                        count)
    total = low + (np.arange(size) - low) % size
    return Tilted(count * origin + step * total, density, count * (scale + tilt * origin), tilt)


def _raised(transform: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """The power of a transform; what it makes smaller than 1e-26 is nothing.

    All of that together moves no density by 1e-26, and `_certain` takes off more than 1e-15.
    """
    with np.errstate(divide="ignore"):
        some = count * np.log(np.abs(transform)) > -60
    result = np.zeros_like(transform)
    result[some] = transform[some] ** count
    return result


def _certain(density: Array, count: int) -> Array:
    """What is left of a power of a transform without its rounding errors and its far ends."""
    noise = 1e-15 * (4 + count) * float(density.max()) + 2e-15
    return np.maximum(density - noise, 0.0)


def _gaussian_part(square: float, tilt: float) -> Tilted:
    """All unsampled Gaussians: L is N(square/2, square), cut finely and rounded down."""
    root = math.sqrt(square)
    mean, step = square / 2 + tilt * square, root / 500
    edges = np.arange(-4500, 4501) / 500
    weight = _between(ndtr(edges), ndtr(-edges)) * math.exp(-tilt * step)
    return Tilted(mean + root * edges[:-1], weight, tilt * square / 2 + tilt**2 * square / 2, tilt)


def _convolved(parts: Sequence[Tilted]) -> Tilted:
    """The sum of independent parts, all rounded down to one grid."""
    width = sum(float(np.ptp(part.loss[part.weight > 0])) for part in parts)
    step = max(width, 1e-300) / 2**16
    origin = 0.0
    weight: Array = np.ones(1)
    for part in parts:
        kept = part.weight > 0
        index = np.floor(part.loss[kept] / step)
        down = part.loss[kept] - index * step
        first = index.min()
        dense = np.bincount((index - first).astype(int),
                            part.weight[kept] * np.exp(-part.tilt * down))
        noise = 1e-14 * float(np.linalg.norm(weight) * np.linalg.norm(dense))
        weight = np.maximum(fftconvolve(weight, dense) - noise, 0.0)
        origin += step * float(first)
    return Tilted(_middles(origin + step / 2, step, len(weight)), weight,
                  sum(part.shift for part in parts), parts[0].tilt)


# --- the whole oracle -------------------------------------------------------------------------


def lower_bound(node: pl.Node, delta: float, relation: Relation = "add_remove") -> float:
    """The best lower bound on epsilon that the ways above give for `node` at `delta`."""
    chosen = [world for world in worlds(node, relation) if world]
    blocks = dict.fromkeys(itertools.chain.from_iterable(chosen))
    best = 0.0
    for direction in DIRECTIONS:
        for world in chosen:
            best = max(best, convolved_epsilon(world, direction, delta, best))
        for block in blocks:
            best = max(best, _alone(block, direction, delta, best))
    return best


def _alone(block: Block, direction: Direction, delta: float, least: float) -> float:
    """One block, all others left out: counted tests, or one of its rounds exactly."""
    counted = binomial_epsilon(block, direction, delta, least=least)
    if isinstance(block.law, FiniteLaw) or block.count > 100:
        return counted
    return max(counted, lower_epsilon(_single_of(block.law, block.rate, direction), delta,
                                      least=max(counted, least)))


def _single_of(
    law: GaussianLaw | LaplaceLaw, rate: float, direction: Direction
) -> Callable[[float], mp.mpf]:
    return lambda epsilon: single_delta(law, rate, direction, epsilon)
