"""Nodes -> the `DpEvent`s of Google's `dp_accounting`; the way back, and what to know of the
events, is `dp_events`. An event that is written says what its node says, or less, never more."""

from __future__ import annotations

import math
from collections import Counter
from functools import singledispatch
from typing import Any, Literal

from attrs import Factory, define

from privledger.accounting import Cost, Relation
from privledger.accounting.tuning import negative_binomial_mean
from privledger.errors import InvalidValue, RelationMismatch, UnsupportedNode
from privledger.graph.dp_events import dp_module, whole_records
from privledger.graph.fold import cost_of
from privledger.graph.free import PostProcess, Public
from privledger.graph.networkx_view import label
from privledger.graph.nodes import (
    AsReplaceOne,
    Federated,
    FixedSizeSample,
    Node,
    OneOf,
    Parallel,
    PoissonSample,
    Repeat,
    Sequential,
    TruncatedPoissonSample,
    Tuning,
    check_node,
)
from privledger.mechanisms import (
    Asserted,
    AssertedZCDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    Laplace,
    RandomizedResponse,
)
from privledger.rounding import down, multiply_up, positive, up


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
    return _weaker(node, relation, how)


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


@_export.register
def _(node: Gaussian, relation: Relation, how: Saying) -> Any:
    _additive(node, relation, how)
    return _make("GaussianDpEvent", noise_multiplier=node.noise_multiplier)


@_export.register
def _(node: Laplace, relation: Relation, how: Saying) -> Any:
    _additive(node, relation, how)
    return _make("LaplaceDpEvent", noise_multiplier=_noise(node.scale, node.l1_sensitivity))


@_export.register
def _(node: DiscreteLaplace, relation: Relation, how: Saying) -> Any:
    _additive(node, relation, how)
    return _make("DiscreteLaplaceDpEvent", noise_parameter=node.parameter,
                 sensitivity=node.sensitivity)


@_export.register
def _(node: AsReplaceOne, relation: Relation, how: Saying) -> Any:
    """What is read as this node under replace_one, for the accountant that reads it so, too."""
    if how.doubled and relation == "replace_one" and isinstance(
            node.node,
            Gaussian | Laplace | DiscreteLaplace | PoissonSample | TruncatedPoissonSample):
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
def _(node: RandomizedResponse, relation: Relation, how: Saying) -> Any:
    return _make("RandomizedResponseDpEvent", noise_parameter=node.noise_parameter,
                 num_buckets=node.num_buckets)


@_export.register
def _(node: Asserted, relation: Relation, how: Saying) -> Any:
    """Pure DP is a divergence of at most epsilon at every order, and only that."""
    if node.delta:
        raise UnsupportedNode("no event of dp_accounting says an epsilon and a delta")
    return _make("ZCDpEvent", rho=0.0, xi=node.epsilon)


@_export.register
def _(node: AssertedZCDP, relation: Relation, how: Saying) -> Any:
    return _make("ZCDpEvent", rho=node.rho)


@_export.register(PostProcess)
@_export.register(Public)
def _(node: Any, relation: Relation, how: Saying) -> Any:
    return _make("NoOpDpEvent")


@_export.register
def _(node: Sequential, relation: Relation, how: Saying) -> Any:
    if not node.nodes:
        return _make("NoOpDpEvent")
    return _make("ComposedDpEvent", events=[_part(member, relation, how)
                                            for member in node.nodes])


@_export.register
def _(node: Repeat, relation: Relation, how: Saying) -> Any:
    return _make("SelfComposedDpEvent", event=_part(node.node, relation, how),
                 count=node.count)


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


@_export.register
def _(node: PoissonSample, relation: Relation, how: Saying) -> Any:
    return _make("PoissonSampledDpEvent", sampling_probability=node.rate,
                 event=_export(node.node, relation, how))


@_export.register
def _(node: TruncatedPoissonSample, relation: Relation, how: Saying) -> object:
    if not isinstance(node.node, Gaussian):
        raise UnsupportedNode("dp_accounting truncates samples of a Gaussian alone")
    return _make("TruncatedSubsampledGaussianDpEvent", dataset_size=node.out_of,
                 sampling_probability=node.rate, truncated_batch_size=node.most,
                 noise_multiplier=node.node.noise_multiplier)


@_export.register
def _(node: FixedSizeSample, relation: Relation, how: Saying) -> Any:
    return _make("SampledWithoutReplacementDpEvent", source_dataset_size=node.out_of,
                 sample_size=node.size, event=_export(node.node, relation, how))


@_export.register
def _(node: Tuning, relation: Relation, how: Saying) -> Any:
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
