"""Which of a composition's choices are priced together, as `ranges` does."""

from __future__ import annotations

import math
from collections.abc import Iterator

from privledger.accounting.pld.pairs import BoundedRangePair, Pair
from privledger.accounting.pld.ranges import (
    LARGEST_RANGE,
    MOST_ROUNDS,
    SMALLEST_RANGE,
    ranges_pair,
)
from privledger.accounting.pld.sampled_pairs import AddPair, RemovePair
from privledger.rounding import multiply_up, up

Items = tuple[tuple[Pair, int], ...]


def forms(items: Items) -> Iterator[Items]:
    """Compositions that dominate the same mechanisms; the least price counts.

    A choice of range eta on a Poisson sample of rate q, its sample told, has the range
    log(1 + q (e^eta - 1)) (docs/proofs/bounded-range.md, "Many choices").
    """
    yield items
    found: dict[Pair, int] = {}
    for pair, count in items:
        one = _unsampled(pair)
        found[one] = found.get(one, 0) + count
    if found.keys() != dict(items).keys():
        yield tuple(found.items())


def _unsampled(pair: Pair) -> Pair:
    if not (isinstance(pair, RemovePair | AddPair) and isinstance(pair.inner, BoundedRangePair)
            and pair.inner.eta <= LARGEST_RANGE):
        return pair
    more = multiply_up(pair.rate, up(up(math.expm1(pair.inner.eta))))
    return BoundedRangePair(min(pair.inner.eta, up(up(math.log1p(more)))))


def only_ranges(items: Items) -> tuple[float, int] | None:
    """Range and number where equal choices are all there is, and one profile holds them."""
    if len(items) != 1:
        return None
    pair, count = items[0]
    if isinstance(pair, BoundedRangePair) and _held(pair, count) and count <= MOST_ROUNDS:
        return pair.eta, count
    return None


def _held(pair: BoundedRangePair, count: int) -> bool:
    return count > 1 and SMALLEST_RANGE <= pair.eta <= LARGEST_RANGE


def with_ranges(items: Items, wide: float) -> Items:
    """The same with the choices of one range, those that weigh most, as pairs of many rounds.

    Of one range only: in which order choices of different ranges cost most is not known.

    Args:
        wide: deviations of the loss that are held.
    """
    held = [(count * pair.eta**2, pair, count) for pair, count in items
            if isinstance(pair, BoundedRangePair) and _held(pair, count)]
    if not held:
        return items
    _, chosen, count = max(held, key=lambda one: one[0])
    found: dict[Pair, int] = {pair: often for pair, often in items if pair != chosen}
    whole, rest = divmod(count, MOST_ROUNDS)
    if whole:
        found[ranges_pair(chosen.eta, MOST_ROUNDS, wide)] = whole
    if rest:
        found[chosen if rest == 1 else ranges_pair(chosen.eta, rest, wide)] = 1
    return tuple(found.items())
