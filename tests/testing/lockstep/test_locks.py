"""Locks of the shipped learners hold; one fault for each premise breaks it."""

import json
import sys

import numpy as np
import privledger_learners as learners
import pytest
from attrs import evolve

import privledger as pl
from privledger.guard import session as session_file
from privledger.guard.vault import _vault_of
from privledger.noise.seeded import generator
from privledger.questions import asking, blocks, sums
from privledger.questions.asking import Members
from privledger.questions.blocks import clipped
from privledger.questions.query import Query
from privledger.testing.checks import check_lockstep_holds
from privledger.testing.examples import examples_for, worst_pair
from privledger.testing.fitting import protect_example
from privledger.testing.lockstep import lockstep, replay_witness
from privledger.testing.lockstep.lock import fitting_of, lock, runs_of
from tests.worlds import refused

SMALL = {"epsilon": 1.0, "delta": 1e-6, "n_trees": 3}
LEARNERS = {
    "sgbdt": learners.SGBDTRegressor(**SMALL),
    "sgbdt-sampled": learners.SGBDTRegressor(sampling_rate=0.3, **SMALL),
    "sgbdt-filtered": learners.SGBDTRegressor(individual_filter="gdp", extra_rounds=3, **SMALL),
    "joint-tree": learners.JointTreeClassifier(epsilon=1.0),
    "joint-tree-replace-one": learners.JointTreeClassifier(epsilon=1.0, relation="replace_one"),
    "dpboost": learners.DPBoostClassifier(epsilon=1.0, n_trees=2),
    "diprime-regressor": learners.DiPriMeForestRegressor(epsilon=1.0),
    "mrf": learners.MultinomialForestClassifier(epsilon=1.0),
    "dpsis": learners.DPSIS(epsilon=1.0, k=2),
    "ensemble": learners.PrivateEnsembleClassifier(epsilon=1.0, n_trees=3),
    "label-private": learners.LabelPrivateClassifier(epsilon=1.0, n_trees=3)}


OFTEN = ("sgbdt-filtered", "joint-tree-replace-one", "dpsis", "label-private")
"""In the default run; the conformance kit locks every learner there, too."""


def some(names, often):
    """Cases, those that are not looked at often behind the marker."""
    return [name if name in often else pytest.param(name, marks=pytest.mark.slow) for name in names]


def first_lock(learner, seeds=(0, 0), **changes):
    relation = changes.pop("relation", getattr(learner, "relation", learner.info.relations[0]))
    pair = worst_pair(examples_for(learner)[0], relation)
    return lock(fitting_of(learner, relation, **changes), pair, generator(*seeds))


@pytest.mark.parametrize("name", some(LEARNERS, OFTEN))
def test_shipped_learners_hold_close_to_their_price(name):
    found = lockstep(LEARNERS[name], seconds=0.6 if name == "dpsis" else 0.15, seed=3)
    assert (found.holds, found.premise) == (True, "")
    assert 0.95 <= found.ratio <= 1 + 1e-9
    assert found.tables >= 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", LEARNERS)
def test_no_honest_lock_breaks(name, seed):
    found = lockstep(LEARNERS[name], seconds=1.0, seed=seed)
    assert found.holds, found.why


def test_a_lock_repeats_by_its_seeds():
    one, two = (first_lock(LEARNERS["joint-tree"], (5, 1)) for _ in range(2))
    assert one == two


def test_a_witness_is_plain_json_and_runs_again(tmp_path):
    found = lockstep(LEARNERS["sgbdt"], seconds=0.2, seed=1)
    (tmp_path / "witness.json").write_text(found.as_json())
    again = replay_witness(json.loads((tmp_path / "witness.json").read_text()))
    assert not again.broken
    assert again.ratio == found.ratio
    refused(pl.InvalidValue, lambda: replay_witness(found.witness | {"format": 99}))


