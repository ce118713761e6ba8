"""Nobody's rows together move a score further than one record may: cuts, classes, features."""

import itertools

import numpy as np
import pytest

import privledger as pl
from privledger.noise.seeded import SeededSource
from privledger.questions.cells import CategoryCells, IntervalCells
from privledger.questions.options import options_of
from privledger.tables.chunk import ONE
from tests.properties.test_sensitivity import CLASSES, SCHEMA
from tests.voices.tables import RELATIONS, People
from tests.worlds import NoVault

ROOM = 1e-9


def scores_of(choice, rows):
    """Score of every single cut: one array per leaf, of the public candidates in order."""
    found = options_of(choice, choice.sketch(rows, 1.0), ONE)
    result = {}
    for place, leaf in enumerate(found.leaf):
        held = {}
        for spot in range(found.starts[place], found.starts[place + 1]):
            for cut in range(int(found.first[spot]), int(found.first[spot] + found.length[spot])):
                held[int(found.feature[spot]), cut] = float(found.score[spot])
        result[int(leaf)] = np.array([held[key] for key in sorted(held)])
    return result


def choices(data, rng):
    classes = data.schema.task == "classification"
    tree = data.root(data.bins(8)).grow([0], [4]).grow([1, 1], [0, 2])
    labels = CategoryCells("", 3) if classes else IntervalCells("", (3.0, 7.0))
    yield data.choose(tree, "rank", among="both")
    yield data.choose(tree, "rank", features=rng.integers(0, 2, 4))
    yield data.choose(tree, "squared_error", among="both", labels=labels)
    yield data.choose(tree, "gini", among="both", labels=labels)
    yield data.choose(tree, "entropy", among="both", labels=labels)
    loss = "softmax" if classes else "squared"
    score = data.score(loss, rng.normal(size=3 if classes else 1))
    gradient = score.gradient(float(rng.uniform(0.1, 3)), filtered=bool(rng.integers(2)),
                              coordinate=1 if classes else None)
    yield data.choose(tree, "gain", among="both", gradient=gradient, penalty=float(rng.choice(
        [0.0, 0.01, 3.0])))
    if not classes:
        yield data.choose(tree, "squared_error", among="both")


def search(relation, classes, seed, tables):
    rng = np.random.default_rng([seed, classes])
    data = pl.Dataset(CLASSES if classes else SCHEMA, NoVault())
    tried = 0
    for _ in range(tables):
        for choice in choices(data, rng):
            table = People.drawn(rng, classes)
            other = table.neighbour(rng, relation)
            before, after = (scores_of(choice, one.rows()) for one in (table, other))
            assert before.keys() == after.keys()
            moved = [after[leaf] - before[leaf] for leaf in before]
            check(choice, moved, relation)
            tried += 1
    return tried


def check(choice, moved, relation):
    """All leaves together. Only differences of a leaf's scores count: a constant of the leaf
    moves, too, in the code's form of the squared error."""
    least, most = choice.bound.change
    width = sum(float(np.ptp(one)) for one in moved if len(one))
    times = 1 if relation == "add_remove" else 2
    assert width <= times * choice.bound.sensitivity * (most - least) + ROOM


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("classes", [False, True], ids=["regression", "classes"])
@pytest.mark.parametrize(("seed", "trials", "least"), [
    (1, 12, 60), pytest.param(2, 17_000, 100_000, marks=pytest.mark.slow)])
def test_nobody_moves_a_choice_too_far(relation, classes, seed, trials, least):
    assert search(relation, classes, seed, trials) > least


def weighted_error(values, mass):
    """Sum of squared distances to the mean, each record as often as it weighs."""
    if not mass.sum():
        return 0.0
    middle = (values * mass[:, None]).sum(axis=0) / mass.sum()
    return float((mass[:, None] * (values - middle) ** 2).sum())


def error_search(classes, seed, tables):
    """Scores of cuts against their definition: minus the error of both sides, per leaf."""
    rng = np.random.default_rng([seed, classes])
    data = pl.Dataset(CLASSES if classes else SCHEMA, NoVault())
    tree = data.root(data.bins(8))
    labels = CategoryCells("", 3) if classes else None
    cuts = data.bins(8).codes
    for _ in range(tables):
        rows = People.drawn(rng, classes, 4).rows()
        if not rows.n:
            continue
        choice = data.choose(tree, "squared_error", features=[0], labels=labels)
        found = scores_of(choice, rows)[0]
        held = (np.eye(3)[rows.target] if classes else np.clip(rows.target / 10, 0, 1)[:, None])
        mass, code = rows.mass / ONE, cuts(rows.features)[0]
        for cut, score in enumerate(found, start=1):
            left = code < cut
            expected = -sum(weighted_error(held[side], mass[side]) for side in (left, ~left))
            constant = float((mass[:, None] * held**2).sum())
            assert score - constant == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("classes", [False, True], ids=["regression", "classes"])
