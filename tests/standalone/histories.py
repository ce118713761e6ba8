"""Honest histories of every learner, node type and kind of entry, and structure-aware forgeries."""

from __future__ import annotations

import copy
import importlib.metadata
import json
import warnings

import privledger as pl
from privledger.testing.examples import examples_for
from privledger.testing.fitting import fresh, ledger_for, protect_example
from tests.bodies import body_of
from tests.standalone.conftest import ROWS, SCHEMA, chained, lived

G, L = pl.Gaussian(20.0), pl.Laplace(20.0)
LEAVES = (
    pl.Laplace(20.0, 2.0), pl.Gaussian(20.0, (0.5, 0.5)), pl.DiscreteLaplace(0.05, 2),
    pl.DiscreteGaussian(30.0, 2), pl.Exponential(0.1), pl.Exponential(0.1, (0, 1)),
    pl.PermuteAndFlip(0.1), pl.ReportNoisyMax(0.1), pl.ReportNoisyMax(0.1, "gumbel"),
    pl.TopK(2, 0.1), pl.TopK(2, 0.1, "gumbel"), pl.SparseVector(40.0, 40.0, 2),
    pl.nodes.PartitionSelection(900.0, 40.0),
    pl.nodes.PartitionSelection(900.0, 40.0, 2, "geometric"),
    pl.nodes.PartitionSelection(900.0, 80.0, 3, "gaussian"),
    pl.nodes.MixtureOfGaussians(40.0, (0.0, 1.0, 3.0), (0.5, 0.375, 0.125)),
    pl.nodes.MixtureOfGaussians(40.0, (2.0,), (1.0,)),
    pl.RandomizedResponse(0.9, 3), pl.Asserted(0.1, "so it was said"),
    pl.Asserted(0.1, "so it was said", 1e-8), pl.AssertedZCDP(0.001, "so it was said"),
    pl.nodes.PostProcess("a note"), pl.nodes.Public("a fact"),
)
MIXED = pl.nodes.MixtureOfGaussians(60.0, (0.5, 1.0, 2.0), (0.5, 0.25, 0.25))
SAMPLED = pl.nodes.Correlated(
    pl.PoissonSample(0.1, pl.Gaussian(60.0)), (1.0, -0.5, 0.25), 20, 5, 3)
COMPOSITES = (
    pl.Sequential([L, G]), pl.Sequential([]), pl.Repeat(L, 3), pl.Parallel([L, pl.Laplace(30.0)]),
    pl.Parallel([L, L], "iid_per_record"), pl.Parallel([G, G], "index"), pl.nodes.OneOf([L, G]),
    pl.PoissonSample(0.1, G), pl.PoissonSample(0.1, L), pl.PoissonSample(0.1, pl.Repeat(L, 2)),
    pl.nodes.FixedSizeSample(5, 100, G), pl.nodes.RandomAllocation(10, pl.Repeat(G, 2)),
    pl.nodes.TruncatedPoissonSample(0.1, 20, 100, G),
    pl.nodes.Correlated(pl.Gaussian(60.0), (1.0, -0.5, 0.25), 20, 5, 3),
    pl.nodes.Correlated(pl.Gaussian(90.0), (1.0, 0.5, 0.25), 20, 2, 9),
    SAMPLED, pl.nodes.Group(2, SAMPLED), pl.nodes.AsReplaceOne(SAMPLED),
    pl.nodes.TruncatedPoissonSample(0.1, 5, 100, pl.Gaussian(60.0)),
    pl.nodes.AsReplaceOne(pl.nodes.RandomAllocation(10, pl.Gaussian(60.0))),
    pl.PoissonSample(0.1, MIXED), pl.nodes.AsReplaceOne(pl.Repeat(MIXED, 2)),
    pl.nodes.Group(3, pl.PoissonSample(0.5, MIXED)),
    pl.nodes.AsReplaceOne(pl.nodes.Group(2, MIXED)),
    pl.nodes.FixedSizeSample(5, 100, pl.nodes.AsReplaceOne(MIXED)),
    pl.IndividualFilter("gdp", 0.001),
    pl.IndividualFilter("renyi", 0.001, 64.0), pl.IndividualFilter("gdp", 0.001, node=G),
    pl.nodes.Group(2, L), pl.nodes.Group(2, G), pl.nodes.AsReplaceOne(L),
    pl.nodes.LabelOnly(pl.Parallel([L, L])),
    pl.nodes.Federated(pl.Gaussian(9.0), 5, 4), pl.nodes.Federated(pl.Laplace(60.0), 2, 1),
    pl.nodes.Tuning(pl.Laplace(60.0), success=0.5),
    pl.nodes.Tuning(pl.Laplace(60.0), "poisson", mean=3.0),
    pl.nodes.Group(3, pl.DiscreteGaussian(100.0)),
)
LABELS = pl.Schema("one", (
    pl.Column("x", "numeric", "feature", -1.0, 1.0),
    pl.Column("y", "categorical", "target", categories=("no", "yes")),
))
NODES = (*LEAVES, *COMPOSITES)
SMALL = {"k": 1, "max_depth": 1, "n_estimators": 2, "n_trees": 2, "n_rounds": 2}


