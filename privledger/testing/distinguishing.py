"""Lower bounds on epsilon from runs: events chosen on half of them, tested on the other half."""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.rounding import probability

Floats = NDArray[np.float64]
MOST_COORDINATES, MOST_CUTS, MOST_VALUES, WIDEST = 64, 64, 16, 8


@frozen
class Evidence:
    """What runs on two neighbouring tables prove about epsilon.

    Attributes:
        epsilon_low: epsilon is at least this, unless an event of probability `false_alarm`
            happened. Zero if nothing was proved.
        event: which outputs were counted.
        hits: runs with that event, on the table where it is likelier first.
        runs: runs of each that were counted; as many chose the event.
        delta, false_alarm: probabilities.
    """

    epsilon_low: float
    event: str
    hits: tuple[int, int]
    runs: tuple[int, int]
    delta: float
    false_alarm: float


@frozen(eq=False)
class _Event:
    """Outputs whose statistic lies on one side of a cut, or equals it."""

    statistic: int
    side: str
    cut: float

    def holds(self, values: Floats) -> NDArray[np.bool_]:
        column = values[:, self.statistic]
        if self.side == "above":
            return np.asarray(column > self.cut)
        return np.asarray(column <= self.cut if self.side == "at most" else column == self.cut)


def clopper_pearson(hits: Floats, runs: int, miss: float) -> tuple[Floats, Floats]:
    """One-sided bounds on a probability, each wrong with probability at most `miss`.

    Clopper and Pearson 1934: the exact binomial bounds, as quantiles of beta distributions.

    Args:
        hits: how often it happened, any shape. runs: out of how many.

    Returns:
        Lower and upper bounds, of the shape of `hits`.
    """
    from scipy.stats import beta

    hits = np.asarray(hits, dtype=np.float64)
    low = np.where(hits > 0, beta.ppf(miss, np.maximum(hits, 1), runs - hits + 1), 0.0)
    high = np.where(hits < runs, beta.isf(miss, hits + 1, np.maximum(runs - hits, 1)), 1.0)
    return low, high


def _epsilon_low(likely: Floats, rare: Floats, runs: tuple[int, int], delta: float,
                 miss: float) -> Floats:
    """(epsilon, delta) asks P(event) <= e^epsilon Q(event) + delta of every event.

    May be negative: that says which event is the better one, where none proves anything.
    """
    low, _ = clopper_pearson(likely, runs[0], miss)
    _, high = clopper_pearson(rare, runs[1], miss)
    return np.asarray(np.log(np.maximum(low - delta, 1e-300) / high))


class _Statistics:
    """Numbers made from an output vector: what to cut is learned from the first half."""

    def __init__(self, first: Floats, second: Floats) -> None:
        spread = np.concatenate([first, second]).std(axis=0) + 1e-300
        apart = (first.mean(axis=0) - second.mean(axis=0)) / spread
        self.places = np.argsort(-np.abs(apart), kind="stable")[:MOST_COORDINATES]
        self.weights = np.where(spread > 1e-200, apart / spread, 0.0)
        self.middle = np.median(np.concatenate([first, second]), axis=0)
        self.spread = spread
        self.known: dict[bytes, int] = {}
        for row in np.concatenate([first, second]):
            self.known.setdefault(row.tobytes(), len(self.known))

    @property
    def names(self) -> list[str]:
        return [*(f"output {place}" for place in self.places), "mean output",
                "outputs along the learned direction", "distance from the median",
                "one output as a whole"]

    def of(self, values: Floats) -> Floats:
        """Shape (runs, statistics)."""
        whole = [self.known.get(row.tobytes(), -1) for row in values]
        far = np.abs((values - self.middle) / self.spread).max(axis=1)
        return np.column_stack([values[:, self.places], values.mean(axis=1),
                                values @ self.weights, far, np.asarray(whole, dtype=np.float64)])


def _cuts(seen: Floats) -> Floats:
    """Halfway between values that were seen: evenly by rank, and in the widest gaps.

    A cut at a seen value is at the very edge of its table's outputs: new outputs of a learner
    that tells two tables apart without fail would still lie on the wrong side of it, one or two
    of them in most runs.

    Args:
        seen: sorted, no two equal.
    """
    gaps = seen[1:] / 2 - seen[:-1] / 2
    if not len(gaps):
        return seen
    ranks = np.linspace(0, len(gaps) - 1, MOST_CUTS).astype(int)
    widest = np.argsort(-gaps, kind="stable")[:WIDEST]
    picked = np.union1d(ranks, widest)
    return np.asarray(seen[picked] + gaps[picked])


def _candidates(values: Floats) -> list[_Event]:
    """Cuts between what was seen, and values that were seen more than once."""
    events = []
    last = values.shape[1] - 1
    for place in range(values.shape[1]):
        seen, times = np.unique(values[:, place], return_counts=True)
        if place != last:
            events += [_Event(place, side, float(cut)) for cut in _cuts(seen)
                       for side in ("above", "at most")]
        often = seen[np.argsort(-times, kind="stable")][:MOST_VALUES]
        events += [_Event(place, "equal to", float(cut)) for cut in often]
    return events


def distinguish(first: Floats, second: Floats, *, delta: float = 0.0,
                false_alarm: float = 1e-6) -> Evidence:
    """The best lower bound on epsilon that two samples of outputs prove.

    Half of the runs choose one event and its direction; the other half count it. So one event
    is tested, and two one-sided bounds at `false_alarm / 2` make the stated probability.

    Args:
        first, second: outputs on two neighbouring tables, shape (runs, k), runs at least 4.
        delta: of the claim. false_alarm: strictly between 0 and 1.

    >>> distinguish(np.zeros((400, 1)), np.zeros((400, 1))).epsilon_low
    0.0
    >>> round(distinguish(np.zeros((400, 1)), np.ones((400, 1))).epsilon_low, 2)
    2.59
    """
    probability("false_alarm", false_alarm)
    probability("delta", delta, zero=True)
    half, miss = (len(first) // 2, len(second) // 2), false_alarm / 2
    statistics = _Statistics(first[:half[0]], second[:half[1]])
    learned = statistics.of(first[:half[0]]), statistics.of(second[:half[1]])
    events = _candidates(np.concatenate(learned))
    counted = [np.array([event.holds(values).sum() for event in events], dtype=np.float64)
               for values in learned]
    ways = np.stack([_epsilon_low(counted[0], counted[1], half, delta, miss),
                     _epsilon_low(counted[1], counted[0], half[::-1], delta, miss)])
    way, best = np.unravel_index(int(ways.argmax()), ways.shape)
    event = events[int(best)]
    tested = [statistics.of(values[cut:]) for values, cut in zip((first, second), half,
                                                                 strict=True)]
    if way == 1:
        tested = tested[::-1]
    hits = tuple(int(event.holds(values).sum()) for values in tested)
    runs = tuple(len(values) for values in tested)
    low = _epsilon_low(np.array(hits[0]), np.array(hits[1]), (runs[0], runs[1]), delta, miss)
    name = f"{statistics.names[event.statistic]} {event.side} {event.cut:.6g}"
    return Evidence(max(0.0, float(low)), name, (hits[0], hits[1]), (runs[0], runs[1]), delta,
                    false_alarm)


def runs_needed(epsilon: float, false_alarm: float = 1e-6) -> int:
    """Runs per table with which a whole leak would be proved to cost more than `epsilon`."""
    share = 1 / (1 + math.exp(-epsilon))
    return 2 * math.ceil(math.log(2 / false_alarm) / -math.log(share))
