"""Composites of the composition graph: frozen, self-checking, unpriced.

A node says what happened. What it costs is a separate question (`privledger.graph.fold`), so a
history can be priced again by a better accountant without being rewritten. What the fields of one
node ask of each other is in `privledger.graph.node_checks`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias, get_args

from attrs import evolve, field, frozen

from privledger.errors import InvalidMechanism, InvalidPlan, UnsupportedNode
from privledger.graph.additive import Asserted, AssertedZCDP, Gaussian, numbers
from privledger.graph.node_checks import (
    Nested,
    Never,
    Row,
    check_depth,
    check_filter,
    check_nested,
    check_shared,
    check_strategy,
    check_trials,
    check_trust,
    json_fields,
    listed,
)
from privledger.graph.register import Mechanism
from privledger.numerals import meant
from privledger.rounding import MOST_COUNT, count, plain_float, plain_int, probability

# --- Leaves that cost nothing: what is computed from released and public values, and public facts.


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidMechanism(name, type(value).__name__, "a text")


@frozen(cache_hash=True)
class PostProcess:
    """A function of released and public values only. Costs nothing."""

    note: str = ""

    def __attrs_post_init__(self) -> None:
        _check_text("PostProcess note", self.note)


@frozen(cache_hash=True)
class Public:
    """A public fact that the computation used. Costs nothing."""

    fact: str = ""

    def __attrs_post_init__(self) -> None:
        _check_text("Public fact", self.fact)


Certificate = Literal["public_predicate", "iid_per_record", "index"]
CERTIFICATES: tuple[Certificate, ...] = ("public_predicate", "iid_per_record", "index")


def check_node(name: str, value: object) -> None:
    """Raise `InvalidMechanism` unless `value` is a node type this package knows, `InvalidPlan`
    unless it is within the depth that a plan may have."""
    # By exact type: a subclass could answer anything when it is asked for its noise.
    if row_of(value) is None:
        raise InvalidMechanism(name, type(value).__name__, "a node of the composition graph")
    check_nested(name, value)


@frozen(cache_hash=True)
class Sequential(Nested):
    """All of `nodes` run on the same records, one after another."""

    nodes: tuple[Node, ...] = field(converter=listed)

    def __attrs_post_init__(self) -> None:
        for node in self.nodes:
            check_node("Sequential member", node)


@frozen(cache_hash=True)
class Repeat(Nested):
    """`node` runs `count` times on the same records, with fresh randomness."""

    node: Node
    count: int = field(converter=plain_int)

    def __attrs_post_init__(self) -> None:
        check_node("Repeat node", self.node)
        count("Repeat count", self.count, most=MOST_COUNT)


@frozen(cache_hash=True)
class Parallel(Nested):
    """Member j runs on part j of a partition.

    Attributes:
        nodes: one member per part.
        certificate: why one record's coming or going cannot change another record's part:
            `public_predicate` (the part is a function of the record and of public or released
            values), `iid_per_record` (a private coin per record), `index` (by position, for
            replace-one only). A balanced or shuffled split is none of these.
    """

    nodes: tuple[Node, ...] = field(converter=listed)
    certificate: Certificate = "public_predicate"

    def __attrs_post_init__(self) -> None:
        if not self.nodes:
            raise InvalidMechanism("Parallel nodes", self.nodes, "at least one part")
        for node in self.nodes:
            check_node("Parallel member", node)
        if self.certificate not in CERTIFICATES:
            raise InvalidMechanism("Parallel certificate", self.certificate,
                                   f"one of {', '.join(CERTIFICATES)}")


@frozen(cache_hash=True)
class OneOf(Nested):
    """One of `nodes` runs; which one may depend on everything released before.

    For plans whose shape follows from a released value, such as a depth from a noisy count.
    Costs the most of its members, in every currency (docs/proofs/composition.md).
    """

    nodes: tuple[Node, ...] = field(converter=listed)

    def __attrs_post_init__(self) -> None:
        if not self.nodes:
            raise InvalidMechanism("OneOf nodes", self.nodes, "at least one")
        for node in self.nodes:
            check_node("OneOf member", node)


@frozen(cache_hash=True)
class PoissonSample(Nested):
    """Each record enters independently with probability `rate`, then `node` runs.

    Assumes a fresh sample for this node, whose membership is never published. A batch of
    fixed size, or a shuffled pass, is a different node.
    """

    rate: float = field(converter=plain_float)
    node: Node

    def __attrs_post_init__(self) -> None:
        probability("PoissonSample rate", self.rate, one=True)
        check_node("PoissonSample node", self.node)


@frozen(cache_hash=True)
class IndividualFilter(Nested):
    """Whatever runs inside, each record leaves before its own cost passes `cap`.

    Attributes:
        kind: `gdp` caps the sum of squared Gaussian-DP parameters of unsampled Gaussian
            rounds; `renyi` caps the sum of Renyi bounds at one `order`.
        cap: mu squared, or a Renyi bound in nats at `order`.
        order: Renyi order for `renyi`; zero for `gdp`.
        node: what is meant to run inside. It does not set the price: the cap does.
    """

    kind: Literal["gdp", "renyi"]
    cap: float = field(converter=plain_float)
    order: float = field(default=0.0, converter=plain_float)
    node: Node | None = None

    @property
    def caps(self) -> str:
        """Kind, cap and order, exactly, as one word."""
        # Plus zero, because -0.0 is the same order.
        return f"{self.kind}:{float(self.cap).hex()}:{(float(self.order) + 0.0).hex()}"

    def __attrs_post_init__(self) -> None:
        check_filter(self.kind, self.cap, self.order)
        if self.node is not None:
            check_node("IndividualFilter node", self.node)


@frozen(cache_hash=True)
class Group(Nested):
    """One person owns at most `rows` of the records that `node` protects one by one."""

    rows: int = field(converter=plain_int)
    node: Node

    def __attrs_post_init__(self) -> None:
        count("Group rows", self.rows, most=MOST_COUNT)
        check_node("Group node", self.node)


@frozen(cache_hash=True)
class FixedSizeSample(Nested):
    """`size` of exactly `out_of` records, drawn without replacement, then `node` runs.

    For replace-one, where the number of records is public. Assumes a fresh sample for this
    node, whose membership is never published, and a `node` that ignores the order of rows.
    """

    size: int = field(converter=plain_int)
    out_of: int = field(converter=plain_int)
    node: Node

    def __attrs_post_init__(self) -> None:
        count("FixedSizeSample size", self.size, most=MOST_COUNT)
        count("FixedSizeSample out_of", self.out_of, most=MOST_COUNT)
        if self.size > self.out_of:
            raise InvalidMechanism("FixedSizeSample size", self.size, "at most out_of")
        check_node("FixedSizeSample node", self.node)


@frozen(cache_hash=True)
class TruncatedPoissonSample(Nested):
    """Each record enters independently with probability `rate`; of more than `most`, a uniformly
    random choice of `most` stays. Then `node` runs.

    Assumes a fresh sample for this node, whose membership is never published, and a `node` that
    ignores the order of rows. `out_of` is a public bound on the number of records, which every
    table that is meant keeps; the price of a huge one holds for any.
    """

    rate: float = field(converter=plain_float)
    most: int = field(converter=plain_int)
    out_of: int = field(converter=plain_int)
    node: Node

    def __attrs_post_init__(self) -> None:
        probability("TruncatedPoissonSample rate", self.rate, one=True)
        count("TruncatedPoissonSample most", self.most, most=MOST_COUNT)
        count("TruncatedPoissonSample out_of", self.out_of, most=MOST_COUNT)
        check_node("TruncatedPoissonSample node", self.node)


@frozen(cache_hash=True)
class RandomAllocation(Nested):
    """One pass of `steps` rounds of `node`: each record is in exactly one of them.

    Which one is the record's own private coin, fair and independent of all others', drawn afresh
    for this node and never published. Batches of a fixed size, or a shuffled pass, are something
    else. `node` is one round, priced as if the record were in it.
    """

    steps: int = field(converter=plain_int)
    node: Node

    def __attrs_post_init__(self) -> None:
        count("RandomAllocation steps", self.steps, most=MOST_COUNT)
        check_node("RandomAllocation node", self.node)


def several_of_many(rounds: int, participations: int, node: Node) -> Repeat:
    """A plan whose price covers `rounds` rounds of `node`, where each record is in a uniformly
    drawn set of `participations` of them: so many random allocations (docs/proofs/allocation.md).

    For plans and for runs that other programs make; the guard draws no such sets.

    Args:
        rounds: t. participations: k, at most t. node: one round, as in a `RandomAllocation`.

    >>> several_of_many(1000, 10, Gaussian(1.0)).node.steps
    100
    """
    most = count("rounds", rounds, most=MOST_COUNT)
    often = count("participations", participations, most=most)
    return Repeat(RandomAllocation(most // often, node), often)


@frozen(cache_hash=True)
class Correlated(Nested):
    """`steps` releases with correlated noise (a banded or Toeplitz matrix mechanism), all of them.

    Step t releases the sum over s <= t of coefficients[t - s] times the contributions of step s,
    with `node`'s noise, drawn anew. A record takes part in at most `participations` steps, any two
    of them at least `separation` apart; which ones is fixed without looking at any data.

    Attributes:
        node: one step: a Gaussian of one block, whose noise multiplier is the standard deviation
            over the clip of one record's contribution to one step; or that on a Poisson sample,
            which each step draws anew, for no more coefficients than `separation`.
        coefficients: of the strategy matrix, from its diagonal down; the rest are 0. Either no more
            than `separation`, or none below 0 and none above the one before it.
    """

    node: Node
    coefficients: tuple[float, ...] = field(converter=numbers)
    steps: int = field(converter=plain_int)
    separation: int = field(converter=plain_int)
    participations: int = field(converter=plain_int)

    def __attrs_post_init__(self) -> None:
        check_node("Correlated node", self.node)
        check_strategy(self.gaussian, self.coefficients, self.steps, self.separation,
                       self.participations, sampled=self.gaussian is not self.node)

    @property
    def gaussian(self) -> Any:
        """The noise of one step."""
        return self.node.node if type(self.node) is PoissonSample else self.node

    @property
    def rate(self) -> float:
        """Of each step's sample; 1 for none."""
        return self.node.rate if type(self.node) is PoissonSample else 1.0


