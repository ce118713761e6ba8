"""A scope of rows goes on in another process only with the same rows in the same order."""

import copy

import pytest

import privledger as pl
from privledger.ledger import audit
from privledger.storage import MemoryStore
from tests.alone import verify_history
from tests.doctored import entries_of
from tests.standalone.conftest import chained, exported, parsed
from tests.worlds import refused, schema_of

SCHEMA = schema_of("t", {"a": (0.0, 1.0)})
KEY, CAP, G = b"k" * 16, 0.0026, pl.Gaussian(20.0)
FILTER = pl.IndividualFilter("gdp", CAP)


def day(path, rows, key=KEY):
    """A process of its own, as far as a ledger can tell."""
    with pl.Ledger.open(path) as ledger:
        data = ledger.protect({"a": rows}, schema=SCHEMA, name="t", fingerprint_key=key)
        use(ledger, data)
        spent = [ledger.record(i, "t").total for i in range(len(rows))]
        assert ledger.verify() == []
        return data, spent


def use(ledger, data):
    scope = ledger.open_scope(FILTER, name="s")
    plan = pl.IndividualFilter("gdp", CAP, node=G)
    with ledger.request(plan, data, scope=scope) as session:
        session.release(G, session.filtered().sum("a"))


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "l.ledger"
    pl.Ledger.create(place, budget=pl.Budget(0.2, 1e-6), filter="gdp").close()
    return place


def test_an_export_in_another_order_is_refused_unread(path):
    day(path, [1.0, 0.5, 0.5])
    with pl.Ledger.open(path) as ledger:
        data = ledger.protect({"a": [0.5, 0.5, 1.0]}, schema=SCHEMA, name="t", fingerprint_key=KEY)
        with pytest.raises(pl.errors.NotGranted, match="same rows in the same order"):
            use(ledger, data)
        assert data._vault.opened == 0
    _, spent = day(path, [1.0, 0.5, 0.5])
    assert max(spent) <= CAP


@pytest.mark.parametrize(("first", "second"), [(None, None), (KEY, None), (None, KEY),
                                               (KEY, b"x" * 16)])
def test_without_the_same_key_a_scope_ends_with_its_process(path, first, second):
    day(path, [1.0, 0.5], first)
    refused(pl.errors.NotGranted, lambda: day(path, [1.0, 0.5], second), match="fingerprint_key")


def test_within_a_process_no_key_is_needed(path):
    with pl.Ledger.open(path) as ledger:
        for _ in range(3):
            use(ledger, ledger.protect({"a": [1.0, 0.5]}, schema=SCHEMA, name="t"))
        assert ledger.verify() == []


def test_both_verifiers_compare_the_marks(path):
    day(path, [1.0, 0.5])
    day(path, [1.0, 0.5])
    with pl.Ledger.open(path) as ledger:
        store = ledger._history.store
        lines = parsed(exported(store.read()))
        kept = {line["body"]["vector"]["name"]: store.vector(line["body"]["vector"]["name"])
                for line in lines if line["body"].get("vector")}
    for change in (False, True):
        edited = copy.deepcopy(lines)
        last = [line for line in edited if line["kind"] == "granted"][-1]
        assert len(last["body"]["mark"]) == 64
        if change:
            last["body"]["mark"] = "0" * 64
        edited = chained(edited)
        memory = MemoryStore()
        memory._entries, memory._vectors = entries_of(edited), kept
        book = verify_history.Book()
        for line in edited:
            book.take(verify_history.canonical(line).encode("ascii"))
        book.finish(kept.get)
        assert (bool(audit(memory)), bool(book.faults)) == (change, change)
