"""Every learner on people with several rows: it fits, within its price, and predicts."""

import numpy as np
import pytest
from privledger_learners import PrivateSearchCV
from sklearn.base import clone

import privledger as pl
from tests.models import kept_learners
from tests.voices.tables import PERSON
from tests.voices.test_one_row_each import LABELS_ONLY, learners

# Learners whose noise is Gaussian: they take no delta of zero.
GAUSSIAN = ("SGBDT", "Linear", "Marginal", "NaiveBayes", "NearestCentroid", "LeastSquares",
            "PrivateKMeans", "PrivatePCA")
LEARNERS = {name: found for name, found in learners().items() if name not in LABELS_ONLY}


def people_table(schema, seed=1):
    """300 rows of 100 people; one has a third of them."""
    X, y = kept_learners.table(schema, 300, seed)
    people = np.where(np.arange(300) % 3 == 0, 0, np.arange(300) // 2)
    return X, y, people


@pytest.mark.parametrize("name", LEARNERS)
def test_it_fits_and_predicts(make_ledger, name):
    schema, learner = LEARNERS[name]
    X, y, people = people_table(schema)
    ledger = make_ledger(epsilon=4.0, delta=1e-6, **PERSON)
    mine = clone(learner).set_params(epsilon=4.0, schema=schema)
    if "delta" in mine.get_params():
        mine.set_params(delta=1e-6 if type(mine).__name__.startswith(GAUSSIAN) else 0.0)
    mine.fit(ledger.protect(X, y, schema, people=people))
    assert ledger.spent <= 4.0 * (1 + 1e-9)
    assert (len(mine.transform(X)) in (2, 300) if hasattr(mine, "transform") else
            len(mine.predict(X)) == 300 if hasattr(mine, "predict") else
            len(mine.sample(n=300)) == 300)
    assert ledger.verify() == []


@pytest.mark.parametrize("name", LABELS_ONLY)
def test_single_labels_of_people_are_refused_by_name(make_ledger, name):
    schema, learner = learners()[name]
    X, y, people = people_table(schema)
    ledger = make_ledger(epsilon=4.0, relation="replace_label", **PERSON)
    data = ledger.protect(X, y, schema, people=people, public_features=True)
    with pytest.raises(pl.errors.UnsupportedNode, match="RandomizedResponse|single labels"):
        clone(learner).set_params(epsilon=1.0, schema=schema).fit(data)
    assert data._vault.opened == 0


def test_a_search_splits_people(make_ledger):
    from privledger_learners import DiPriMeForestClassifier

    schema = kept_learners.CLASSES
    X, y, people = people_table(schema)
    ledger = make_ledger(epsilon=60.0, **PERSON)
    data = ledger.protect(X, y, schema, people=people)
    search = PrivateSearchCV(DiPriMeForestClassifier(n_trees=2, epsilon=1.0, schema=schema),
                             {"depth": [1, 2]}, epsilon=10.0, mean_trials=2.0)
    search.fit(data)
    assert len(search.predict(X)) == 300
