"""Nodes <-> the `DpEvent`s of Google's `dp_accounting`, an optional package.

An event is a statement about a mechanism, and so is a node. Both directions keep the statement
or weaken it, and never say more than was said. Read against the events of dp_accounting 0.6.0.

Neither events nor nodes carry a relation, but some mean different things under two of them:

- `GaussianDpEvent`, `LaplaceDpEvent`, `DiscreteLaplaceDpEvent` add noise to a sum of values of
  *norm* at most C. Under add-or-remove-one the sum moves by C, under replace-one by up to 2 C.
  Their `PLDAccountant` doubles Gaussian noise and refuses Laplace noise, their `RdpAccountant`
  does not double. So an event is read as its docstring says, and none is written that the second
  one would price too low, unless the first one is named as who will read it.
- `RandomizedResponseDpEvent` and `SampledWithoutReplacementDpEvent` are for replace-one,
  `PoissonSampledDpEvent` and `TruncatedSubsampledGaussianDpEvent` are for add-or-remove-one.
"""

from __future__ import annotations

import importlib
import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import singledispatch
from typing import Any, Literal

from attrs import Factory, define, frozen

from privledger.accounting import Cost, Relation, check_relation
from privledger.accounting.tuning import negative_binomial_mean
from privledger.errors import (
    InvalidMechanism,
    InvalidPlan,
    InvalidValue,
    RelationMismatch,
    UnsupportedNode,
)
from privledger.graph.additive import (
    Asserted,
    AssertedZCDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    MixtureOfGaussians,
)
from privledger.graph.explain import label
from privledger.graph.fold import cost_of
from privledger.graph.node_checks import check_depth
from privledger.graph.nodes import (
    AsReplaceOne,
    Federated,
    FixedSizeSample,
    Node,
    OneOf,
    Parallel,
    PoissonSample,
    PostProcess,
    Public,
    Repeat,
    Sequential,
    TruncatedPoissonSample,
    Tuning,
    check_node,
)
from privledger.graph.selection import Exponential, RandomizedResponse
from privledger.rounding import down, moderate, multiply_up, non_negative, number, positive, up

NOTHING = Sequential(())
WHY = "stated by a ZCDpEvent of dp_accounting"
_SMALLEST = 2.3e-308  # success probabilities below are subnormal


def dp_module() -> Any:
    """The module that holds their events; an `UnsupportedNode` says how to install it."""
    try:
        return importlib.import_module("dp_accounting.dp_event")
    except ImportError:
        raise UnsupportedNode("DpEvents need the optional package dp_accounting: "
                              "pip install dp-accounting") from None


# --- events to nodes --------------------------------------------------------------------------


def from_dp_event(event: Any, relation: Relation = "add_remove") -> Node:
    """The node that says what a `dp_accounting` event says, or less.

    Args:
        event: a `DpEvent`; its own type decides, a subclass is refused.
        relation: the relation that the node will be priced under. For `replace_one` additive
            noise and Poisson samples become `AsReplaceOne`.

    Raises:
        UnsupportedNode: no node says this; or dp_accounting is not installed.
        RelationMismatch: the event is stated for the other relation.
        InvalidValue: a number that can never be right, NaN for example, or nested too deeply.
    """
    check_depth(event, "DpEvent")
    return _from(event, relation)


def _from(event: Any, relation: Relation) -> Node:
    name = type(event).__name__
    if type(event) is not getattr(dp_module(), name, None):
        raise UnsupportedNode(f"{name} is no event of dp_accounting.dp_event")
    row = EVENTS.get(name)
    if row is None:
        raise UnsupportedNode(f"{name}: {_REFUSED.get(name, 'no node here says this')}")
    whole_records(relation)
    if row.stated == "replace_one" != relation:
        raise RelationMismatch(f"{name} is stated for {row.stated} only")
    inside = row.stated or relation
    node = row.read(event, inside) if row.read is not None else row.node(
        **{own: _from(event.event, inside) if name == "event" else getattr(event, name)
           for name, own in row.fields.items()})
    # What holds for `stated`: a replacement is a removal and an addition.
    return node if inside == relation else AsReplaceOne(node)


