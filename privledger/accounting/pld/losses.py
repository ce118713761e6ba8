"""What a node loses, as pairs: built without computing, resolved when a price is asked.

A lane is one direction of the neighbouring relation. Under add-or-remove-one there are two: a
record is removed, or added; every mechanism of a run goes the same way. Under replace-one both
directions are one, because the relation is symmetric.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from attrs import evolve, frozen

from privledger.accounting.moments import Array, log_gain, raise_bounds
from privledger.accounting.pld.allocated import (
    LARGEST_MU,
    MOST_STEPS,
    SMALLEST_MU,
    AllocatedPair,
    Ratios,
)
from privledger.accounting.pld.grid import GridPair, TooMuch, largest_step, product
from privledger.accounting.pld.masses import atom_blur, dots
from privledger.accounting.pld.mixtures import CoinPair, Drawn, MixturePair, drawn, thinned
from privledger.accounting.pld.pairs import (
    AtomPair,
    BoundedRangePair,
    GaussianPair,
    Items,
    LaplacePair,
    Pair,
)
from privledger.accounting.pld.sampled_pairs import AddPair, FixedSizePair, RemovePair
from privledger.accounting.pld.shifted import (
    Slopes,
    after,
    chained_pair,
    even,
    shifted_pair,
    slopes,
)
from privledger.rounding import multiply_up, up

LEAST_RATE = 1e-100
"""Of a sample with a privacy-loss distribution: below it floats run out."""
_LARGEST_SHIFT = 600.0  # floats hold its exponential with room to spare
_FAR_TAIL = 1e-23  # as an epsilon at a delta below 1e-14 is asked for
_KEPT = 1e-30  # P mass that may be sent to infinity where a Renyi bound is asked
_DISTINCT = 384  # different pairs of one family that are convolved one by one


@frozen(eq=False)
class Together:
    """All of `parts`, each so many times."""

    parts: tuple[tuple[Lane, int], ...]


@frozen(eq=False)
class Dearest:
    """The largest of several profiles: the record may be in any one of the parts."""

    choices: tuple[Lane, ...]


@frozen(eq=False)
class Sampled:
    """`inner` on a random sample.

    Attributes:
        kind: which direction, or "fixed" for a sample of fixed size, or "replace" for a row
            that is exchanged for another.
        rows: how many rows come, go or are exchanged.
        steps, weights: for more than one row, or "replace", of a child that is not Gaussian: its
            lanes for one row, for two, ..., and the chances that so many are in the sample.
    """

    kind: Literal["remove", "add", "fixed", "replace"]
    rate: float
    inner: Lane
    rows: int = 1
    steps: tuple[Lane, ...] = ()
    weights: tuple[float, ...] = ()


@frozen(eq=False)
class Allocated:
    """A record in one of `steps` rounds, each of which is `inner` if it is removed, against none;
    the reverse if `add`."""

    steps: int
    inner: Lane
    add: bool


@frozen(eq=False)
class Stepped:
    """Neighbours of neighbours: `first` and then `second`, each a step of one row."""

    first: Lane
    second: Lane


Lane = (GaussianPair | LaplacePair | BoundedRangePair | AtomPair | AllocatedPair | CoinPair
        | MixturePair | Together | Dearest | Sampled | Allocated | Stepped)


@frozen(eq=False)
class Losses:
    """Both lanes of a node; the same object twice if the node is symmetric."""

    remove: Lane
    add: Lane

    @property
    def symmetric(self) -> bool:
        """Whether adding and removing a record have one and the same lane."""
        return self.remove is self.add


def both_ways(lane: Lane) -> Losses:
    """Losses of something that costs as much when a record is added as when it is removed."""
    return Losses(lane, lane)


NOTHING = both_ways(Together(()))


def together(losses: Sequence[tuple[Losses, int]]) -> Losses:
    """Composition; counts of 1 or more."""
    if len(losses) == 1 and losses[0][1] == 1:
        return losses[0][0]
    remove = Together(tuple((part.remove, count) for part, count in losses))
    if all(part.symmetric for part, _ in losses):
        return both_ways(remove)
    return Losses(remove, Together(tuple((part.add, count) for part, count in losses)))


def dearest(losses: Sequence[Losses]) -> Losses:
    """Parallel parts: the profile of the dearest at every epsilon."""
    distinct = list({id(part): part for part in losses}.values())
    if len(distinct) == 1:
        return distinct[0]
    remove = Dearest(tuple(part.remove for part in distinct))
    if all(part.symmetric for part in distinct):
        return both_ways(remove)
    return Losses(remove, Dearest(tuple(part.add for part in distinct)))


def moved(replaced: Sequence[Losses], parts: Sequence[Losses]) -> Losses:
    """Parallel parts under replace-one: the record stays, or leaves one part for another.

    Args:
        replaced: each part under replace-one. parts: the same under add-or-remove-one.
    """
    often: dict[Losses, int] = {}
    for part in parts:
        often[part] = often.get(part, 0) + 1
    choices = [part.remove for part in dict.fromkeys(replaced)]
    choices += [Together(((left.remove, 1), (entered.add, 1)))
                for left in often for entered in often
                if left is not entered or often[left] > 1]
    return both_ways(Dearest(tuple(choices)))


def mixture(law: Drawn) -> Losses:
    """Losses of Gaussian noise on a sum to which one row adds a random amount."""
    return Losses(MixturePair(law.chances, (1.0,), 1.0, law.places, law.loose, law.exact,
                              law.exact),
                  MixturePair((1.0,), law.chances, 1.0, law.places, law.loose, law.exact,
                              law.exact))


def poisson(rate: float, inner: Losses) -> Losses:
    """Losses of `inner` on a Poisson sample of this rate; the two lanes differ."""
    if isinstance(inner.remove, MixturePair) and rate >= LEAST_RATE:
        return mixture(thinned(inner.remove.law, rate))
    return Losses(Sampled("remove", rate, inner.remove), Sampled("add", rate, inner.add))


def laplace_shift(losses: Losses | None) -> float | None:
    """The shift over the scale where one Laplace is all there is; None otherwise."""
    lane = None if losses is None else losses.remove
    if isinstance(lane, LaplacePair) and lane.epsilon <= _LARGEST_SHIFT:
        return lane.epsilon
    return None


def gaussian_shift(losses: Losses | None) -> float | None:
    """The shift over the deviation where normal laws are all there is; None otherwise."""
    if losses is None or not losses.symmetric or not only_gaussian(losses.remove):
        return None
    items = resolve(losses.remove, 0.0)
    return items[0][0].mu if items and isinstance(items[0][0], GaussianPair) else None


def only_gaussian(lane: Lane) -> bool:
    """Whether nothing but unsampled Gaussians is inside."""
    if isinstance(lane, Together):
        return bool(lane.parts) and all(only_gaussian(part) for part, _ in lane.parts)
    return isinstance(lane, GaussianPair)


def fixed_size(rate: float, inner: Losses) -> Losses:
    """Losses of `inner` on a sample of fixed size, `rate` its share; under replace-one only."""
    return both_ways(Sampled("fixed", rate, inner.remove))


def allocated(steps: int, inner: Losses) -> Losses | None:
    """Losses of a record in one of several rounds; None where nothing is held. Both directions are
    made from that of one round in which the record is removed."""
    steps, one = min(steps, MOST_STEPS), inner.remove
    # More rounds, and a smaller shift, are dominated: docs/proofs/allocation.md.
    if not isinstance(one, GaussianPair):
        return Losses(*(Allocated(steps, one, add) for add in (False, True)))
    if one.mu > LARGEST_MU:
        return None
    return Losses(*(AllocatedPair(steps, max(one.mu, SMALLEST_MU), add) for add in (False, True)))


def truncated(rate: float, full: float, mu: float) -> Losses | None:
    """Losses of a Gaussian on a Poisson sample that is full with probability at most `full`: a
    record then takes another's place. None for a mu beyond what pairs hold."""
    if not 1e-12 <= mu <= 1e3:
        return None
    usual, rare = GaussianPair(mu), GaussianPair(2 * mu)
    return Losses(CoinPair(full, RemovePair(rate, usual), RemovePair(rate, rare)),
                  CoinPair(full, AddPair(rate, usual), AddPair(rate, rare)))


