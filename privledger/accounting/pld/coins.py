"""One of two pairs, by a coin that both worlds show alike."""

from __future__ import annotations

import numpy as np
from attrs import field, frozen

from privledger.accounting.moments import Array
from privledger.accounting.pld.bands import UNIT, Atoms, Bands
from privledger.accounting.pld.pairs import Pair


@frozen(cache_hash=True)
class CoinPair:
    """`rare` with probability `share`, else `usual`; `rare` is the dearer, so a larger share
    dominates. Not attained by what is priced so: it gives no lower bound."""

    share: float
    usual: Pair
    rare: Pair
    tight: bool = field(default=False, init=False)

    @property
    def top(self) -> float:
        """The larger of both largest losses."""
        return max(self.usual.top, self.rare.top)

    def _blend(self, usual: Array | float, rare: Array | float) -> Array:
        return np.asarray(((1 - self.share) * np.asarray(usual) + self.share * np.asarray(rare))
                          * (1 + 4 * UNIT))

    def bands(self, edges: Array) -> Bands:
        """Both pairs' masses, each with its probability; see `Pair.bands`."""
        one, two = self.usual.bands(edges), self.rare.bands(edges)
        return Bands(
            self._blend(one.p, two.p), self._blend(one.q, two.q),
            self._blend(one.slack_p, two.slack_p) + 4 * UNIT * self._blend(one.p, two.p),
            self._blend(one.slack_q, two.slack_q) + 4 * UNIT * self._blend(one.q, two.q),
            float(self._blend(one.below, two.below)), float(self._blend(one.below_q, two.below_q)),
            float(self._blend(one.above, two.above)), float(self._blend(one.above_q, two.above_q)),
            max(one.blur, two.blur))

    def atoms(self) -> Atoms:
        """The atoms of both, each with its probability; see `Pair.atoms`."""
        one, two = self.usual.atoms(), self.rare.atoms()
        p = np.concatenate([(1 - self.share) * one.p, self.share * two.p]) * (1 + 4 * UNIT)
        return Atoms(np.concatenate([one.loss, two.loss]), p,
                     float(self._blend(one.infinite, two.infinite)),
                     float(self._blend(one.q_only, two.q_only)),
                     max(one.blur, two.blur), max(one.raised, two.raised) + 8 * UNIT)

    def probe(self) -> tuple[Array, Array]:
        """Places of both, with their shares; see `Pair.probe`."""
        (one, p), (two, q) = self.usual.probe(), self.rare.probe()
        return (np.concatenate([one, two]),
                np.concatenate([(1 - self.share) * p / p.sum(), self.share * q / q.sum()]))

    def log_tail_moment(self, edge: float, beta: float) -> float:
        """At most the sum of both."""
        return float(np.logaddexp(self.usual.log_tail_moment(edge, beta),
                                  self.rare.log_tail_moment(edge, beta)))
