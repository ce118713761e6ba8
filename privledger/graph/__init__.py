"""The typed composition graph: nodes, their prices, and views of them."""

from privledger.graph.codec import canonical, from_json, to_json
from privledger.graph.fold import cost_of
from privledger.graph.meter import Context, Meter
from privledger.graph.nodes import (
    Group,
    IndividualFilter,
    Node,
    Parallel,
    PoissonSample,
    PostProcess,
    Public,
    Repeat,
    Sequential,
    children,
    holds,
)
from privledger.graph.price import calibrate, certify, delta, epsilon, rdp
from privledger.graph.view import graphml, label, view

__all__ = [
    "Context",
    "Group",
    "IndividualFilter",
    "Meter",
    "Node",
    "Parallel",
    "PoissonSample",
    "PostProcess",
    "Public",
    "Repeat",
    "Sequential",
    "calibrate",
    "canonical",
    "certify",
    "children",
    "cost_of",
    "delta",
    "epsilon",
    "from_json",
    "graphml",
    "holds",
    "label",
    "rdp",
    "to_json",
    "view",
]
