"""Nodes <-> the `DpEvent`s of Google's `dp_accounting`, an optional package.

An event is a statement about a mechanism, and so is a node. Both directions keep the statement
or weaken it, and never say more than was said. Read against dp_accounting 0.6.0, dp_event.py.

Neither events nor nodes carry a relation, but some mean different things under two of them:

- `GaussianDpEvent`, `LaplaceDpEvent`, `DiscreteLaplaceDpEvent` add noise to a sum of values of
  *norm* at most C. Under add-or-remove-one the sum moves by C, under replace-one by up to 2 C.
  Their `PLDAccountant` doubles, their `RdpAccountant` does not. So an event is read as its
  docstring says, and no event is written that the second one would price too low.
- `RandomizedResponseDpEvent` and `SampledWithoutReplacementDpEvent` are for replace-one,
  `PoissonSampledDpEvent` is for add-or-remove-one.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from functools import singledispatch
from typing import Any

from privledger.accounting import Cost, Relation, check_relation
from privledger.accounting.tuning import negative_binomial_mean
from privledger.errors import InvalidMechanism, InvalidPlan, RelationMismatch, UnsupportedNode
from privledger.graph.fold import cost_of
from privledger.graph.nesting import check_depth
from privledger.graph.nodes import (
    AsReplaceOne,
    FixedSizeSample,
    Node,
    OneOf,
    Parallel,
    PoissonSample,
    PostProcess,
    Public,
    Repeat,
    Sequential,
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
from privledger.rounding import down, moderate, multiply_up, non_negative, number, positive, up

NOTHING = Sequential(())
WHY = "stated by a ZCDpEvent of dp_accounting"
_SMALLEST = 2.3e-308  # success probabilities below are subnormal


def _module() -> Any:
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
    if type(event) is not getattr(_module(), name, None):
        raise UnsupportedNode(f"{name} is no event of dp_accounting.dp_event")
    if name not in _FROM:
        raise UnsupportedNode(f"{name}: {_REFUSED.get(name, 'no node here says this')}")
    _whole_records(relation)
    return _FROM[name](event, relation)


_REFUSED = {
    "NonPrivateDpEvent": "not private at all, so it has no price",
    "UnsupportedDpEvent": "it says nothing about what was done",
    "SampledWithReplacementDpEvent": "a record may be drawn twice; no proof here",
    "SingleEpochTreeAggregationDpEvent": "stated for replacing a record by a special one, "
                                         "a relation that is not priced here",
    "MixtureOfGaussiansDpEvent": "a bare pair of output laws, of no mechanism priced here",
    "TruncatedSubsampledGaussianDpEvent": "truncating a Poisson sample ties the records "
                                          "together; no proof here",
}


def _whole_records(relation: Relation) -> None:
    """No event says that it touches labels only: outside, its epsilon would read as more."""
    if check_relation(relation) == "replace_label":
        raise RelationMismatch("events of dp_accounting speak about whole records; replace_label "
                               "has no counterpart there")


def _for_removal(node: Node, relation: Relation) -> Node:
    """`node` holds for add_remove; a replacement is a removal and an addition."""
    return node if relation == "add_remove" else AsReplaceOne(node)


def _only(wanted: Relation, relation: Relation, event: Any) -> None:
    if relation != wanted:
        raise RelationMismatch(f"{type(event).__name__} is stated for {wanted} only")


def _from_no_op(event: Any, relation: Relation) -> Node:
    return NOTHING


def _from_gaussian(event: Any, relation: Relation) -> Node:
    return _for_removal(Gaussian(event.noise_multiplier), relation)


def _from_laplace(event: Any, relation: Relation) -> Node:
    return _for_removal(Laplace(event.noise_multiplier), relation)


def _from_discrete_laplace(event: Any, relation: Relation) -> Node:
    return _for_removal(DiscreteLaplace(event.noise_parameter, event.sensitivity), relation)


def _from_response(event: Any, relation: Relation) -> Node:
    _only("replace_one", relation, event)
    return RandomizedResponse(event.noise_parameter, event.num_buckets)


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


def _from_self_composed(event: Any, relation: Relation) -> Node:
    return Repeat(_from(event.event, relation), event.count)


def _from_poisson(event: Any, relation: Relation) -> Node:
    """docs/proofs/relations.md: a Poisson sample may change its relation as a whole."""
    inner = _from(event.event, "add_remove")
    return _for_removal(PoissonSample(event.sampling_probability, inner), relation)


def _from_fixed_size(event: Any, relation: Relation) -> Node:
    _only("replace_one", relation, event)
    return FixedSizeSample(event.sample_size, event.source_dataset_size,
                           _from(event.event, "replace_one"))


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


_FROM: dict[str, Callable[[Any, Relation], Node]] = {
    "NoOpDpEvent": _from_no_op,
    "GaussianDpEvent": _from_gaussian,
    "LaplaceDpEvent": _from_laplace,
    "DiscreteLaplaceDpEvent": _from_discrete_laplace,
    "RandomizedResponseDpEvent": _from_response,
    "ZCDpEvent": _from_zcdp,
    "ComposedDpEvent": _from_composed,
    "SelfComposedDpEvent": _from_self_composed,
    "PoissonSampledDpEvent": _from_poisson,
    "SampledWithoutReplacementDpEvent": _from_fixed_size,
    "RepeatAndSelectDpEvent": _from_select,
}


# --- nodes to events --------------------------------------------------------------------------


def to_dp_event(node: Node, relation: Relation = "add_remove", *, exact: bool = True) -> Any:
    """The `dp_accounting` event that says what `node` says.

    Notes, facts and reasons have no place in an event and are left out.

    Args:
        relation: what the event will be priced under; set their accountant to the same.
        exact: refuse a node that no event says exactly. If False, such a node becomes an event
            that is true of it but says less: a Gaussian, or zCDP from pure DP.

    Raises:
        UnsupportedNode: no such event; or `node` has no price under `relation` here; or
            dp_accounting is not installed.
    """
    # What has no price here has no proof: a group inside a sample, the wrong relation.
    check_node("node", node)
    _whole_records(relation)
    cost_of(node, relation)
    return _export(node, relation, exact)


def _make(name: str, **values: Any) -> Any:
    kind = getattr(_module(), name, None)
    if kind is None:
        raise UnsupportedNode(f"this version of dp_accounting has no {name}")
    return kind(**values)


@singledispatch
def _export(node: Any, relation: Relation, exact: bool) -> Any:
    return _weaker(node, relation, exact)


def _weaker(node: Any, relation: Relation, exact: bool) -> Any:
    """No event says this exactly: one that says less and is true, from the node's own price."""
    name = f"{type(node).__name__} under {relation}"
    if exact:
        raise UnsupportedNode(f"no event of dp_accounting says {name}; exact=False may find "
                              "one that says less")
    cost = cost_of(node, relation)
    if not cost.failure and cost.pure == 0:
        return _make("NoOpDpEvent")
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