def alternatives(lane: Lane) -> tuple[Lane, ...]:
    """Lanes of which the dearest is the price: parts of a partition with nothing beside it."""
    if isinstance(lane, Together) and len(lane.parts) == 1 and lane.parts[0][1] == 1:
        return alternatives(lane.parts[0][0])
    if isinstance(lane, Dearest):
        return tuple(one for choice in lane.choices for one in alternatives(choice))
    return (lane,)


def resolve(lane: Lane, tail: float) -> Items:
    """Distinct pairs with their counts; Gaussians merged into one.

    Args:
        tail: P mass that products inside a sample may send to infinity.
    """
    counts: dict[Pair, int] = {}
    squares: list[tuple[float, bool]] = []
    _collect(lane, 1, counts, squares, _Resolver(tail))
    if squares:
        total = math.fsum(square for square, _ in squares)
        mu = up(math.sqrt(up(total)) * (1 + 1e-15))
        counts[GaussianPair(mu, all(tight for _, tight in squares))] = 1
    return _few(counts)


class _Resolver:
    """Pairs of samples and maxima, each computed once however often it occurs."""

    def __init__(self, tail: float) -> None:
        self.tail = tail
        self._known: dict[int, tuple[Lane, Items]] = {}

    def items(self, lane: Sampled | Dearest | Stepped | Allocated) -> Items:
        if id(lane) not in self._known:
            found = (self._sampled(lane) if isinstance(lane, Sampled) else
                     self._dearest(lane) if isinstance(lane, Dearest) else
                     self._allocated(lane) if isinstance(lane, Allocated) else
                     ((chained_pair(self._stepped(lane)), 1),))
            self._known[id(lane)] = lane, found  # keeps the lane alive, so its id stays its own
        return self._known[id(lane)][1]

    def _sampled(self, lane: Sampled) -> Items:
        if lane.steps:
            return ((self._shifted(lane), 1),)
        items = resolve(lane.inner, self.tail)
        if not items:
            return ()
        inner = product(items, self.tail)
        if lane.rows > 1 or lane.kind == "replace":
            return ((_mixture(lane, inner), 1),)
        return ((_sample(lane.kind, lane.rate, inner), 1),)

    def _shifted(self, lane: Sampled) -> Pair:
        """Any child, release by release: see `shifted`."""
        assert lane.kind != "fixed"
        return shifted_pair(lane.kind, lane.weights, [
            _slopes(product(resolve(step, self.tail), self.tail)) for step in lane.steps])

    def _allocated(self, lane: Allocated) -> Items:
        items = resolve(lane.inner, self.tail)
        if not items:
            return ()
        lows = [count * _lowest(pair) for pair, count in items]
        pair = product(items, self.tail)
        round_ = Ratios.of(*_slopes(pair), math.exp(math.fsum(lows)) * (1 - 1e-12))
        rare = 0.0 if self.tail <= _KEPT else 1e-3 * self.tail
        return ((AllocatedPair(lane.steps, round_, lane.add, rare, pair), 1),)

    def _stepped(self, lane: Lane) -> Slopes:
        """Power functions of all steps, one after another."""
        if not isinstance(lane, Stepped):
            return _slopes(product(resolve(lane, self.tail), self.tail))
        first = self._stepped(lane.first)
        return after(first, first if lane.first is lane.second else self._stepped(lane.second))

    def _dearest(self, lane: Dearest) -> Items:
        options = [dict(items) for choice in lane.choices
                   if (items := resolve(choice, self.tail))]
        kept: list[dict[Pair, int]] = []
        for option in sorted(options, key=_size, reverse=True):
            # Running more of the same only adds to a profile.
            if not any(_within(option, other) for other in kept):
                kept.append(option)
        if len(kept) <= 1:
            return tuple(kept[0].items()) if kept else ()
        pairs = [product(tuple(option.items()), self.tail) for option in kept]
        return ((_maximum(pairs, self.tail), 1),)


