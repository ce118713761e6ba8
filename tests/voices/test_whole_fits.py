"""Whole fits on a table and on its twin with one person more: given the same answers, what all
releases together would lose is within what was charged.

Every release is looked at as it is asked: its whole numbers on both tables, before any noise. Coins
of those whom the tables share are the same, and the newcomer's is drawn here.
"""

import math

import numpy as np
import privledger_learners as learners
import pytest

import privledger as pl
from privledger.accounting import laplace_currencies, range_currencies
from privledger.graph import cost_of
from privledger.guard import release as releasing
from privledger.guard import session as sessions
from privledger.questions.cells import CoinCells
from privledger.questions.choice import Choice, LabelChoice
from privledger.questions.options import options_of
from privledger.questions.query import Query
from privledger.tables.chunk import ONE, Rows, numbered
from privledger.tables.encode import encode_target
from tests.models.kept_learners import CLASSES, NUMBER, TWO, table
from tests.voices.tables import PERSON

SMALL = {"numeric_bins": 32}
FITS = {
    "joint tree": (CLASSES, learners.JointTreeClassifier(**SMALL)),
    "joint tree of numbers": (NUMBER, learners.JointTreeRegressor(**SMALL)),
    "diprime": (CLASSES, learners.DiPriMeForestClassifier(n_trees=3, **SMALL)),
    "diprime of numbers": (NUMBER, learners.DiPriMeForestRegressor(n_trees=3, **SMALL)),
    "mrf": (CLASSES, learners.MultinomialForestClassifier(n_trees=2, **SMALL)),
    "gini": (CLASSES, learners.MultinomialForestClassifier(n_trees=2, variant="multinomial",
                                                           depth=2,
                                                  **SMALL)),
    "ensemble": (CLASSES, learners.PrivateEnsembleClassifier(n_trees=3, numeric_bins=32)),
    "dpboost": (NUMBER, learners.DPBoostRegressor(n_trees=3, depth=2, numeric_bins=32)),
    "dpsis": (TWO, learners.DPSIS(k=2)),
    "sgbdt": (NUMBER, learners.SGBDTRegressor(n_trees=6, delta=1e-6, numeric_bins=32)),
    "sgbdt of classes": (CLASSES, learners.SGBDTClassifier(n_trees=4, delta=1e-6, numeric_bins=32))}


class Twin:
    """Releases of one fit, on its table and on a table with one person more."""

    def __init__(self, rows, rng):
        self.rows, self.rng = rows, rng  # of the twin
        self.epsilon = self.squares = 0.0
        self.asked = []

    def own(self, real):
        def kept(question, vault):
            copy = real(question, vault)
            self.asked.append(copy)
            return copy
        return kept

    def released(self, real):
        def watched(inside, mechanism, query, rollover, *under):
            answer = real(inside, mechanism, query, rollover, *under)
            self._lose(inside, mechanism, self.asked[-1])
            return answer
        return watched

    def _lose(self, inside, mechanism, question):
        held = inside.vault._Vault__rows
        for step in question.data.steps:
            self._coin(step.cells, held)
        for cells in _coins_of(question):
            self._coin(cells, held)
        one, two = self._behind(question, held), self._behind(question, self.rows)
        state = question.prepare(mechanism, inside.vault.relation)
        if isinstance(question, Query):
            self._sums(question, mechanism, state, one, two)
            return
        width = _width(question, question.sketch(one, state), question.sketch(two, state))
        self.epsilon += state * width
        price = range_currencies if _ranged(mechanism) else laplace_currencies
        self.squares += price(state * width)[0]

    def _coin(self, cells, held):
        if isinstance(cells, CoinCells) and cells not in self.rows.cache:
            coins = cells.index(held)
            mine = int(self.rng.integers(cells.count))
            self.rows.cache[cells] = np.append(coins, np.full(self.rows.n - held.n, mine))

    def _behind(self, question, rows):
        mask = np.ones(rows.n, dtype=bool)
        for step in question.data.steps:
            mask &= np.asarray(step.cells.index(rows)) == step.context.part
        return rows if mask.all() else rows.subset(np.flatnonzero(mask))

    def _sums(self, query, mechanism, state, one, two):
        for recipe, left, right in zip(state.recipes, query.sketch(one, state),
                                       query.sketch(two, state), strict=True):
            apart = (left - right).astype(float)
            if isinstance(mechanism, pl.Gaussian):
                self.squares += float((apart**2).sum()) / recipe.noise**2
            else:
                loss = float(np.abs(apart).sum()) / recipe.noise
                self.epsilon += loss
                self.squares += laplace_currencies(loss)[0]


