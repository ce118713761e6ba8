"""delta of many normal releases by an integral on a line, without a lattice.

With M(z) = E_P e^(z S) of the sum S of all losses and any beta > 0,

    e^(beta x) delta(x) = 1/(2 pi) integral of M(z) e^(-i t x) / (z (z + 1)) dt,  z = beta + i t.

The trapezoid rule gives this for x and all x + j W, of which none is negative: an upper bound.
Every other error is bounded here (docs/proofs/privacy-loss.md, lemma 10).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.accounting.deadline import check_time
from privledger.accounting.moments import Array
from privledger.accounting.pld.grid import Probe, tilt_for_delta, tilt_for_epsilon
from privledger.accounting.pld.normals import Nodes, Normals, normals_of
from privledger.accounting.pld.pairs import UNIT, GaussianPair, Items

Complex = NDArray[np.complex128]

_LOST = 1e-10  # share of delta that each of three errors is aimed at
_STEEPEST = 1e9  # a tilt
_DIGITS = 9.0  # nats that a tilt below the saddle point's may cost
_MOST_FREQUENCIES = 1 << 15
_TOO_LOOSE = 1e-6  # what errors may add to an answer, relatively: a lattice adds twice that
_MOST_LAWS = 20_000
_MOST_CELLS = 1.2e7  # frequencies times nodes of a law, of all laws a tenth each
_PASSES = 3
_LEAST_RUNS = 16  # fewer fall too slowly
_MOST_SAMPLES = 4000  # of a transform that is shown to be small
_PLACES, _FEW = 96, 64  # cells of a law whose pairs are looked at; the same, of many laws
_MOST_SEEN = 256  # laws whose variation is looked at
_ANGLES = np.array([0.5, 1.0, 2.0, math.pi])
_RATIO = 0.075  # of frequencies, less 1
_STAGE = 6.0  # frequencies that share nodes, the last over the first
_SHARES = (1.0, 0.8, 0.6, 0.45, 0.3, 0.2)  # of the saddle point's tilt
_TURNS = np.array([1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0])


@frozen(eq=False)
class Line:
    """Terms of the sum on a line, all divided by M(beta) = exp(log_moment).

    Attributes:
        beta: where the line is. spacing: of its frequencies.
        terms: M(z) / (z (z + 1)) at 0, 1, ... times the spacing, shape (n,).
        error: of their sum over all whole numbers, an upper bound.
        slack: relative, of `log_moment` as a factor.
    """

    beta: float
    spacing: float
    terms: Complex
    error: float
    log_moment: float
    slack: float

    def delta(self, epsilon: float) -> float:
        """An upper bound on delta at `epsilon`, as a logarithm."""
        total, error = self._sum(epsilon)
        if not total + error > 0:
            return -math.inf
        slack = self.slack + 8 * UNIT * (8 + abs(self.beta * epsilon) + abs(self.log_moment))
        return self.log_moment - self.beta * epsilon + slack + math.log(
            (total + error) * self.spacing / (2 * math.pi))

    def share(self, epsilon: float) -> float:
        """What the error is of the sum; infinity where nothing else is left."""
        total, error = self._sum(epsilon)
        return error / total + self.slack if total > 0 else math.inf

    def _sum(self, epsilon: float) -> tuple[float, float]:
        phases = np.exp(-1j * (self.spacing * epsilon) * np.arange(len(self.terms)))
        total = 2 * float((self.terms * phases).real.sum()) - float(self.terms[0].real)
        turned = UNIT * (64 + 4 * self.spacing * len(self.terms) * abs(epsilon))
        return total, self.error + 2 * float(np.abs(self.terms).sum()) * turned


@frozen
class Reached:
    """A bound that was found on a line.

    Attributes:
        value: epsilon, or delta. beta: where the line is. frequencies: how many.
        added: about what the errors that were bounded add to it, relatively.
    """

    value: float
    beta: float
    frequencies: int
    added: float


def epsilon_on_line(items: Items, delta: float) -> Reached | None:
    """An epsilon that the composition has at `delta`; None where the line is no quick way."""
    laws = _laws(items)
    if laws is None:
        return None
    probe = Probe.of(items)
    tilt, centre = _guess(probe, delta)
    goal, found = math.log(delta), math.inf
    best: Reached | None = None
    for _ in range(_PASSES):  # a saddle point of rare large losses guesses badly
        line = _line(laws, probe, tilt, centre, goal)
        if line is None:
            return None
        value = _crossing(line.delta, goal, max(centre, 1e-12))
        if value is None:
            return None
        found = min(found, value)
        if found == 0:
            return Reached(0.0, line.beta, len(line.terms), 0.0)
        fall = (line.delta(0.999 * value) - line.delta(value)) / 1e-3
        best = Reached(found, line.beta, len(line.terms), line.share(value) / max(fall, 1e-9))
        if abs(value - centre) <= 0.2 * centre:
            break
        tilt, centre = max(tilt_for_epsilon(probe, value), 1e-3 * tilt), value
    return best if best is not None and best.added <= _TOO_LOOSE else None


def delta_on_line(items: Items, epsilon: float) -> Reached | None:
    """A delta that the composition has at `epsilon`; None where the line is no quick way."""
    laws = _laws(items)
    if laws is None:
        return None
    probe = Probe.of(items)
    tilt = tilt_for_epsilon(probe, epsilon)
    spread = math.sqrt(max(probe.moments(tilt)[2], 1e-300))
    tilt = max(tilt, 1 / spread)
    goal = min(0.0, probe.log_delta(tilt)[0])
    line = _line(laws, probe, tilt, epsilon, goal)
    if line is None or not line.share(epsilon) <= _TOO_LOOSE or (
            # The guess knows no losses so large: sums W above the answer were not foreseen.
            line.delta(epsilon) > goal + 1 and line.log_moment > probe.moments(line.beta)[0] + 1):
        return None
    return Reached(min(1.0, math.exp(min(line.delta(epsilon), 0.0)) * (1 + 4 * UNIT)),
                   line.beta, len(line.terms), line.share(epsilon))


def delta_at_most(items: Items, epsilon: float) -> float:
    """A delta by Chernoff's inequality, quickly: 1 where nothing is known."""
    laws, probe = _laws(items), Probe.of(items)
    beta = tilt_for_epsilon(probe, epsilon)
    if laws is None or not 0 < beta <= _STEEPEST:
        return 1.0
    total = 0.5 * laws.squared * beta * (beta + 1)
    for law, count in laws.sampled:
        nodes = law.nodes(beta, 0.0, 1e-9)
        if nodes is None:
            return 1.0
        total += count * (nodes.log_total + float(nodes.error(np.array([beta]))[0]) * 1.01)
    # (1 - e^-x) e^(-beta x) is largest at x = log(1 + 1 / beta).
    total -= beta * epsilon + math.log1p(beta) + beta * math.log1p(1 / beta)
    return math.exp(min(0.0, total + 1e-9 * (1 + abs(beta * epsilon))))