def node_histories():
    """(name, lines, vectors) of one granted and settled plan for every node, filter and relation
    under which it has a price."""
    for node in NODES:
        for kind in ("gdp", "zcdp", "rdp", "basic"):
            for relation in ("add_remove", "replace_one", "replace_label"):
                lines = _granted(node, kind, relation)
                if lines is not None:
                    yield f"{node} {kind} {relation}", lines, {}


def _granted(node, kind, relation):
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter=kind, relation=relation)
    labels = relation == "replace_label"
    data = (ledger.protect(ROWS, ["no", "yes", "no", "no", "yes"], LABELS, name="t",
                           public_features=True)
            if labels else ledger.protect(ROWS, schema=SCHEMA, name="t"))
    try:
        ledger.request(node, data, delta=1e-7 if kind == "basic" else 0.0).close()
    except (pl.errors.UnsupportedNode, pl.InvalidValue):
        return None
    return lines_of(ledger)


def learner_histories():
    """(name, lines, vectors) of a fit of every learner that is installed."""
    for entry in importlib.metadata.entry_points(group="privledger.learners"):
        kind = entry.load()
        small = {name: value for name, value in SMALL.items() if name in kind().get_params()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner = kind(**small)
            for given in examples_for(learner)[:1]:
                model = fresh(learner, schema=given.schema)
                ledger = ledger_for(model, 1.3)
                model.fit(protect_example(ledger, given))
                yield entry.name, lines_of(ledger), dict(ledger._history.store._vectors)


def everything(kind):
    """(lines, vectors): every kind of entry in one history, with caps, windows and a policy."""
    policy = pl.Policy(max_epsilon=2.0, max_delta=1e-5, learners=("first", "", "x"),
                       mechanisms=("Gaussian", "Laplace", "IndividualFilter"), min_delta=1e-9,
                       isolation=("guarded",), windows=("q1", "q2"), allow_asserted=False)
    ledger = lived(kind, policy=policy, caps=[
        pl.Cap(pl.Budget(1.5, 1e-6), data="people"), pl.Cap(pl.Budget(1.2, 1e-6),
                                                           labels={"team": "a"}),
        pl.Cap(pl.Budget(1.2, 1e-6), window="q1")])
    plan = G if kind != "basic" else L
    data = ledger.protect({"x": [0.5]}, schema=SCHEMA, name="other")
    for window in ("q1", "q2"):
        ledger.open_window(window)
        half = pl.Parallel([plan, pl.Repeat(plan, 2)], "iid_per_record")
        with ledger.request(half, data, learner="x", labels={"team": "a"}, lease=60.0) as session:
            parts = data.partition(pl.RandomParts(2)) if hasattr(pl, "RandomParts") else None
            if parts is not None:
                session.release(plan, parts[0].count())
    ledger.answer(plan, data.count(), keep=True, learner="x")
    grant = next(iter(ledger.state.grants))
    ledger.correct(grant, pl.Repeat(plan, 3), "an audit")
    return lines_of(ledger), dict(ledger._history.store._vectors)


def of_people():
    """(lines, vectors): two tables of people, a scope over both, late arrivals."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter="gdp", unit="person",
                              people_key=b"k" * 32)
    first = ledger.protect(ROWS, SCHEMA, name="first", people=[1, 2, 1, 3, 4])
    second = ledger.protect(ROWS, SCHEMA, name="second", people=[" 4", "5.0", "6", "7", "1"])
    scope = ledger.open_scope(pl.IndividualFilter("gdp", 1e-4), name="scope")
    for data in (first, second, ledger.append(first, {"x": [0.5]}, people=[9])):
        with ledger.request(scope.node, data, scope=scope) as session:
            session.release(pl.Gaussian(300.0), session.filtered().sum("x"))
    with ledger.request(G, second) as session:
        session.release(G, second.count())
    return lines_of(ledger), dict(ledger._history.store._vectors)


def sampled():
    """(lines, vectors): releases on samples, in parts and of one among several, all taken."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter="rdp")
    data = ledger.protect(ROWS, schema=SCHEMA, name="t")
    choice = pl.nodes.OneOf([pl.Sequential([G, pl.Repeat(pl.PoissonSample(0.5, G), 2)]),
                             pl.Repeat(pl.Gaussian(30.0), 4)])
    cut = pl.nodes.TruncatedPoissonSample(0.5, 2, 10**15, G)
    rounds = pl.nodes.RandomAllocation(3, pl.Repeat(G, 2))
    stream = pl.nodes.Correlated(pl.PoissonSample(0.5, G), (1.0, 0.5), 4, 2, 2)
    whole = pl.Sequential([choice, pl.PoissonSample(0.25, G), cut, pl.Repeat(rounds, 2), stream])
    with ledger.request(whole, data) as session:
        session.release(G, data.poisson(0.25).count())
        session.release(G, data.count())
        for _ in range(2):
            session.release(G, data.poisson(0.5).count())
        session.release(G, data.truncated_poisson(0.5, 2, 10**15).count())
        passes = [data.random_allocation(3) for _ in range(2)]
        for number, step in ((0, 2), (1, 2), (0, 0), (0, 2)):
            session.release(G, passes[number][step].count())
        run = data.correlated(2)
        for _ in range(2):
            session.release(stream, run.step(data.count()))
    return lines_of(ledger), {}


def fixed():
    """(lines, vectors): releases on samples of fixed sizes, and a sparse vector, all taken."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter="rdp",
                              relation="replace_one")
    data = ledger.protect(ROWS, schema=SCHEMA, name="t")
    plan, stream = pl.nodes.FixedSizeSample(2, 5, pl.Repeat(G, 2)), pl.SparseVector(60.0, 90.0)
    whole = pl.Sequential([plan, pl.nodes.FixedSizeSample(1, 5, G), stream])
    with ledger.request(whole, data) as session:
        handle = data.fixed_size(2, 5)
        session.release(stream, data.sparse_vector().above(data.count(), 3.0))
        session.release(G, handle.count())
        session.release(G, data.fixed_size(1, 5).count())
        session.release(G, handle.count())
    return lines_of(ledger), {}


def purse():
    """(lines, vectors): plans with a delta of their own, charged to a purse beside a filter."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(3.0, 1e-5, failure=3e-6), filter="gdp", caps=[
        pl.Cap(pl.Budget(2.0, 5e-6, failure=2e-6), labels={"team": "a"}),
        pl.Cap(pl.Budget(2.0, 5e-6), labels={"team": "b"})])
    data = ledger.protect(ROWS, schema=SCHEMA, name="t")
    said = pl.Asserted(0.1, "so it was said", 1e-6)
    for node, team in ((said, "a"), (pl.PoissonSample(0.5, said), "a"), (G, "b")):
        with ledger.request(node, data, labels={"team": team}) as session:
            if node is G:
                session.release(G, data.count())
    return lines_of(ledger), {}


