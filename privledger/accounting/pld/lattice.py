"""Choice of tilt, window and mesh. Bad choices cost tightness, never soundness."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.accounting.moments import Array
from privledger.accounting.pld.grid import Probe, TooMuch
from privledger.accounting.pld.pairs import UNIT, Pair

# --- Powers of a transform that is close to 1: many rounds, each of which loses next to nothing.
#
# A power n multiplies the rounding of a transform by n. Where nearly all mass lies at losses near
# 0, the transform less 1 is a sum of p (exp(i x) - 1), small terms that keep their digits.

Complex = NDArray[np.complex128]
LEAST_COUNT = 4096
_NEAR = 2048  # lattice points on either side of 0
_FEWEST = 64
_TERMS = 3_000_000
_ROWS = 128


@frozen(eq=False)
class Close:
    """The transform less 1 at the frequencies `at`, each off by at most `error` (absolute)."""

    at: NDArray[np.int64]
    less_one: Complex
    error: Array

    def power(self, count: int, size: int) -> tuple[Complex, Array]:
        """The power, zero at all other frequencies; and the relative error where it is not."""
        a, b = self.less_one.real, self.less_one.imag
        with np.errstate(divide="ignore"):
            log_size = 0.5 * np.log1p(np.maximum(2 * a + a * a + b * b, -1.0))
        turn = np.arctan2(b, 1 + a)
        result = np.zeros(size // 2 + 1, dtype=np.complex128)
        result[self.at] = np.exp(np.maximum(count * log_size, -700.0)) * np.exp(1j * count * turn)
        length = np.sqrt((1 + a) ** 2 + b * b)
        own = self.error + 16 * UNIT * (np.abs(a) + np.abs(b) + a * a + b * b)
        relative = np.zeros(size // 2 + 1)
        relative[self.at] = np.expm1(np.minimum(
            count * own / np.maximum(length - self.error, 1e-300) * (1 + 1e-9), 50.0)) + 64 * UNIT
        return result, relative


def close(
    tilted: Array, at: NDArray[np.int64], half: int, transform: Complex, fft_error: float
) -> Close:
    """The transform of `tilted` less 1 at the frequencies `at`.

    Args:
        tilted: masses on the circle, shape (size,), with the sum 1 to a few roundings.
        half: how many masses on either side of 0 are near it.
        transform: of `tilted` without those. fft_error: bound on its error at any frequency.
    """
    size = len(tilted)
    steps = np.arange(1, half + 1)  # a mass and the one opposite of 0 share sine and cosine
    ahead, behind = np.append(tilted[1:half], 0.0), tilted[:-half - 1:-1]
    both, odd = ahead + behind, ahead - behind
    far = float(tilted[half:-half].sum())
    less_one = np.empty(len(at), dtype=np.complex128)
    moved = np.empty(len(at))
    for start in range(0, len(at), _ROWS):
        rows = slice(start, start + _ROWS)
        turn = at[rows, None] * steps % size  # exact, in whole numbers
        angle = np.where(2 * turn > size, turn - size, turn) * (2 * math.pi / size)
        less_one[rows] = (-2 * (both * np.sin(0.5 * angle) ** 2).sum(axis=1)
                          - 1j * (odd * np.sin(angle)).sum(axis=1))
        moved[rows] = (both * np.abs(angle)).sum(axis=1)
    less_one += transform[at] - far
    # Sums by halves of up to 2,048 terms, each product a few roundings; the sum of `far` alike.
    return Close(at, less_one, 64 * UNIT * (moved + 2 * far) + fft_error)


def near(size: int, frequencies: int) -> int:
    """How many masses on either side of 0 are taken one by one; 0 if that takes too long."""
    half = min(_NEAR, size // 4, _TERMS // max(1, frequencies))
    return half if half >= _FEWEST else 0


SOFT_SIZE = 1 << 17
HARD_SIZE = 1 << 20
_LARGEST = 8 * HARD_SIZE  # what the mesh itself spreads comes on top
_MANY = 512
_WORK = 5 << 20  # items times points that the soft size is cut down to
_OUTSIDE = math.log(1e-8)  # tilted mass that may lie outside the window
_HARMLESS = math.log(1e-3)  # the same, where it only makes an upper bound a little larger
_PLAIN_TURNS = (1.0, 3.0, 10.0, 30.0)  # for rare large losses, whatever the spread
_SHARES = (1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.24, 0.18, 0.13, 0.09, 0.05, 0.0)
_ROOM = 0.75  # of the window below the centre: what wraps in there harms no lower bound
_FFT = 4e-14  # of a transform's 2-norm
_TURNS = (0.25, 0.5, 1.0, 2.0, 3.0, 4.5, 6.0, 8.0, 12.0)


@frozen
class Lattice:
    """Where the sum of losses is computed.

    Attributes:
        step: mesh in nats.
        first: lattice number at which the window starts. size: its length, and the FFT's.
        tilt: exponential tilt, so that the region of interest keeps its digits.
        centre: about the epsilon that is looked for. mean: about the tilted mean.
        turns: changes of tilt at which Chernoff's bound is good: for tilted mass below the
            window, for P mass above it, for tilted mass above it.
        added: estimate of what the mesh adds to epsilon.
    """

    step: float
    first: int
    size: int
    tilt: float
    centre: float
    mean: float
    turns: tuple[float, float, float]
    added: float


@frozen
class Aim:
    """Where a first pass found delta: what the saddle point of rare losses only guesses.

    Attributes:
        epsilon: about the answer. log_delta: log of delta there. slope: of log delta, falling,
            per nat.
    """

    epsilon: float
    log_delta: float
    slope: float


def good_size(least: int) -> int:
    """The next even FFT length with factors 2, 3 and 5 only."""
    from scipy.fft import next_fast_len

    return 2 * int(next_fast_len(max(8, (least + 1) // 2), real=True))


def choose_lattice(
    probe: Probe, items: Sequence[tuple[Pair, float]], tilt: float, tolerance: float,
    *, soft: int = SOFT_SIZE, both_ends: bool = False, aim: Aim | None = None,
) -> Lattice:
    """A lattice on which epsilon is about `tolerance` (relative) too large, if `soft` allows.

    Beyond `soft` points the mesh grows until epsilon is 50 times the tolerance too large
    (but 5e-5 at least, with very many items 1e-3), and only then the size, up to `HARD_SIZE`.

    Args:
        both_ends: whether tilted mass above the window matters too, as for a lower bound.
        aim: what an earlier pass found, if there was one; else the saddle point is taken for it.

    Raises:
        TooMuch: 10^15 runs on a coarse mesh spread over too many points.
    """
    saddle = tilt
    _, centre, variance = probe.moments(saddle)
    scale = max(centre, 1e-3 * math.sqrt(variance), 1e-290)
    if aim is None:
        tilt, (low, high, turns) = _narrowest(probe, saddle, both_ends)
        seen, slope = saddle, saddle
    else:
        centre = scale = aim.epsilon
        tilt, (low, high, turns) = _narrowest_at(probe, saddle, both_ends, aim, tolerance, soft)
        seen, slope = tilt, aim.slope
    soft = max(1 << 12, min(soft, _WORK // len(items)))
    step = _step(probe, seen, slope, tolerance * scale)
    width = max(high - low, 16 * step)
    if width / step > soft:
        most = 5e-5 if len(items) <= _MANY else 1e-3
        loose = _step(probe, seen, slope, max(most, 50 * tolerance) * scale)
        step = max(step, min(loose, width / soft), width / HARD_SIZE)
    step = _aligned(items, step)
    # On the lattice the sum spreads more than its losses do, if these are below the mesh.
    spread = math.sqrt(probe.moments(tilt)[2] + probe.added_variance(tilt, step))
    pad = 8 * (spread - math.sqrt(probe.moments(tilt)[2])) + 16 * step
    low, high = low - pad, high + pad
    first = math.floor(low / step) - 1
    needed = high / step - first + 2
    if not needed <= _LARGEST:
        raise TooMuch
    size = good_size(max(64, math.ceil(high / step) - first + 2))
    added = 0.5 * (slope + 1) * probe.added_variance(seen, step)
    return Lattice(step, first, size, tilt, centre, probe.moments(tilt)[1], turns, added)


_Window = tuple[float, float, tuple[float, float, float]]


def _narrowest(probe: Probe, saddle: float, both_ends: bool) -> tuple[float, _Window]:
    """A tilt at or below the saddle point's with a narrow window and digits enough.

    Under its own tilt a sampled mechanism may have a second, far hump: less tilt keeps it out
    of the way, and costs digits of the region that matters.
    """
    log_delta, centre = probe.log_delta(saddle)
    noise = math.log(1e-14 + 6e-17 * float(probe.counts.sum()))
    limit = math.log(1e-7 if both_ends else 1e-10)
    best = saddle, loss_window(probe, saddle, centre, log_delta, both_ends)
    for share in (0.75, 0.5, 0.25, 0.0):
        tilt = share * saddle
        digits = noise + probe.moments(tilt)[0] - tilt * centre - log_delta
        if digits > limit:
            break
        tried = loss_window(probe, tilt, centre, log_delta, both_ends)
        if tried[1] - tried[0] < 0.9 * (best[1][1] - best[1][0]):
            best = tilt, tried
    return best


def _narrowest_at(
    probe: Probe, saddle: float, both_ends: bool, aim: Aim, tolerance: float, soft: int
) -> tuple[float, _Window]:
    """The same, where delta and its slope are known.

    Of the tilts that cost least, in mesh and in digits, the one with the fewest points.
    """
    allowed = tolerance * aim.epsilon
    tried: list[tuple[float, float, float, _Window]] = []  # cost, points, tilt
    for share in _SHARES:
        tilt = share * saddle
        found = loss_window(probe, tilt, aim.epsilon, aim.log_delta, both_ends)
        width = found[1] - found[0]
        step = max(_step(probe, tilt, aim.slope, allowed), width / soft)
        trial = Lattice(step, 0, 0, tilt, aim.epsilon, 0.0, found[2], 0.0)
        tried.append((felt(probe, trial, aim), width / step, tilt, found))
    least = min(one[0] for one in tried)
    _, _, tilt, found = min((one for one in tried if one[0] <= 1.5 * least + allowed),
                            key=lambda one: one[1])
    return tilt, found


def felt(probe: Probe, lattice: Lattice, aim: Aim) -> float:
    """What mesh and rounding add to epsilon where delta is met: log delta falls there as it
    falls, which may be far steeper than the saddle point guesses."""
    mesh = 0.5 * (aim.slope + 1) * probe.added_variance(lattice.tilt, lattice.step)
    return mesh + _rounding(probe, lattice.tilt, lattice.step, aim) / aim.slope


def _rounding(probe: Probe, tilt: float, step: float, aim: Aim) -> float:
    """About the share of delta that the bound on the transforms' rounding takes."""
    log_moment, _, variance = probe.moments(tilt)
    runs = float(probe.counts.sum())
    spread = math.sqrt(max(variance, 1e-300))
    one, all_of_them = (min(1.0, step / (3.5 * s)) for s in (spread / math.sqrt(runs), spread))
    forward = runs * math.sqrt(2 * one * all_of_them)
    if runs >= LEAST_COUNT and len(probe.counts) == 1:
        forward = math.sqrt(runs) * all_of_them
    error = _FFT * (forward + math.sqrt(all_of_them))
    beyond = error / min(1.0, step * (tilt + 0.1)) / (tilt + 1)
    return beyond * math.exp(min(300.0, log_moment - tilt * aim.epsilon - aim.log_delta))


