"""The typed composition graph: nodes, their prices, and views of them."""

# These add their rules to the fold.
from privledger.graph import fold_rules, one_of  # noqa: F401
from privledger.graph.correlated import correlated_gaussian, cyclic_poisson
from privledger.graph.dp_events import every_dp_event, from_dp_event, to_dp_event
from privledger.graph.explain import Explanation, explain, graphml, label, quick_answers, view
from privledger.graph.federated import Trust, alone, as_released, share_of, trusts
from privledger.graph.fold import cost_of
from privledger.graph.fold_rules import replaced_cost
from privledger.graph.meter import SIZED, Context, Meter
from privledger.graph.nodes import (
    AsReplaceOne,
    Correlated,
    Federated,
    FixedSizeSample,
    Group,
    IndividualFilter,
    LabelOnly,
    Node,
    OneOf,
    Parallel,
    PoissonSample,
    PostProcess,
    Public,
    RandomAllocation,
    Repeat,
    Sequential,
    TruncatedPoissonSample,
    Tuning,
    children,
    holds,
    several_of_many,
)
from privledger.graph.per_record import rdp_per_record
from privledger.graph.plan_json import canonical, from_json, to_json
from privledger.graph.price import advantage, calibrate, certify, delta, epsilon, rdp, tpr, tradeoff

__all__ = [
    "SIZED",
    "AsReplaceOne",
    "Context",
    "Correlated",
    "Explanation",
    "Federated",
    "FixedSizeSample",
    "Group",
    "IndividualFilter",
    "LabelOnly",
    "Meter",
    "Node",
    "OneOf",
    "Parallel",
    "PoissonSample",
    "PostProcess",
    "Public",
    "RandomAllocation",
    "Repeat",
    "Sequential",
    "TruncatedPoissonSample",
    "Trust",
    "Tuning",
    "advantage",
    "alone",
    "as_released",
    "calibrate",
    "canonical",
    "certify",
    "children",
    "correlated_gaussian",
    "cost_of",
    "cyclic_poisson",
    "delta",
    "epsilon",
    "every_dp_event",
    "explain",
    "from_dp_event",
    "from_json",
    "graphml",
    "holds",
    "label",
    "quick_answers",
    "rdp",
    "rdp_per_record",
    "replaced_cost",
    "several_of_many",
    "share_of",
    "to_dp_event",
    "to_json",
    "tpr",
    "tradeoff",
    "trusts",
    "view",
]
