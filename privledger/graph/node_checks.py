"""What nodes are checked by. How deep a plan may be nested, and how large: one rule for every
reader of plans.

Prices, meters and codecs walk a plan by recursion. Without a stated limit the interpreter's own
limit would answer, somewhere in the middle of a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, TypeAlias

import attrs
from attrs import field, frozen

from privledger.errors import InvalidMechanism, InvalidPlan
from privledger.graph.additive import Gaussian
from privledger.rounding import MOST_COUNT, count, number, positive, probability

MAX_DEPTH = 100  # a leaf alone is 1 deep
MOST_NODES = 1_000_000  # written out: a subtree that is used twice counts twice
_RULE = f"nested at most {MAX_DEPTH} deep"
_BELOW = ("node", "nodes", "event", "events")  # of nodes, and of the events of dp_accounting


class Nested:
    """Base of the composites: a place for their depth, so that it is computed once."""

    __slots__ = ("_depth",)
    _depth: int


Never: TypeAlias = tuple[tuple[type, ...], str]


@frozen
class Row:
    """One kind of node, as everything that walks, writes, meters or prices plans reads it.

    Attributes:
        kind: the record.
        through: whether a meter looks through it: releases are made as if it were not there.
        opened_by: kind of the step of a handle that releases inside it are made behind, if any.
        step: fields of that step, and the fields of the node that they must be equal to.
        coins: whether private coins decide which records are in.
        bends: whether it makes more of a curve than of each of two curves below it.
        relations: those it has a price under, if not any. elsewhere: what is said under others.
        never: kinds that may not stand inside, and what is said then.
    """

    kind: Any
    through: bool = False
    opened_by: str = ""
    step: Mapping[str, str] = field(factory=dict)
    coins: bool = False
    bends: bool = False
    relations: tuple[str, ...] = ()
    elsewhere: str = ""
    never: tuple[Never, ...] = ()
    fields: Mapping[str, Any] = field(init=False)
    """Of the record, by their names in JSON."""
    child: str = field(init=False)
    """The field that holds what is below: `nodes`, `node` or none."""

    @fields.default
    def _its_fields(self) -> Mapping[str, Any]:
        return json_fields(self.kind)

    @child.default
    def _its_child(self) -> str:
        return next((one.name for one in self.fields.values() if one.name in _BELOW), "")


def json_fields(kind: Any) -> dict[str, Any]:
    """The fields of a record, in order, by their names in JSON."""
    return {("inner" if one.name == "node" else str(one.name)): one for one in attrs.fields(kind)}


def depth_of(node: object) -> int:
    """The depth of a node by what its members know of theirs; else it is walked."""
    if not isinstance(node, Nested):
        return 1
    if not hasattr(node, "_depth"):
        inside = list(_inside(node))
        # A member that came out of a pickle knows nothing, and neither do those below it.
        if all(hasattr(one, "_depth") or not isinstance(one, Nested) for one in inside):
            found = 1 + max(map(depth_of, inside), default=0)
        else:
            found = sum(1 for _ in islice(_levels(node, "plan"), MAX_DEPTH + 1))
        object.__setattr__(node, "_depth", found)
    return node._depth


def check_nested(name: str, node: object) -> None:
    """Raise `InvalidPlan` if `node`, whose members were checked, is too deep."""
    if depth_of(node) > MAX_DEPTH:
        raise InvalidPlan(name, "a deeper one", _RULE)


def check_depth(value: object, name: str = "plan") -> int:
    """Raise `InvalidPlan` unless a node, its JSON form, or a `DpEvent` is within the limits.

    Walks the whole of it, level by level and without recursion, and trusts nothing that was
    noted before. Ends on anything, a value that holds itself included.

    Returns:
        How many nodes it has, written out.

    Args:
        value: what a caller, a message or a file gave; of any type.
        name: how the error calls it.
    """
    nodes = 0
    for depth, level in enumerate(_levels(value, name)):
        nodes += sum(level)
        if depth >= MAX_DEPTH:
            raise InvalidPlan(name, "a deeper one", _RULE)
        if nodes > MOST_NODES:
            raise InvalidPlan(name, "a larger one", f"of at most {MOST_NODES} nodes")
    return nodes


def _levels(value: object, name: str) -> Iterator[list[int]]:
    """For each level how often each of its different objects stands there; shared ones once."""
    level: dict[int, tuple[object, int]] = {id(value): (value, 1)}
    while level:
        yield [times for _, times in level.values()]
        below: dict[int, tuple[object, int]] = {}
        for one, times in level.values():
            for member in _members(one, name):
                below[id(member)] = member, below.get(id(member), (member, 0))[1] + times
        level = below


def _members(value: object, name: str) -> Iterator[object]:
    if isinstance(value, dict):
        for item in value.values():
            if type(item) is float or type(item) is str:  # what most of them are
                continue
            if isinstance(item, dict):
                yield item
            elif isinstance(item, list | tuple):
                yield from _listed(item, name)
    else:
        yield from _inside(value)


def _listed(items: list[Any] | tuple[Any, ...], name: str) -> Iterator[object]:
    for item in items:
        if type(item) is float:
            continue
        if isinstance(item, dict):
            yield item
        elif isinstance(item, list | tuple):
            raise InvalidPlan(name, "a list of lists", "an object whose lists hold nodes or "
                              "numbers")


def _inside(value: object) -> Iterator[object]:
    for name in _BELOW:
        item = getattr(value, name, None)
        if isinstance(item, list | tuple):
            yield from item
        elif item is not None:
            yield item


# --- What the fields of one node ask of each other. Each raises `InvalidMechanism`.
#
# They take fields, not nodes, so that `privledger.graph.nodes` may use them while it is being made.

MOST_PARTIES = 1000
MOST_CORRELATED, MOST_COEFFICIENTS = 100_000, 2048  # steps; coefficients that a plan holds
LEAST_SHARED = 0.01  # noise multiplier of shared noise: docs/proofs/federated.md
SEERS = ("coordinator", "parties", "anybody")


def listed(value: object) -> tuple[object, ...]:
    """The members of a composite, as a tuple."""
    if not isinstance(value, Iterable):
        raise InvalidMechanism("nodes", type(value).__name__, "a list of nodes")
    return tuple(value)


def check_filter(kind: str, cap: float, order: float) -> None:
    """Of an individual filter: an order where the kind has one."""
    if kind not in ("gdp", "renyi"):
        raise InvalidMechanism("IndividualFilter kind", kind, "gdp or renyi")
    positive("IndividualFilter cap", cap)
    if kind == "renyi" and not positive("IndividualFilter order", order) > 1:
        raise InvalidMechanism("IndividualFilter order", order, "above 1")
    if kind == "gdp" and (type(order) is bool or order != 0):
        raise InvalidMechanism("IndividualFilter order", order, "zero for kind gdp")


def check_trials(distribution: str, shape: float, success: float, mean: float) -> None:
    """Of a tuning: the parameters of its distribution, and none of the other's."""
    for name, value in (("shape", shape), ("success", success), ("mean", mean)):
        number(f"Tuning {name}", value)
    if distribution == "negative_binomial":
        probability("Tuning success", success)
        found = number("Tuning shape", shape)
        if not (-1 < found <= 1000 and (found == 0 or abs(found) >= 1e-6)):
            raise InvalidMechanism("Tuning shape", shape,
                                   "above -1, at most 1000, and 0 or at least 1e-6 in size")
        if type(mean) is bool or mean != 0:
            raise InvalidMechanism("Tuning mean", mean, "0 for negative_binomial")
    elif distribution == "poisson":
        positive("Tuning mean", mean)
        if type(success) is bool or success != 0:
            raise InvalidMechanism("Tuning success", success, "0 for poisson")
    else:
        raise InvalidMechanism("Tuning distribution", distribution, "negative_binomial or poisson")