def _crossing(log_delta: Callable[[float], float], goal: float, guess: float) -> float | None:
    """A place where `log_delta` is at most `goal`, close to the least one; 0 if it is there."""
    if log_delta(0.0) <= goal:
        return 0.0
    low, high = 0.0, guess
    while log_delta(high) > goal:
        low, high = high, 2 * high
        if high > 1e6:
            return None
    top, bottom = log_delta(high) - goal, log_delta(low) - goal
    side = 0
    for _ in range(100):
        if high - low <= 4e-11 * high:
            break
        share = top / (top - bottom) if math.isfinite(top) else 0.5
        # Just above the root, so that the upper end closes in, too.
        middle = high - (high - low) * min(max(share, 0.0), 0.98)
        middle = min(max(middle + 1e-12 * high, low), high)
        if not low < middle < high:
            middle = 0.5 * (low + high)
        value = log_delta(middle) - goal
        if value > 0:
            low, bottom = middle, value
            top, side = (top / 2 if side == 1 else top), 1
        else:
            high, top = middle, value
            bottom, side = (bottom / 2 if side == -1 else bottom), -1
    return high


@frozen(eq=False)
class _Laws:
    """Normal releases on samples with their numbers of runs, and squared mu of plain ones."""

    sampled: Sequence[tuple[Normals, int]]
    squared: float


