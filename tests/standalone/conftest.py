"""Honest ledgers of every kind, their export, and the stand-alone verifier as a module."""

from __future__ import annotations

import json
from hashlib import sha256
from types import SimpleNamespace

import pytest

import privledger as pl
from privledger.cli.export import entry_line
from tests.alone import VERIFIER, verify_history
from tests.bodies import said

SCHEMA = pl.Schema("one", (pl.Column("x", "numeric", "feature", -1.0, 1.0),))
ROWS = {"x": [1.0, -1.0, 0.5, 0.0, 0.25]}
PLANS = {"gdp": pl.Gaussian(20.0), "zcdp": pl.Gaussian(20.0), "rdp": pl.Gaussian(20.0),
         "basic": pl.Laplace(25.0)}


def abandon(ledger, plan, data, *, touched):
    """A session that ends with an exception, before or after it released something."""
    try:
        with ledger.request(plan, data) as session:
            if touched:
                session.release(plan, data.count())
            raise RuntimeError("on purpose")
    except RuntimeError:
        pass


def lived(kind="gdp", path=None, **options):
    """A ledger in which everything happened once: settled, twice released, handed back, failed
    late, refused, crashed and (where it can be) a scope that two grants drew on."""
    ledger = pl.Ledger.create(path, budget=pl.Budget(1.0, 1e-6), filter=kind, **options)
    data = ledger.protect(ROWS, SCHEMA, name="people")
    plan = PLANS[kind]
    twice = pl.Repeat(plan, 2)
    with ledger.request(twice, data, learner="first") as session:
        for _ in range(2):
            session.release(plan, data.count())
    abandon(ledger, plan, data, touched=False)
    abandon(ledger, plan, data, touched=True)
    with pytest.raises(pl.BudgetExceeded):
        ledger.request(pl.Repeat(plan, 10**6), data)
    if kind != "basic":
        scope = ledger.open_scope(pl.IndividualFilter("gdp", 1e-4), name="scope")
        for _ in range(2):
            with ledger.request(scope.node, data, scope=scope) as session:
                session.release(pl.Gaussian(300.0), session.filtered().sum("x"))
    left_open = ledger.request(plan, data)
    ledger._history.commit(lambda state: said(
        ("crashed", {"grant": left_open.grant, "time": ""})))
    ledger._history.flush()
    return ledger


def exported(entries):
    return "".join(map(entry_line, entries)).encode("ascii")


def parsed(raw):
    return [json.loads(line) for line in raw.splitlines()]


_TEXT = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def chained(lines):
    """The same bodies with positions and hashes made afresh: what a careful forger does."""
    previous, found = "0" * 64, []
    for position, line in enumerate(lines):
        text = _TEXT([position, line["kind"], line["body"]])
        digest = sha256((previous + text).encode()).hexdigest()
        found.append({**line, "position": position, "previous": previous, "hash": digest})
        previous = digest
    return found


def text_of(lines):
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@pytest.fixture(scope="session")
def verifier():
    return verify_history


@pytest.fixture(scope="session")
def tools():
    return SimpleNamespace(lived=lived, exported=exported, parsed=parsed, chained=chained,
                           text_of=text_of, path=VERIFIER, schema=SCHEMA, rows=ROWS, plans=PLANS,
                           abandon=abandon)


@pytest.fixture(scope="session")
def honest():
    """kind -> (export, receipt) of a ledger that lived."""
    found = {}
    for kind in PLANS:
        ledger = lived(kind)
        assert ledger.verify() == []
        found[kind] = exported(ledger._history.store.read()), ledger.receipt.as_dict()
    return found


@pytest.fixture(scope="session")
def book_of(verifier, tmp_path_factory):
    """What the verifier makes of some bytes, and of a receipt."""
    place = tmp_path_factory.mktemp("histories") / "history.jsonl"

    def read(raw, receipt=None):
        place.write_bytes(raw)
        book = verifier.read_history(str(place))
        if receipt is not None:
            verifier.check_receipt(book, receipt)
        return book

    return read