_KINDS: dict[str, type[RemovePair] | type[AddPair] | type[FixedSizePair]] = {
    "remove": RemovePair, "add": AddPair, "fixed": FixedSizePair}


def _slopes(pair: Pair) -> Slopes:
    """The tangents of a pair's profile: its atoms, and dots on a mesh of what lies between."""
    atoms, above = pair.atoms(), 0.0
    loss, p, blur = atoms.loss, atoms.p, atom_blur(pair)
    if not isinstance(pair, AtomPair | GridPair):
        places = even(pair)
        edges = _seen(pair, _mesh(pair)) if places is None else places
        more, masses, off = _dots(pair, edges)
        above = pair.bands(edges).above
        loss, p, blur = np.append(loss, more), np.append(p, masses), max(blur, off)
    return slopes(loss, p, blur, atoms.infinite + above)


def _lowest(pair: Pair) -> float:
    """A loss that none is below."""
    if isinstance(pair, AtomPair) and not pair.q_only:
        return min(pair.loss)
    return -pair.top if isinstance(pair, LaplacePair | BoundedRangePair) else -math.inf


def _mixture(lane: Sampled, inner: Pair) -> Pair:
    """Several rows, or an exchanged one, on a sample of Gaussians: see `mixtures`."""
    if not isinstance(inner, GaussianPair):
        raise TooMuch
    law, none = drawn(lane.rate, lane.rows), (1.0,)
    up = none if lane.kind == "add" else law.chances
    down = none if lane.kind == "remove" else law.chances
    return MixturePair(up, down, inner.mu, law.places, law.loose, law.exact and inner.tight,
                       inner.tight)


