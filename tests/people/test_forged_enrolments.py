"""Enrolments that were written wrong, in a chain that is right: both verifiers say so."""

from __future__ import annotations

import numpy as np
import pytest

import privledger as pl
from privledger.guard import enrolling
from privledger.ledger import people_spent, pieces, roster
from privledger.standalone import verify_history

SCHEMA = pl.Schema("t", (pl.Column("x", "numeric", lower=-1.0, upper=1.0),))


def members(number, places, size, *, first=0, more=0, beyond=False, cut=False):
    there = np.zeros(8 * (-(-(size + more) // 8)), bool)
    there[places] = True
    if beyond:
        there[size:] = True
    bits = np.packbits(there, bitorder="little").tobytes()
    return pieces.made(f"members:{number}", first, size + more, {0: b"" if cut else bits})


WRONG_MEMBERS = {"bits beyond the last place": {"beyond": True}, "another first place":
                 {"first": 5}, "places that nobody has": {"more": 20}, "cut off": {"cut": True}}
WRONG_BATCHES = {
    "out of order": lambda first, fresh: (first, fresh[::-1].copy()),
    "somebody twice": lambda first, fresh: (first, np.concatenate([fresh[:1], fresh[:-1]])),
    "another first place": lambda first, fresh: (first + 1, fresh),
}


def written(place):
    """A ledger with one table of three people and what they spent; verified by both."""
    with pl.Ledger.create(place, budget=pl.Budget(1.0, 1e-6), filter="gdp", unit="person",
                          people_key=b"k" * 32) as ledger:
        data = ledger.protect({"x": [1.0, 1.0, 0.5, -1.0]}, schema=SCHEMA, people=[1, 1, 2, 3])
        scope = ledger.open_scope(pl.IndividualFilter("gdp", 1e-2), name="scope")
        with ledger.request(scope.node, data, scope=scope) as session:
            session.release(pl.Gaussian(20.0), session.filtered().sum("x"))
        return ledger.verify(), verify_history.read_history(str(place)).faults


@pytest.mark.parametrize("name", WRONG_MEMBERS)
def test_who_is_in_a_table_is_read_alike(tmp_path, monkeypatch, name):
    monkeypatch.setattr(enrolling, "member_pieces", lambda number, places, size: members(
        number, places, size, **WRONG_MEMBERS[name]))
    found, faults = written(tmp_path / "l")
    assert {one.rule for one in found} == {"people-match"} and faults


@pytest.mark.parametrize("name", WRONG_BATCHES)
def test_new_people_are_read_alike(tmp_path, monkeypatch, name):
    monkeypatch.setattr(enrolling, "batch_pieces", lambda number, first, fresh: (
        roster.batch_pieces(number, *WRONG_BATCHES[name](first, fresh))))
    found, faults = written(tmp_path / "l")
    assert "people-match" in {one.rule for one in found} and faults


def test_what_people_spent_begins_at_the_first_place(tmp_path, monkeypatch):
    monkeypatch.setattr(people_spent, "made", lambda name, first, size, found: (
        pieces.made(name, 5, size, found)))
    found, faults = written(tmp_path / "l")
    assert {one.rule for one in found} == {"people-match"} and faults


def test_a_right_one_is_right(tmp_path):
    assert written(tmp_path / "l") == ([], [])
