"""People with rows at several owners: declared before the start, priced, and refused where no
ledger would count it. And a run is read back from its own words, whatever it says."""

import math

import numpy as np
import pytest
from attrs import evolve

import privledger as pl
from privledger.cli.owners import read_all, write_receipts
from privledger.errors import InvalidPlan, UnsupportedNode
from privledger.federation import (
    Federation,
    InProcess,
    Owner,
    Party,
    Run,
    new_key,
    public_key,
    verify_statements,
)
from tests.worlds import SIZES as SCHEMA
from tests.worlds import refused

BUDGET = pl.Budget(3.0, 1e-6)
LEAF = pl.Gaussian(20.0)


def hospital(people, unit="person"):
    more = {"unit": "person", "people_key": b"k" * 32} if unit == "person" else {}
    ledger = pl.Ledger.create(None, budget=BUDGET, **more)
    n = len(people)
    return ledger, ledger.protect({"size": np.linspace(0, 1, n)}, np.linspace(0, 20, n), SCHEMA,
                                  name="t", **({"people": people} if unit == "person" else {}))


def run_of(keys, *, several=None, noise="local", **more):
    return Run.of("a run", tuple(Owner(name, public_key(key)) for name, key in keys.items()),
                  SCHEMA, LEAF, delta=0.0, learner="somebody", noise=noise,
                  colluding=1 if noise == "shared" else 0, owners_per_person=several, **more)


def keys_of(k=3):
    return {f"owner {place}": new_key() for place in range(k)}


@pytest.mark.parametrize(("noise", "several"), [("local", 1), ("local", 3), ("shared", 1)])
def test_ledgers_of_people_join_a_run_that_declares_how_many(noise, several):
    """Everybody has two rows at each owner; what an owner adds of one person is still clipped to
    one, so the sum is of people."""
    keys = keys_of()
    run, ledgers, lines = run_of(keys, several=several, noise=noise), [], {}
    for name, key in keys.items():
        ledger, data = hospital([place // 2 for place in range(40)])
        ledgers.append(ledger)
        lines[name] = InProcess(Party(run, name, data, key))
    federation = Federation(run, SCHEMA, lines, BUDGET)
    with federation.data.ledger.request(LEAF, federation.data) as session:
        counted = float(session.release(LEAF, federation.data.count()))
    # Three times 20 people; standard deviation 20 sqrt(3) at most, false alarm below 1e-6.
    assert abs(counted - 60) < 20 * math.sqrt(3) * 4.9
    for ledger in ledgers:
        assert ledger.verify() == []
        # The ledger's own promise is of all that a person has in it, as ever.
        assert ledger.spent == pytest.approx(pl.epsilon(LEAF, BUDGET.delta), rel=1e-6)


def test_without_a_declaration_or_with_shared_noise_they_do_not():
    keys = keys_of()
    (name, key), data = next(iter(keys.items())), hospital([1, 2, 3])[1]
    for run in (run_of(keys), run_of(keys, noise="shared"),
                run_of(keys, noise="shared", several=2)):
        with pytest.raises(UnsupportedNode, match="owners_per_person"):
            Party(run, name, data, key)
    assert data._vault.opened == 0
    rows = hospital([1, 2, 3], "row")[1]
    for run in (run_of(keys), run_of(keys, noise="shared", several=2)):
        Party(run, name, rows, key)  # its promise is of rows, and says so


@pytest.mark.parametrize("bad", [0, -1, 4, True, 1.0, "1"])
def test_how_many_is_a_number_of_owners(bad):
    refused(pl.errors.InvalidValue, lambda: run_of(keys_of(), several=bad))


def test_the_price_of_a_person_adds_up_over_owners():
    """mu sqrt(m) where each owner adds whole noise, m mu where a sum has one noise."""
    keys = keys_of(5)
    for several in (1, 2, 5):
        local = pl.epsilon(run_of(keys, several=several).of_person, 1e-6)
        shared = pl.epsilon(run_of(keys, several=several, noise="shared").of_person, 1e-6)
        assert local == pytest.approx(pl.epsilon(pl.Gaussian(20 / math.sqrt(several)), 1e-6),
                                      rel=1e-6)
        assert shared == pytest.approx(pl.epsilon(pl.Gaussian(20 / several), 1e-6), rel=1e-6)
    with pytest.raises(InvalidPlan):
        _ = run_of(keys).of_person


# --- a run's own words ----------------------------------------------------------------------------

RUNS = [{}, {"several": 2}, {"noise": "shared"}, {"noise": "shared", "several": 3},
        {"noise": "shared", "least_honest": 2}]


@pytest.mark.parametrize("how", RUNS, ids=str)
def test_a_run_is_read_back_from_its_own_words(how, tmp_path):
    """Receipts of a run with shared noise could not be read: their reader knew fewer fields."""
    keys = keys_of()
    run = run_of(keys, **how)
    assert Run.from_agreed(run.agreed) == run
    assert Run.from_agreed(run.agreed).digest == run.digest
    write_receipts(str(tmp_path / "r.json"), run, [])
    assert read_all([str(tmp_path / "r.json")]) == (run, [])
    assert evolve(run, owners_per_person=1).digest != evolve(run, owners_per_person=None).digest
    for name in run.agreed:
        for value in (None, 7, [], {}, "x"):
            if value != run.agreed[name]:
                try:
                    other = Run.from_agreed(run.agreed | {name: value})
                except (InvalidPlan, pl.errors.PrivledgerError):
                    continue
                assert other.digest != run.digest
    for more in ({"another": 1}, {"digest": "00"}):
        with pytest.raises(InvalidPlan):
            Run.from_agreed(run.agreed | more)


def test_statements_of_shared_noise_are_verified_from_a_file(tmp_path):
    keys = keys_of()
    run, lines = run_of(keys, noise="shared"), {}
    for name, key in keys.items():
        lines[name] = InProcess(Party(run, name, hospital([1, 2, 3], "row")[1], key))
    federation = Federation(run, SCHEMA, lines, BUDGET)
    with federation.data.ledger.request(LEAF, federation.data) as session:
        session.release(LEAF, federation.data.count())
    write_receipts(str(tmp_path / "r.json"), run, federation.statements)
    found, said = read_all([str(tmp_path / "r.json")])
    assert verify_statements(found, said) == []
