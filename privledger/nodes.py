"""Nodes of a plan besides the common ones at the top, and what reads, writes and draws plans."""

from privledger.graph import (
    AsReplaceOne,
    Correlated,
    Explanation,
    Federated,
    FixedSizeSample,
    Group,
    LabelOnly,
    OneOf,
    PostProcess,
    Public,
    RandomAllocation,
    TruncatedPoissonSample,
    Tuning,
    advantage,
    alone,
    correlated_gaussian,
    cyclic_poisson,
    from_dp_event,
    from_json,
    graphml,
    label,
    rdp_per_record,
    several_of_many,
    to_dp_event,
    to_json,
    tpr,
    tradeoff,
    view,
)
from privledger.graph.selection import PartitionSelection

__all__ = ["AsReplaceOne", "Correlated", "Explanation", "Federated", "FixedSizeSample", "Group",
           "LabelOnly", "OneOf", "PartitionSelection", "PostProcess", "Public", "RandomAllocation",
           "TruncatedPoissonSample", "Tuning", "advantage", "alone", "correlated_gaussian",
           "cyclic_poisson", "from_dp_event", "from_json", "graphml", "label", "rdp_per_record",
           "several_of_many", "to_dp_event", "to_json", "tpr", "tradeoff", "view"]
