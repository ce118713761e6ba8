"""What a lock asks of everybody, of meters, and of grants that were stopped."""

from __future__ import annotations

import numpy as np
import privledger_learners as learners
import pytest

from privledger.graph import Meter
from privledger.graph.additive import Gaussian, Laplace
from privledger.graph.selection import Exponential
from privledger.questions import sums
from privledger.testing.lockstep import lockstep, probing, shown


def test_a_right_meter_takes_none_of_the_cases() -> None:
    nodes = (Gaussian(2.0), Laplace(3.0), Exponential(0.5))
    assert probing.overdrawn(nodes, (Gaussian(1.0), Laplace(1.0), Exponential(1.0))) == []


def test_a_meter_that_takes_everything_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Meter, "admit", lambda self, chain, leaf: None)
    assert len(probing.overdrawn([Gaussian(2.0)], [Gaussian(1.0)])) > 20


def test_steps_to_the_nearest_are_too_long_for_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = learners.SGBDTClassifier(1.0, 1e-5, n_trees=2)
    assert lockstep(learner, seconds=0.1).holds
    exact = sums.cell_sums

    def longer(values, *rest):  # type: ignore[no-untyped-def]
        return exact(None if values is None else values * (1 + 1e-6), *rest)

    monkeypatch.setattr(shown, "cell_sums", longer)
    found = lockstep(learner, seconds=0.1)
    assert not found.holds
    assert "a person adds" in found.why


def test_a_record_shows_in_one_leaf() -> None:
    class Asked:
        question = None

    seen = shown.Shown(leaves=2)
    for relation, people, broken in (("add_remove", False, 1), ("replace_one", False, 0),
                                     ("add_remove", True, 0)):
        assert len(list(shown.scattered(
            0, Asked(), seen, relation, by_person=people))) == broken  # type: ignore[arg-type]
    assert np.isfinite(shown.LEAST)
