"""Masses of many items, each a coin between two neighbours on one lattice.

Masses, totals and transforms of such an item are the same coin's means of its neighbours', so
each neighbour is tilted and transformed once.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.accounting.moments import Array
from privledger.accounting.pld.masses import Masses
from privledger.accounting.pld.pairs import UNIT

Complex = NDArray[np.complex128]


@frozen(eq=False)
class Blended:
    """Items between neighbours; all masses lie on one lattice, with one offset.

    Attributes:
        knots: at least two. place: the first neighbour of each item, shape (n,).
        share: probability of the second one, shape (n,). count: runs of each item, shape (n,).
    """

    knots: tuple[Masses, ...]
    place: NDArray[np.int64]
    share: Array
    count: NDArray[np.int64]

    @property
    def runs(self) -> int:
        """How many losses are summed."""
        return int(self.count.sum())

    @property
    def offset(self) -> float:
        """That of every item."""
        return self.knots[0].offset

    def lowest(self) -> int:
        """The smallest lattice number that the sum can have."""
        first = np.array([one.first for one in self.knots])
        return int(np.dot(self.count, np.minimum(first[self.place], first[self.place + 1])))

    def highest(self) -> int:
        """The largest one."""
        last = np.array([one.first + len(one.p) - 1 for one in self.knots])
        return int(np.dot(self.count, np.maximum(last[self.place], last[self.place + 1])))

    def total(self, each: Array) -> float:
        """Sum over all runs of the coin's mean of a number of each knot, shape (knots,)."""
        return float(np.dot(self.count, (1 - self.share) * each[self.place]
                            + self.share * each[self.place + 1]))

    def worst(self, each: Array) -> float:
        """Sum over all runs of the larger of a number of both neighbours."""
        return float(np.dot(self.count, np.maximum(each[self.place], each[self.place + 1])))

    def log_totals(self, each: Array) -> Array:
        """log of the coin's mean of exp(each), shape (n,)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(np.log1p(-self.share) + each[self.place],
                                           np.log(self.share) + each[self.place + 1]))

    def log_total(self, each: Array) -> float:
        """The same for the sum of all runs."""
        return float(np.dot(self.count, self.log_totals(each)))

    def log_slack(self, each: Array) -> float:
        """What rounding may have changed in that, and in the weights of `tilted`."""
        return 48 * UNIT * self.worst(2 + np.abs(each))

    def tilted(self, each: Array) -> tuple[Array, Array]:
        """Each item's weights on its neighbours' normalised tilted masses.

        Args:
            each: log of each knot's tilted total.
        """
        whole = self.log_totals(each)
        return ((1 - self.share) * np.exp(each[self.place] - whole),
                self.share * np.exp(each[self.place + 1] - whole))

    def bands(self) -> list[NDArray[np.int64]]:
        """The items of each pair of neighbours that has any."""
        order = np.argsort(self.place, kind="stable")
        cuts = np.flatnonzero(np.diff(self.place[order])) + 1
        return np.split(order, cuts)

    def log_reach(self, members: NDArray[np.int64], weights: tuple[Array, Array],
                  low: Array, high: Array) -> Array:
        """Bound on the log of the size of some items' product, from the neighbours' sizes.

        The logarithm is concave: all members at once, at their mean weights.
        """
        count = self.count[members]
        runs = float(count.sum())
        one, two = (float(np.dot(count, weight[members])) / runs for weight in weights)
        return np.asarray(runs * np.log(one * low + two * high))

    def multiply(self, product: Complex, members: NDArray[np.int64],
                 weights: tuple[Array, Array], low: Complex, high: Complex) -> None:
        """Multiply by the transforms of some items between the same neighbours, in place."""
        count = self.count[members].tolist()
        one, two = (weight[members].tolist() for weight in weights)
        held, other = np.empty_like(low), np.empty_like(low)
        for first, second, runs in zip(one, two, count, strict=True):
            np.multiply(low, first, out=held)
            np.multiply(high, second, out=other)
            held += other
            while runs > 1:
                if runs & 1:
                    product *= held
                runs >>= 1
                held *= held
            product *= held
