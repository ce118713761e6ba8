"""Choices of features under a grant: exact laws, paid first, refused where unproved."""

import itertools

import numpy as np
import pytest
from scipy import stats

import privledger as pl
from privledger.errors import DataError
from privledger.questions.question import rate_of
from tests.bodies import body_of
from tests.worlds import protected, refused, refuses, schema_of

SCHEMA = pl.Schema("few", (
    *(pl.Column(f"x{j}", "numeric", "feature", 0.0, 3.0) for j in range(4)),
    pl.Column("t", "categorical", "target", categories=("n", "p"))))
X = np.array([[0, 0, 3, 1], [0, 1, 2, 1], [1, 1, 2, 1], [3, 0, 0, 1], [3, 3, 1, 1]], dtype=float)
Y = np.array(["n", "n", "p", "p", "p"])
AGREEMENT = np.array([5.0, 3.0, 4.0, 3.0])
MONOTONE = pl.Exponential(2.0, (0, 1))


@pytest.fixture
def few():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e9, 0.0))
    return ledger, ledger.protect(X, Y, SCHEMA)


@pytest.mark.parametrize("mechanism", [MONOTONE, pl.PermuteAndFlip(1.0)])
def test_one_feature_follows_the_law(few, mechanism):
    """Chi-square over 3,000 draws; false alarms at most 1e-7."""
    ledger, data = few
    choice = data.features_by("agreement")
    if mechanism is MONOTONE:
        law = np.exp(AGREEMENT - 5) / np.exp(AGREEMENT - 5).sum()
    else:
        keep, law = np.exp(AGREEMENT - 5), np.zeros(4)
        for order in itertools.permutations(range(4)):
            left = 1 / 24
            for place in order:
                law[place] += left * keep[place]
                left *= 1 - keep[place]
    seen = np.zeros(4)
    with ledger.request(pl.Repeat(mechanism, 3000), data) as session:
        for _ in range(3000):
            seen[session.release(mechanism, choice)] += 1
    assert stats.chisquare(seen, law * 3000).pvalue > 1e-7
    assert ledger.verify() == []


def test_sets_follow_the_canonical_law(few):
    """Chi-square over 3,000 draws; false alarms at most 1e-7."""
    ledger, data = few
    top = pl.TopK(2, 1.5, "gumbel")
    weights = {}
    for pair in itertools.combinations(range(4), 2):
        outside = [AGREEMENT[j] for j in range(4) if j not in pair]
        weights[pair] = np.exp(-1.5 * (max(outside) / 2 - min(AGREEMENT[list(pair)]) / 2))
    total = sum(weights.values())
    seen = dict.fromkeys(weights, 0)
    with ledger.request(pl.Repeat(top, 3000), data) as session:
        for _ in range(3000):
            seen[tuple(session.release(top, data.features_by("agreement")).tolist())] += 1
    counts = [seen[pair] for pair in weights]
    expected = [3000 * weights[pair] / total for pair in weights]
    assert stats.chisquare(counts, expected).pvalue > 1e-7


def test_rates_are_what_the_bounds_allow(few):
    _, data = few
    agreement, rank = data.features_by("agreement"), data.features_by("rank")
    assert rate_of(pl.TopK(2, 1.0), agreement, "add_remove") == pytest.approx(1.0, rel=1e-5)
    assert rate_of(pl.TopK(2, 1.0), rank, "add_remove") == pytest.approx(0.5, rel=1e-5)
    assert rate_of(pl.TopK(2, 1.0), agreement, "replace_one") == pytest.approx(0.5, rel=1e-5)
    assert rate_of(MONOTONE, agreement, "add_remove") == pytest.approx(1.0, rel=1e-5)
    votes = data.features_by(pl.questions.Votes(3, 2))
    for relation in ("add_remove", "replace_one"):
        assert rate_of(pl.TopK(2, 1.0), votes, relation) == pytest.approx(0.5, rel=1e-5)
        for choice in (agreement, rank, votes):
            width = choice.bound.change[1] - choice.bound.change[0]
            assert (rate_of(pl.TopK(2, 1.0), choice, relation) * width
                    * choice.sensitivity(relation) < 1.0)


def test_refused_unread(few):
    ledger, data = few
    refuses(ledger, data, MONOTONE, data.features_by("rank"))  # rank falls, too
    refuses(ledger, data, pl.TopK(4, 1.0), data.features_by("rank"))
    refuses(ledger, data, pl.TopK(2, 1.0), data.features_by("rank", [0, 3]))
    refuses(ledger, data, pl.ReportNoisyMax(1.0, "laplace"), data.features_by("rank"))
    tree = data.choose(data.root(data.bins(4)), "rank", features=[0])
    refuses(ledger, data, pl.TopK(2, 1.0), tree)
    bare = ledger.protect(X, None, SCHEMA)
    refuses(ledger, bare, pl.TopK(2, 1.0), bare.features_by("rank"), DataError)
    strange = pl.questions.FeatureChoice(data, "rank", key=object())
    refuses(ledger, data, pl.TopK(2, 1.0), strange)

    class Sly(pl.questions.FeatureChoice):
        def sensitivity(self, relation):
            return 1e-9

    refuses(ledger, data, pl.TopK(2, 1.0), Sly(data, "rank"))