def test_private_and_simulation_ledgers_run_one_code_path():
    """What a lock sees of a simulation is what a private ledger does."""
    entered = {}
    for mode in ("private", "simulation", "private"):  # the first fills caches of prices
        learner = learners.JointTreeClassifier(epsilon=1.0, random_state=0)
        table = examples_for(learner)[0].take(np.arange(20))
        ledger = pl.Ledger.create(None, budget=pl.Budget(1.0), mode=mode)
        data, seen = protect_example(ledger, table), set()

        def called(frame, event, arg, seen=seen):
            name = frame.f_globals.get("__name__", "")
            if event == "call" and name.startswith("privledger.") and ".noise." not in name:
                seen.add((name, frame.f_code.co_qualname if sys.version_info > (3, 11)
                          else frame.f_code.co_name))

        sys.setprofile(called)
        try:
            learner.fit(data)
        finally:
            sys.setprofile(None)
        entered[mode] = seen
    assert entered["private"] == entered["simulation"]
    assert len(entered["private"]) > 100


# --- one fault for each premise -------------------------------------------------------------------

def test_noise_of_half_the_width_breaks_p3(monkeypatch):
    monkeypatch.setattr(sums, "MORE", 0.5)
    assert _premises("sgbdt") == {"P3"}


def test_a_clip_left_out_breaks_p3(monkeypatch):
    monkeypatch.setattr(blocks, "clipped", lambda block, chunk, norm: (
        None if clipped(block, chunk, norm) is None else block.values(chunk)))
    monkeypatch.setattr(sums.np, "clip", lambda a, *rest, **named: a)
    assert "P3" in _premises("sgbdt", learner=learners.SGBDTRegressor(gradient_clip=0.2, **SMALL))


def test_an_answer_without_noise_breaks_p2(monkeypatch):
    real = Query.finish

    def finish(self, merged, noise):
        found = real(self, merged, noise)
        return found if len(merged) > 1 else merged[0][0, 0] * noise.state.recipes[0].grid

    monkeypatch.setattr(Query, "finish", finish)
    assert _premises("joint-tree") & {"P1", "P2"}


def test_a_count_of_rows_in_the_model_breaks_p1():
    class Counting(learners.JointTreeClassifier):
        def fit(self, X, y=None):
            found = super().fit(X, y)
            found.rows_ = _vault_of(X._vault)._n_rows
            return found

    assert _premises("counting", learner=Counting(epsilon=1.0)) == {"P1"}


def test_a_sample_at_another_rate_breaks_p5(monkeypatch):
    real = Members.sample

    def sample(self, data, rows):
        self._samples = {}
        return real(self, data, rows) | np.ones(rows.n, dtype=bool)

    monkeypatch.setattr(Members, "sample", sample)
    assert "P5" in _premises("sgbdt-sampled")


def test_a_filter_that_takes_too_little_breaks_p6(monkeypatch):
    real = asking.admit_score

    def admit(asked, *rest):
        return real(evolve(asked, weights=[weight / 4 for weight in asked.weights]), *rest)

    monkeypatch.setattr(asking, "admit_score", admit)
    assert "P6" in _premises("sgbdt-filtered", seeds=range(6))


def test_a_refund_after_a_touch_breaks_p7(monkeypatch):
    real = session_file.GrantedPlan._end

    def end(self, failed, back):
        self._inside.leave.touched = False
        return real(self, failed, back)

    monkeypatch.setattr(session_file.GrantedPlan, "_end", end)
    assert lockstep(LEARNERS["joint-tree"], seconds=0.1).premise == "P7"


def _premises(name, *, learner=None, seeds=range(3)):
    learner = LEARNERS[name] if learner is None else learner
    return {one.premise for seed in seeds for one in first_lock(learner, (0, seed)).broken}


def test_the_learner_is_handed_the_same_answers_in_all_runs():
    learner = LEARNERS["sgbdt"]
    pair = worst_pair(examples_for(learner)[0], "add_remove")
    runs = runs_of(fitting_of(learner, "add_remove"), pair, generator(1))
    said = [[np.concatenate([np.ravel(part) for part in (
        one.answer if isinstance(one.answer, list) else [one.answer])]).tolist()
        for one in run.releases] for run in runs]
    assert said[0] == said[1] == said[2]
    assert len(runs[0].releases) > 3