@frozen(cache_hash=True)
class AsReplaceOne(Nested):
    """`node`, whose sensitivities are stated for add_remove, in a replace_one history.

    To replace a record is to remove one and add another. The reverse, from replace_one to
    add_remove, has no price: under replace-one the row count is public.
    """

    node: Node

    def __attrs_post_init__(self) -> None:
        check_node("AsReplaceOne node", self.node)


@frozen(cache_hash=True)
class LabelOnly(Nested):
    """`node` touches labels only: every feature, and the number of rows, is public.

    Priced under `replace_label` only, where neighbours differ in one record's label, at what
    `node` costs when a whole record is replaced (docs/proofs/relations.md). It says nothing
    about whole records, and under the other relations it is refused.
    """

    node: Node

    def __attrs_post_init__(self) -> None:
        check_node("LabelOnly node", self.node)


@frozen(cache_hash=True)
class Tuning(Nested):
    """The best of a random number of runs of `node`, chosen by what the runs released.

    Only the winner is published: the number of runs, the others' outputs and the running time
    stay secret (docs/proofs/tuning.md).

    Attributes:
        distribution: `negative_binomial` (at least one run; shape 1 is geometric, shape 0
            logarithmic) or `poisson` (possibly no run: then a fixed public answer).
        shape: above -1, for `negative_binomial`. success: in (0, 1), likewise; the smaller,
            the more runs.
        mean: of `poisson`, above 0; else 0.
    """

    node: Node
    distribution: Literal["negative_binomial", "poisson"] = "negative_binomial"
    shape: float = field(default=1.0, converter=plain_float)
    success: float = field(default=0.0, converter=plain_float)
    mean: float = field(default=0.0, converter=plain_float)

    def __attrs_post_init__(self) -> None:
        check_node("Tuning node", self.node)
        check_trials(self.distribution, self.shape, self.success, self.mean)