@frozen
class EventRow:
    """A node and an event that say the same.

    Attributes:
        node: the node. fields: of the event, and of the node.
        stated: the relation that the event is stated for; else it has no relation of its own.
        additive: whether its noise is read in two ways under replace-one (module docstring).
        apart: whether parts inside are said one by one, each as well as it can be.
        read, write: where that takes more than the fields.
    """

    node: Any
    fields: Mapping[str, str] = {}
    stated: Relation | None = None
    additive: bool = False
    apart: bool = False
    read: Callable[[Any, Relation], Node] | None = None
    write: Callable[[Any, Relation, Saying], Any] | None = None


_REFUSED = {
    "NonPrivateDpEvent": "not private at all, so it has no price",
    "UnsupportedDpEvent": "it does not state what was done",
    "SampledWithReplacementDpEvent": "a record may be drawn twice; no proof here",
    "SingleEpochTreeAggregationDpEvent": "stated for replacing a record by a special one, "
                                         "a relation that is not priced here",
}


def whole_records(relation: Relation) -> None:
    """No event says that it touches labels only: outside, its epsilon would read as more."""
    if check_relation(relation) == "replace_label":
        raise RelationMismatch("events of dp_accounting speak about whole records; replace_label "
                               "has no counterpart there")


def _from_zcdp(event: Any, relation: Relation) -> Node:
    """Divergence at most xi + rho * order. With rho 0 this is pure DP: let the order grow."""
    rho, xi = number("ZCDpEvent rho", event.rho), number("ZCDpEvent xi", event.xi)
    if rho == 0:
        return NOTHING if xi == 0 else Asserted(xi, WHY)
    if xi != 0:
        raise UnsupportedNode("ZCDpEvent: zCDP with both rho and xi has no node here")
    return AssertedZCDP(rho, WHY)


def _from_composed(event: Any, relation: Relation) -> Node:
    if not isinstance(event.events, list | tuple):
        raise InvalidPlan("ComposedDpEvent events", type(event.events).__name__, "a list")
    return Sequential([_from(member, relation) for member in event.events])


def _from_truncated(event: Any, relation: Relation) -> Node:
    """docs/proofs/truncated.md; their accountant takes `dataset_size` for the larger table, too."""
    return TruncatedPoissonSample(event.sampling_probability, event.truncated_batch_size,
                                  event.dataset_size, Gaussian(event.noise_multiplier))


def _from_select(event: Any, relation: Relation) -> Node:
    """Papernot, Steinke 2022 (arXiv:2110.03620v2), Definition 1; shape infinity is Poisson."""
    node = _from(event.event, relation)
    if event.shape == math.inf:
        return Tuning(node, "poisson", mean=event.mean)
    mean = number("RepeatAndSelectDpEvent mean", event.mean)
    shape = non_negative("RepeatAndSelectDpEvent shape", event.shape)
    if not mean >= 1:
        raise InvalidMechanism("RepeatAndSelectDpEvent mean", mean, "at least 1")
    if mean == 1:
        return node  # one run at least, and one on average
    return Tuning(node, shape=shape, success=_success(shape, mean))


def _success(shape: float, mean: float) -> float:
    """The success probability that gives `mean` runs, rounded down: rather more runs."""
    if shape:
        moderate("RepeatAndSelectDpEvent shape", shape)
    low, high, least = _SMALLEST, 1.0, mean * (1 + 1e-13)  # means are rounded up, by less
    if not negative_binomial_mean(shape, low) >= least:
        raise InvalidMechanism("RepeatAndSelectDpEvent mean", mean, "of a distribution in reach")
    while True:
        middle = math.exp((math.log(low) + math.log(high)) / 2)
        if not low < middle < high or high - low <= 1e-15 * low:
            return low
        if negative_binomial_mean(shape, middle) >= least:
            low = middle
        else:
            high = middle


