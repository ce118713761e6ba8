"""What a test can find out: upper bounds on its hits, from what a guarantee is stated in.

An attacker sees every release and guesses whether one record was there. A test that accuses wrongly
with probability `wrong` finds the record with probability at most `hits(wrong)`: one minus the
trade-off curve. It is a statement about both directions. Proofs: docs/proofs/risk.md.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from attrs import field, frozen

from privledger.accounting.certificate import delta_at
from privledger.accounting.convert import delta_from_rdp, delta_from_zcdp
from privledger.accounting.cost import Cost
from privledger.accounting.curve import RdpCurve
from privledger.accounting.gaussian import delta_from_mu
from privledger.errors import UnsupportedNode
from privledger.rounding import count, multiply_up, non_negative, probability, up

Bound = Callable[[float], float]
_ORDERS = tuple((1 + np.geomspace(0.02, 2000.0, 120)).tolist())
_SLACK = 1e-11  # relative: what the closed forms here may lose to rounding
_MOST_CELLS = 1500
_FINE = 2e-3  # of a searched maximum, at most this much too high where the cells suffice
MOST_ROWS = 1000


@frozen(eq=False)
class Tradeoff:
    """Upper bounds on every test between two neighbouring tables.

    Attributes:
        source: what it was derived from, in words.
    """

    source: str
    _hits: Bound = field(repr=False)
    _delta: Bound | None = field(default=None, repr=False)
    _larger: Callable[[int], Tradeoff] | None = field(default=None, repr=False)

    def hits(self, wrong: float) -> float:
        """Probability of accusing rightly, at most, where `wrong` is that of accusing wrongly.

        Raises:
            InvalidValue: `wrong` is no probability.
        """
        chance = probability("wrong", wrong, zero=True, one=True)
        return min(1.0, max(chance, up(self._hits(chance))))

    def delta(self, epsilon: float) -> float:
        """The largest of hits(a) - exp(epsilon) a over all a, or a little more."""
        target = non_negative("epsilon", epsilon)
        if self._delta is not None:
            return min(1.0, self._delta(target))
        return _searched(self.hits, target)

    @property
    def advantage(self) -> float:
        """Hits less wrong accusations, at most: the distance of the two worlds."""
        return self.delta(0.0)

    def accuracy(self, prior: float) -> float:
        """Share of right guesses, at most, where the record is there with probability `prior`.

        Raises:
            InvalidValue: `prior` is not strictly between 0 and 1.
        """
        likely = probability("prior", prior)
        rare = min(likely, 1 - likely)  # the bound holds for both directions
        odds = math.log((1 - rare) / rare) * (1 - _SLACK)
        gained = multiply_up(up(rare), self.delta(max(0.0, odds)))
        return min(1.0, up(up(1 - rare) + gained))

    def precision(self, prior: float, wrong: float) -> float:
        """Share of accusations that are right, at most, where `wrong` of the others are accused.

        Raises:
            InvalidValue: a probability is outside (0, 1).
        """
        likely, chance = probability("prior", prior), probability("wrong", wrong)
        right = multiply_up(likely, self.hits(chance))
        return min(1.0, up(right / (right + (1 - likely) * chance) * (1 + _SLACK)))

    def rows(self, number_of: int) -> Tradeoff:
        """The same for tables that differ in so many records, of one person for instance.

        One minus the trade-off curve, composed with itself: Dong, Roth, Su 2019
        (arXiv:1905.02383v3), Theorem 2.14.

        Raises:
            InvalidValue: not a whole number from 1 to `MOST_ROWS`.
        """
        times = count("rows", number_of, most=MOST_ROWS)
        if times == 1:
            return self
        if self._larger is not None:
            return self._larger(times)

        def hits(wrong: float) -> float:
            for _ in range(times):
                wrong = self.hits(wrong)
            return wrong

        return Tradeoff(f"{self.source}, {times} rows", lru_cache(maxsize=4096)(hits))


def gaussian_tradeoff(mu: float) -> Tradeoff:
    """Of mu-Gaussian DP: Phi(Phi^-1(a) + mu).

    >>> one = gaussian_tradeoff(1.0)
    >>> round(one.hits(0.01), 4), round(one.advantage, 4)
    (0.0924, 0.3829)
    """
    shift = non_negative("mu", mu)

    def hits(wrong: float) -> float:
        from scipy.special import ndtr, ndtri

        if wrong in (0.0, 1.0):
            return wrong
        return float(ndtr(float(ndtri(wrong)) + shift)) * (1 + _SLACK)

    return Tradeoff(f"Gaussian DP, mu {shift:.4g}", hits, lambda e: delta_from_mu(shift, e),
                    lambda rows: gaussian_tradeoff(multiply_up(float(rows), shift)))


def failing(kept: Tradeoff, lost: float) -> Tradeoff:
    """Of what keeps `kept`, but for coins that fail with probability `lost` in all, at most.

    docs/proofs/filters.md: a test of the whole has at most `lost` more hits.

    >>> round(failing(gaussian_tradeoff(1.0), 0.01).hits(0.01), 4)
    0.1024
    """
    chance = probability("lost", lost, zero=True, one=True)
    if chance == 0:
        return kept
    return Tradeoff(f"{kept.source}, but for a delta of {chance:.4g}",
                    lambda wrong: up(kept.hits(wrong) + chance),
                    lambda epsilon: up(kept.delta(epsilon) + chance))


def pure_tradeoff(epsilon: float, delta: float = 0.0) -> Tradeoff:
    """Of (epsilon, delta)-DP, with nothing else known.

    >>> round(pure_tradeoff(1.0).hits(0.01), 4), round(pure_tradeoff(1.0).advantage, 4)
    (0.0272, 0.4621)
    """
    pure, lost = non_negative("epsilon", epsilon), probability("delta", delta, zero=True, one=True)
    words = f"epsilon {pure:.4g}" + (f", delta {lost:.4g}" if lost else "")

    def at(target: float) -> float:
        # Of the two lines, where they cross: (e^pure - e^target + delta (1 + e^target)) / ...
        if target >= pure:
            return lost
        gap = -math.expm1(target - pure)
        return min(1.0, up(lost + (1 - lost) * gap / (1 + math.exp(-pure)) * (1 + _SLACK)))

    return Tradeoff(words, lambda wrong: _two_lines(wrong, pure, lost), at)


def _two_lines(wrong: float, epsilon: float, delta: float) -> float:
    """min(e^epsilon a + delta, 1 - e^-epsilon (1 - delta - a)), rounded up."""
    first = math.exp(epsilon) * wrong + delta if epsilon < 700 else 1.0
    second = 1 - math.exp(-epsilon) * max(0.0, 1 - delta - wrong) * (1 - _SLACK)
    return min(1.0, first * (1 + _SLACK), second + 1e-15)


def zcdp_tradeoff(rho: float) -> Tradeoff:
    """Of zero-concentrated DP: what every order allows two answers, yes and no."""
    spent = non_negative("rho", rho)
    bounds = tuple(multiply_up(order, spent) for order in _ORDERS)
    return Tradeoff(f"zCDP, rho {spent:.4g}", _renyi_hits(_ORDERS, bounds),
                    _lower(_renyi_distance(_ORDERS, bounds), lambda e: delta_from_zcdp(spent, e)),
                    lambda rows: zcdp_tradeoff(multiply_up(float(rows * rows), spent)))


def renyi_tradeoff(curve: RdpCurve) -> Tradeoff:
    """Of Renyi bounds at some orders, for both directions."""
    known = [(order, bound) for order, bound in zip(curve.orders, curve.bounds, strict=True)
             if bound < math.inf]
    if not known:
        raise UnsupportedNode("no order has a bound: there is nothing to say")
    orders, bounds = (tuple(each) for each in zip(*known, strict=True))
    said = f"order {orders[0]:g}" if len(orders) == 1 else f"{len(orders)} orders"
    return Tradeoff(f"Renyi bounds at {said}", _renyi_hits(orders, bounds),
                    _lower(_renyi_distance(orders, bounds),
                           lambda epsilon: delta_from_rdp(curve, epsilon)[0]))


def _lower(most: float, delta: Bound) -> Bound:
    return lambda epsilon: min(most, delta(epsilon))


@lru_cache(maxsize=64)
def _logs(chance: float) -> tuple[float, float]:
    return np.log(chance), np.log1p(-chance)


def _allowing(orders: Sequence[float], bounds: Sequence[float]) -> Callable[[float, float], bool]:
    """Whether no order's bound rules out that yes has two probabilities, the second not smaller."""
    one = len(orders) == 1  # numbers are faster than arrays of one, and round alike
    order = orders[0] if one else np.array(orders)
    less, more, most = 1 - order, order - 1, (bounds[0] if one else np.array(bounds)) * (1 + 1e-13)

    def allowed(wrong: float, right: float) -> bool:
        if right >= 1:
            return bool(wrong >= 1)  # a finite bound: what is sure in one world is in the other
        (a, no_a), (b, no_b) = _logs(wrong), _logs(right)
        slack = 1e-14 * (order * (abs(a) + abs(b) + abs(no_a) + abs(no_b)) + 1) / more
        for p, q, no_p, no_q in ((a, b, no_a, no_b), (b, a, no_b, no_a)):
            lost = np.logaddexp(order * q + less * p, order * no_q + less * no_p)
            if (lost / more > most + slack).any():
                return False
        return True

    return allowed