@frozen(cache_hash=True)
class Federated(Nested):
    """`node` runs in a federation: several parties answer, and only the sum of their answers is
    seen (docs/proofs/federated.md).

    It has two prices. *Declared*: if no more than `colluding` of the other parties give away
    their noise. *Alone*: if all of them do. See `privledger.nodes.alone`.

    Attributes:
        parties: how many owners answer, 1 to 1000.
        colluding: how many of the others may reveal their noise; below `parties`.
        least_honest: with fewer owners that do not, nothing is answered; 1 to
            `parties - colluding`.
        seen_by: who sees the sums: `coordinator`, `parties`, `anybody`.
        noise: `local`: each owner adds the whole noise of `node`. `shared`: each adds a share, and
            `node` holds no noise but `Gaussian` of a multiplier of at least .01, in sequences,
            repeats, parts, choices and Poisson samples.
    """

    node: Node
    parties: int = field(converter=plain_int)
    colluding: int = field(converter=plain_int)
    least_honest: int = field(default=1, converter=plain_int)
    seen_by: Literal["coordinator", "parties", "anybody"] = "coordinator"
    noise: Literal["local", "shared"] = "local"

    def __attrs_post_init__(self) -> None:
        check_node("Federated node", self.node)
        check_trust(self.parties, self.colluding, self.least_honest, self.seen_by, self.noise)
        if self.noise == "shared":
            check_shared(self.node, below(self.node), SHARED_TYPES)