@define
class Saying:
    """How nodes are said, and what was said about them on the way.

    Attributes:
        exact: refuse what no event says exactly; else a true event that says less will do.
        whole: what no event says at all becomes an `UnsupportedDpEvent`, which no accountant of
            theirs prices, instead of an error.
        weaker: labels of nodes whose event says less than they do, and how many there are.
        unsaid: labels of nodes that became an `UnsupportedDpEvent`.
        doubled: the event is for their PLD accountant alone, which doubles under replace-one.
    """

    exact: bool = True
    whole: bool = False
    weaker: Counter[str] = Factory(Counter)
    unsaid: Counter[str] = Factory(Counter)
    doubled: bool = False


def to_dp_event(node: Node, relation: Relation = "add_remove", *, exact: bool = True,
                accountant: Literal["any", "pld"] = "any") -> Any:
    """The `dp_accounting` event that says what `node` says.

    Notes, facts and reasons have no place in an event and are left out.

    Args:
        relation: what the event will be priced under; set their accountant to the same.
        exact: refuse a node that no event says exactly. If False, such a node becomes an event
            that is true of it but says less: a Gaussian, or zCDP from pure DP.
        accountant: which of theirs will price the event. Under replace_one `pld` doubles Gaussian
            noise, as the events' own words have it, and refuses Laplace noise (0.6.0), and so
            takes `AsReplaceOne` exactly; `rdp` does not double: it would price it too low.

    Raises:
        InvalidValue: an accountant of another name.
        UnsupportedNode: no such event; or `node` has no price under `relation` here; or
            dp_accounting is not installed.
    """
    # What has no price here has no proof: a group inside a sample, the wrong relation.
    check_node("node", node)
    whole_records(relation)
    cost_of(node, relation)
    if accountant not in ("any", "pld"):
        raise InvalidValue("accountant", accountant, "any or pld")
    return _export(node, relation, Saying(exact, doubled=accountant == "pld"))


def every_dp_event(node: Node, relation: Relation) -> tuple[Any, Saying]:
    """Some event for every node: exact where there is one, else one that says less, else none.

    Never one that says more: their total is an upper bound, or they refuse to give one.

    Returns:
        the event, and what was said weakly or not at all.

    Raises:
        UnsupportedNode: dp_accounting is not installed.
    """
    check_node("node", node)
    how = Saying(exact=False, whole=True)
    return _part(node, relation, how), how


def _part(node: Node, relation: Relation, how: Saying) -> Any:
    """A part of a sequence by itself: where nothing says it, the other parts are still said."""
    if not how.whole:
        return _export(node, relation, how)
    if isinstance(node, Sequential | Repeat) and relation != "replace_label":
        return _export(node, relation, how)
    inside = Saying(exact=False)
    try:
        whole_records(relation)
        cost_of(node, relation)
        event = _export_or_weaker(node, relation, inside)
    except (UnsupportedNode, RelationMismatch):
        how.unsaid[label(node)] += 1
        return _make("UnsupportedDpEvent")
    how.weaker.update(inside.weaker)
    return event


def _export_or_weaker(node: Node, relation: Relation, how: Saying) -> Any:
    try:
        return _export(node, relation, how)
    except UnsupportedNode:
        how.weaker.clear()  # of its parts: now it is said as a whole
        return _weaker(node, relation, how)


def _make(name: str, **values: Any) -> Any:
    kind = getattr(dp_module(), name, None)
    if kind is None:
        raise UnsupportedNode(f"this version of dp_accounting has no {name}")
    return kind(**values)


@singledispatch
def _export(node: Any, relation: Relation, how: Saying) -> Any:
    name = _EVENT_OF.get(type(node))
    if name is None:
        return _weaker(node, relation, how)
    row = EVENTS[name]
    if row.additive:
        _additive(node, relation, how)
    if row.write is not None:
        return row.write(node, relation, how)
    say = _part if row.apart else _export
    return _make(name, **{
        key: say(node.node, relation, how) if key == "event" else getattr(node, own)
        for key, own in row.fields.items()})


