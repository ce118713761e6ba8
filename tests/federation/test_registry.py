"""Which learners and which questions federate: all with Gaussian sums, unmodified; others are
refused by name, and cost nobody anything."""

import numpy as np
import pytest
from sklearn.base import clone

import privledger as pl
from privledger.errors import UnsupportedNode
from privledger.federation import Federation, InProcess, Owner, Party, Run, new_key, public_key
from privledger.federation.party import _not_gaussian
from privledger.noise.source import SystemSource
from tests.models import kept_learners
from tests.voices.test_one_row_each import LABELS_ONLY, learners

FEDERATED = {"auto-classifier", "auto-regressor", "sgbdt-classifier", "sgbdt-regressor", "samples",
             "samples, ejected", "samples, rolled over", "samples of classes",
             "linear-classifier", "linear-regressor", "naive-bayes-classifier",
             "nearest-centroid-classifier", "least-squares-regressor", "k-means", "pca"}
QUICK = {*FEDERATED, *LABELS_ONLY, "dpsis", "srt-classifier", "rdt-classifier",
         "private-ensemble-classifier"} - {"auto-classifier", "auto-regressor",
                                           "samples of classes"}
EPSILON, ROWS = 20.0, 240
BUDGET = pl.Budget(EPSILON * 1.0001, 1e-6)


class Silent(SystemSource):
    """No noise at all: only to compare sums. Never outside a test."""

    def gaussian(self, sigma, size):
        return np.zeros(size, dtype=np.int64)


def federation_of(schema, plan, delta, relation="add_remove", source=None):
    """Two owners with a half each of one table: (their ledgers, the federation)."""
    X, y = kept_learners.table(schema, ROWS, 1)
    keys = {f"owner {place}": new_key() for place in range(2)}
    roster = tuple(Owner(name, public_key(key)) for name, key in keys.items())
    run = Run.of("a run", roster, schema, plan, delta=delta, learner="x", relation=relation)
    lines, ledgers = {}, []
    for place, (name, key) in enumerate(keys.items()):
        ledger = pl.Ledger.create(None, budget=BUDGET, relation=relation)
        if source is not None:
            ledger._source = source()
        half = slice(place * ROWS // 2, (place + 1) * ROWS // 2)
        part = {column: np.asarray(values)[half] for column, values in X.items()}
        data = ledger.protect(part, np.asarray(y)[half], schema,
                              public_features=relation == "replace_label")
        ledgers.append(ledger)
        lines[name] = InProcess(Party(run, name, data, key))
    return ledgers, Federation(run, schema, lines, BUDGET)


@pytest.mark.parametrize("name", [
    name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in learners()])
def test_every_learner_federates_or_is_refused_by_name(name):
    schema, learner = learners()[name]
    mine = clone(learner).set_params(epsilon=EPSILON, schema=schema)
    delta = 1e-6 if "delta" in mine.get_params() else 0.0
    if delta:
        mine.set_params(delta=delta)
    plan = mine.plan(schema)
    if name in LABELS_ONLY:
        with pytest.raises(UnsupportedNode, match="features declared public stay"):
            federation_of(schema, plan, delta, "replace_label")
        return
    ledgers, federation = federation_of(schema, plan, delta)
    if name in FEDERATED:
        mine.fit(federation.data)
        X, _ = kept_learners.table(schema, ROWS, 1)
        assert len((mine.transform if name == "pca" else mine.predict)(X)) == ROWS
        assert all(0 < ledger.spent <= EPSILON * (1 + 1e-9) for ledger in ledgers)
    else:
        with pytest.raises(UnsupportedNode, match=r"cannot be federated\. Nothing was read"):
            mine.fit(federation.data)
        federation.end()
        assert [ledger.spent for ledger in ledgers] == [0.0, 0.0]  # nothing was read
    assert all(ledger.verify() == [] for ledger in ledgers)


def test_correlated_noise_is_refused_before_the_reservation():
    schema, _ = learners()["sgbdt-regressor"]
    node = pl.nodes.Correlated(pl.Gaussian(9.0), (1.0, 0.5), 3, 1, 3)
    ledgers, federation = federation_of(schema, node, 1e-6)
    with pytest.raises(UnsupportedNode, match=r"Correlated.*cannot be federated"):
        federation.data.ledger.request(node, federation.data, delta=1e-6)
    federation.end()
    assert [ledger.spent for ledger in ledgers] == [0.0, 0.0]


@pytest.mark.parametrize("name", ["count", "sum", "histogram"])
def test_counts_sums_and_histograms_are_those_of_one_table(name):
    schema = kept_learners.CLASSES
    column = next(one.name for one in schema.features if one.kind == "numeric")
    kinds = next(one.name for one in schema.columns if one.kind == "categorical")

    def question(data):
        return {"count": lambda: data.count(), "sum": lambda: data.sum(column),
                "histogram": lambda: data.histogram(kinds)}[name]()

    leaf = pl.Gaussian(3.0)
    found = []
    X, y = kept_learners.table(schema, ROWS, 1)
    whole = pl.Ledger.create(None, budget=BUDGET)
    whole._source = Silent()
    there = federation_of(schema, leaf, 0.0, source=Silent)[1]
    for data in (whole.protect(X, y, schema), there.data):
        with data.ledger.request(leaf, data) as session:
            found.append(np.asarray(session.release(leaf, question(data))))
    assert (found[0] == found[1]).all() and np.abs(found[0]).sum() > 0


def test_a_choice_is_refused_by_its_first_member_if_no_owner_answers_any():
    laplace, choice = pl.Laplace(1.0, 2.0), pl.Exponential(0.1)
    assert _not_gaussian(pl.nodes.OneOf((laplace, laplace))) == "Laplace"
    assert _not_gaussian(pl.nodes.OneOf((choice, laplace))) == "Exponential"
    assert _not_gaussian(pl.nodes.OneOf((laplace, pl.Gaussian(2.0)))) == ""