def lines_of(ledger):
    assert ledger.verify() == []
    return [{"position": entry.position, "kind": entry.event.kind, "body": body_of(entry),
             "previous": entry.previous, "hash": entry.hash}
            for entry in ledger._history.store.read()]


# --- forgeries ----------------------------------------------------------------------------------


def places(value, path=()):
    """Every place inside a JSON value, composites too."""
    inside = value.items() if isinstance(value, dict) else (
        enumerate(value) if isinstance(value, list) else ())
    for key, item in inside:
        yield (*path, key)
        yield from places(item, (*path, key))


def others(value):
    """Values that stand for what a forger may put there, by name."""
    retyped = {"a text": str(value), "a list": [value], "nothing": None, "an object": {}}
    if isinstance(value, bool):
        return {"turned": not value, "a number": int(value), **retyped}
    if isinstance(value, int):
        return {"less": value // 2, "more": value * 2 + 1, "one more": value + 1,
                "negative": -value - 1, "a float": float(value) if value < 10**300 else 0.5,
                "true": True, "half": 0.5, **retyped}
    if isinstance(value, float):
        return {"less": value / 2, "more": value * 2, "negative": -value, "true": True, **retyped}
    if isinstance(value, str):
        return {"another": value + "x", "empty": "", "a number": 1, "a list": [value],
                "nothing": None}
    return {"empty": type(value)() if value is not None else "", "a text": "x", "a number": 1,
            "nothing": None, "true": True}