def _weaker(node: Any, relation: Relation, how: Saying) -> Any:
    """No event says this exactly: one that says less and is true, from the node's own price."""
    name = f"{type(node).__name__} under {relation}"
    if how.exact:
        raise UnsupportedNode(f"no event of dp_accounting says {name}; exact=False may find "
                              "one that says less")
    cost = cost_of(node, relation)
    if not cost.failure and cost.pure == 0:
        return _make("NoOpDpEvent")
    how.weaker[label(node)] += 1
    if not cost.failure and cost.mu_squared:
        return _make("GaussianDpEvent", noise_multiplier=_noise(1, up(math.sqrt(cost.mu_squared))))
    if not cost.failure and math.isfinite(cost.pure):
        return _make("ZCDpEvent", rho=positive("rho", _concentrated(node, cost)))
    raise UnsupportedNode(f"no event of dp_accounting bounds {name}")


def _concentrated(node: Any, cost: Cost) -> float:
    """epsilon^2/2: Bun, Steinke 2016 (arXiv:1605.02065v1), Proposition 1.4; for a bounded range
    eta^2/8: Cesar, Rogers 2021 (arXiv:2004.07223v3), Lemma 3.4."""
    ranged = isinstance(node, Exponential) or getattr(node, "noise", "") == "gumbel"
    return multiply_up(cost.pure, cost.pure) / (8 if ranged else 2)


def _noise(scale: float, sensitivity: float) -> float:
    """A noise multiplier, rounded down."""
    exact = sensitivity == 1
    return positive("noise multiplier", scale if exact else down(scale / sensitivity))


def _additive(node: Any, relation: Relation, how: Saying) -> None:
    """Under replace-one the two accountants read the noise in two ways (module docstring).

    Noise over what a *replacement* moves is right for the RDP one and dear for the PLD one.
    """
    if how.exact and relation != "add_remove":
        raise UnsupportedNode(f"the accountants of dp_accounting disagree about "
                              f"{type(node).__name__} under replace_one; exact=False writes "
                              "an event that neither prices too low")
    if relation != "add_remove":
        how.weaker[label(node)] += 1


def _to_laplace(node: Laplace, relation: Relation, how: Saying) -> Any:
    return _make("LaplaceDpEvent", noise_multiplier=_noise(node.scale, node.l1_sensitivity))


@_export.register
def _(node: AsReplaceOne, relation: Relation, how: Saying) -> Any:
    """What is read as this node under replace_one, for the accountant that reads it so, too."""
    if how.doubled and relation == "replace_one" and isinstance(
            node.node,
            Gaussian | Laplace | DiscreteLaplace | MixtureOfGaussians | PoissonSample
            | TruncatedPoissonSample):
        return _export(node.node, "add_remove", how)
    return _weaker(node, relation, how)


@_export.register
def _(node: DiscreteGaussian, relation: Relation, how: Saying) -> Any:
    """Canonne, Kamath, Steinke 2020 (arXiv:2004.00010v4): zCDP, but less."""
    if how.exact:
        raise UnsupportedNode("dp_accounting has no event of a DiscreteGaussian; exact=False "
                              "writes its zCDP")
    how.weaker[label(node)] += 1
    ratio = up(node.sensitivity / node.sigma)
    return _make("ZCDpEvent", rho=positive("rho", multiply_up(ratio, ratio) / 2))


@_export.register
def _(node: Asserted, relation: Relation, how: Saying) -> Any:
    """Pure DP is a divergence of at most epsilon at every order, and only that."""
    if node.delta:
        raise UnsupportedNode("no event of dp_accounting says an epsilon and a delta")
    return _make("ZCDpEvent", rho=0.0, xi=node.epsilon)


@_export.register(PostProcess)
@_export.register(Public)
def _(node: Any, relation: Relation, how: Saying) -> Any:
    return _make("NoOpDpEvent")


def _to_composed(node: Sequential, relation: Relation, how: Saying) -> Any:
    if not node.nodes:
        return _make("NoOpDpEvent")
    return _make("ComposedDpEvent", events=[_part(member, relation, how)
                                            for member in node.nodes])


@_export.register
def _(node: Parallel, relation: Relation, how: Saying) -> Any:
    """Equal parts, where a record has one part and stays in it: what one part is."""
    stays = relation == "add_remove" or node.certificate == "index"
    if stays and len(set(node.nodes)) == 1:
        return _export(node.nodes[0], relation, how)
    return _weaker(node, relation, how)