def _laws(items: Items) -> _Laws | None:
    if not 0 < len(items) <= _MOST_LAWS:
        return None
    sampled, squares = [], []
    for pair, count in items:
        if isinstance(pair, GaussianPair):
            squares.append(count * pair.mu * pair.mu)
            continue
        law = normals_of(pair)
        if law is None:
            return None
        sampled.append((law, count))
    if not sampled or sum(count for _, count in sampled) < _LEAST_RUNS:
        return None
    return _Laws(sampled, math.fsum(squares) * (1 + 4 * UNIT))


# --- Where the line lies: rough numbers, which cost time and no soundness.


def _guess(probe: Probe, delta: float) -> tuple[float, float]:
    """A tilt, and about the epsilon.

    Losses so rare that they add at most delta / 2 mislead a saddle point: it is looked for
    without them.
    """
    tilt = tilt_for_delta(probe, delta)
    if tilt > 0:
        centre = probe.moments(tilt)[1]
        near = probe.without(0.5 * delta)
        if near.moments(tilt)[0] > probe.moments(tilt)[0] - 0.01:
            return tilt, centre
        tilt = tilt_for_delta(near, 0.5 * delta)
        centre = near.moments(tilt)[1]
        tilt = tilt_for_epsilon(probe, centre)
    else:
        centre = 0.0
    return max(tilt, 1 / math.sqrt(max(probe.moments(tilt)[2], 1e-300))), centre


def _line(laws: _Laws, probe: Probe, saddle: float, centre: float, goal: float) -> Line | None:
    if not saddle <= _STEEPEST:
        return None
    best: tuple[float, float, float, float, float] | None = None
    limit = _DIGITS
    for share in _SHARES:
        beta = share * saddle
        moment, _, variance = probe.moments(beta)
        spread = math.sqrt(max(variance, 1e-300))
        digits = max(0.0, moment - beta * centre - goal)
        if best is None:
            limit = max(limit, digits + 1)
        if digits > limit:
            break
        # Sums W below the answer weigh e^(-beta W), those above e^(beta W) times their delta.
        width = (-math.log(_LOST) - goal) / beta
        turns = np.append(beta * _TURNS, beta + np.array([0.5, 2.0]))
        above = (probe.log_moments(turns) - turns * centre - goal - math.log(_LOST)) / (
            turns - beta)
        width = max(width, float(above.min()), 8 * spread)
        fall = -math.log(_LOST) + 2 * math.log1p(beta * spread) + digits
        fall *= 3.2 if len(laws.sampled) > _FEW else 1.0
        last = 1.15 * probe.falls(beta, math.sqrt(2 * fall) / spread, fall)
        if best is None or width * last < 0.8 * best[0]:
            best = width * last, beta, width, last, digits
    assert best is not None
    _, beta, width, last, digits = best
    for _ in range(4):
        line, last = _terms(laws, beta, 2 * math.pi / width, last, digits)
        if line is not None or last == 0:
            return line
    return None