Node: TypeAlias = (
    Mechanism
    | Sequential
    | Repeat
    | Parallel
    | OneOf
    | PoissonSample
    | FixedSizeSample
    | RandomAllocation
    | TruncatedPoissonSample
    | Correlated
    | IndividualFilter
    | Group
    | AsReplaceOne
    | LabelOnly
    | Tuning
    | Federated
    | PostProcess
    | Public
)

SHARED_TYPES = Sequential, Repeat, Parallel, OneOf, PoissonSample, Gaussian, PostProcess, Public

# In a sample the filter must act before it is drawn, so that cost follows the record.
_IN_A_SAMPLE: tuple[Never, ...] = (
    ((IndividualFilter,), "an individual filter inside a {} has no proof here; put the sample "
                          "inside the filter"),
    ((Group,), "rows are sampled one by one: a group inside a {} has no proof here"),
    ((RandomAllocation, TruncatedPoissonSample, Correlated),
     "a random allocation, a truncated sample, or correlated noise inside a {} has no "
     "proof here"))


def _in_a(name: str) -> tuple[Never, ...]:
    return tuple((kinds, why.format(name)) for kinds, why in _IN_A_SAMPLE)


def _only_removal(what: str) -> str:
    return f"{what} priced under add_remove only; under replace_one write AsReplaceOne around it"


NODES: dict[str, Row] = {row.kind.__name__: row for row in (
    *(Row(kind) for kind in (*get_args(Mechanism), PostProcess, Public)),
    Row(Sequential, through=True),
    Row(Repeat, through=True),
    Row(Parallel, opened_by="part", step={"parts": "nodes", "certificate": "certificate"}),
    Row(OneOf),
    Row(PoissonSample, opened_by="poisson", step={"rate": "rate"}, coins=True, bends=True,
        relations=("add_remove",), elsewhere="Poisson subsampling is priced under add_remove only",
        never=_in_a("Poisson sample")),
    Row(FixedSizeSample, opened_by="fixed", step={"size": "size", "out_of": "out_of"}, coins=True,
        bends=True, relations=("replace_one",),
        elsewhere="samples of a fixed size are priced under replace_one only: under add_remove "
                  "the number of records is private",
        never=_in_a("sample of fixed size")),
    Row(RandomAllocation, opened_by="allocation", step={"parts": "steps"}, coins=True, bends=True,
        relations=("add_remove",), elsewhere=_only_removal("a random allocation is"),
        never=_in_a("random allocation")),
    Row(TruncatedPoissonSample, opened_by="truncated",
        step={"rate": "rate", "size": "most", "out_of": "out_of"}, coins=True, bends=True,
        relations=("add_remove",), elsewhere=_only_removal("a truncated sample is"),
        never=_in_a("sample that is cut off")),
    Row(Correlated, relations=("add_remove",), elsewhere=_only_removal("correlated noise is")),
    # The caps must be the reserved ones: a wider filter under a narrow name charges too little.
    Row(IndividualFilter, opened_by="filter", step={"caps": "caps"}, relations=("add_remove",),
        elsewhere="individual filters are proved for add_remove only"),
    Row(Group, through=True, bends=True),
    Row(AsReplaceOne, through=True, bends=True, relations=("replace_one",),
        elsewhere="AsReplaceOne is priced under replace_one: that is its purpose"),
    # A fixed sample's proof swaps whole records, and a label may move a query less.
    Row(LabelOnly, through=True, relations=("replace_label",),
        elsewhere="LabelOnly promises nothing about whole records, so it has no price under "
                  "{relation}: it is for ledgers of relation replace_label",
        never=(((FixedSizeSample,),
                "a sample of fixed size inside LabelOnly has no proof here"),
               (_IN_A_SAMPLE[-1][0], "a random allocation, a truncated sample, or "
                                     "correlated noise inside LabelOnly has no proof here"))),
    Row(Tuning, bends=True, never=(
        ((IndividualFilter,), "tuning around an individual filter has no proof here"),)),
    Row(Federated, through=True))}
"""All that is known of each kind of node beside its fields, its price and its event: by name."""