def _sample(name: str, rate: float, inner: Pair) -> Pair:
    """A sample of a sample is one sample at the product of the rates, rounded up.

    Exact (docs/proofs/subsampling.md, "Samples of samples"); left nested, every level would ask
    the next one several times.
    """
    kind = _KINDS[name]
    if isinstance(inner, kind):
        return kind(max(multiply_up(rate, inner.rate), LEAST_RATE), inner.inner)
    return kind(rate, inner)


def _size(option: dict[Pair, int]) -> int:
    return sum(option.values())


def _within(option: dict[Pair, int], other: dict[Pair, int]) -> bool:
    return all(count <= other.get(pair, 0) for pair, count in option.items())


def _collect(
    lane: Lane, times: int, counts: dict[Pair, int], squares: list[tuple[float, bool]],
    resolver: _Resolver,
) -> None:
    if isinstance(lane, Together):
        for part, count in lane.parts:
            _collect(part, times * count, counts, squares, resolver)
        return
    items = (resolver.items(lane) if isinstance(lane, Sampled | Dearest | Stepped | Allocated)
             else ((lane, 1),))
    for pair, count in items:
        if isinstance(pair, AllocatedPair) and pair.exact is None and resolver.tail < _FAR_TAIL:
            pair = evolve(pair, far=True)
        if isinstance(pair, GaussianPair):
            squares.append((times * count * pair.mu**2, pair.tight))
        else:
            counts[pair] = counts.get(pair, 0) + times * count


def _maximum(pairs: Iterable[Pair], tail: float) -> Pair:
    """Families ordered by one parameter need no lattice."""
    distinct = list(dict.fromkeys(pairs))
    for kind, size in _FAMILIES:
        if all(type(pair) is kind for pair in distinct):
            return max(distinct, key=lambda pair: float(getattr(pair, size)))
    return largest_step(distinct, tail)


_FAMILIES = ((GaussianPair, "mu"), (LaplacePair, "epsilon"), (BoundedRangePair, "eta"))


def _few(counts: dict[Pair, int]) -> Items:
    """Too many different pairs of one family are rounded up to a few."""
    rest = dict(counts)
    for kind, size in _FAMILIES[1:]:
        members = [pair for pair in counts if type(pair) is kind]
        if len(members) <= _DISTINCT:
            continue
        members.sort(key=lambda pair: float(getattr(pair, size)), reverse=True)
        width = math.ceil(len(members) / _DISTINCT)
        for start in range(0, len(members), width):
            group = members[start:start + width]
            rest[group[0]] = sum(rest.pop(pair) for pair in group)
    return tuple(rest.items())


# --- Renyi bounds of dominating pairs.
#
# A pair that dominates has larger Renyi divergences at every order above 1, and so has the pair
# that connect-the-dots makes of it (docs/proofs/fixed-size.md, lemma). The mesh need not be
# uniform here: it follows the probe, however narrow the bulk of the losses is.

_BETWEEN = 24  # mesh points between two points of the probe
_CHUNK, _CELLS = 16, 1 << 20
_FAR = 40.0  # nats