def test_errors_of_weighted_records_are_those_of_the_definition(classes):
    error_search(classes, 1, 40)


def label_counts(choice, rows):
    return choice.sketch(rows, 1.0) / ONE


@pytest.mark.parametrize("tables", [200, pytest.param(100_000, marks=pytest.mark.slow)])
def test_classes_of_one_person_add_up_to_one(tables):
    rng = np.random.default_rng(tables)
    data = pl.Dataset(CLASSES, NoVault())
    choice = data.choose_label(data.root(data.bins(8)).grow([0], [4]), CategoryCells("", 3))
    for _ in range(tables):
        table = People.drawn(rng, True)
        more = table.neighbour(rng, "add_remove")
        moved = label_counts(choice, more.rows()) - label_counts(choice, table.rows())
        assert (moved >= 0).all()
        assert 0.999 < moved.sum() <= 1


def feature_scores(score, table):
    data = pl.Dataset(table.schema, NoVault())
    question = data.features_by(score)
    return question.scores(question.sketch(table.rows(SeededSource(0)), 1.0)), question.bound


SCORES = [("rank", False), ("rank", True), ("agreement", True), ("correlation", False),
          ("correlation", True)]


def feature_search(score, classes, seed, tables):
    rng = np.random.default_rng([seed, classes])
    for _ in range(tables):
        table = People.drawn(rng, classes, 8)
        other = table.neighbour(rng, "add_remove")
        (before, bound), (after, _) = (feature_scores(score, one) for one in (table, other))
        moved = (after - before) / bound.sensitivity
        least, most = bound.change
        assert moved.max() <= most + ROOM
        assert moved.min() >= least - ROOM


@pytest.mark.parametrize(("score", "classes"), SCORES)
@pytest.mark.parametrize(("seed", "trials"), [(1, 60), pytest.param(2, 100_000,
                                                                    marks=pytest.mark.slow)])
def test_nobody_moves_a_feature_too_far(score, classes, seed, trials):
    feature_search(score, classes, seed, trials)


def slow_rank(table):
    """By the definition, pair by pair."""
    X, y, people = table.columns()
    mass = np.array([ONE // np.count_nonzero(people == who) for who in people]) / ONE
    found = []
    for x in (X["x"], np.array([np.nan if c is None else "abd".index(c) for c in X["c"]])):
        x = np.clip(x, -2.0, 3.0)
        y_held = np.clip(y, 0, 10)
        total = 0.0
        for i, j in itertools.combinations(range(len(y)), 2):
            if not (np.isnan(x[i]) or np.isnan(x[j])):
                total += mass[i] * mass[j] * np.sign(x[i] - x[j]) * np.sign(y_held[i] - y_held[j])
        found.append(abs(total) / mass.sum() if len(y) else 0.0)
    return np.array(found)


@pytest.mark.parametrize("classes", [False, True], ids=["regression", "classes"])
def test_rank_of_weighted_records_is_that_of_the_definition(classes):
    rng = np.random.default_rng(3)
    for _ in range(25):
        table = People.drawn(rng, classes, 8)
        assert feature_scores("rank", table)[0] == pytest.approx(slow_rank(table), abs=1e-6)


def slow_agreement(table):
    """By the definition: every step function of values to classes."""
    X, y, people = table.columns()
    mass = np.array([ONE // np.count_nonzero(people == who) for who in people]) / ONE
    found = []
    for x in (X["x"], np.array([np.nan if c is None else "abd".index(c) for c in X["c"]])):
        x = np.clip(x, -2.0, 3.0)
        kept = ~np.isnan(x)
        cuts = [-9.0, *(value + 1e-9 for value in sorted(set(x[kept])))]
        best = 0.0
        for first, second in itertools.combinations_with_replacement(cuts, 2):
            said = (x[kept] > first).astype(int) + (x[kept] > second)
            for told in (said, 2 - said):
                best = max(best, mass[kept][told == y[kept]].sum())
        found.append(best)
    return np.array(found)


def test_agreement_of_weighted_records_is_that_of_the_definition():
    rng = np.random.default_rng(4)
    for _ in range(25):
        table = People.drawn(rng, True, 5)
        assert feature_scores("agreement", table)[0] == pytest.approx(slow_agreement(table),
                                                                      abs=1e-6)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_one_person_moves_the_votes_of_one_block(relation):
    """Coins belong to people: with coins per row somebody would vote in every block."""
    data = pl.Dataset(CLASSES, NoVault())
    question = data.features_by(pl.questions.Votes(blocks=3, most=1))
    rng = np.random.default_rng(1)
    for _ in range(6):
        table = People.drawn(rng, True, 9)
        other = table.neighbour(rng, relation)
        if relation == "add_remove":  # the last, so that the others' coins stay
            other = People(True, [*table.held, other.held[0]])
        scores = [question.scores(question.sketch(one.rows(SeededSource(7)), 1.0))
                  for one in (table, other)]
        assert np.abs(scores[1] - scores[0]).max() <= 1