def drawn(source, forge, lines, number):
    """`number` of the forgeries that `forge` makes of `lines`; only these are hashed again."""
    return [(name, chained(made)) for name, made in source.sample(list(forge(lines, list)), number)]


def field_forgeries(lines, rehash=chained):
    """Every field of every entry: changed, retyped, removed; every element of a list doubled."""
    for index, line in enumerate(lines):
        for path in places(line["body"]):
            for name, value in others(_at(line["body"], path)).items():
                yield (f"{index} {line['kind']} {path} {name}",
                       rehash(_edited(lines, index, path, lambda holder, key, value=value:
                                      holder.__setitem__(key, value))))
            yield (f"{index} {line['kind']} {path} removed",
                   rehash(_edited(lines, index, path,
                                  lambda holder, key: holder.__delitem__(key))))
            if isinstance(path[-1], int):
                yield (f"{index} {line['kind']} {path} doubled",
                       rehash(_edited(lines, index, path, lambda holder, key:
                                      holder.insert(key, copy.deepcopy(holder[key])))))
        for kind in ("settled", "aborted", "granted", "crashed", "protected", "unheard"):
            made = list(lines)
            made[index] = {**line, "kind": kind}
            yield f"{index} {line['kind']} as {kind}", rehash(made)


def order_forgeries(lines, rehash=chained):
    """Entries left out, doubled, exchanged, moved to the end."""
    for index in range(len(lines)):
        yield f"{index} left out", rehash(lines[:index] + lines[index + 1:])
        yield f"{index} doubled", rehash(lines[:index + 1] + lines[index:])
        yield f"{index} at the end", rehash(lines[:index] + lines[index + 1:] + [lines[index]])
        for other in range(index + 1, len(lines)):
            made = list(lines)
            made[index], made[other] = made[other], made[index]
            yield f"{index} and {other} exchanged", rehash(made)


def _at(value, path):
    for key in path:
        value = value[key]
    return value


def _edited(lines, index, path, change):
    made = copy.copy(lines)
    made[index] = {**lines[index], "body": json.loads(json.dumps(lines[index]["body"]))}
    change(_at(made[index]["body"], path[:-1]), path[-1])
    return made