def loss_window(
    probe: Probe, tilt: float, centre: float, log_delta: float, both_ends: bool
) -> _Window:
    """Losses between which nearly all of the sum lies that matters, and how that is proved.

    Mass above the window is lost: as P mass for an upper bound, where it is a share of delta.
    What is outside also wraps to the other end of the window: mass from above lands below
    `centre`, where it does no harm, unless it is very far above (to a lower bound: above
    the point that `harmless` finds).
    """
    log_moment, _, variance = probe.moments(tilt)
    spread = math.sqrt(max(variance, 1e-300))
    # Tilted mass that wraps around should be small beside what delta is made of.
    ours = min(0.0, log_delta - log_moment + tilt * centre)
    under, over = ours + _OUTSIDE, ours + (_OUTSIDE if both_ends else _HARMLESS)
    turns = np.append(np.array(_TURNS) / spread, _PLAIN_TURNS)
    moments = probe.log_moments(np.append(tilt - turns, tilt + turns))
    down, up = moments[:len(turns)], moments[len(turns):]
    low, low_turn = _best((down - log_moment - under) / turns, turns)
    far, far_turn = _best((up - log_moment - over) / turns, turns)
    high, high_turn = _best((up - log_delta - _OUTSIDE) / (tilt + turns), turns)
    top = max(high, centre + spread)
    bottom = min(-low, centre - spread)
    chosen = -low_turn, high_turn, far_turn
    room = (far - top) / _ROOM if both_ends else far - top
    return min(bottom, centre - room), top, chosen


