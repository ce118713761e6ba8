"""Pairs that some neighbours and some mechanism of a node do have: what lower bounds are made of.

A pair that only dominates is replaced by one that is attained below it; where none is known, that
part is left out, as it would be if it released nothing (docs/proofs/privacy-loss.md, "From below").
"""

from __future__ import annotations

from privledger.accounting.pld.allocated import AllocatedPair
from privledger.accounting.pld.coins import CoinPair
from privledger.accounting.pld.contracted import ContractedPair
from privledger.accounting.pld.pairs import BoundedRangePair, Pair, pure_pair
from privledger.accounting.pld.sampled_pairs import AddPair, FixedSizePair, RemovePair

Items = tuple[tuple[Pair, int], ...]
_DOWN = 1 - 4e-16


def attained(pair: Pair) -> Pair | None:
    """What some neighbours have, dominated by `pair`; itself where it is attained."""
    if pair.tight:
        return pair
    if isinstance(pair, BoundedRangePair):
        return pure_pair(0.5 * pair.eta * _DOWN)  # two candidates, each ahead by half
    if isinstance(pair, AllocatedPair):
        return ContractedPair(pair.steps, pair.mu * _DOWN, pair.add)
    if isinstance(pair, CoinPair):
        return attained(pair.usual)  # so few other records that nothing is ever cut off
    if isinstance(pair, RemovePair | AddPair | FixedSizePair):
        inner = attained(pair.inner)
        if inner is None:
            return None
        # A sample of fixed size of records that are all alike, but for one.
        kind = AddPair if isinstance(pair, AddPair) else RemovePair
        return kind(pair.rate * _DOWN, inner)
    return None


def attained_items(items: Items) -> Items:
    """Every pair by one that is attained, with how often it runs; equal ones together."""
    counts: dict[Pair, int] = {}
    for pair, count in items:
        below = attained(pair)
        if below is not None:
            counts[below] = counts.get(below, 0) + count
    return tuple(counts.items())
