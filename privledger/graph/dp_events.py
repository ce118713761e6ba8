"""Nodes <-> the `DpEvent`s of Google's `dp_accounting`, an optional package.

An event is a statement about a mechanism, and so is a node. Both directions keep the statement
or weaken it, and never say more than was said. Read against dp_accounting 0.6.0, dp_event.py.

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
from collections.abc import Callable
from typing import Any

from privledger.accounting import Relation, check_relation
from privledger.accounting.tuning import negative_binomial_mean
from privledger.errors import InvalidMechanism, InvalidPlan, RelationMismatch, UnsupportedNode
from privledger.graph.nesting import check_depth
from privledger.graph.nodes import (
    AsReplaceOne,
    FixedSizeSample,
    Node,
    PoissonSample,
    Repeat,
    Sequential,
    TruncatedPoissonSample,
    Tuning,
)
from privledger.mechanisms import (
    Asserted,
    AssertedZCDP,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    RandomizedResponse,
)
from privledger.rounding import moderate, non_negative, number

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
    if name not in _FROM:
        raise UnsupportedNode(f"{name}: {_REFUSED.get(name, 'no node here says this')}")
    whole_records(relation)
    return _FROM[name](event, relation)


_REFUSED = {
    "NonPrivateDpEvent": "not private at all, so it has no price",
    "UnsupportedDpEvent": "it says nothing about what was done",
    "SampledWithReplacementDpEvent": "a record may be drawn twice; no proof here",
    "SingleEpochTreeAggregationDpEvent": "stated for replacing a record by a special one, "
                                         "a relation that is not priced here",
    "MixtureOfGaussiansDpEvent": "a bare pair of output laws, of no mechanism priced here",
}


def whole_records(relation: Relation) -> None:
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


def _from_truncated(event: Any, relation: Relation) -> Node:
    """docs/proofs/truncated.md; their accountant takes `dataset_size` for the larger table, too."""
    sample = TruncatedPoissonSample(event.sampling_probability, event.truncated_batch_size,
                                    event.dataset_size, Gaussian(event.noise_multiplier))
    return _for_removal(sample, relation)


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
    "TruncatedSubsampledGaussianDpEvent": _from_truncated,
}