def harmless(lattice: Lattice) -> int:
    """The lattice number that sums just above the window may wrap to and do no harm: below it
    no answer is looked for."""
    centre = math.floor(lattice.centre / lattice.step)
    return max(lattice.first, centre - math.ceil((1 - _ROOM) * (centre - lattice.first)))


def _best(ends: Array, turns: Array) -> tuple[float, float]:
    place = int(np.argmin(ends))
    return float(ends[place]), float(turns[place])


def _step(probe: Probe, tilt: float, slope: float, allowed: float) -> float:
    """Largest mesh that adds at most `allowed` to epsilon, where log delta falls by `slope`."""
    low, high = 1e-12, 1e3
    while high > 1.02 * low:
        middle = math.sqrt(low * high)
        cost = 0.5 * (slope + 1) * probe.added_variance(tilt, middle)
        low, high = (middle, high) if cost <= allowed else (low, middle)
    return low


def offset_of(pair: Pair, step: float) -> float:
    """What the lattice of `pair` is moved by, so that its most frequent atom lies on a point."""
    atoms = pair.atoms()
    if not len(atoms.loss):
        return 0.0
    loss = float(atoms.loss[int(atoms.p.argmax())])
    offset = loss - step * round(loss / step)
    return offset if abs(offset) > 1e-12 * abs(loss) else 0.0


def _aligned(items: Sequence[tuple[Pair, float]], step: float) -> float:
    """A slightly smaller mesh that the losses of the most frequent atoms are apart by."""
    best, rank = 0.0, 0.0
    for pair, count in items:
        apart, mass = _spacing(pair)
        if mass * count * apart > rank:
            best, rank = apart, mass * count * apart
    if best <= 0:
        return step
    parts = math.ceil(best / step)
    return best / parts if parts < 1 << 40 and best / parts > 0.2 * step else step


def _spacing(pair: Pair) -> tuple[float, float]:
    """How far apart the likely atoms of a pair are at least, and the mass of the likeliest."""
    atoms = pair.atoms()
    if not len(atoms.loss):
        return 0.0, 0.0
    most = float(atoms.p.max())
    likely = np.sort(atoms.loss[atoms.p > 1e-3 * most])
    gaps = np.diff(likely)
    gaps = gaps[gaps > 1e-9 * np.abs(likely).max()]
    if not len(gaps):
        return abs(float(likely[0])), most
    whole = float(likely[-1] - likely[0])  # of which rounding takes the smallest share
    return whole / round(whole / float(gaps.min())), most
