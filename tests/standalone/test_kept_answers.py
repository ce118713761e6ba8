"""Kept answers: both readers of history take the honest ones, and refuse the same others."""

from __future__ import annotations

import copy

import pytest

from privledger.ledger import audit
from privledger.storage import MemoryStore
from tests.doctored import entries_of
from tests.standalone.histories import lines_of

ARRAY = {"kind": "float", "shape": [1], "values": [1.5]}
KEY = "0" * 64
GOOD = [
    {"asked": KEY, "values": [ARRAY], "seal": KEY},
    {"asked": KEY, "values": [ARRAY]},
    {"asked": KEY, "values": [ARRAY, {"kind": "int", "shape": [], "values": [-2**63]}]},
    {"asked": KEY, "values": [{"kind": "float", "shape": [0, 3], "values": []}]}, None]
WRONG = [
    {"asked": KEY, "values": [ARRAY], "seal": KEY[1:]},
    {"asked": KEY, "values": [ARRAY], "seal": None}, {"asked": KEY, "values": [ARRAY], "seal": 1},
    {"asked": KEY[1:], "values": [ARRAY]}, {"asked": KEY.replace("0", "G"), "values": [ARRAY]},
    {"asked": 1, "values": [ARRAY]}, {"values": [ARRAY]}, {"asked": KEY},
    {"asked": KEY, "values": []}, {"asked": KEY, "values": None}, {"asked": KEY, "values": ARRAY},
    {"asked": KEY, "values": [{**ARRAY, "shape": [2]}]},
    {"asked": KEY, "values": [{**ARRAY, "shape": [-1]}]},
    {"asked": KEY, "values": [{**ARRAY, "kind": "object"}]},
    {"asked": KEY, "values": [{**ARRAY, "values": [True]}]},
    {"asked": KEY, "values": [{**ARRAY, "values": [1]}]},
    {"asked": KEY, "values": [{**ARRAY, "kind": "int"}]},
    {"asked": KEY, "values": [{**ARRAY, "kind": "int", "values": [2**63]}]},
    {"asked": KEY, "values": [{"kind": "int", "shape": [], "values": [-2**63 - 1]}]}, 7, "text", []]


@pytest.fixture(scope="module")
def once(tools):
    """The lines of a ledger with one kept answer and one grant that was handed back."""
    ledger = tools.lived("basic")
    data = ledger.protect(tools.rows, schema=tools.schema, name="kept")
    ledger.answer(tools.plans["basic"], data.count(), keep=True)
    return lines_of(ledger)


def both(lines, tools, book_of):
    """Whether our audit, and whether the stand-alone verifier, finds something."""
    lines = tools.chained(lines)
    store = MemoryStore()
    with store.transaction() as transaction:
        for entry in entries_of(lines):
            transaction.append(entry)
    return bool(audit(store)), bool(book_of(tools.text_of(lines)).faults)


def ends(lines, kind="settled"):
    return [line["body"] for line in lines if line["kind"] == kind]


def test_the_honest_one_is_clean_and_known_to_both(once, tools, book_of):
    assert ends(once)[-1]["answer"]["values"][0]["shape"] == []
    assert both(once, tools, book_of) == (False, False)
    notes = [text for _, text in book_of(tools.text_of(once)).notes]
    assert not any("not looked at" in text for text in notes)


@pytest.mark.parametrize(("answer", "wrong"), [(one, False) for one in GOOD]
                         + [(one, True) for one in WRONG])
def test_both_readers_agree_on_every_answer(once, answer, wrong, tools, book_of):
    lines = copy.deepcopy(once)
    ends(lines)[-1]["answer"] = answer
    assert both(lines, tools, book_of) == (wrong, wrong)


def failed(lines):
    ends(lines)[-1].update(failed=True, error="ValueError")


def of_two_releases(lines):
    ends(lines)[0]["answer"] = ends(lines)[-1]["answer"]


def handed_back(lines):
    ends(lines, "aborted")[0]["answer"] = ends(lines)[-1]["answer"]


def simulated(lines):
    lines[0]["body"]["mode"] = "simulation"


@pytest.mark.parametrize("change", [failed, of_two_releases, handed_back, simulated])
def test_both_readers_refuse_one_that_no_single_release_gave(once, change, tools, book_of):
    lines = copy.deepcopy(once)
    change(lines)
    assert both(lines, tools, book_of) == (True, True)