def _ranged(mechanism):
    return isinstance(mechanism, pl.Exponential) or getattr(mechanism, "noise", "") == "gumbel"


def _coins_of(question):
    score = [getattr(block, "score", None) for block in getattr(question, "blocks", ())]
    return [cells for one in score if one is not None for cells, _ in one.updates()]


def _width(question, one, two):
    """What the exponents of all leaves together may move by, in scores."""
    if isinstance(question, LabelChoice):
        moved = ((two - one) / ONE).reshape(question.cell_count, -1)
        return float(np.ptp(moved, axis=1).sum())
    if not isinstance(question, Choice):
        return float(np.ptp(question.scores(two) - question.scores(one)))
    tables = [_every_cut(options_of(question, sketch, ONE)) for sketch in (one, two)]
    leaves = {}
    for key, score in tables[1].items():
        leaves.setdefault(key[0], []).append(score - tables[0][key])
    assert tables[0].keys() == tables[1].keys()
    return sum(max(found) - min(found) for found in leaves.values())


def _every_cut(found):
    held = {}
    for place, leaf in enumerate(found.leaf):
        for spot in range(found.starts[place], found.starts[place + 1]):
            for cut in range(int(found.first[spot]), int(found.first[spot] + found.length[spot])):
                held[int(leaf), int(found.feature[spot]), cut] = float(found.score[spot])
    return held


def twin_fit(make_ledger, monkeypatch, name, seed):
    schema, learner = FITS[name]
    rng = np.random.default_rng(seed)
    X, y = table(schema, 90, seed)
    people = rng.integers(0, 40, 90)
    n = 90 - int(rng.integers(1, 12))  # the twin's last rows are of one more person
    people[n:] = 99
    twin = Twin(Rows(pl.encode_features(X, schema), encode_target(y, schema), None,
                     people=numbered(people)), rng)
    monkeypatch.setattr(releasing, "own_question", twin.own(releasing.own_question))
    monkeypatch.setattr(sessions, "release", twin.released(sessions.release))
    ledger = make_ledger(mode="simulation", seed=seed, **PERSON)
    data = ledger.protect({key: column[:n] for key, column in X.items()}, y[:n], schema,
                          people=people[:n])
    learner = learner.set_params(epsilon=3.0, schema=schema, mode="simulation")
    if "random_state" in learner.get_params():
        learner.set_params(random_state=seed)
    learner.fit(data)
    monkeypatch.undo()
    return twin, learner.plan(schema)


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 60), marks=pytest.mark.slow)],
                         ids=str)
@pytest.mark.parametrize("name", FITS)
def test_a_whole_fit_loses_no_more_of_a_person_than_was_charged(make_ledger, monkeypatch, name,
                                                                seeds):
    for seed in seeds:
        twin, plan = twin_fit(make_ledger, monkeypatch, name, seed)
        cost = cost_of(plan, "add_remove")
        assert len(twin.asked) > 0, seed
        if math.isfinite(cost.pure):
            # Nothing at all where all scores move alike.
            assert twin.epsilon <= cost.pure * (1 + 1e-9), seed
        else:
            assert 0 < twin.squares <= cost.gdp_squared * (1 + 1e-9), seed


def test_a_fit_without_person_vectors_is_noticed(make_ledger, monkeypatch):
    from privledger.questions import person_vectors

    with monkeypatch.context() as broken:
        broken.setattr(person_vectors, "_factor",
                       lambda said, touched, *rest: np.ones(len(touched)))
        twin, plan = twin_fit(make_ledger, pytest.MonkeyPatch(), "sgbdt of classes", 0)
    assert twin.squares > cost_of(plan, "add_remove").gdp_squared
