"""Pairs of sampled mechanisms, built on the pair of what runs on the sample."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from attrs import field, frozen

from privledger.accounting.moments import Array, log_mix
from privledger.accounting.pld.pairs import UNIT, Atoms, Bands, Pair


def _unmix(loss: Array, rate: float) -> Array:
    """The inner loss that gives `loss` = log(1 - rate + rate exp(inner)); may be infinite."""
    low = np.minimum(loss, 500.0)
    with np.errstate(over="ignore"):  # infinity is its own logarithm
        shift = np.expm1(low) / rate
    near = np.log1p(np.maximum(shift, -0.5))
    # Close to its lowest value the loss keeps its digits only relative to 1 - rate.
    above = np.exp(low) - (1 - rate)
    far = np.log(np.where(above > 0, above, 1.0)) - math.log(rate)
    inner = np.where(shift > -0.5, near, np.where(above > 0, far, -np.inf))
    return np.where(loss > 500.0, loss - math.log(rate), inner)


def _blend(first: Array | float, second: Array | float, rate: float) -> Array:
    return np.asarray((1 - rate) * np.asarray(first) + rate * np.asarray(second))


def _mixed_top(inner: Pair, rate: float) -> float:
    top = inner.top
    if top == math.inf:
        return top
    mixed = float(log_mix(np.array([max(top, -700.0)]), rate)[0])
    return max(mixed, math.log1p(-rate))


def _likelihood(loss: Array) -> Array:
    """exp(-loss), as far as a float holds it."""
    return np.asarray(np.exp(np.minimum(-loss, 600.0)))


@lru_cache(maxsize=1024)
def missing(pair: Pair) -> float:
    """Q mass that the pair's bands and atoms do not show, rounded up.

    Where P has none, and where P has less than a float can hold. Under a sample it must not
    be lost: all of Q stays there with probability 1 - rate.
    """
    atoms, bands = pair.atoms(), pair.bands(np.array([-math.inf, math.inf]))
    shown = float(np.sum(atoms.p * _likelihood(atoms.loss))) + float(bands.q[0])
    rest = 1 - shown + UNIT * (16 + len(atoms.p)) + atoms.raised + float(bands.slack_q[0])
    return max(0.0, min(1.0, rest))


def _size(edges: Array) -> float:
    return float(np.max(np.abs(edges[np.isfinite(edges)]), initial=0.0))


@frozen(cache_hash=True)
class RemovePair:
    """A Poisson sample of which a record is removed: (1 - q) Q + q P against Q.

    Zhu, Dong, Wang 2022 (arXiv:2106.08567), Theorem 11; docs/proofs/privacy-loss.md, lemma 4.
    """

    rate: float
    inner: Pair
    top: float = field(init=False, eq=False)
    tight: bool = field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "top", _mixed_top(self.inner, self.rate))
        object.__setattr__(self, "tight", self.inner.tight)

    def bands(self, edges: Array) -> Bands:
        """Inner masses between the edges that the mixture moves to these; see `Pair.bands`."""
        rate, inner = self.rate, self.inner.bands(_unmix(edges, self.rate))
        return Bands(
            _blend(inner.q, inner.p, rate), inner.q,
            _blend(inner.slack_q, inner.slack_p, rate), inner.slack_q,
            float(_blend(inner.below_q, inner.below, rate)), inner.below_q,
            float(_blend(inner.above_q, inner.above, rate)), inner.above_q,
            inner.blur + 8 * UNIT * (1 + _size(edges)),
        )

    def atoms(self) -> Atoms:
        """Inner atoms with mixed losses; Q mass that no P mass covers has the lowest of all."""
        inner, rate = self.inner.atoms(), self.rate
        loss = log_mix(inner.loss, rate)
        p = inner.p * ((1 - rate) * _likelihood(inner.loss) + rate)
        lost = missing(self.inner)
        if lost > 0:
            # Q mass without P mass, or none that a float can hold: its loss is the lowest.
            loss = np.append(loss, math.log1p(-rate))
            p = np.append(p, (1 - rate) * lost)
        # A mixed loss moves by no more than the inner one.
        return Atoms(loss, p * (1 + 8 * UNIT), rate * inner.infinite * (1 + UNIT), 0.0,
                     inner.blur, inner.raised + 16 * UNIT)

    def probe(self) -> tuple[Array, Array]:
        """The inner probe, its losses mixed and its masses reweighted; see `Pair.probe`."""
        x, p = self.inner.probe()
        weight = p * ((1 - self.rate) * np.exp(np.minimum(-x, 600.0)) + self.rate)
        return log_mix(x, self.rate), weight

    def log_tail_moment(self, edge: float, beta: float) -> float:
        """Above an inner loss l, exp(L) <= (rate + (1 - rate) exp(-l)) exp(inner loss)."""
        if edge >= self.top:
            return -math.inf
        inner = float(_unmix(np.array([edge]), self.rate)[0])
        rest = (1 - self.rate) * math.exp(-min(inner, 700.0)) if inner > -600.0 else math.inf
        if rest == math.inf:
            return math.inf
        most = math.log(self.rate + rest) + 1e-15
        return (beta + 1) * most + self.inner.log_tail_moment(inner - 1e-14, beta)


@frozen(cache_hash=True)
class AddPair:
    """A Poisson sample to which a record is added: P against (1 - q) P + q Q."""

    rate: float
    inner: Pair
    tight: bool = field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "tight", self.inner.tight)

    @property
    def top(self) -> float:
        """-log(1 - rate) at most: with that probability the added record is not in the sample."""
        inner = self.inner.top
        if inner == math.inf or self.inner.atoms().infinite > 0:
            return -math.log1p(-self.rate)
        return -float(log_mix(np.array([-inner]), self.rate)[0])

    def bands(self, edges: Array) -> Bands:
        """Inner masses between the edges that the mixture moves to these, mirrored."""
        rate, inner = self.rate, self.inner.bands(-_unmix(-edges, self.rate))
        return Bands(
            inner.p, _blend(inner.p, inner.q, rate),
            inner.slack_p, _blend(inner.slack_p, inner.slack_q, rate),
            inner.below, float(_blend(inner.below, inner.below_q, rate)),
            inner.above, float(_blend(inner.above, inner.above_q, rate)),
            inner.blur + 8 * UNIT * (1 + _size(edges)),
        )

    def atoms(self) -> Atoms:
        """Inner atoms with mixed losses; an infinite loss becomes -log(1 - rate)."""
        inner, rate = self.inner.atoms(), self.rate
        loss, p = -log_mix(-inner.loss, rate), inner.p
        if inner.infinite > 0:
            loss = np.append(loss, -math.log1p(-rate))
            p = np.append(p, inner.infinite)
        return Atoms(loss, p * (1 + 8 * UNIT), 0.0, rate * inner.q_only, inner.blur,
                     inner.raised + 16 * UNIT)

    def probe(self) -> tuple[Array, Array]:
        """The inner probe with mixed losses; its masses stay, and so does that of an infinite
        loss, which decides the moments of a high tilt; see `Pair.probe`."""
        x, p = self.inner.probe()
        loss, infinite = -log_mix(-x, self.rate), self.inner.atoms().infinite
        if infinite > 0:
            loss, p = np.append(loss, -math.log1p(-self.rate)), np.append(p, infinite)
        return loss, p

    def log_tail_moment(self, edge: float, beta: float) -> float:
        """All losses are below -log(1 - rate)."""
        if edge >= self.top:
            return -math.inf
        beyond = self.bands(np.array([edge, math.inf]))
        above = float(beyond.p[0] + beyond.slack_p[0])
        return beta * self.top * (1 + 1e-14) + math.log(above) if above > 0 else -math.inf


@frozen(cache_hash=True)
class FixedSizePair:
    """m of n records without replacement under replace-one; rate = m / n.

    H'(1 + rate (a - 1)) = rate H(a) for a >= 1, where H is the inner profile; below 1 by the
    symmetry of the relation (docs/proofs/fixed-size.md). So positive losses are those of a
    `RemovePair`, negative ones mirror them, and the rest of the mass has loss 0.
    """

    rate: float
    inner: Pair
    tight: bool = field(default=False, init=False)

    @property
    def top(self) -> float:
        """Largest gain of the pair that it is folded from, and never below zero."""
        return max(0.0, self._gains.top)

    @property
    def _gains(self) -> RemovePair:
        return RemovePair(self.rate, self.inner)

    def bands(self, edges: Array) -> Bands:
        """Masses of the gains, and their mirror image at negative losses; see `Pair.bands`."""
        positive = self._gains.bands(np.append(np.maximum(edges, 0.0), math.inf))
        negative = self._gains.bands(np.append(np.maximum(-edges[::-1], 0.0), math.inf))

        up, down = edges[1:] > 0, edges[:-1] < 0

        def joined(gain: Array, loss: Array) -> Array:
            return np.asarray(np.where(up, gain[:-1], 0.0) + np.where(down, loss[:-1][::-1], 0.0))

        return Bands(
            joined(positive.p, negative.q), joined(positive.q, negative.p),
            joined(positive.slack_p, negative.slack_q),
            joined(positive.slack_q, negative.slack_p),
            *self._beyond(float(edges[0]), below=True),
            *self._beyond(float(edges[-1]), below=False),
            max(positive.blur, negative.blur),
        )

    def _beyond(self, edge: float, *, below: bool) -> tuple[float, float]:
        """P and Q mass of the continuous part below (or above) one loss.

        Above is below of the mirrored pair, and the pair is its own mirror image.
        """
        gains = self._gains.bands(np.array([0.0, abs(edge), math.inf]))
        inner_p, inner_q = float(gains.p[0]), float(gains.q[0])
        outer_p, outer_q = float(gains.p[1]), float(gains.q[1])
        if below:
            if edge < 0:
                return outer_q, outer_p
            return inner_q + outer_q + inner_p, inner_p + outer_p + inner_q
        if edge > 0:
            return outer_p, outer_q
        return inner_p + outer_p + inner_q, inner_q + outer_q + inner_p

    def atoms(self) -> Atoms:
        """Atoms of the gains and their mirror image; what is left of the mass has loss zero."""
        gains, beyond = self._gains.atoms(), self._gains.bands(np.array([0.0, math.inf]))
        up = gains.loss > 0
        loss, p = gains.loss[up], gains.p[up]
        q = p * np.exp(-loss)
        rest = 1 - float(p.sum() + q.sum() + beyond.p[0] + beyond.q[0]) - gains.infinite
        rest = max(0.0, rest + 64 * UNIT * (1 + len(p)))
        return Atoms(np.concatenate([-loss, [0.0], loss]), np.concatenate([q, [rest], p]),
                     gains.infinite, gains.infinite, gains.blur,
                     gains.raised + 16 * UNIT)

    def probe(self) -> tuple[Array, Array]:
        """The probe of the gains and its mirror image, the rest at zero; see `Pair.probe`."""
        x, p = self._gains.probe()
        x, p = x[x > 0], p[x > 0]
        q = p * np.exp(-x)
        rest = max(0.0, 1 - float(p.sum() + q.sum()))
        return np.concatenate([-x, [0.0], x]), np.concatenate([q, [rest], p])

    def log_tail_moment(self, edge: float, beta: float) -> float:
        """That of the gains above zero; unknown at zero and below."""
        if edge >= self.top:
            return -math.inf
        return self._gains.log_tail_moment(edge, beta) if edge > 0 else math.inf