def _renyi_hits(orders: Sequence[float], bounds: Sequence[float]) -> Bound:
    """The largest probability of yes that every order allows, by halving; from above."""
    allowed = _allowing(orders, bounds)

    @lru_cache(maxsize=4096)
    def hits(wrong: float) -> float:
        if wrong == 0 or wrong >= 1:
            return float(wrong >= 1)
        wrong = max(wrong, 1e-300)
        low = high = math.log(wrong) - math.log1p(-wrong)
        step = 1e-3
        while high < 36:
            high = low + step
            if not allowed(wrong, _logistic(high)):
                break
            low, step = high, 2 * step
        else:
            return 1.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            if allowed(wrong, _logistic(middle)):
                low = middle
            else:
                high = middle
        return min(1.0, _logistic(high) * (1 + _SLACK))

    return hits


def _renyi_distance(orders: Sequence[float], bounds: Sequence[float]) -> float:
    """The largest b - a that every order allows: at a = 1 - b, since what is allowed is convex,
    and unchanged when yes and no, and the two worlds, change places."""
    allowed = _allowing(orders, bounds)
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        if allowed(0.5 * (1 - middle), 0.5 * (1 + middle)):
            low = middle
        else:
            high = middle
    return min(1.0, up(high * (1 + _SLACK)))


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value > -700 else math.exp(value)