def _additive(node: Any, relation: Relation, exact: bool) -> None:
    """Under replace-one the two accountants read the noise in two ways (module docstring).

    Noise over what a *replacement* moves is right for the RDP one and dear for the PLD one.
    """
    if exact and relation != "add_remove":
        raise UnsupportedNode(f"the accountants of dp_accounting disagree about "
                              f"{type(node).__name__} under replace_one; exact=False writes "
                              "an event that neither prices too low")


@_export.register
def _(node: Gaussian, relation: Relation, exact: bool) -> Any:
    _additive(node, relation, exact)
    return _make("GaussianDpEvent", noise_multiplier=node.noise_multiplier)


@_export.register
def _(node: Laplace, relation: Relation, exact: bool) -> Any:
    _additive(node, relation, exact)
    return _make("LaplaceDpEvent", noise_multiplier=_noise(node.scale, node.l1_sensitivity))


@_export.register
def _(node: DiscreteLaplace, relation: Relation, exact: bool) -> Any:
    _additive(node, relation, exact)
    return _make("DiscreteLaplaceDpEvent", noise_parameter=node.parameter,
                 sensitivity=node.sensitivity)


@_export.register
def _(node: DiscreteGaussian, relation: Relation, exact: bool) -> Any:
    """Canonne, Kamath, Steinke 2020 (arXiv:2004.00010v4), Theorem 4: zCDP, but less."""
    if exact:
        raise UnsupportedNode("dp_accounting has no event of a DiscreteGaussian; exact=False "
                              "writes its zCDP")
    ratio = up(node.sensitivity / node.sigma)
    return _make("ZCDpEvent", rho=positive("rho", multiply_up(ratio, ratio) / 2))