def losses_rdp(losses: Losses, orders: tuple[float, ...]) -> Array:
    """Bounds in nats, shape (len(orders),); infinity where nothing is proved."""
    found = np.zeros(len(orders))
    lanes = [losses.remove] if losses.symmetric else [losses.remove, losses.add]
    try:
        for lane in lanes:
            found = np.maximum(found, _lane(resolve(lane, _KEPT), orders))
    except TooMuch:
        return np.full(len(orders), math.inf)
    return found


def _lane(items: Items, orders: tuple[float, ...]) -> Array:
    total = np.zeros(len(orders))
    for pair, count in items:
        total = total + count * pair_rdp(pair, orders)
    return raise_bounds(total)


def pair_rdp(pair: Pair, orders: tuple[float, ...]) -> Array:
    """Renyi divergence of P from Q at each order, rounded up."""
    beta = np.array(orders) - 1
    atoms = pair.atoms()
    if atoms.infinite > 0:
        return np.full(len(beta), math.inf)
    edges = _seen(pair, _mesh(pair))
    tail = np.array([pair.log_tail_moment(float(edges[-1]), float(b)) for b in beta])
    loss, p, blur = _dots(pair, edges)
    blur = max(blur, atoms.blur + 4e-15 * float(np.max(np.abs(atoms.loss), initial=0.0)))
    loss, p = np.append(loss, atoms.loss), np.append(p, atoms.p)
    kept = (p > 0) & (loss != 0)
    log_p, loss = np.log(p[kept]), loss[kept]
    parts = []
    chunk = max(1, min(_CHUNK, _CELLS // (len(loss) + 1)))
    for start in range(0, len(beta), chunk):
        rows = beta[start:start + chunk, None]
        logs = log_p + log_gain(np.broadcast_to(loss, (len(rows), len(loss))), rows)
        parts.append(np.logaddexp.reduce(logs, axis=1, initial=-math.inf))
    # The margin covers masses that rounding moved up below loss 0.
    log_moment = np.logaddexp(np.concatenate(parts), tail) + 1e-10
    first = pair.bands(edges[:2])  # P mass below the mesh went up to its first point
    lost = atoms.q_only + max(0.0, first.below_q * (1 + 1e-9) - first.below * math.exp(
        min(-float(edges[0]), 700.0)))
    if lost > 0:
        # E_Q (P/Q)^order = 1 + E_P gain + beta (Q mass without P mass): see `moments`.
        log_moment = np.logaddexp(log_moment, np.log(beta * lost))
    # Losses moved up by b raise a Renyi divergence by at most order / (order - 1) b.
    return raise_bounds(np.logaddexp(0.0, log_moment) / beta + (1 + 1 / beta) * blur)


def _mesh(pair: Pair) -> Array:
    """Points of the probe with more between them, up to the largest finite loss."""
    points = np.unique(pair.probe()[0])
    if math.isfinite(pair.top):
        points = np.unique(np.append(points, pair.top))
    if len(points) < 2:
        return np.array([points[0], points[0]])
    steps = np.arange(_BETWEEN) / _BETWEEN
    inside = points[:-1, None] + np.diff(points)[:, None] * steps
    end = points[-1]
    # High orders look far beyond the mass: there a tail bound needs a large loss to be close.
    beyond = [] if math.isfinite(pair.top) else end + np.linspace(0.0, _FAR, 4001)[1:]
    under = points[0] - (end - points[0]) * np.geomspace(1.0, 1e-4, 2 * _BETWEEN)
    return np.concatenate([under, inside.ravel(), [end], beyond])


def _seen(pair: Pair, edges: Array) -> Array:
    """The mesh up to where band masses underflow: from there on the tail's bound counts."""
    if len(edges) < 3 or math.isfinite(pair.top):
        return edges
    full = np.flatnonzero(pair.bands(edges).p > 1e-280)
    return edges[:int(full[-1]) + 2] if len(full) else edges[:2]


def _dots(pair: Pair, edges: Array) -> tuple[Array, Array, float]:
    """Connect-the-dots on any mesh: losses and P masses, rounded up, and the edges' error."""
    bands = pair.bands(edges)
    width = np.maximum(np.diff(edges), 1e-300)
    rise, mass = dots(bands.p, bands.q, bands.slack_p, bands.slack_q, edges[:-1], width, 1)
    p = np.append(0.0, rise) + np.append(mass - rise, 0.0)
    p[0] += bands.below
    return edges, p * (1 + 4e-15), bands.blur
