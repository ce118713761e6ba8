"""Corrections of filter scopes in a database, also one that an earlier version made."""

import subprocess
import sys

import numpy as np
import pytest

import privledger as pl
from privledger.storage import catalog, migrate
from privledger.storage.address import parse_address
from tests.alone import VERIFIER
from tests.worlds import schema_of

BUDGET = pl.Budget(20.0, 1e-6)
SCHEMA = schema_of("t", {"x": (0, 1)})
NODE = pl.Gaussian(40.0)
INSIDE = pl.IndividualFilter("gdp", 0.01, node=NODE)
CAPS = (pl.Cap(pl.Budget(20.0, 1e-6), data="one"), pl.Cap(pl.Budget(20.0, 1e-6), per_window=True))
SCRIPTS = migrate.scripts()


def drawn(ledger, asserted=True):
    data = ledger.protect({"x": np.linspace(0, 1, 5)}, SCHEMA, name="one")
    scope = ledger.open_scope(pl.IndividualFilter("gdp", 0.01), name="s")
    with ledger.request(INSIDE, data, scope=scope) as session:
        handle = session.filtered()
        session.release(NODE, handle.custom(lambda rows: rows["x"], 1.0, "rows alone")
                        if asserted else handle.sum("x"))
    return session.grant


def both_verify(ledger, tmp_path):
    assert ledger.verify() == []
    lines = tmp_path / "history.jsonl"
    from click.testing import CliRunner

    from privledger.cli import main
    done = CliRunner().invoke(main, ["export", ledger.path, "-o", str(lines)])
    assert done.exit_code == 0, done.output
    alone = subprocess.run([sys.executable, str(VERIFIER), str(lines)], capture_output=True,
                           text=True)
    assert alone.returncode == 0, alone.stdout


@pytest.mark.parametrize("earlier", [2, 3, None])
@pytest.mark.parametrize("named", ["scope", "grant"])
def test_a_scope_is_corrected_also_in_tables_of_an_earlier_version(postgres, monkeypatch, tmp_path,
                                                                   earlier, named):
    url = postgres.url("book", database=postgres.empty())
    if earlier is not None:
        monkeypatch.setattr(migrate, "scripts", lambda: {
            number: text for number, text in SCRIPTS.items() if number <= earlier})
        monkeypatch.setattr(catalog, "strange", lambda connection: [])
    with pl.Ledger.create(url, budget=BUDGET, filter="gdp", caps=CAPS) as ledger:
        ledger.open_window("2027")
        grant = drawn(ledger)
    monkeypatch.undo()
    if earlier is not None:
        with pytest.raises(pl.LedgerError, match="must open the ledger for writing once"):
            pl.Ledger.open(url, read_only=True)
    with pl.Ledger.open(url) as ledger:
        before, caps = ledger.state.units, [units for units, _ in ledger.state.cap_spent]
        record = ledger.record(3).total
        ledger.correct("s" if named == "scope" else grant, pl.Gaussian(10.0), "it looked further")
        more = ledger.state.units - before
        assert more > 0 and ledger.record(3).total > record
        after = [units for units, _ in ledger.state.cap_spent]
        assert [two - one for one, two in zip(caps, after, strict=True)] == [more, more]
        name = parse_address(url).parameters["dbname"]
        stored = postgres.sql("SELECT t.units FROM privledger.totals t", database=name)
        assert int(stored[0][0]) == ledger.state.units
        both_verify(ledger, tmp_path)
        assert postgres.sql("SELECT privledger.repair('book')", database=name)
        assert postgres.sql("SELECT t.units FROM privledger.totals t", database=name) == stored


def test_a_correction_that_breaks_the_promise_is_written_and_nothing_fits_after(postgres):
    url = postgres.url("book", database=postgres.empty())
    with pl.Ledger.create(url, budget=BUDGET, filter="gdp") as ledger:
        drawn(ledger)
        ledger.correct("s", None, "nothing can be promised")
        assert ledger.state.broken
        with pytest.raises(pl.BudgetExceeded):
            ledger.open_scope(pl.IndividualFilter("gdp", 0.01), name="more")


def test_a_client_corrects_no_scope_and_is_told_who_does(postgres):
    name = postgres.empty()
    url = postgres.url("book", database=name)
    with pl.Ledger.create(url, budget=BUDGET, filter="gdp") as ledger:
        drawn(ledger)
        spent = ledger.spent
    for statement in ("DO $$ BEGIN CREATE ROLE scoped LOGIN; EXCEPTION WHEN duplicate_object THEN "
                      "NULL; END $$", "GRANT USAGE ON SCHEMA privledger TO scoped",
                      "GRANT SELECT ON ALL TABLES IN SCHEMA privledger TO scoped",
                      "GRANT EXECUTE ON FUNCTION privledger.lock, privledger.append, "
                      "privledger.keep, privledger.markable TO scoped"):
        postgres.sql(statement, database=name)
    with pl.Ledger.open(postgres.url("book", database=name, user="scoped")) as ledger:
        with pytest.raises(pl.LedgerError, match="corrected by the owner of the tables"):
            ledger.correct("s", pl.Gaussian(10.0), "why")
        assert ledger.spent == spent