@_export.register
def _(node: OneOf, relation: Relation, how: Saying) -> Any:
    """Equal members: what one member is."""
    if len(set(node.nodes)) == 1:
        return _export(node.nodes[0], relation, how)
    return _weaker(node, relation, how)


@_export.register
def _(node: Federated, relation: Relation, how: Saying) -> object:
    """Whole noise is what it is on one table; of shared noise no event says the other price."""
    if node.noise == "shared":
        raise UnsupportedNode("no event of dp_accounting says what noise that is shared costs")
    return _export(node.node, relation, how)


def _to_truncated(node: TruncatedPoissonSample, relation: Relation, how: Saying) -> object:
    if not isinstance(node.node, Gaussian):
        raise UnsupportedNode("dp_accounting truncates samples of a Gaussian alone")
    return _make("TruncatedSubsampledGaussianDpEvent", dataset_size=node.out_of,
                 sampling_probability=node.rate, truncated_batch_size=node.most,
                 noise_multiplier=node.node.noise_multiplier)


def _to_select(node: Tuning, relation: Relation, how: Saying) -> Any:
    """dp_accounting knows shapes of at least 0 and means of at least 1 only."""
    event = _export(node.node, relation, how)
    shape, mean = math.inf, node.mean
    if node.distribution == "negative_binomial":
        if node.shape < 0:
            raise UnsupportedNode("dp_accounting has no Tuning of negative shape")
        shape, mean = node.shape, negative_binomial_mean(node.shape, node.success)
    if mean < 1:
        raise UnsupportedNode("dp_accounting has no Tuning of mean below 1")
    return _make("RepeatAndSelectDpEvent", event=event, mean=mean, shape=shape)


EVENTS = {
    "NoOpDpEvent": EventRow(Public, read=lambda event, relation: NOTHING),
    "GaussianDpEvent": EventRow(Gaussian, {"noise_multiplier": "noise_multiplier"}, "add_remove",
                                additive=True),
    "LaplaceDpEvent": EventRow(Laplace, {"noise_multiplier": "scale"}, "add_remove", additive=True,
                               write=_to_laplace),
    "DiscreteLaplaceDpEvent": EventRow(
        DiscreteLaplace, {"noise_parameter": "parameter", "sensitivity": "sensitivity"},
        "add_remove", additive=True),
    # Their PLD accountant prices it under add-or-remove-one only.
    "MixtureOfGaussiansDpEvent": EventRow(
        MixtureOfGaussians, {"standard_deviation": "standard_deviation",
                             "sensitivities": "sensitivities", "sampling_probs": "probabilities"},
        "add_remove"),
    "RandomizedResponseDpEvent": EventRow(
        RandomizedResponse, {"noise_parameter": "noise_parameter", "num_buckets": "num_buckets"},
        "replace_one"),
    "ZCDpEvent": EventRow(AssertedZCDP, {"rho": "rho"}, read=_from_zcdp),
    "ComposedDpEvent": EventRow(Sequential, read=_from_composed, write=_to_composed),
    "SelfComposedDpEvent": EventRow(Repeat, {"event": "node", "count": "count"}, apart=True),
    "RepeatAndSelectDpEvent": EventRow(Tuning, read=_from_select, write=_to_select),
    # docs/proofs/relations.md: a Poisson sample may change its relation as a whole.
    "PoissonSampledDpEvent": EventRow(
        PoissonSample, {"sampling_probability": "rate", "event": "node"}, "add_remove"),
    "TruncatedSubsampledGaussianDpEvent": EventRow(
        TruncatedPoissonSample, stated="add_remove", read=_from_truncated, write=_to_truncated),
    "SampledWithoutReplacementDpEvent": EventRow(
        FixedSizeSample, {"source_dataset_size": "out_of", "sample_size": "size",
                          "event": "node"}, "replace_one"),
}
"""Both directions: what their events say, and what is written as one of them."""

_EVENT_OF = {row.node: name for name, row in EVENTS.items()}
