"""Groups of texts under a lock: honest ones hold, and every way to name too much is broken."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from attrs import evolve
from privledger_learners import LabelPrivateClassifier
from privledger_learners.statistics import Summary, count, mean

from privledger.questions.groups import GroupQuery, Groups
from privledger.testing import example_schema
from privledger.testing.lockstep import lockstep
from tests.all_cases import all_cases

TEXTS = Summary((mean("size"), count()), by=("place",), delta=1e-5)
NOISES = {"geometric": TEXTS, "laplace": Summary(("count",), ("place",), epsilon=40.0, delta=1e-5),
          "drawn": Summary(("count", "median(size)"), ("place",), delta=1e-5),
          "gaussian": Summary(("count",), ("place",), delta=1e-5, groups_per_person=3)}


@pytest.mark.parametrize(("noise", "unit"), [
    ("geometric", "row"), *(pytest.param(noise, unit, marks=pytest.mark.slow) for noise, unit in (
        ("geometric", "person"), ("drawn", "row"), ("drawn", "person"), ("laplace", "row"),
        ("laplace", "person"), ("gaussian", "row"), ("gaussian", "person")))])
def test_groups_of_texts_hold(noise: str, unit: str) -> None:
    learner = NOISES[noise]
    if noise in ("geometric", "gaussian"):
        assert noise in repr(learner.plan(example_schema("regression", texts=True)))
    found = lockstep(learner, unit=unit, seconds=0.3)
    assert found.holds, found.why
    assert found.ratio == pytest.approx(1.0, abs=1e-6)


def _lower(self, mechanism, relation):  # type: ignore[no-untyped-def]
    state = PREPARE(self, mechanism, relation)
    return evolve(state, bar=state.bar - round(1 / state.grid))


def _narrow(self, merged, noise):  # type: ignore[no-untyped-def]
    state = evolve(noise.state, noise=noise.state.noise / 2)
    return HONEST(self, merged, evolve(noise, state=state))


def _exact(self, merged, noise):  # type: ignore[no-untyped-def]
    found = HONEST(self, merged, noise)
    return Groups(found.names, np.array([float(merged.counts[one]) for one in found.names]))


def _all(self, merged, noise):  # type: ignore[no-untyped-def]
    return Groups(tuple(sorted(merged.counts)), np.full(len(merged.counts), 50.0))


def _one_more(self, chunk, state):  # type: ignore[no-untyped-def]
    found = SKETCH(self, chunk, state)
    return type(found)({name: 2 * many for name, many in found.counts.items()})


HONEST, SKETCH, PREPARE = GroupQuery.finish, GroupQuery.sketch, GroupQuery.prepare


@all_cases(("where", "fault", "premise"), [
    ("prepare", _lower, "P2"), ("finish", _narrow, "P2"), ("finish", _exact, "P2"),
    ("finish", _all, "P2"), ("sketch", _one_more, "P3")],
    ids=lambda one: getattr(one, "__name__", one))
def test_what_names_too_much_is_broken(monkeypatch: pytest.MonkeyPatch, where: str,
                                       fault: Callable[..., Groups], premise: str) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(GroupQuery, where, fault)
        found = lockstep(NOISES["gaussian"], seconds=0.3)
    assert found.premise == premise, found.why


def test_a_person_who_speaks_for_all_their_groups_is_broken(
        monkeypatch: pytest.MonkeyPatch) -> None:
    spoken = GroupQuery._spoken
    monkeypatch.setattr(GroupQuery, "_spoken", lambda self, *given: spoken(self, *given[:-1], 99))
    found = lockstep(TEXTS, unit="person", seconds=2.0)
    assert found.premise == "P3"


class Peeking(Summary):
    """It asks about a name of the table that was not released."""

    def _names(self, session, data, recipe):  # type: ignore[no-untyped-def]
        found = super()._names(session, data, recipe)
        return {**found, "place": (*found["place"], *self.known)}


def test_names_that_were_not_released_are_another_question(monkeypatch: pytest.MonkeyPatch
                                                           ) -> None:
    sketch = GroupQuery.sketch

    def peeked(self, chunk, state):  # type: ignore[no-untyped-def]
        found = sketch(self, chunk, state)
        Peeking.known = ("a text of one",) if "a text of one" in found.counts else ()
        return found

    monkeypatch.setattr(GroupQuery, "sketch", peeked)
    found = lockstep(Peeking(("count",), by=("place",), delta=1e-5), seconds=2.0)
    assert found.premise == "P1"


def test_a_learner_that_refuses_people_is_not_replayable_and_not_broken() -> None:
    found = lockstep(LabelPrivateClassifier(1.0), unit="person", seconds=0.3)
    assert found.word == "not replayable"
    assert "refused: UnsupportedNode" in found.why
    assert not found.holds
