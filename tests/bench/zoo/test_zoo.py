"""Faults can be put in and taken out, tools notice them, and honest learners are left alone."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from privledger.noise.seeded import generator
from privledger.testing.fitting import relation_of, takes_tables
from privledger.testing.lockstep import lockstep
from privledger.testing.lockstep.lock import arriving, fitting_of
from tests.bench.zoo import hunting
from tests.bench.zoo.hunting import FAULTS, SUSPECTS, found_first, honest, hunted
from tests.bench.zoo.page import names
from tests.bench.zoo.patching import TOOLS, Fault, applied, changed, functions_of
from tests.bench.zoo.tables import HONEST, MISTAKES, Prepared

LEAST, LEAST_OF_LEARNERS = 70, 15
SAMPLE = 8


def test_the_zoo_is_large_and_every_fault_has_a_name_of_its_own():
    assert len(FAULTS) >= LEAST
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert len([one for one in FAULTS if one.file.startswith("privledger_learners")]
               ) >= LEAST_OF_LEARNERS
    for fault in FAULTS:
        assert fault.learner in SUSPECTS, fault.name
        assert fault.seen_by and set(fault.seen_by) <= set(TOOLS), fault.name
        assert fault.breaks.endswith("."), fault.name


def test_every_fault_is_one_place_of_one_function():
    """`old` occurs once, and what differs is what functions do, or a constant."""
    for fault in FAULTS:
        before, after = fault.patched()
        assert before != after, fault.name
        assert len(changed(fault)) == 1, fault.name


@pytest.mark.parametrize("fault", random.Random(4).sample(FAULTS, SAMPLE), ids=lambda one: one.name)
def test_a_fault_comes_and_goes(fault: Fault):
    ((before, after),) = changed(fault)
    held = functions_of(fault, before)
    codes = [one.__code__ for one in held]
    with applied(fault):
        assert all(one.__code__.co_code == after.co_code for one in held)
        assert all(one.__code__ is not code for one, code in zip(held, codes, strict=True))
    assert [one.__code__ for one in held] == codes


def test_a_line_that_is_not_there_is_no_fault():
    with pytest.raises(ValueError, match="0 places"), applied(
            Fault("none", "none", FAULTS[0].file, "no such line\n", "", "joint", (), "")):
        pass


def test_the_page_lists_the_faults_that_there_are():
    assert names() == [fault.name for fault in FAULTS]


SOME = {  # one of each kind, which a lock finds on its first tables
    "laplace-nine-tenths", "one-draw-for-all-cells", "coins-by-rank", "parts-overlap",
    "rate-doubled", "cut-in-the-middle", "one-sample-for-all-rounds", "filter-never-pays",
    "count-beside-the-schema", "sequence-as-maximum", "mu-at-half-price", "plan-never-used-up",
    "keeps-the-number-of-rows", "keeps-the-largest-target", "errors-over-the-largest",
    "sampled-rounds-for-nothing"}


@pytest.mark.parametrize("name", sorted(SOME))
def test_a_lock_finds(name: str, monkeypatch: pytest.MonkeyPatch):
    # It stops when it has found: the machine's speed decides how long that takes, not whether.
    monkeypatch.setattr(hunting, "LOCK_SECONDS", 60)
    (fault,) = [one for one in FAULTS if one.name == name]
    assert hunted(fault.learner, fault, "lockstep", seed=0).by


def test_and_finds_nothing_afterwards():
    assert not hunted("joint", None, "lockstep", seed=0).by


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_nearly_all_are_found_and_no_honest_learner_is(seed: int):
    found = [fault for fault in FAULTS if found_first(fault, seed)[-1].by]
    assert len(found) >= 0.95 * len(FAULTS), sorted({one.name for one in FAULTS}
                                                   - {one.name for one in found})
    assert not [outcome.suspect for outcome in honest(["lockstep"], seed) if outcome.by]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: one.name)
def test_every_fault_is_run_by_its_learner(fault: Fault):
    """Its code runs in one fit, and the fit comes to an end."""
    assert hunting.runs(fault)


# --- plain tables ---------------------------------------------------------------------------------

LEAST_AT_TWO_SECONDS = 25
STABLE = {"extremes-out", "last-fifth-out", "shuffled-split", "first-thousand", "whole-batches"}
"""No mistakes where one record replaces another: at most one row that is left is another, too."""


@pytest.mark.parametrize("how", MISTAKES)
def test_what_is_done_to_a_plain_table_is_found(how: str):
    found = lockstep(Prepared(how=how), seconds=20)
    assert not found.holds, "it stops when it has found"
    assert found.premise in ("P1", "P3")


@pytest.mark.parametrize("how", HONEST)
def test_rows_that_are_prepared_alone_are_left_alone(how: str):
    found = lockstep(Prepared(how=how), seconds=0.8)
    assert found.holds, found.why
    assert found.tables > 20


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_mistakes_are_found_in_two_seconds(seed: int, relation: str):
    held = {how for how in MISTAKES
            if lockstep(Prepared(how=how, relation=relation), seconds=2, seed=seed).holds}
    held -= STABLE if relation == "replace_one" else set()
    assert len(held) <= len(MISTAKES) - LEAST_AT_TWO_SECONDS, held


PAIRS = 5


@pytest.mark.parametrize("name", [name for name, one in SUSPECTS.items()
                                  if takes_tables(one.make())])
def test_honest_learners_do_nothing_to_plain_tables(name: str):
    """42 learners, five pairs each: with the far one that each kind of table begins with."""
    learner = SUSPECTS[name].make()
    fitting = fitting_of(learner, relation_of(learner), plain=True)
    found = arriving(fitting, SUSPECTS[name].example(), generator(3, 1))
    assert not [broken for _, broken in islice(found, PAIRS) if broken]
