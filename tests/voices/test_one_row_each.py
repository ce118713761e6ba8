"""A table with one row per person gives what the row ledger gives, to the last bit."""

from functools import cache

import numpy as np
import pytest
from privledger_learners import MultinomialForestClassifier, SGBDTClassifier, SGBDTRegressor
from sklearn.base import clone

import privledger as pl
from privledger.plugins.model_file import ModelFacts, kept
from tests.models import kept_learners
from tests.voices.tables import PERSON

CLASSES, NUMBER, TWO = kept_learners.CLASSES, kept_learners.NUMBER, kept_learners.TWO
MORE = {
    "gini over leaves": (CLASSES, MultinomialForestClassifier(
        n_trees=2, variant="multinomial", impurity="gini")),
    "entropy over leaves": (CLASSES, MultinomialForestClassifier(
        n_trees=2, variant="multinomial", impurity="entropy")),
    "samples": (NUMBER, SGBDTRegressor(n_trees=3, sampling_rate=0.3)),
    "samples, ejected": (NUMBER, SGBDTRegressor(n_trees=3, individual_filter="gdp",
                                                extra_rounds=2)),
    "samples, rolled over": (CLASSES, SGBDTClassifier(n_trees=3, individual_filter="renyi",
                                                      extra_rounds=2, rollover=True)),
    "samples of classes": (CLASSES, SGBDTClassifier(n_trees=3, sampling_rate=0.3))}


# Learners whose noise is Gaussian: they take no delta of zero.
GAUSSIAN = ("SGBDT", "Linear", "Marginal", "NaiveBayes", "NearestCentroid", "LeastSquares",
            "PrivateKMeans", "PrivatePCA")


@cache
def learners():
    """Name -> (schema, learner). Every fit takes a clone of its own."""
    found = {name: (schema, pl.load_learner(name)(**params))
             for name, (schema, params) in kept_learners.LEARNERS.items()}
    return {**found, **MORE}


def fitted(learner, schema, relation, make_ledger, people):
    """Everything that one seeded fit learned, what it cost, and what the source gives next."""
    ledger = make_ledger(mode="simulation", seed=5, relation=relation, **(
        {} if people is None else PERSON))
    X, y = kept_learners.table(schema)
    data = ledger.protect(X, y, schema, people=people, public_features=relation == "replace_label")
    mine = clone(learner).set_params(epsilon=4.0, schema=schema, mode="simulation", random_state=3)
    known = mine.get_params()
    if "delta" in known:
        mine.set_params(delta=1e-7 if type(mine).__name__.startswith(GAUSSIAN) else 0.0)
    if "relation" in known:
        mine.set_params(relation=relation)
    mine.fit(data)
    model = kept(mine, ModelFacts("m", schema, relation))
    learned = {name: value for name, value in model.header["fitted"].items()
               if name not in ("receipt_", "guarantee_")}  # whom it is about
    return (learned, [array.tolist() for array in model.arrays], ledger.spent,
            ledger._source.integers64(3).tolist())


ONLY_ADD_REMOVE = ("samples", "private-ensemble")
LABELS_ONLY = [name for name, (_, learner) in learners().items()
               if learner.info.relations == ("replace_label",)]
RUNS = [(name, relation) for name in learners() for relation in ("add_remove", "replace_one")
        if name not in LABELS_ONLY
        if relation == "add_remove" or not name.startswith(ONLY_ADD_REMOVE)]
RUNS += [(name, "replace_label") for name in LABELS_ONLY]


@pytest.mark.parametrize(("name", "relation"), RUNS)
def test_a_fit_is_the_same_to_the_last_bit(make_ledger, name, relation):
    schema, learner = learners()[name]
    n = len(kept_learners.table(schema)[1])
    by_row = fitted(learner, schema, relation, make_ledger, None)
    by_person = fitted(learner, schema, relation, make_ledger, np.arange(n))
    np.testing.assert_equal(by_person, by_row)


@pytest.mark.parametrize(("kind", "rate"), [("gdp", 1.0), ("renyi", 1.0), ("renyi", 0.4)])
def test_filters_parts_samples_and_late_rows_are_the_same_to_the_last_bit(make_ledger, kind, rate):
    found = [_everything(make_ledger, kind, rate, people) for people in (False, True)]
    np.testing.assert_equal(found[1], found[0])


def _everything(make_ledger, kind, rate, by_person):
    rng, pair, noise = np.random.default_rng(0), pl.Gaussian(3.0, (0.5, 0.5)), pl.Gaussian(20.0)
    ledger = make_ledger(mode="simulation", seed=4, filter="gdp" if kind == "gdp" else "rdp",
                         **({} if kind == "gdp" else {"order": 8.0}),
                         **(PERSON if by_person else {}))

    def rows(n, first):
        X, y = kept_learners.table(NUMBER, n, int(rng.integers(100)))
        ids = {"people": [f"p{one * 7919 % 1000}" for one in range(first, first + n)]}
        return (X, y), ids if by_person else {}

    (X, y), ids = rows(60, 0)
    data = ledger.protect(X, y, NUMBER, **ids)
    node = pl.IndividualFilter(kind, 0.5, 0.0 if kind == "gdp" else 8.0, pl.Repeat(
        pair if rate == 1 else pl.PoissonSample(rate, pair), 6))
    answers = []
    name = next(column.name for column in NUMBER.features if column.kind == "numeric")
    edges = data.cells(name, [0.0])
    blocks = pl.questions.Ones(), pl.questions.ColumnValue(name, 0.0, 1.0)
    with ledger.request(node, data) as session:
        inside = session.filtered(node)
        for _ in range(6):
            handle = inside if rate == 1 else inside.poisson(rate)
            answers += session.release(pair, handle.query(blocks, edges),
                                       rollover=2 if rate == 1 else 0)
    (X, y), ids = rows(5, 60)
    data = ledger.append(data, X, y, **ids)
    plan = pl.Sequential([pl.Parallel([noise] * edges.count), pl.Parallel(
        [pl.PoissonSample(0.3, noise)] * 3, "iid_per_record")])
    if kind != "gdp":
        with ledger.request(plan, data) as session:
            parts, coins = data.partition(edges), data.partition(3)
            answers += [session.release(noise, parts[at].sum(name)) for at in range(edges.count)]
            answers += [session.release(noise, coins[at].poisson(0.3).count()) for at in range(3)]
    return [np.asarray(one).tolist() for one in answers], ledger.spent
