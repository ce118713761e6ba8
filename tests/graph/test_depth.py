"""A plan is nested at most 100 deep; whoever reads one says so before walking it."""

import pickle
import sys

import pytest

import privledger as pl
from privledger.graph.meter import Meter
from privledger.graph.node_checks import MAX_DEPTH, MOST_NODES, check_depth
from privledger.graph.nodes import COMPOSITE_TYPES, from_json
from privledger.ledger import audit
from tests.all_cases import all_cases
from tests.bodies import lines_of, stored
from tests.worlds import protected, refused, schema_of

G = pl.Gaussian(30.0)
WRAPS = {
    "Sequential": lambda node: pl.Sequential([node]),
    "Repeat": lambda node: pl.Repeat(node, 1),
    "Parallel": lambda node: pl.Parallel([node]),
    "OneOf": lambda node: pl.nodes.OneOf([node]),
    "PoissonSample": lambda node: pl.PoissonSample(0.5, node),
    "IndividualFilter": lambda node: pl.IndividualFilter("gdp", 0.5, node=node),
    "Group": lambda node: pl.nodes.Group(1, node),
    "FixedSizeSample": lambda node: pl.nodes.FixedSizeSample(1, 2, node),
    "TruncatedPoissonSample": lambda node: pl.nodes.TruncatedPoissonSample(0.1, 5, 9, node),
    "RandomAllocation": lambda node: pl.nodes.RandomAllocation(2, node),
    "AsReplaceOne": pl.nodes.AsReplaceOne,
    "LabelOnly": pl.nodes.LabelOnly,
    "Federated": lambda node: pl.nodes.Federated(node, 1, 0),
    "Tuning": lambda node: pl.nodes.Tuning(node, success=0.5)}
JSON = {"node": "Gaussian", "noise_multiplier": 30.0}


def nested(wrap, depth, node=G):
    for _ in range(depth - 1):
        node = wrap(node)
    return node


def nested_json(depth, name="Sequential"):
    found = JSON
    for _ in range(depth - 1):
        found = ({"node": "Repeat", "inner": found, "count": 1} if name == "Repeat"
                 else {"node": name, "nodes": [found]})
    return found


def test_every_composite_is_tried():
    # Correlated holds one Gaussian, which holds nothing.
    assert {*WRAPS, "Correlated"} == {kind.__name__ for kind in COMPOSITE_TYPES}


@all_cases("name", WRAPS)
def test_the_deepest_plan_goes_there_and_back(name):
    plan = nested(WRAPS[name], MAX_DEPTH)
    assert from_json(pl.nodes.to_json(plan)) == plan
    assert hash(plan) == hash(nested(WRAPS[name], MAX_DEPTH))
    assert pickle.loads(pickle.dumps(plan)) == plan
    repr(plan)


@all_cases("name", WRAPS)
@all_cases("depth", [MAX_DEPTH + 1, 200, 5000])
def test_a_deeper_one_is_refused_by_name(name, depth):
    with pytest.raises(pl.errors.InvalidPlan, match="at most 100 deep"):
        pl.nodes.to_json(nested(WRAPS[name], depth))


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 200, 100_000])
@pytest.mark.parametrize("name", ["Sequential", "Repeat"])
def test_json_that_is_too_deep_is_refused(name, depth):
    with pytest.raises(pl.errors.InvalidPlan, match="at most 100 deep"):
        from_json(nested_json(depth, name))


@pytest.mark.parametrize("field", ["shares", "noise_multiplier"])
def test_lists_of_lists_are_refused(field):
    deep = []
    for _ in range(100_000):
        deep = [deep]
    refused(pl.errors.InvalidPlan, lambda: from_json(JSON | {field: deep}), match="list of lists")


@pytest.mark.parametrize("name", ["Sequential", "Repeat", "Parallel", "OneOf", "IndividualFilter",
                                  "Group"])
def test_the_deepest_plan_has_a_price_and_a_meter(name):
    """From as deep in the interpreter as a test is: half of the way is left to callers."""
    plan = nested(WRAPS[name], MAX_DEPTH)
    limit = sys.getrecursionlimit()
    assert limit >= 1000
    assert pl.epsilon(plan, 1e-6) > 0
    Meter(plan)


def test_the_deepest_plan_is_granted_and_verified():
    ledger = pl.Ledger.create(None, budget=pl.Budget(3.0, 1e-6))
    schema = schema_of("s", {"x": (0.0, 1.0)})
    data = ledger.protect({"x": [0.5]}, schema)
    with ledger.request(nested(WRAPS["Sequential"], MAX_DEPTH), data, delta=1e-6) as session:
        session.release(G, data.count())
    assert ledger.verify() == []
    with pytest.raises(pl.errors.InvalidPlan, match="at most 100 deep"):
        ledger.request(nested(WRAPS["Sequential"], MAX_DEPTH + 1), data)
    assert data._vault.opened == 1


def test_a_depth_that_was_written_over_is_not_believed():
    plan = nested(WRAPS["Repeat"], MAX_DEPTH)
    for _ in range(5000):
        plan = pl.Repeat(plan, 1)
        object.__setattr__(plan, "_depth", 1)
    refused(pl.errors.InvalidPlan, lambda: pl.nodes.to_json(plan), match="at most 100 deep")


def test_a_plan_that_holds_itself_is_refused():
    plan = pl.Repeat(G, 1)
    object.__setattr__(plan, "node", plan)
    refused(pl.errors.InvalidPlan, lambda: check_depth(plan), match="at most 100 deep")
    table = {"node": "Repeat", "count": 1}
    table["inner"] = table
    refused(pl.errors.InvalidPlan, lambda: from_json(table), match="at most 100 deep")


def test_a_plan_that_unfolds_without_end_is_refused():
    """Sharing makes 2^60 nodes of sixty objects."""
    plan = G
    for _ in range(60):
        plan = pl.Sequential([plan, plan])
    refused(pl.errors.InvalidPlan, lambda: pl.nodes.to_json(plan), match=str(MOST_NODES))


def test_events_are_read_within_the_same_limits():
    dp_event = pytest.importorskip("dp_accounting.dp_event")
    for make in (lambda event: dp_event.ComposedDpEvent([event]),
                 lambda event: dp_event.SelfComposedDpEvent(event, 1),
                 lambda event: dp_event.PoissonSampledDpEvent(0.5, event)):
        event = dp_event.GaussianDpEvent(30.0)
        for _ in range(5000):
            event = make(event)
        with pytest.raises(pl.errors.InvalidPlan, match="DpEvent .*at most 100 deep"):
            pl.nodes.from_dp_event(event)


def history_of(depth):
    """A history with a chain that holds, whose only grant has a plan nested that deep."""
    ledger, data = protected(pl.Budget(3.0, 1e-6), {"x": [0.5]}, schema_of("s", {"x": (0.0, 1.0)}))
    ledger.request(G, data).close()
    return stored(*((kind, body | ({"plan": nested_json(depth)} if kind == "granted" else {}))
                    for kind, body in lines_of(ledger)))


@pytest.mark.parametrize("depth", [101, 200])
def test_a_stored_plan_that_is_too_deep_is_a_finding(depth):
    assert audit(history_of(depth))
