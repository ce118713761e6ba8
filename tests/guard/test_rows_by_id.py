"""Rows with an id, in a ledger of people with one row each: order and growth change nothing."""

import numpy as np
import pytest

import privledger as pl
from tests.worlds import schema_of

SCHEMA = schema_of("t", {"x": (0, 1)})
CAP = pl.IndividualFilter("gdp", 0.01)
NOISE = pl.Gaussian(15.0)
KEY = b"k" * 32


def draw(ledger, ids, rounds):
    data = ledger.protect({"x": np.ones(len(ids))}, schema=SCHEMA, name="export", people=list(ids))
    scope = ledger.open_scope(CAP, name="s")
    inside = pl.IndividualFilter("gdp", 0.01, node=pl.Repeat(NOISE, rounds))
    with ledger.request(inside, data, scope=scope) as session:
        for _ in range(rounds):
            session.release(NOISE, session.filtered().sum("x"))


def test_a_reordered_and_grown_export_is_known_row_by_row_in_a_later_process(tmp_path):
    path, ids = tmp_path / "l", [f"id{place}" for place in range(8)]
    with pl.Ledger.create(path, budget=pl.Budget(9.0, 1e-6), filter="gdp", unit="person",
                          people_key=KEY) as ledger:
        draw(ledger, ids, 2)
        paid, first = ledger.spent, ledger.record(person="id3").total
        assert first > 0
    with pl.Ledger.open(path, people_key=KEY) as ledger:
        draw(ledger, [*reversed(ids), "late"], 2)
        assert ledger.spent == paid
        # Two rounds cost .0089 of .01: who was there before cannot pay a third.
        assert ledger.record(person="id3").total == first
        assert ledger.record(person="late").total == pytest.approx(first)
        assert ledger.verify() == []