def _searched(hits: Bound, epsilon: float) -> float:
    """The largest of hits(a) - exp(epsilon) a, by dividing [0, 1]; hits only has to rise.

    On a cell [a, c] it is at most hits(c) - exp(epsilon) a, so the largest over the cells that
    are left is never too low.
    """
    factor = math.exp(min(epsilon, 700.0))
    at_least = 0.0

    def cell(low: float, high: float) -> tuple[float, float, float]:
        nonlocal at_least
        top = hits(high)
        at_least = max(at_least, top - factor * high)
        return -(top - factor * low), low, high

    # Nothing is gained from the left of the first cell on but its own hits.
    cells = [cell(low, high) for low, high in _first_cells()]
    heapq.heapify(cells)
    for _ in range(_MOST_CELLS):
        most, low, high = cells[0]
        if -most <= at_least * (1 + _FINE) + 1e-12:
            break
        middle = math.sqrt(low * high) if low > 0 and high > 4 * low else 0.5 * (low + high)
        if not low < middle < high:
            break
        heapq.heapreplace(cells, cell(low, middle))
        heapq.heappush(cells, cell(middle, high))
    return min(1.0, max(0.0, up(-cells[0][0] * (1 + 1e-14))))


def _first_cells() -> list[tuple[float, float]]:
    edges = [0.0, *np.geomspace(1e-12, 1.0, 25).tolist()]
    return list(itertools.pairwise(edges))


def profile_tradeoff(delta: Bound, reach: float, source: str) -> Tradeoff:
    """Of an upper bound on delta at every epsilon: the best of its lines at each point.

    Args:
        reach: the largest epsilon that is looked at; any choice is sound.
    """
    points = [0.0, *np.geomspace(max(reach, 1e-6) / 400, max(reach, 1e-6), 72).tolist()]
    known = lru_cache(maxsize=4096)(delta)

    def hits(wrong: float) -> float:
        def line(place: int) -> float:
            return _two_lines(wrong, points[place], known(points[place]))

        low, high = 0, len(points) - 1
        while high - low > 2:  # from above whatever it finds; the lines fall, then rise
            third = (high - low) // 3 or 1
            left, right = low + third, high - third
            low, high = (low, right) if line(left) <= line(right) else (left, high)
        return min(line(place) for place in {0, *range(low, high + 1)})

    return Tradeoff(source, lru_cache(maxsize=4096)(hits), known)


def cost_tradeoff(cost: Cost, reach: float) -> Tradeoff:
    """Of one plan that was fixed beforehand: at every point the best of what is proved.

    Args:
        reach: an epsilon at which little delta is left; any choice is sound.
    """
    found = [profile_tradeoff(lambda epsilon: delta_at(cost, epsilon).delta, reach,
                              "the plan's privacy losses")]
    if cost.failure == 0 and cost.gdp() < math.inf:
        found.append(gaussian_tradeoff(up(math.sqrt(cost.gdp()))))
    if cost.failure == 0 and cost.pure < math.inf:
        found.append(pure_tradeoff(cost.pure))
    return _best(found)


def _best(found: list[Tradeoff]) -> Tradeoff:
    if len(found) == 1:
        return found[0]
    return Tradeoff(found[0].source, lambda wrong: min(one.hits(wrong) for one in found),
                    lambda epsilon: min(one.delta(epsilon) for one in found),
                    lambda rows: _best([one.rows(rows) for one in found]))