@_export.register
def _(node: RandomizedResponse, relation: Relation, exact: bool) -> Any:
    return _make("RandomizedResponseDpEvent", noise_parameter=node.noise_parameter,
                 num_buckets=node.num_buckets)


@_export.register
def _(node: Asserted, relation: Relation, exact: bool) -> Any:
    """Pure DP is a divergence of at most epsilon at every order, and only that."""
    if node.delta:
        raise UnsupportedNode("no event of dp_accounting says an epsilon and a delta")
    return _make("ZCDpEvent", rho=0.0, xi=node.epsilon)


@_export.register
def _(node: AssertedZCDP, relation: Relation, exact: bool) -> Any:
    return _make("ZCDpEvent", rho=node.rho)


@_export.register(PostProcess)
@_export.register(Public)
def _(node: Any, relation: Relation, exact: bool) -> Any:
    return _make("NoOpDpEvent")


@_export.register
def _(node: Sequential, relation: Relation, exact: bool) -> Any:
    if not node.nodes:
        return _make("NoOpDpEvent")
    return _make("ComposedDpEvent", events=[_export(member, relation, exact)
                                            for member in node.nodes])


@_export.register
def _(node: Repeat, relation: Relation, exact: bool) -> Any:
    return _make("SelfComposedDpEvent", event=_export(node.node, relation, exact),
                 count=node.count)


@_export.register
def _(node: Parallel, relation: Relation, exact: bool) -> Any:
    """Equal parts, where a record has one part and stays in it: what one part is."""
    stays = relation == "add_remove" or node.certificate == "index"
    if stays and len(set(node.nodes)) == 1:
        return _export(node.nodes[0], relation, exact)
    return _weaker(node, relation, exact)


@_export.register
def _(node: OneOf, relation: Relation, exact: bool) -> Any:
    """Equal members: what one member is."""
    if len(set(node.nodes)) == 1:
        return _export(node.nodes[0], relation, exact)
    return _weaker(node, relation, exact)


@_export.register
def _(node: PoissonSample, relation: Relation, exact: bool) -> Any:
    return _make("PoissonSampledDpEvent", sampling_probability=node.rate,
                 event=_export(node.node, relation, exact))


@_export.register
def _(node: FixedSizeSample, relation: Relation, exact: bool) -> Any:
    return _make("SampledWithoutReplacementDpEvent", source_dataset_size=node.out_of,
                 sample_size=node.size, event=_export(node.node, relation, exact))


@_export.register
def _(node: Tuning, relation: Relation, exact: bool) -> Any:
    """dp_accounting knows shapes of at least 0 and means of at least 1 only."""
    event = _export(node.node, relation, exact)
    shape, mean = math.inf, node.mean
    if node.distribution == "negative_binomial":
        if node.shape < 0:
            raise UnsupportedNode("dp_accounting has no Tuning of negative shape")
        shape, mean = node.shape, negative_binomial_mean(node.shape, node.success)
    if mean < 1:
        raise UnsupportedNode("dp_accounting has no Tuning of mean below 1")
    return _make("RepeatAndSelectDpEvent", event=event, mean=mean, shape=shape)
