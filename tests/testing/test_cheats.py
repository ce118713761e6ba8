"""Every check catches the learner that breaks its rule; what else notices is known."""

import math

import pytest
from cheats import breaking, gaps, hidden
from cheats.honest import NoisyMean
from cheats.inside import UsesInsides
from cheats.sampling import OwnNoise

from privledger.testing import CHECKS, LearnerCheckFailed, check_learner, trials
from tests.worlds import refused

ANSWERS, ALONE, MODEL = ("model-follows-answers", "rows-are-treated-alone",
                         "nothing-private-in-the-model")

LOCK = "lockstep-holds"

# It stops at the first pair that breaks a premise, so this is what it may take, not what it does.
PATIENCE = {LOCK: {"seconds": 60}}

# The check that is there to catch it, and what else notices; what the lock notices besides is in
# a table of its own, docs/auditing.md.
CHEATS = {
    breaking.PlansDiffer: ("plan-needs-no-data",),
    breaking.ReadsEarly: ("no-read-before-grant",),
    breaking.AsksForLess: ("refusal-reads-nothing",),
    breaking.AsksAgain: ("spend-within-plan",),
    breaking.PlansByRows: ("same-plan-for-neighbouring-tables", ANSWERS),
    breaking.SwallowsCrashes: ("crash-keeps-the-charge",),
    breaking.HandsBack: ("crash-keeps-the-charge",),
    breaking.ForksItsLedger: ("copies-never-fork-the-budget",),
    breaking.PicklesRows: ("copies-never-fork-the-budget",),
    breaking.LearnsItsClasses: ("structure-is-public", ANSWERS),
    breaking.StumblesOnTables: ("bad-input-is-refused",),
    OwnNoise: ("no-sampler-of-its-own",),
    UsesInsides: ("public-names-only",),
    breaking.SeedsItsNoise: ("fresh-noise",),  # its rounding hides it from other tables
    breaking.KeepsACell: (MODEL, ANSWERS),
    breaking.KeepsTheCount: (MODEL, ANSWERS),
    breaking.PicklesACell: (MODEL, ANSWERS),
    breaking.QuotesACell: ("nothing-private-in-errors",),
    breaking.TooLittleNoise: ("epsilon-holds", ANSWERS),
    hidden.KeepsTheMaximum: (ANSWERS, MODEL),
    hidden.RoundsTheMaximum: (ANSWERS,),
    hidden.WritesTheMaximum: (ANSWERS,),
    hidden.ClipsAtTheMaximum: (ANSWERS, "epsilon-holds"),
    hidden.ScalesByTheMaximum: (ALONE,),
    hidden.Ranks: (ALONE,),
    hidden.DividesByTheCount: (ALONE,),
    hidden.RunsAlong: (ALONE,),
    hidden.CountsAPlainTable: (MODEL, ANSWERS),
    hidden.MaximumOfAPlainTable: (ANSWERS,),
    hidden.ShrinksWithAPlainTable: (ANSWERS,),
    hidden.BestOfThree: (ANSWERS,),
    hidden.BestOfThreeOnAPlainTable: (ANSWERS,),
    gaps.RoundsTheMinimum: (ANSWERS,),
    gaps.KeepsTheOrderOfSize: (ANSWERS,),
    gaps.OrderOfSizeOfAPlainTable: (ANSWERS,),
    gaps.KeepsWhatOccurs: (ANSWERS,),
    gaps.KeepsAnExtremeInWholeNumbers: (ANSWERS,),
    gaps.CarriesAMaximumOver: (ANSWERS,),
    gaps.ScoresTooFar: (ALONE,),
    gaps.ScoresByOrder: (ALONE,),
    gaps.ScoresTooFarSeldom: (LOCK,),
    hidden.SpendsTwiceOnAPlainTable: ("spend-within-plan", "same-plan-for-neighbouring-tables"),
    hidden.SwallowsARefusal: ("refusal-reads-nothing",),
    hidden.PlansByAPlainTable: ("same-plan-for-neighbouring-tables", ANSWERS),
    hidden.SeededOnAPlainTable: ("spend-within-plan", "fresh-noise", "epsilon-holds"),
    hidden.LargeBudgetOnAPlainTable: ("spend-within-plan", "refusal-reads-nothing")}


@pytest.fixture(autouse=True)
def however_slow_the_machine_is(monkeypatch):
    """Plain tables are looked at, too: on a busy machine the quick look would leave them out."""
    monkeypatch.setattr(trials, "QUICK_SECONDS", math.inf)


def failing(learner):
    found = set()
    for name, check in CHECKS.items():
        try:
            check(learner)
        except LearnerCheckFailed as caught:
            assert caught.check == name
            found.add(name)
    return found


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
def test_a_cheat_fails_its_check(cheat):
    name = CHEATS[cheat][0]
    with pytest.raises(LearnerCheckFailed) as caught:
        CHECKS[name](cheat(epsilon=1.0), **PATIENCE.get(name, {}))
    assert caught.value.check == name


@pytest.mark.slow
@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
def test_a_cheat_fails_its_checks_and_no_other(cheat):
    assert failing(cheat(epsilon=1.0)) - {LOCK} == set(CHEATS[cheat]) - {LOCK}


def test_a_former_name_finds_its_check():
    assert CHECKS["answers-alone-decide"] is CHECKS[ANSWERS]
    assert "answers-alone-decide" not in CHECKS
    refused(KeyError, lambda: CHECKS["answers-decide"])


def test_honest_custom_scores_pass():
    check_learner(gaps.SelectsByScores(epsilon=1.0))


def test_every_check_has_its_cheat():
    assert {names[0] for names in CHEATS.values()} == set(CHECKS)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_learner_they_are_made_from_is_honest(relation):
    check_learner(NoisyMean(epsilon=0.5, relation=relation))


@pytest.mark.slow
def test_two_thousand_fits_tell_half_of_the_noise_from_all_of_it():
    """Of the honest one, an accusation has probability at most 1e-6."""
    CHECKS["epsilon-holds"](breaking.LessNoise(epsilon=1.0), fits=2000)
    with pytest.raises(LearnerCheckFailed, match="or the plan is not kept"):
        CHECKS["epsilon-holds"](breaking.HalfTheNoise(epsilon=1.0), fits=2000)


def test_a_plan_over_epsilon_is_said_to_be_one():
    with pytest.raises(LearnerCheckFailed, match="costs more than its epsilon"):
        CHECKS["spend-within-plan"](breaking.CostsMore(epsilon=1.0))
