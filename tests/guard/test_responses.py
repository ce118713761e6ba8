"""Randomised responses of a whole column, under replace_one: one record, one answer."""

import json

import numpy as np
import pytest
from scipy import stats

import privledger as pl
from privledger.broker.wire import WireDescriber, WireReader
from privledger.questions.question import Noise
from privledger.tables.chunk import Rows
from privledger.tables.encode import encode_target
from tests.worlds import refuses as refused_unread

SCHEMA = pl.Schema("people", (
    pl.Column("size", "numeric", "feature", 0.0, 1.0),
    pl.Column("colour", "categorical", "feature", categories=("red", "green"), missing=True),
    pl.Column("kind", "categorical", "target", categories=("a", "b", "c"))))
N = 3000
CODES = np.arange(N) % 3
X = {"size": np.linspace(0, 1, N), "colour": np.array(["red", "green", None], dtype=object)[CODES]}
Y = np.array(["a", "b", "c"])[CODES]


def guarded(relation="replace_one", X=X, y=Y, **options):
    ledger = pl.Ledger.create(None, budget=pl.Budget(100.0, 1e-6), relation=relation, **options)
    return ledger, ledger.protect(X, y, SCHEMA)


def refuses(ledger, data, query, node=None, error=pl.errors.UnsupportedNode):
    refused_unread(ledger, data, node or pl.RandomizedResponse(0.5, 3), query, error)


def ask(ledger, data, node, query):
    with ledger.request(node, data) as session:
        return session.release(node, query)


@pytest.mark.parametrize("name", ["kind", "colour"])
def test_nearly_no_noise_gives_the_column_in_order(name):
    ledger, data = guarded()
    answer = ask(ledger, data, pl.RandomizedResponse(1e-9, 3), data.responses(name))
    assert (answer == CODES).all()  # false alarm below 3e-6, and the price is 21.8
    assert ledger.verify() == []


def test_answers_follow_the_law():
    """Chi-square of (truth, answer), false alarm 1e-8."""
    ledger, data = guarded()
    answer = ask(ledger, data, pl.RandomizedResponse(0.6, 3), data.responses("kind"))
    seen = np.bincount(CODES * 3 + answer, minlength=9)
    law = np.full((3, 3), 0.2) + 0.4 * np.eye(3)
    assert stats.chisquare(seen, (law * N / 3).ravel()).pvalue > 1e-8


def test_one_record_changes_one_code():
    _, data = guarded()
    query = data.responses("kind")
    other = Y.copy()
    other[7] = "c"
    state = query.prepare(pl.RandomizedResponse(0.5, 3), "replace_one")
    first, second = (query.sketch(Rows(pl.encode_features(X, SCHEMA), encode_target(y, SCHEMA)),
                                  state)[0][1] for y in (Y, other))
    assert np.count_nonzero(first != second) == 1


def test_stretches_come_back_in_order():
    query = guarded()[1].responses("kind")
    a, b = ((0, np.array([0, 1])),), ((2, np.array([2, 0])),)

    class Source:
        def randomized_response(self, codes, buckets, noise):
            return codes

    noise = Noise(pl.RandomizedResponse(0.5, 3), 3, Source())
    assert query.finish(query.merge(b, a), noise).tolist() == [0, 1, 2, 0]


def test_parts_samples_and_other_mechanisms_are_refused():
    ledger, data = guarded()
    refuses(ledger, data, data.responses("kind"), pl.RandomizedResponse(0.5, 4))
    refuses(ledger, data, data.responses("kind"), pl.Gaussian(10.0))
    refuses(ledger, data, data.responses("size"), error=pl.errors.SchemaError)
    refuses(ledger, data, data.partition(data.cells("colour"))[0].responses("kind"))
    refuses(ledger, data, data.poisson(0.5).responses("kind"))


def test_other_relations_are_refused():
    ledger, data = guarded("add_remove")
    refuses(ledger, data, data.responses("kind"), pl.Gaussian(10.0),
            error=pl.errors.RelationMismatch)
    with pytest.raises(pl.errors.RelationMismatch):
        ledger.request(pl.RandomizedResponse(0.5, 3), data).__enter__()


def test_people_are_refused():
    ledger = pl.Ledger.create(None, budget=pl.Budget(100.0, 1e-6), relation="replace_one",
                              unit="person", people_key=b"k" * 32)
    data = ledger.protect(X, Y, SCHEMA, people=[str(i // 2) for i in range(N)])
    refuses(ledger, data, data.responses("kind"))


def test_every_field_arrives():
    _, data = guarded()
    describer, reader = WireDescriber(data._vault, data.schema), WireReader(data)
    asked = data.responses("colour")
    found = reader.query(json.loads(json.dumps(describer.query(asked))))
    assert (found.name, found.what) == (asked.name, asked.what)


@pytest.mark.parametrize("name", ["kind", "colour"])
def test_a_handle_with_fewer_categories_tells_nothing(name):
    """An answer or an error told whether any record has a category that the handle leaves out."""
    fewer = pl.Schema("people", tuple(
        pl.Column(one.name, one.kind, one.role, categories=one.categories[:1]) if one.name == name
        else one for one in SCHEMA.columns))
    for many in (N, 1):  # with and without the other categories
        ledger, data = guarded(X={key: held[:many] for key, held in X.items()}, y=Y[:many])
        forged = pl.Dataset(fewer, data._vault, ledger=data.ledger)
        with pytest.raises(pl.errors.SchemaError, match="not the table's"):
            ask(ledger, data, pl.RandomizedResponse(0.5, 2), forged.responses(name))
        assert data._vault.opened == 0
