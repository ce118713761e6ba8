"""A kind of question from outside: what it says about itself is all that the package needs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from attrs import frozen

import privledger as pl
from privledger.broker.child import Elsewhere
from privledger.broker.wire import WireDescriber, WireReader
from privledger.questions import closed_set
from privledger.questions.question import Ask
from tests.worlds import refused, refuses, schema_of

SCHEMA = schema_of("s", {"x": (0.0, 1.0)}, t=["n", "p"])


@frozen(eq=False, repr=False)
class Halves(Ask):
    """How many records lie in each half of a column: whole numbers, with whole noise."""

    name: str
    what: str = "halves"
    cell_count = 2

    def fits(self, facts):
        facts.column(self.name, "numeric")

    def prepare(self, mechanism, relation):
        if type(mechanism) is not pl.Gaussian or mechanism.shares:
            raise pl.errors.UnsupportedNode("halves take one Gaussian")
        return mechanism.noise_multiplier * (1.0 if relation == "add_remove" else 2**0.5) * 1.001

    def sketch(self, chunk, state):
        column = chunk.features.arrays[chunk.features.schema.feature_index(self.name)]
        return np.bincount((column >= 0.5).astype(np.int64), minlength=2)

    def finish(self, merged, noise):
        return merged + noise.source.gaussian(np.full(2, noise.state), 2)


@pytest.fixture
def known(monkeypatch):
    """The one line that a new kind writes outside its own file."""
    monkeypatch.setattr(closed_set, "QUESTIONS", (*closed_set.QUESTIONS, Halves))


@pytest.fixture
def table():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e6, 1e-6))
    return ledger, ledger.protect({"x": np.linspace(0, 1, 100)}, ["n", "p"] * 50, SCHEMA)


SHARP = pl.Gaussian(0.01)


def test_a_new_kind_is_released_like_any_other(known, table):
    ledger, data = table
    with ledger.request(SHARP, data) as session:
        found = session.release(SHARP, Halves(data, "x"))
    np.testing.assert_allclose(found.astype(float), [50, 50], atol=1)
    with ledger.request(pl.Parallel([SHARP] * 2), data) as session:
        part = data.partition(pl.questions.CategoryCells("", 2))[1]
        found = session.release(SHARP, Halves(part, "x"))
    np.testing.assert_allclose(found.astype(float), [25, 25], atol=1)
    assert ledger.verify() == []


def test_a_new_kind_is_checked_before_a_row_is_read(known, table):
    ledger, data = table
    with ledger.request(SHARP, data) as session:
        refused(pl.errors.SchemaError, lambda: session.release(SHARP, Halves(data, "zip")))
        with pytest.raises(pl.errors.UnsupportedNode):
            session.release(SHARP, Halves(data, np.array(["x"], dtype=object)))
    assert data._vault.opened == 0


def test_a_new_kind_crosses_to_a_process_of_its_own(known, table):
    _, data = table
    vault = Elsewhere("s", SCHEMA)
    asked = Halves(pl.Dataset(SCHEMA, vault), "x")
    sent = json.loads(json.dumps(WireDescriber(vault, SCHEMA).query(asked)))
    found = WireReader(data).query(sent)
    assert type(found) is Halves and (found.name, found.what) == ("x", "halves")
    assert found.data.seal is data._vault


def test_an_unknown_kind_meets_no_row(table):
    """The set is closed: whoever is not named in it is a stranger, whatever it says of itself."""
    ledger, data = table
    refuses(ledger, data, SHARP, Halves(data, "x"))
    vault = Elsewhere("s", SCHEMA)
    with pytest.raises(pl.errors.UnsupportedNode):
        WireDescriber(vault, SCHEMA).query(Halves(pl.Dataset(SCHEMA, vault), "x"))
    with pytest.raises(pl.errors.UnsupportedNode):
        WireReader(data).query({"is": "Halves", "data": 0, "name": "x", "what": "halves"})