# --- people ---------------------------------------------------------------------------------------

PEOPLE = ("sgbdt", "sgbdt-sampled", "sgbdt-filtered", "joint-tree", "joint-tree-replace-one",
          "dpboost", "mrf", "dpsis", "ensemble")


@pytest.mark.parametrize("name", some(PEOPLE, ("sgbdt-filtered", "joint-tree", "mrf")))
def test_one_person_more_or_less_shows_no_more_than_was_paid(name):
    found = lockstep(LEARNERS[name], seconds=0.3, seed=2, unit="person")
    assert (found.holds, found.premise) == (True, "")
    assert found.ratio <= 1 + 1e-9



def test_a_witness_runs_again_from_its_file(tmp_path, capsys, monkeypatch):
    from privledger.testing.lockstep.__main__ import main_lockstep

    place = tmp_path / "witness.json"
    place.write_text(lockstep(LEARNERS["sgbdt"], seconds=0.1, unit="person").as_json())
    assert main_lockstep([str(place)]) == 0
    assert "every premise held" in capsys.readouterr().out
    monkeypatch.setattr(sums, "MORE", 0.5)
    assert main_lockstep([str(place)]) == 1
    assert "P3 is broken" in capsys.readouterr().out


def test_a_plain_table_s_witness_is_small_and_runs_again():
    """The record that differs is where it was found, among as few others as show it."""
    from tests.bench.zoo.tables import Prepared

    found = lockstep(Prepared(how="last-fifth-out"), seconds=20)
    assert (found.premise, found.witness["manner"]) == ("P1", "anywhere")
    assert max(len(table["y"]) for table in found.witness["tables"]) < 30
    again = replay_witness(json.loads(found.as_json()))
    assert again.broken[0].why == found.why


@pytest.mark.parametrize("kind", ["Above", "CutOff"])
def test_what_no_lock_replays_is_neither_proved_nor_disproved(kind):
    from tests.bench.zoo import probes

    learner = getattr(probes, kind)(delta=0.0 if kind == "Above" else 1e-5)
    found = lockstep(learner, seconds=0.3)
    assert (found.word, found.holds, found.premise) == ("not replayable", False, "")
    with pytest.warns(UserWarning, match="nothing is known"):
        check_lockstep_holds(learner)


@pytest.mark.parametrize("premise", ["P2", "P4", "P5"])
def test_a_guard_that_draws_correlated_noise_wrongly_is_found(premise, monkeypatch):
    """Half the noise; one group in every step; everybody in every step."""
    from privledger.questions.noise_stream import CorrelatedSum
    from tests.bench.zoo import probes

    class Half:
        def __init__(self, source):
            self.source = source

        def gaussian(self, scale, size):
            return self.source.gaussian(scale, size) // 2

    noised, at = CorrelatedSum.noised, CorrelatedSum.at
    name, wrong = {
        "P2": ("noised", lambda self, merged, noise: noised(
            self, merged, evolve(noise, source=Half(noise.source)))),
        "P4": ("at", lambda self, step, *more: at(self, 0, *more)),
        "P5": ("at", lambda self, *more: self)}[premise]
    monkeypatch.setattr(CorrelatedSum, name, wrong)
    found = lockstep(probes.Stream(delta=1e-5), seconds=3)
    assert (found.word, found.premise) == ("broken", premise), found.why


@pytest.mark.parametrize("kind", ["Fixed", "Allocated", "Stream", "SampledStream"])
def test_allocations_and_samples_of_a_fixed_size_are_replayed(kind):
    from tests.bench.zoo import probes

    found = lockstep(getattr(probes, kind)(
        delta=1e-5, relation="replace_one" if kind == "Fixed" else "add_remove"),
        seconds=1 if "Stream" in kind else 3)
    assert found.word == "holds", found.why
