"""`show` of a long history: its hashes, its own totals and its last grants, and it says so."""

import pytest

import privledger as pl
from privledger.reports import spend
from tests.doctored import doctor
from tests.worlds import schema_of


@pytest.fixture
def long(tmp_path, monkeypatch):
    monkeypatch.setattr(spend, "LONG", 40)
    path = tmp_path / "long.ledger"
    schema = schema_of("t", {"x": (0.0, 1.0)})
    with pl.Ledger.create(path, budget=pl.Budget(1.0, 1e-6), filter="gdp") as ledger:
        data = ledger.protect({"x": [0.5]}, schema, name="t")
        for number in range(30):
            with ledger.request(pl.Gaussian(300.0), data, learner=f"l{number}") as session:
                session.release(pl.Gaussian(300.0), session.data.count())
    return path


def test_what_was_not_priced_again_is_said_first(call, as_json, long):
    page = call("show", long)
    assert page.exit_code == 0
    first, _, third, *_ = page.stdout.splitlines()
    assert first.startswith("Within budget by its own totals")
    assert third.startswith("Attention: ") and "NOTHING was re-priced" in third
    assert "30 grants; the last 20 are listed" in page.stdout
    assert "l29 " in page.stdout and "l9 " not in page.stdout
    assert "every entry re-read and re-priced" not in page.stdout
    found = as_json("show", long)
    whole = as_json("show", long, "--all")
    assert found["repriced"] is False and whole["repriced"] is True
    assert len(found["grants"]) == 20 and len(whole["grants"]) == 30
    assert found["unlisted"] == 10 and whole["unlisted"] == 0
    for same in ("spent", "left", "entries", "head", "refusals", "receipt", "noise", "filter"):
        assert found[same] == whole[same], same
    assert found["grants"] == whole["grants"][-20:]


@pytest.mark.parametrize("statement", [
    "UPDATE entries SET body = replace(body, 'l7', 'l8') WHERE position = 24",
    "UPDATE entries SET hash = replace(hash, 'a', 'b') WHERE position = 50",
    "DELETE FROM entries WHERE position = 30"])
def test_a_broken_chain_is_found(call, long, statement):
    doctor(long, statement)
    page = call("show", long)
    assert page.exit_code == 3 and "within budget" not in page.stdout


def test_a_break_before_the_checkpoint_is_found(call, long, monkeypatch):
    """The totals come from the checkpoint; the hashes before it are looked at all the same."""
    monkeypatch.setattr(spend, "History", _Folded)
    doctor(long, "UPDATE entries SET body = replace(body, 'l7', 'l8') WHERE position = 24")
    page = call("show", long)
    assert page.exit_code == 3 and "chain-is-unbroken" in page.stdout


class _Folded:
    """A history that believes what it is told, as one does that begins with a checkpoint."""

    def __init__(self, store, writable):
        self.store = store

    def refresh(self):
        from privledger.ledger.state import State

        state = State(compact=True)
        for entry in self.store.read():
            state.take(entry)
        return state


def test_the_place_is_looked_at(call, long):
    doctor(long, "CREATE TRIGGER z AFTER INSERT ON entries BEGIN SELECT 1; END")
    page = call("show", long)
    assert page.exit_code == 3 and "place-is-as-written" in page.stdout + page.stderr


def test_a_long_ledger_that_is_overspent_is_not_within_budget(call, long):
    """Its own totals say so: nothing has to be priced again for that."""
    with pl.Ledger.open(long) as ledger:
        ledger.correct(next(iter(ledger.state.grants)), pl.Gaussian(0.5), "the noise was less")
    page = call("show", long)
    assert page.exit_code == 3 and page.stdout.startswith("OVER BUDGET")
    assert "NOTHING was re-priced" in page.stdout.replace("\n", " ")