def _terms(laws: _Laws, beta: float, spacing: float, last: float,
           digits: float) -> tuple[Line | None, float]:
    """The line; or None and how far it must reach instead, 0 where it is no way at all.

    Args:
        digits: nats by which M(beta) exp(-beta epsilon) is larger than delta.
    """
    many = math.ceil(last / spacing) + 1
    if many > _MOST_FREQUENCIES:
        return None, 0.0
    runs = sum(count for _, count in laws.sampled)
    reach = spacing * (many - 1)
    z = beta + 1j * spacing * np.arange(many)
    plain = 0.5 * laws.squared * z * (z + 1)
    log_value = plain - plain[0].real
    log_most, relative = log_value.real.copy(), np.zeros(many)
    turned = np.abs(plain)
    log_moment, rounded = float(plain[0].real), float(turned[0])
    summary: list[tuple[Nodes, int]] = []
    cells = 0.0
    for law, count in laws.sampled:
        check_time()
        nodes = law.nodes(beta, reach, max(1e-3 * _LOST / runs * math.exp(-digits), 1e-20))
        if nodes is None:
            return None, 0.0
        cells += len(nodes.loss) * many
        if cells > _MOST_CELLS * (1 + 0.1 * len(laws.sampled)):
            return None, 0.0
        less_one = nodes.along(spacing, many)
        error = nodes.error(np.abs(z))
        log_one, size = _log_of(less_one)
        length = size + error
        log_value += count * log_one
        log_most += count * (log_one.real + np.log1p(error / size) + 1e-15 * np.abs(log_one))
        relative += count * error / length
        # What rounding moves the logarithm by.
        relative += count * 16 * UNIT * (np.abs(less_one) + np.abs(less_one) ** 2)
        turned += count * np.abs(log_one)
        log_moment += count * nodes.log_total
        rounded += count * abs(nodes.log_total)
        summary.append((nodes, count))
    fall = float(log_most[-1])
    needed = math.log(_LOST) - digits - 2 * math.log1p(beta / max(reach, 1e-300))
    # Of many laws so far that no values are needed beyond it, only masses of cells.
    aim = needed * (3.2 if len(summary) > _FEW else 1.0)
    if fall > aim - 1.0:
        wider = math.sqrt(max(1.5, (aim - 3.0) / min(fall, -1e-9)))
        return None, last * min(wider, 4.0)
    rho = _at_most(laws, summary, beta, reach, needed)
    if rho is None:
        return None, 0.0
    height = 1 / np.abs(z * (z + 1))
    off = relative + 16 * UNIT * (4 + turned)
    with np.errstate(over="ignore"):
        errors = np.exp(log_most) * height * np.expm1(np.minimum(off, 50.0))
    # Beyond the last: twice the sum of rho / t^2, which an integral bounds.
    whole = (2 * float(errors.sum()) + 2 * math.exp(rho) / (spacing * reach)) * (1 + 1e-12)
    return Line(beta, spacing, np.exp(log_value) / (z * (z + 1)), whole, log_moment,
                16 * UNIT * (4 + rounded)), last


def _log_of(less_one: Complex) -> tuple[Complex, Array]:
    """log(1 + less_one), small where that is (numpy's own is not), and |1 + less_one|."""
    a, b = less_one.real, less_one.imag
    with np.errstate(divide="ignore"):
        log = 0.5 * np.log1p(np.maximum(2 * a + a * a + b * b, -1.0))
    size = np.maximum(np.sqrt((1 + a) ** 2 + b * b), 1e-300)
    return np.maximum(log, -700.0) + 1j * np.arctan2(b, 1 + a), size


# --- What lies beyond the last frequency.


