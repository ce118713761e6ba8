"""Price of `OneOf`: members may be alike at first, so that the choice falls late.

The meter lets members stand as long as they explain what was released. If two of them begin
alike, the choice between them may depend on what they share: that is none of the members, and
its privacy profile may pass both of theirs [docs/proofs/composition.md].
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from privledger.accounting import Cost, Relation, maximum, sequential
from privledger.accounting.deadline import check_time
from privledger.errors import UnsupportedNode
from privledger.graph.fold import Orders, cost_of, fold, remembered
from privledger.graph.meter import Unit, flatten, insides, opening, opens_alike
from privledger.graph.nodes import (
    AsReplaceOne,
    Federated,
    Group,
    Node,
    OneOf,
    Repeat,
    Sequential,
    below,
    holds,
    row_of,
)


@fold.register
def _(node: OneOf, relation: Relation, orders: Orders) -> Cost:
    """Whichever runs, it costs no more than the dearest, at every order and every epsilon."""
    return _dearest(tuple(dict.fromkeys(node.nodes)), relation, orders)


def _dearest(members: Sequence[Node], relation: Relation, orders: Orders) -> Cost:
    return maximum([_together(group, relation, orders) for group in _groups(members)])


@remembered(1024)
def _units(node: Node) -> dict[Unit, int]:
    found: dict[Unit, int] = {}
    flatten(node, 1, found)
    return found


def _is_wide(unit: Unit) -> bool:
    """Whether releases are made within it."""
    return isinstance(unit, OneOf) or opening(unit) is not None


def _bends(node: Node) -> bool:
    row = row_of(node)
    return row is not None and row.bends


@remembered(1024)
def _split(node: Node) -> tuple[frozenset[Unit], tuple[Unit, ...]]:
    """Units that are one release, and units that releases are made within."""
    units = _units(node)
    wide = tuple(unit for unit in units if _is_wide(unit))
    return frozenset(units).difference(wide), wide


def _alike(first: Node | None, second: Node | None) -> bool:
    """Whether some release could be taken off either."""
    check_time()
    if first is None or second is None:  # the inside of a free filter
        return True
    if first == second:
        return bool(_units(first))
    (leaves, wide), (others, wider) = _split(first), _split(second)
    return not leaves.isdisjoint(others) or any(
        isinstance(unit, OneOf) and any(_alike(member, beside) for member in unit.nodes)
        for unit, beside in (*((unit, second) for unit in wide), *((unit, first)
                                                                   for unit in wider))
    ) or any(_same_release(one, other) for one in wide for other in wider)


def _same_release(one: Unit, other: Unit) -> bool:
    """Whether some release could be made within either; a choice among members aside."""
    return opens_alike(one, other) and any(
        _alike(left, right) for left, right in zip(insides(one), insides(other), strict=True))


def _groups(members: Sequence[Node]) -> list[list[Node]]:
    """Members that the first release may leave undecided, with all that they are alike to."""
    groups: list[list[Node]] = []
    for member in members:
        near = [group for group in groups if any(_alike(member, other) for other in group)]
        groups = [group for group in groups if group not in near]
        groups.append([*(other for group in near for other in group), member])
    return groups


def _together(members: list[Node], relation: Relation, orders: Orders) -> Cost:
    """What members share is released first; then whatever is left of one of them."""
    if len(members) == 1:
        return cost_of(members[0], relation, orders)
    held = [_units(member) for member in members]
    if any(holds(member, kind) for member in members for kind in (
            Group, AsReplaceOne, Federated)):
        _refuse()  # their price is not that of their units
    late = _late(held)
    if any(_bends(one) for unit in late for one in below(unit)):
        _refuse()
    shared = {unit: min(units.get(unit, 0) for units in held) for unit in held[0]}
    shared = {} if late else {unit: times for unit, times in shared.items() if times}
    if shared:
        rests = [Sequential([Repeat(unit, times - shared.get(unit, 0))
                             for unit, times in units.items() if times > shared.get(unit, 0)])
                 for units in held]
        first = [cost_of(Repeat(unit, times), relation, orders)
                 for unit, times in shared.items()]
        return sequential([*first, _dearest(tuple(dict.fromkeys(rests)), relation, orders)])
    costs = maximum([cost_of(member, relation, orders) for member in members])
    if costs.mu_squared is not None:
        return costs  # all Gaussians: the largest gives every other, whenever the choice falls
    return evolve(costs, losses=None, no_losses="members of a OneOf begin alike")


def _late(held: Sequence[dict[Unit, int]]) -> list[Unit]:
    """Units of which a release may leave open whether it was made within them or another."""
    every = dict.fromkeys(unit for units in held for unit in units)
    wide = [unit for unit in every if _is_wide(unit)]
    return [unit for unit in wide if any(
        unit != other and (isinstance(unit, OneOf) or _is_wide(other))
        and _alike(unit, other) for other in every)]


def _refuse() -> None:
    raise UnsupportedNode("members of a OneOf that begin alike within a sample, a group or a "
                          "change of relation have no price here: put their common part before it")