def check_trust(parties: int, colluding: int, least_honest: int, seen_by: str, noise: str) -> None:
    """Of a federation: how many are trusted, among how many."""
    count("Federated parties", parties, least=1, most=MOST_PARTIES)
    count("Federated colluding", colluding, least=0, most=parties - 1)
    count("Federated least_honest", least_honest, least=1, most=parties - colluding)
    if seen_by not in SEERS or noise not in ("local", "shared"):
        raise InvalidMechanism("Federated", f"{seen_by}, {noise}",
                               f"one of {', '.join(SEERS)}; local or shared")


def check_shared(node: object, below: Iterable[object], kinds: tuple[type, ...]) -> None:
    """Of a federation that shares noise: `node`, and all `below` it, is Gaussian noise and of
    `kinds`, as only that adds up."""
    inside = list(below)
    if not all(isinstance(one, kinds) for one in inside):
        raise InvalidMechanism("Federated node", type(node).__name__,
                               "made of Gaussian noise only, where noise is shared")
    if any(isinstance(one, Gaussian) and one.noise_multiplier < LEAST_SHARED for one in inside):
        raise InvalidMechanism("Federated node", "Gaussian noise that is shared",
                               f"of a multiplier of at least {LEAST_SHARED}")


def check_strategy(node: object, coefficients: Sequence[float], steps: int, separation: int,
                   participations: int, *, sampled: bool) -> None:
    """Of correlated noise: what one record moves must follow from few numbers."""
    most = count("Correlated steps", steps, most=MOST_CORRELATED)
    apart = count("Correlated separation", separation, most=most)
    count("Correlated participations", participations, most=MOST_COUNT)
    if type(node) is not Gaussian or node.shares:
        raise InvalidMechanism("Correlated node", type(node).__name__,
                               "a Gaussian of one block, or that on a Poisson sample")
    found = [number("Correlated coefficients", one) for one in coefficients]
    if not 0 < len(found) <= min(most, MOST_COEFFICIENTS) or not 1e-100 <= found[0] <= 1e100 or any(
            abs(one) > 1e100 for one in found):
        raise InvalidMechanism("Correlated coefficients", "given",
                               f"1 to `steps` numbers, {MOST_COEFFICIENTS} at most, of at most "
                               "1e100 each, the first at least 1e-100")
    falling = found[-1] >= 0 and all(a >= b for a, b in pairwise(found))
    if len(found) > apart and (sampled or not falling):
        raise InvalidMechanism(
            "Correlated coefficients", "given", "no more than `separation`, or falling and not "
            "negative: else what a record moves takes the whole matrix, as in correlated_gaussian")
