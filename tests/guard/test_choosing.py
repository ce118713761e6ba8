"""Choices under a grant: paid for first, drawn by the exact law, refused where unproved."""

import numpy as np
import pytest
from scipy import stats

import privledger as pl
from privledger.guard.handle import _granted
from privledger.guard.vault import Pass, _vault_of
from privledger.noise.seeded import SeededSource
from privledger.questions.options import options_of
from privledger.questions.question import Noise
from tests.worlds import protected, refused, refuses

EM = pl.Exponential(1.0)
FIT = pl.Exponential(1.0, (-1, 0))
CLASSES = pl.Schema("few", (
    pl.Column("a", "numeric", "feature", 0.0, 3.0, integer=True),
    pl.Column("b", "categorical", "feature", categories=("x", "y")),
    pl.Column("t", "categorical", "target", categories=("n", "p"))))
ROWS = {"a": np.array([0.0, 0.0, 1.0, 3.0, 3.0]), "b": np.array(["x", "y", "x", "y", "x"])}, \
    np.array(["n", "n", "p", "p", "p"])


@pytest.fixture
def few():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e9, 0.0))
    return ledger, ledger.protect(*ROWS, CLASSES)


def labels():
    return pl.questions.CategoryCells("", 2)


def law(choice, rows, rate):
    """Probability of every (feature, cut) of the only leaf."""
    found = options_of(choice, choice.sketch(rows, 1.0))
    each = found.weight * np.exp(rate * (found.score - found.score.max()))
    result = {}
    for spot, weight in enumerate(each / each.sum()):
        for cut in range(int(found.first[spot]), int(found.first[spot] + found.length[spot])):
            result[int(found.feature[spot]), cut] = weight / found.length[spot]
    return result


@pytest.mark.parametrize(("mechanism", "rate", "options"), [
    (EM, 0.5, {"score": "rank", "features": [0]}),
    (pl.Exponential(2.0), 1.0, {"score": "rank", "among": "both"}),
    (FIT, 0.25, {"score": "squared_error", "among": "both", "labels": labels()}),
    (pl.Exponential(8.0, (-1, 0)), 2.0,
     {"score": "squared_error", "among": "features", "labels": labels()}),
    (pl.Exponential(4.0), 2.0, {"score": "gini", "among": "both", "labels": labels()})])
def test_draws_follow_the_mechanism(few, mechanism, rate, options):
    """Chi-square over 3,000 draws; false alarms at most 1e-7."""
    ledger, data = few
    choice = data.choose(data.root(data.bins(4)), options.pop("score"), **options)
    with _vault_of(data._vault).open(Pass(data.identity, ledger._history)) as rows:
        expected = law(choice, rows, rate)
    draws = 3000
    seen = dict.fromkeys(expected, 0)
    with ledger.request(pl.Repeat(mechanism, draws), data) as session:
        for _ in range(draws):
            answer = session.release(mechanism, choice)
            cut = int(answer.cut[0]) if choice.among != "features" else next(
                key[1] for key in expected if key[0] == answer.feature[0])
            seen[int(answer.feature[0]), cut] += 1
    keys = sorted(expected, key=expected.__getitem__)
    counts = np.array([seen[key] for key in keys], dtype=float)
    chances = np.array([expected[key] for key in keys])
    assert stats.chisquare(counts, chances * draws / chances.sum()).pvalue > 1e-7


def test_permute_and_flip_chooses_features(few):
    ledger, data = few
    choice = data.choose(data.root(data.bins(4)), "squared_error", among="features",
                         labels=labels())
    flip = pl.PermuteAndFlip(200.0)
    with ledger.request(flip, data) as session:
        answer = session.release(flip, choice)
    assert answer.feature.tolist() == [0]
    assert answer.cut.tolist() == [-1]


def test_mechanisms_that_cost_less_than_the_score_moves_are_refused(few):
    ledger, data = few
    tree = data.root(data.bins(4))
    rank = data.choose(tree, "rank", features=[0])
    refuses(ledger, data, FIT, rank)
    refuses(ledger, data, pl.PermuteAndFlip(1.0), rank)
    refuses(ledger, data, pl.Laplace(1.0), rank)
    refuses(ledger, data, pl.ReportNoisyMax(1.0), rank)
    running = data.score("logistic", [0.0])
    gain = data.choose(tree, "gain", among="both", gradient=running.gradient(1.0))
    refuses(ledger, data, FIT, gain)


def test_a_choice_is_taken_off_the_plan(few):
    ledger, data = few
    choice = data.choose(data.root(data.bins(4)), "rank", features=[0])
    with ledger.request(EM, data) as session:
        session.release(EM, choice)
        refused(pl.NotGranted, lambda: session.release(EM, choice))
    refused(pl.NotGranted, lambda: session.release(EM, choice))
    assert data._vault.opened == 1
    assert ledger.verify() == []


def test_strangers_and_other_data_are_refused(few):
    ledger, data = few
    choice = data.choose(data.root(data.bins(4)), "rank", features=[0])

    class Sly(pl.questions.Choice):
        bound = None

    sly = Sly(data, data.root(data.bins(4)), "rank", features=[0])
    refuses(ledger, data, EM, sly)
    other = ledger.protect(*ROWS, CLASSES)
    refuses(ledger, other, EM, choice, pl.NotGranted)