def _at_most(
    laws: _Laws, found: list[tuple[Nodes, int]], beta: float, last: float, needed: float
) -> float | None:
    """A bound on log |M(z) / M(beta)| for all frequencies from `last` on; None if none is shown.

    (1 - |m(t)|^2)^(1/2) is the norm of a difference and subadditive, so with the numbers of runs
    as weights U(t)^2 = 2 sum of n (1 - |m|^2) changes by at most sqrt(2) times the deviation.
    """
    plain = -0.5 * laws.squared * last * last
    if plain <= needed:
        return plain
    rest = needed - plain
    runs = sum(count for _, count in found)
    if len(found) == 1:
        goal = math.sqrt(runs * -2 * math.expm1(2 * rest / runs))
    elif -4 * rest >= 1.9 * runs:
        return None
    else:
        goal = math.sqrt(-4 * rest)
    steep = math.sqrt(2 * sum(count * nodes.variance for nodes, count in found)) * (1 + 1e-9)
    top = _farthest(found, rest, last)
    if top is None:
        return None
    if top <= last:
        return needed
    start = last
    points = np.geomspace(last, top, 2 + math.ceil(math.log(top / last) / _RATIO))
    enough, place = _spread(found, points) >= -2 * rest, 0
    while place < len(enough):
        start = float(points[place])
        if enough[place]:
            place += 1
            continue
        place = min(len(enough), int(np.searchsorted(points, _STAGE * start)))
        target = min(1e-2, -1e-2 * needed / runs * (start / last) ** 2)
        stop = float(points[place])
        coarse = [(law.nodes(beta, stop, target) or law.rough(beta, nodes), count)
                  for (law, count), (nodes, _) in zip(laws.sampled, found, strict=True)]
        if not _covered(coarse, beta, np.geomspace(start, stop, 5), goal, steep):
            return None
    return needed


def _spread(found: list[tuple[Nodes, int]], points: Array) -> Array:
    """At least the sum of n (1 - |m|^2) = n E(1 - cos t Y) between each two of `points`.

    1 - cos y is at least c y^2 for |y| <= a where it is c a^2 at a <= pi.
    """
    places = _PLACES if len(found) <= _FEW else _FEW
    total = np.zeros((len(_ANGLES), len(points) - 1))
    for nodes, count in found:
        gap, square = nodes.cells.apart(places)
        seen = np.searchsorted(gap, _ANGLES[:, None] / points[1:], side="right")
        total += count * np.append(0.0, square)[seen] / nodes.total**2
    share = (1 - np.cos(_ANGLES)) / _ANGLES**2 * (1 - 1e-9)
    return np.asarray((share[:, None] * points[:-1] ** 2 * total).max(axis=0))


def _covered(found: list[tuple[Nodes, int]], beta: float, points: Array, goal: float,
             steep: float) -> bool:
    """Whether U is shown to be above `goal` from the first of `points` to the last."""
    size = sum(len(nodes.loss) for nodes, _ in found)
    known = _norm(found, beta, points)
    while True:
        check_time()
        if not bool((known > goal).all()):
            return False
        spare = (known - goal) / steep
        left = np.flatnonzero(spare[:-1] + spare[1:] < np.diff(points))
        if not len(left):
            return True
        if len(points) + len(left) > _MOST_SAMPLES or (
                size * len(points) > _MOST_CELLS * (1 + 0.1 * len(found))):
            return False
        # Between what both ends reach, in the middle.
        new = 0.5 * (points[left] + spare[left] + points[left + 1] - spare[left + 1])
        order = np.argsort(np.append(points, new), kind="stable")
        known = np.append(known, _norm(found, beta, new))[order]
        points = np.append(points, new)[order]


def _farthest(found: list[tuple[Nodes, int]], rest: float, last: float) -> float | None:
    """From where on total variation over frequency is small enough."""
    seen = sorted(found, key=lambda one: -one[1])[:_MOST_SEEN]  # all others are at most 1
    low, most = last, [(*nodes.most(), count) for nodes, count in seen]
    for _ in range(80):
        total = 0.0
        for idle, variation, count in most:
            total += count * min(0.0, math.log(float((idle + variation / low).min())))
        if total <= rest - 1e-9:
            return low
        low *= 1.25
    return None


def _norm(found: list[tuple[Nodes, int]], beta: float, points: Array) -> Array:
    """U at each of `points`, rounded down."""
    total = np.zeros(len(points))
    for nodes, count in found:
        error = nodes.error(np.abs(beta + 1j * points))
        length = (np.abs(1 + nodes.at(points)) + error) / np.maximum(1 - error, 0.5)
        total += 2 * count * np.maximum(1 - length * length * (1 + 8 * UNIT), 0.0)
    return np.sqrt(total) * (1 - 1e-12)