def test_peeling_leaves_out_what_was_released(few):
    ledger, data = few
    sharp = pl.Exponential(2000.0, (0, 1))
    with ledger.request(pl.Repeat(sharp, 4), data) as session:
        choice, order = data.features_by("agreement"), []
        for _ in range(4):
            order += session.release(sharp, choice.without(*order)).tolist() if order else (
                session.release(sharp, choice).tolist())
    assert order[0] == 0
    assert order[1] == 2
    assert set(order[2:]) == {1, 3}


def test_custom_scores_are_recorded_as_asserted(few):
    ledger, data = few
    top = pl.TopK(1, 5000.0)

    def spread(table, target):
        assert table.shape == (5, 4)
        return np.nanmax(table, axis=0) * [1, 2, 1, 1]

    mine = pl.questions.CustomScores(spread, 6.0, "every value lies in [0, 3]")
    with ledger.request(top, data) as session:
        assert session.release(top, data.features_by(mine)).tolist() == [1]
    lines = [line for entry in ledger._history.store.read()
             for line in body_of(entry).get("questions", [])]
    assert lines == ["asserted: choice of features (every value lies in [0, 3])"]


@pytest.mark.parametrize("function", [lambda X, y: 1 / 0, lambda X, y: [1.0], lambda X, y: "no"])
def test_custom_scores_that_fail_tell_nothing_and_cost(few, function):
    ledger, data = few
    top = pl.TopK(1, 1.0)
    with ledger.request(top, data) as session, pytest.raises(DataError) as caught:
        session.release(top, data.features_by(pl.questions.CustomScores(function, 1.0, "wrong")))
    assert "division" not in str(caught.value)
    assert ledger.spent == pytest.approx(1.0)


def test_parts_and_samples_choose_among_their_own_records():
    ledger, data = protected(pl.Budget(1e6, 1e-6), X, Y, SCHEMA, filter="rdp")
    sharp = pl.Exponential(50.0, (0, 1))
    with ledger.request(pl.PoissonSample(0.5, sharp), data) as session:
        chosen = session.release(sharp, data.poisson(0.5).features_by("agreement"))
    assert chosen.shape == (1,)
    parts = data.partition(data.cells("x0", [1.0, 9.0]))
    plan = pl.Parallel([pl.Sequential([sharp]) for _ in range(4)])
    with ledger.request(plan, data) as session:
        # The second part's records are all "p", the third is empty: no error, some feature.
        assert session.release(sharp, parts[1].features_by("agreement")).shape == (1,)
        assert session.release(sharp, parts[2].features_by("agreement")).shape == (1,)


def test_a_borrowed_name_brings_no_scores_of_another_question():
    """Scores are kept under a name; a caller could put it on a question with a smaller bound."""
    schema = schema_of("s", {"a": (0.0, 1.0), "b": (0.0, 1.0)}, t=["n", "p"])
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e9, 0.0))
    data = ledger.protect({"a": [0.1, 0.9], "b": [0.9, 0.1]}, ["n", "p"], schema)
    loud = pl.questions.CustomScores(lambda X, y: np.array([0.0, 1e6]), 1e6, "somebody said so")
    first = data.features_by(loud)
    second = pl.questions.FeatureChoice(data, "correlation", key=first.key)
    flat = pl.Exponential(1.0)
    with ledger.request(pl.Sequential([flat, pl.Repeat(flat, 400)]), data) as session:
        session.release(flat, first)
        seen = {int(session.release(flat, second)[0]) for _ in range(400)}
    assert seen == {0, 1}  # with the other's scores feature 1 would win for sure; wrong by 2**-399


def two_columns():
    schema = schema_of("s", {"a": (0.0, 1.0), "b": (0.0, 1.0)}, t=["n", "p"])
    return schema, {"a": [0.1, 0.9], "b": [0.9, 0.1]}, ["n", "p"]


def test_a_policy_without_asserted_costs_refuses_asserted_scores():
    schema, X, y = two_columns()
    ledger, data = protected(pl.Budget(9.0, 0.0), X, y, schema, policy=pl.Policy(9.0, 0.0))
    vouched = pl.questions.CustomScores(lambda X, y: np.zeros(2), 1.0, "somebody said so")
    choice = pl.Exponential(1.0)
    refuses(ledger, data, choice, data.features_by(vouched), pl.errors.PolicyViolation, "asserted")


class TwoFaced(str):
    """Says that it is the score with the smallest bound, and computes another."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other):
        return other == "agreement" or str.__eq__(self, other)


class WideSchema(pl.Schema):
    """A stranger's columns, asked again where the rows are."""


@pytest.mark.parametrize("forged", [
    lambda data: pl.questions.FeatureChoice(data, TwoFaced("correlation")),
    lambda data: pl.questions.FeatureChoice(pl.Dataset(
        WideSchema(data.schema.name, data.schema.columns), data._vault, ledger=data.ledger),
        "agreement")])
def test_questions_of_a_strangers_make_meet_no_rows(forged):
    schema, X, y = two_columns()
    ledger, data = protected(pl.Budget(9.0, 0.0), X, y, schema)
    choice = pl.Exponential(1.0, (0.0, 1.0))
    with ledger.request(choice, data) as session:
        refused(pl.errors.UnsupportedNode, lambda: session.release(choice, forged(data)))
        assert session.releases == 0
    assert data._vault.opened == 0