def test_individual_filters_take_no_choices():
    ledger, data = protected(pl.Budget(10.0, 1e-6), *ROWS, CLASSES, filter="gdp")
    node = pl.IndividualFilter("gdp", 1.0)
    with ledger.request(node, data) as session:
        handle = session.filtered(node)
        with pytest.raises(pl.errors.UnsupportedNode):
            session.release(EM, handle.choose(handle.root(handle.bins(4)), "rank", features=[0]))
    assert data._vault.opened == 0


def test_parts_choose_among_their_own_records(few):
    ledger, data = few
    bins, sharp = data.bins(4), pl.Exponential(1e4)
    parts = data.partition(data.cells("b"))
    plan = pl.Parallel([pl.Sequential([sharp, pl.Laplace(1e-4)]) for _ in range(3)])
    with ledger.request(plan, data) as session:
        for part, records in ((0, 3), (1, 2)):
            handle = parts[part]
            answer = session.release(sharp, handle.choose(handle.root(bins), "rank", features=[0]))
            assert answer.cut[0] in (1, 2, 3)
            counted = session.release(pl.Laplace(1e-4), handle.count())
            assert counted == pytest.approx(records, abs=0.1)
    assert ledger.verify() == []


def test_samples_are_drawn_before_a_choice():
    ledger, data = protected(pl.Budget(1e3, 1e-6), *ROWS, CLASSES, filter="rdp")
    plan = pl.PoissonSample(0.5, EM)
    with ledger.request(plan, data) as session:
        handle = data.poisson(0.5)
        answer = session.release(EM, handle.choose(handle.root(handle.bins(4)), "rank",
                                                   features=[0]))
    assert answer.feature.tolist() == [0]


def test_cells_within_cells(few):
    ledger, data = few
    tree = data.root(data.bins(4)).grow([0], [1])
    cells = pl.questions.CrossCells(tree, labels())
    with ledger.request(pl.Laplace(1e-4), data) as session:
        counts = session.release(pl.Laplace(1e-4), data.query((pl.questions.Ones(),), cells))
    assert counts == pytest.approx([2, 0, 0, 3], abs=0.1)


def test_replace_one_halves_the_rate(few):
    ledger, data = protected(pl.Budget(10.0, 0.0), *ROWS, CLASSES, relation="replace_one")
    choice = data.choose(data.root(data.bins(4)), "rank", features=[0])
    from privledger.questions.question import rate_of
    assert rate_of(EM, choice, "add_remove") == pytest.approx(0.5, rel=1e-4)
    assert rate_of(EM, choice, "replace_one") == pytest.approx(0.25, rel=1e-4)
    assert rate_of(EM, choice, "add_remove") < 0.5
    with ledger.request(EM, data) as session:
        session.release(EM, choice)


def test_a_closed_session_keeps_no_copy_of_rows(few):
    ledger, data = few
    parts = data.partition(data.cells("b"))
    plan = pl.Parallel([EM, EM, EM])
    with ledger.request(plan, data) as session:
        session.release(EM, parts[0].choose(parts[0].root(data.bins(4)), "rank", features=[0]))
        assert _granted(session)._inside.members._subsets
    assert not _granted(session)._inside.members._subsets


@pytest.mark.parametrize(("noise", "equal"), [
    ("exponential", pl.PermuteAndFlip(1.5)), ("gumbel", pl.Exponential(3.0, (0.0, 1.0)))])
def test_noisy_max_is_the_mechanism_that_it_equals(few, noise, equal):
    """Priced alike, scaled alike, and drawn by the same sampler from the same words."""
    _, data = few
    node = pl.ReportNoisyMax(1.5, noise)
    assert pl.epsilon(node) == pytest.approx(pl.epsilon(equal), rel=1e-12)
    asked = data.choose_label(data.root(data.bins(4)), labels())
    for relation in ("add_remove", "replace_one"):
        assert asked.prepare(node, relation) == pytest.approx(
            asked.prepare(equal, relation), rel=1e-12)
    answers = []
    for one in (node, equal):
        state = asked.prepare(one, "add_remove")
        answers.append([asked.finish(np.array([2, 3]), Noise(one, state, SeededSource(seed)))[0]
                        for seed in range(200)])
    assert answers[0] == answers[1]
    assert len(set(answers[0])) == 2


def test_noisy_max_is_released_and_charged(few):
    ledger, data = few
    node = pl.ReportNoisyMax(200.0, "gumbel")
    choice = data.choose(data.root(data.bins(4)), "squared_error", among="features",
                         labels=labels())
    with ledger.request(node, data) as session:
        assert session.release(node, choice).feature.tolist() == [0]
    assert ledger.verify() == []


def test_noisy_max_with_laplace_noise_is_refused_by_name(few):
    ledger, data = few
    refuses(ledger, data, pl.ReportNoisyMax(1.0, "laplace"),
            data.choose_label(data.root(data.bins(4)), labels()))