NODE_TYPES: tuple[type[Node], ...] = tuple(row.kind for row in NODES.values())
COMPOSITE_TYPES = tuple(row.kind for row in NODES.values() if row.child)
LEAF_TYPES = tuple(row.kind for row in NODES.values() if not row.child)


def row_of(value: object) -> Row | None:
    """The row of a node, by its exact type; None for what is no node."""
    row = NODES.get(type(value).__name__)
    return row if row is not None and row.kind is type(value) else None


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below `node`, in order."""
    row = row_of(node)
    if row is None or not row.child:
        return ()
    found = getattr(node, row.child)
    if type(found) is tuple:
        return found
    return () if found is None else (found,)


def with_children(node: Node, inside: tuple[Node, ...]) -> Node:
    """`node` around others, as many as `children` gave."""
    row = row_of(node)
    if row is None or not inside:
        return node
    given: Any = node
    changed: Node = evolve(given, **{row.child: inside if row.child == "nodes" else inside[0]})
    return changed


def below(node: Node) -> Iterator[Node]:
    """`node` and everything below it, each shared subtree once."""
    seen: set[int] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting.extend(children(one))


def holds(node: Node, kind: type) -> bool:
    """Whether `node` or anything below it is of type `kind`."""
    return any(isinstance(one, kind) for one in below(node))


# --- Parts of a plan that an author vouches for: no guard sees what they read.


def runs_elsewhere(plan: Node) -> bool:
    """Whether an author vouches for a part of `plan`: it runs where no guard sees what it reads."""
    return holds(plan, Asserted) or holds(plan, AssertedZCDP)


def check_filtered(plan: Node) -> None:
    """Refuse a filter around what runs elsewhere: its records would never be told to stop.

    Raises:
        UnsupportedNode: nothing was read.
    """
    for one in below(plan):
        if isinstance(one, IndividualFilter) and one.node is not None and runs_elsewhere(one.node):
            raise UnsupportedNode("an individual filter cannot stop a record in an external run "
                                  "(Asserted, AssertedZCDP): reserve that without a filter. "
                                  "Nothing was read")


# Nodes <-> plain JSON values, and canonical JSON text.

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True,
                            allow_nan=False)


def canonical(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no spaces, ASCII, no NaN or infinity."""
    return _ENCODER.encode(value)


def to_json(node: Node) -> dict[str, Any]:
    """A node as a JSON object; its type under `node`.

    Raises:
        InvalidPlan: it is nested too deeply, or too large to be written out.
    """
    check_depth(node)
    return _out(node)


def _out(node: Node) -> dict[str, Any]:
    result: dict[str, Any] = {"node": type(node).__name__}
    row = row_of(node)
    for name, attribute in (json_fields(type(node)) if row is None else row.fields).items():
        value = getattr(node, attribute.name)
        if isinstance(value, tuple):
            value = [item if row_of(item) is None else _out(item) for item in value]
        elif row_of(value) is not None:
            value = _out(value)
        result[name] = value
    return result


def from_json(value: Any) -> Node:
    """The node that `to_json` wrote; every record checks itself again.

    Raises:
        InvalidPlan: it is nested too deeply, too large, or no node.
        InvalidMechanism: a record that checked itself failed.
    """
    check_depth(value)
    return _node(value)


def _node(value: Any) -> Node:
    name = value.get("node") if isinstance(value, dict) else None
    row = NODES.get(name) if isinstance(name, str) else None
    if row is None:
        near = meant(name, NODES) if isinstance(name, str) else ""
        raise InvalidPlan("node", _short(value), f"an object whose `node` is a known type{near}")
    known = row.fields
    arguments: dict[str, Any] = {}
    for key, item in value.items():
        if key == "node":
            continue
        if key not in known:
            raise InvalidPlan(f"{value['node']} field", key, f"one of {', '.join(known)}")
        arguments[known[key].name] = item if type(item) is float else _value(item)
    try:
        node: Node = row.kind(**arguments)
    except TypeError:
        raise InvalidPlan(value["node"], _short(value), "given all its fields") from None
    for key, item in value.items():
        # A text or an object would turn into a tuple of its characters or keys.
        if type(item) is not float and key != "node" and not isinstance(item, list) and isinstance(
                getattr(node, known[key].name), tuple):
            raise InvalidPlan(f"{value['node']} {key}", _short(item), "a list")
    return node


def _value(item: Any) -> Any:
    if isinstance(item, dict):
        return _node(item)
    if isinstance(item, list):
        return tuple([part if type(part) is float else _value(part) for part in item])
    return item


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
