"""Every mechanism that is released: the same from a confined process, from chunks and from memory,
accepted by both verifiers, and found by both if one number of it was changed."""

import json
import re
from importlib.metadata import EntryPoint

import numpy as np
import pytest

import privledger as pl
from privledger.broker import RemoteLearner
from privledger.broker.sandbox import BROKEN
from privledger.graph.register import MECHANISMS, Mechanism
from privledger.noise.seeded import SeededSource
from tests.all_cases import all_cases
from tests.bodies import body_of
from tests.broker.conftest import PLUGINS
from tests.broker.plugins.every_release import RELEASES, SCHEMA, Everything, N, plain
from tests.engines.mischief import Mischief
from tests.standalone.conftest import chained
from tests.standalone.histories import lines_of
from tests.standalone.test_two_verifiers import alone, ours

CASES = [(relation, name) for relation, found in RELEASES.items() for name in found]
# Of a table in memory: docs/engines.md
IN_CHUNKS_REFUSED = {"groups", "groups, geometric", "response", "fixed size", "cut off"}
# Secret ones, of every chunk its own.
COINS = {"poisson", "parts by coins", "fixed size", "cut off", "allocation",
         "correlated, sampled groups"}
NOT_RELEASED = {kind.__name__ for kind, row in MECHANISMS.items() if not row.answers}
"""What others promise, or draw."""


def table():
    rng = np.random.default_rng(2)
    x = rng.random(N)
    return {"x": x, "z": rng.uniform(-1, 1, N),
            "c": np.array(["u", "v", "w"], dtype=object)[rng.integers(0, 3, N)],
            "g": np.array(["many", "few"])[(rng.random(N) < 0.1).astype(int)]}, np.where(
                x > 0.4, "yes", "no")


def guarded(relation, engine=None, *, mode="simulation", seed=5):
    more = {"seed": seed} if mode == "simulation" else {}
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e3, 1e-6, 5e-7), relation=relation, mode=mode,
                              filter="rdp", **more)
    return ledger, ledger.protect(*table(), SCHEMA, name="p", engine=engine,
                                  public_features=relation == "replace_label")


def noted(ledger):
    """Everything that was written down but times and names: tokens count handles, too."""
    found = [(one["plan"], grant.releases) for grant in ledger.state.grants.values()
            for one in [body_of(grant)]] + [
        [line["body"][key] for key in ("nodes", "questions", "items")]
        for line in lines_of(ledger) if line["kind"] == "released"]
    return re.sub('"token": "[^"]*"', "", json.dumps(found))


def test_every_mechanism_is_here():
    """Whoever adds one says how it is released."""
    def kinds(value):
        if isinstance(value, dict):
            yield value.get("node")
            for one in value.values():
                yield from kinds(one)
        elif isinstance(value, list):
            for one in value:
                yield from kinds(one)

    seen = {kind for found in RELEASES.values() for plan, _ in found.values()
            for kind in kinds(pl.nodes.to_json(plan))}
    every = {kind.__name__ for kind in Mechanism.__args__}
    assert every - NOT_RELEASED <= seen
    assert not NOT_RELEASED & seen


@pytest.mark.parametrize("relation", RELEASES)
def test_a_confined_process_gets_the_same_answers(relation, monkeypatch):
    here, data = guarded(relation)
    direct = Everything(schema=SCHEMA, relation=relation).fit(data)
    there, elsewhere = guarded(relation)
    monkeypatch.syspath_prepend(str(PLUGINS))
    try:
        remote = RemoteLearner.start(
            EntryPoint("test-everything", "every_release:Everything", "privledger.learners"),
            {"relation": relation}, SCHEMA, relation, patience=60.0)
    except pl.errors.IsolationUnavailable as error:
        if "not available here" in str(error) and BROKEN not in str(error):
            pytest.skip(str(error))
        raise
    try:
        found = json.loads(remote.fit(elsewhere).predict({"x": [0.5], "z": [0.5], "c": ["u"]})[0])
    finally:
        remote.close()
    assert found == direct.found and set(found) == set(RELEASES[relation])
    assert noted(here) == noted(there)
    assert there.verify() == []


@all_cases(("relation", "name"), CASES)
def test_chunks_give_the_same_answers(relation, name):
    plan, ask = RELEASES[relation][name]
    found = []
    for engine in (None, Mischief(3, chunk_rows=64)):
        ledger, data = guarded(relation, engine)
        ledger._source = SeededSource(5)
        try:
            with ledger.request(plan, data) as session:
                found.append([plain(one) for one in ask(session, data)])
        except pl.errors.UnsupportedNode:
            assert engine is not None and name in IN_CHUNKS_REFUSED
            assert all(not grant.releases for grant in ledger.state.grants.values())
            return
        assert ledger.verify() == []
    assert name not in IN_CHUNKS_REFUSED
    if name not in COINS:
        assert found[0] == found[1]


def _numbers(value, path=()):
    """Places of numbers that an answer's law depends on."""
    if isinstance(value, dict):
        for key, one in value.items():
            if key not in ("part", "token", "kind", "caps"):
                yield from _numbers(one, (*path, key))
    elif isinstance(value, list):
        for place, one in enumerate(value):
            yield from _numbers(one, (*path, place))
    elif isinstance(value, int | float) and not isinstance(value, bool) and value:
        yield path


def _changed(value, path):
    copied = json.loads(json.dumps(value))
    at = copied
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = at[path[-1]] * 0.5 if isinstance(at[path[-1]], float) else at[path[-1]] + 1
    return copied


@all_cases(("relation", "name"), CASES)
def test_both_verifiers_accept_a_release_and_refuse_one_changed_number(relation, name):
    """Hashed again, so that only what the entries say can give it away."""
    plan, ask = RELEASES[relation][name]
    ledger, data = guarded(relation, mode="private")
    with ledger.request(plan, data) as session:
        ask(session, data)
    lines, kept = lines_of(ledger), {}
    assert (ours(lines, kept), alone(lines, kept)) == ([], [])
    (place,) = [place for place, line in enumerate(lines) if line["kind"] == "released"]
    nodes = lines[place]["body"]["nodes"]
    tried = 0
    for path in _numbers(nodes):
        forged = [*lines]
        forged[place] = lines[place] | {"body": lines[place]["body"] | {
            "nodes": _changed(nodes, path)}}
        forged = chained(forged)
        assert ours(forged, kept) and alone(forged, kept), path
        tried += 1
    assert tried
