"""Eight racers for the last of the budget: one is granted, in every round, and not always the
same one."""

import os
from itertools import islice

import pytest

import privledger as pl
from tests.faults import races
from tests.faults.small import places

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
CASES = [
    pytest.param("memory", "threads"), pytest.param("sqlite", "threads"),
    pytest.param("sqlite", "own handles"), pytest.param("postgres", "own handles"),
    pytest.param("sqlite", "processes", marks=needs_fork),
    pytest.param("postgres", "processes", marks=needs_fork)]


def race(kind, how, rounds, request):
    """The table of who was granted; the law that nobody got what another had is checked."""
    chosen = list(islice(places(kind, request), rounds))
    made = []
    for place in chosen:
        with pl.Ledger.create(place, budget=races.LAST, filter="gdp") as ledger:
            made.append(ledger)  # in memory it outlives its closing
    if kind == "memory":
        table = races.threads(made)
        races.check(table, made)
        return table
    table = (races.processes(chosen) if how == "processes"
             else races.threads(chosen, shared=how == "threads"))
    for place in chosen:
        with pl.Ledger.open(place, read_only=True) as ledger:
            races.check(table, [ledger])
    return table


@pytest.mark.parametrize(("kind", "how"), CASES)
def test_eight_race_for_the_last_of_the_budget(kind, how, request):
    race(kind, how, 20, request)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "how"), CASES)
def test_eight_race_a_thousand_times(kind, how, request):
    races.fair(race(kind, how, 1000, request))
