"""A private score: what it costs, what it says, what it refuses, and how often it is right."""

import json

import numpy as np
import privledger_learners as learners
import pytest
from click.testing import CliRunner
from sklearn import metrics

import privledger as pl
from privledger.cli import main
from privledger.ledger.events import Estimate
from privledger.plugins import Holdout, PrivateScore, intervals
from privledger.plugins.holdout import FIGURES, Goodness
from privledger.standalone.verifier import read_history
from privledger.testing import CHECKS
from tests.all_cases import all_cases
from tests.worlds import protected, refused

COLUMN = pl.Column("x", "numeric", "feature", 0.0, 1.0)
CLASSES = pl.Schema("c", (COLUMN, pl.Column("y", "categorical", "target",
                                            categories=("no", "yes"))))
NUMBERS = pl.Schema("n", (COLUMN, pl.Column("y", "numeric", "target", 0.0, 100.0)))
rng = np.random.default_rng(5)
X = {"x": rng.uniform(0, 1, 3000)}
Y = np.where((X["x"] > 0.5) ^ (rng.uniform(size=3000) < 0.1), "yes", "no")


def guarded(schema=CLASSES, y=Y, budget=5.0, **options):
    ledger = pl.Ledger.create(None, budget=pl.Budget(budget, 1e-6), **options)
    people = {"people": np.arange(3000) // 3} if options.get("unit") == "person" else {}
    return ledger, ledger.protect(X, y, schema, **people)


@pytest.mark.parametrize(("learner", "delta"), [(learners.JointTreeClassifier, 0.0),
                                               (learners.SGBDTClassifier, 1e-6)])
@pytest.mark.parametrize("asked", [0.2, pl.plugins.Holdout(0.2, 0.5)])
def test_under_add_remove_it_costs_no_more_than_the_fit(learner, delta, asked, tmp_path):
    ledger, data = guarded(budget=1.0)
    model = learner(epsilon=1.0, delta=delta, schema=CLASSES)
    model.fit(data, holdout=asked)
    found = model.private_score_
    assert [one.name for one in found.estimates] == [
        "accuracy", "balanced accuracy", "auc", "recall of no", "recall of yes",
        "precision of no", "precision of yes"]
    for one in found.estimates:
        assert one.value == pytest.approx(0.88, abs=0.15), one.name
        assert one.both[0] <= one.noise[0] <= one.value <= one.noise[1] <= one.both[1]
    assert [one.end.score for one in ledger.state.grants.values()] == [found]
    assert found.share == 0.2 and found.records == pytest.approx(600, abs=190)  # 8 sigma
    assert found.epsilon == pytest.approx(0.5 if isinstance(asked, Holdout) else 1.0)
    assert ledger.spent <= 1.0 and ledger.verify() == []
    assert model.receipt_ is not None and model.ledger_ is data.ledger
    pl.save_model(model, tmp_path / "m")
    assert pl.load_model(tmp_path / "m").private_score_ == found
    ledger, data = guarded()
    assert not hasattr(model.fit(data), "private_score_")  # that of another fit goes


def test_under_replace_one_both_are_paid():
    ledger, data = guarded(relation="replace_one", filter="basic")
    model = learners.JointTreeClassifier(epsilon=1.0, schema=CLASSES, relation="replace_one")
    model.fit(data, holdout=Holdout(0.2, 0.5))
    assert ledger.spent == pytest.approx(1.5) and ledger.verify() == []


def test_numbers_have_two_errors_in_their_own_unit():
    y = np.clip(100 * X["x"] + rng.normal(0, 5, 3000), 0, 100)
    model = learners.JointTreeRegressor(epsilon=4.0, schema=NUMBERS).fit(X, y, holdout=0.5)
    root, mean = model.private_score_.estimates
    assert (root.name, mean.name) == ("rmse", "mae")
    assert 2 < mean.value < root.value + 2 < 25


def test_people_are_held_out_whole():
    ledger, data = guarded(unit="person", people_key=b"k" * 32)
    model = learners.JointTreeClassifier(epsilon=1.0, schema=CLASSES).fit(data, holdout=0.2)
    assert model.private_score_.records == pytest.approx(200, abs=115)  # people: 8 sigma
    assert ledger.spent <= 1.0 and ledger.verify() == []


@all_cases("share", [0, 1, -0.2, 1e-9, True, "0.2", np.nan, np.inf, 0.9999])
def test_impossible_shares(share):
    ledger, data = guarded()
    with pytest.raises(ValueError):
        learners.JointTreeClassifier(epsilon=1.0, schema=CLASSES).fit(data, holdout=share)
    assert ledger.spent == 0


@pytest.mark.parametrize("epsilon", [0, -1.0, True, np.nan, np.inf, "1"])
def test_impossible_epsilons(epsilon):
    refused(ValueError, lambda: Holdout(0.2, epsilon))


def test_what_cannot_be_scored_is_refused_before_anything_is_reserved():
    ledger, data = protected(pl.Budget(5.0), X, [None, *Y[1:]], CLASSES, unlabelled=True)
    with pytest.raises(pl.InvalidValue, match="label"):
        Holdout(0.2).fit(learners.JointTreeClassifier(epsilon=1.0, schema=CLASSES), data)
    whole = ledger.protect(X, Y, CLASSES)

    class Selects:
        """Predicts nothing."""

    refused(pl.InvalidValue, lambda: Holdout(0.2).fit(Selects(), whole), match="predicts nothing")
    with pytest.raises(pl.errors.RelationMismatch):
        Holdout(0.2).plan(learners.LabelPrivateClassifier(epsilon=1.0, schema=CLASSES), CLASSES)
    assert ledger.spent == 0


@all_cases("weights", [(1.0, 0.0), (0.3, 0.7), (0.5, 0.5), (1.0, 0.5, 0.0),
                       (0.75, 0.25, 0.25), (0.2, 0.2, 0.2)])
@all_cases("kind", ["laplace", "gaussian"])
def test_the_width_of_noise_is_that_of_its_law(weights, kind):
    """10^6 draws pass the width with probability .05 give or take .0013: six deviations."""
    words = np.random.default_rng(7)
    drawn = (words.laplace if kind == "laplace" else words.normal)(0, 3.0, (10**6, len(weights)))
    width = intervals.sum_half_width(weights, 3.0, kind)
    assert np.mean(np.abs(drawn @ np.array(weights)) > width) == pytest.approx(0.05, abs=0.0013)


@pytest.mark.parametrize("detail", [False, pytest.param(None, id="of few rows")])
def test_without_detail_accuracy_alone_has_less_noise(detail):
    few = pl.Schema("c", CLASSES.columns, expected_rows=300, expected_rows_provenance="declared")
    model = learners.JointTreeClassifier(epsilon=0.2, schema=few)
    model.fit(guarded(few)[1], holdout=Holdout(0.2, detail=detail))
    assert [one.name for one in model.private_score_.estimates] == ["accuracy"]
    refused(pl.InvalidValue, lambda: Holdout(0.2, detail=1), match="detail")


@pytest.mark.parametrize(("classes", "halves"), [(2, 1), (2, 5), (3, 1), (26, 1)])
def test_figures_of_exact_counts_are_those_of_scikit_learn(classes, halves):
    """With as good as no noise; probabilities are at the middles of their intervals."""
    words = np.random.default_rng(3)
    names = [f"c{place}" for place in range(classes)]
    schema = pl.Schema("m", (COLUMN, pl.Column("y", "categorical", "target",
                                               categories=tuple(names))))
    truth = words.integers(0, classes, 4000)
    sure = (words.integers(0, halves, 4000) + 0.5) / (2 * halves) + 0.5
    found = np.where(words.random(4000) < 0.2 + 0.7 * (sure - 0.5) + 0.1, truth,
                     words.integers(0, classes, 4000))

    class Fixed:
        def predict(self, rows):
            return np.array(names)[found]

        def predict_proba(self, rows):
            return np.stack([sure, 1 - sure], axis=1)

    goodness = Goodness(Fixed(), schema, True, halves)
    sums = goodness({"x": np.zeros(4000), "y": truth}).sum(axis=0)
    assert len(sums) == goodness.width == 2 * halves * classes
    told = {one.name: one.value for one in goodness.estimates(sums, (1e-9, "laplace"))}
    assert told["accuracy"] == pytest.approx(metrics.accuracy_score(truth, found))
    assert told["balanced accuracy"] == pytest.approx(metrics.balanced_accuracy_score(truth, found))
    if classes <= 20:
        recalls = metrics.recall_score(truth, found, average=None)
        assert [told[f"recall of {name}"] for name in names] == pytest.approx(recalls.tolist())
    else:
        assert len(told) == 2
    assert ("auc" in told) == (halves > 1)
    if classes == 2:
        precisions = metrics.precision_score(truth, found, average=None)
        assert [told[f"precision of {name}"] for name in names] == pytest.approx(
            precisions.tolist())
    if halves > 1:
        assert told["auc"] == pytest.approx(
            metrics.roc_auc_score(truth, np.where(found == 1, sure, 1 - sure)), abs=1e-9)


def test_a_class_without_records_has_no_figure_and_no_mean_of_all_has_it():
    goodness = Goodness(None, CLASSES, True, 1)
    told = goodness.estimates(np.array([90.0, 10.0, 0.5, -0.5]), (1.0, "laplace"))
    assert {one.name for one in told} == {"accuracy", "recall of no", "precision of no",
                                      "precision of yes"}


def test_a_figure_that_was_cut_is_not_told_as_one():
    """No model of so few rows has no error: its noise has."""
    told = PrivateScore((Estimate("rmse", 0.0, (0.0, 38.5), (0.0, 42.29)),
                         Estimate("auc", 0.7, (0.6, 0.8), (0.5, 0.9)),
                         Estimate("mae", 2.0, None, None)), 56.0, 0.2, 0.5)
    assert told.text.endswith(": rmse - (0 to 42.29), auc 0.7 (0.5 to 0.9), mae 2")
    assert [one["value"] for one in told.as_dict()["scores"].values()] == [None, 0.7, 2.0]


@pytest.mark.parametrize("wrong", ["score", None, PrivateScore((), float("nan"), 0.2, 1.0),
                                   PrivateScore((Estimate("a", 0.5, (0.0, float("inf")), None),),
                                                9.0, 0.2, 1.0),
                                   PrivateScore((Estimate("a" * 70_000, 0.5, None, None),), 9.0,
                                                0.2, 1.0),
                                   PrivateScore((Estimate("a", 0.5, None, None),) * 101, 9.0, 0.2,
                                                1.0)])
def test_a_settlement_takes_finite_figures_and_no_other(wrong):
    ledger, data = guarded()
    with ledger.request(pl.Laplace(1.0, 1.0), data) as session:
        session.release(pl.Laplace(1.0, 1.0), data.count())
        refused(pl.InvalidValue, lambda: session.note_score(wrong), match="score")
    assert [one.end.score for one in ledger.state.grants.values()] == [None]


@pytest.mark.parametrize(("field", "value"), [
    ("records", float("nan")), ("records", "4711"), ("estimates", (object(),))])
def test_a_score_that_is_changed_after_it_was_noted_changes_no_settlement(field, value):
    score = PrivateScore((Estimate("a", 0.5, None, None),), 9.0, 0.2, 1.0)
    ledger, data = guarded()
    with ledger.request(pl.Laplace(1.0, 1.0), data) as session:
        session.release(pl.Laplace(1.0, 1.0), data.count())
        session.note_score(score)
        object.__setattr__(score, field, value)
    assert ledger.verify() == []
    assert [one.end.score for one in ledger.state.grants.values()] == [
        PrivateScore((Estimate("a", 0.5, None, None),), 9.0, 0.2, 1.0)]


def test_a_grant_that_failed_or_released_nothing_has_no_score():
    score = PrivateScore((Estimate("a", 0.5, None, None),), 9.0, 0.2, 1.0)
    ledger, data = guarded()
    with ledger.request(pl.Laplace(1.0, 1.0), data) as session:
        session.note_score(score)
    refused(pl.NotGranted, lambda: session.note_score(score), match="settled")

    def fails():
        with ledger.request(pl.Laplace(1.0, 1.0), data) as session:
            session.release(pl.Laplace(1.0, 1.0), data.count())
            session.note_score(score)
            raise RuntimeError

    refused(RuntimeError, fails)
    assert {one.end.score for one in ledger.state.grants.values()} == {None}
    assert ledger.verify() == []


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, 1000])
@pytest.mark.parametrize("scale", [0.5, 2.0])
@pytest.mark.parametrize("shape", [((6, 3, 1), (1, 3, 6)), ((1, 1, 1), (1, 1, 1)),
                                   ((20, 1, 0), (0, 1, 20))])
def test_areas_and_balanced_accuracies_are_covered(n, scale, shape):
    """Approximate intervals of .95: at least 126 of 150, fewer come with less than 1e-6."""
    words = np.random.default_rng(17)
    right = (0.9, 0.6 if shape[0][0] < 20 else 0.999)
    first, second = (np.array(one) / sum(one) for one in shape)
    wins = np.tril(np.ones((3, 3)), -1) + np.eye(3) / 2
    kept = dict.fromkeys(("noise", "both", "balanced noise", "balanced"), 0)
    for _ in range(150):
        below, above = words.multinomial(n, first), words.multinomial(n, second)
        drawn = [one + words.laplace(0, scale, 3) for one in (above, below)]
        for name, sampling, true in (("noise", False, above @ wins @ below / n**2),
                                     ("both", True, second @ wins @ first)):
            _, low, high = intervals.area_intervals(*drawn, scale, "laplace", sampling=sampling)
            kept[name] += low <= true <= high
        hits = words.binomial(n, right)
        told = Goodness(None, CLASSES, True, 1).estimates(
            np.stack([hits, n - hits], axis=1).ravel() + words.laplace(0, scale, 4),
            (scale, "laplace"))
        held = next(one for one in told if one.name == "balanced accuracy")
        kept["balanced noise"] += held.noise[0] <= hits.mean() / n <= held.noise[1]
        kept["balanced"] += held.both[0] <= np.mean(right) <= held.both[1]
    assert min(kept.values()) >= 126, kept


@pytest.mark.slow
@pytest.mark.parametrize(("n", "right", "scale"), [(300, 0.9, 1.0), (1000, 0.99, 0.25),
                                                 (2000, 0.6, 10.0)])
def test_intervals_hold_what_they_say(n, right, scale):
    """At least 114 of 140, each right with probability .944: fewer come with less than 1e-6."""
    words, (figure,) = np.random.default_rng(11), FIGURES["classification"]
    kept = {"noise": 0, "both": 0}
    for _ in range(140):
        hits = words.binomial(n, right)
        sums = np.array([hits, n - hits]) + words.laplace(0, scale, 2)
        found = figure.estimate(sums, CLASSES, (scale, "laplace"))
        kept["noise"] += found.noise[0] <= hits / n <= found.noise[1]
        kept["both"] += found.both[0] <= right <= found.both[1]
    assert min(kept.values()) >= 114


def test_nothing_is_said_where_there_may_be_no_record():
    (figure,) = FIGURES["classification"]
    found = figure.estimate(np.array([1.0, -1.5]), CLASSES, (1.0, "laplace"))
    assert found.noise is None and found.both is None


def test_shares_that_are_none_are_cut_by_the_guard():
    ledger, data = guarded()
    block = pl.questions.CustomValue(
        lambda table: np.full((len(table["x"]), 2), 1e9), 1.0, "huge", 2)
    with ledger.request(pl.Laplace(0.5, 1.0), data) as session:
        found = session.release(pl.Laplace(0.5, 1.0), data.query((block,)))
    assert found.shape == (2,) and found.sum() == pytest.approx(3000, abs=30)
    for wrong in (lambda table: table["x"], lambda table: np.zeros((len(table["x"]), 3))):
        ledger, data = guarded()
        with ledger.request(pl.Laplace(1.0, 1.0), data) as session, pytest.raises(
                pl.errors.DataError, match="2 real numbers"):
            session.release(pl.Laplace(1.0, 1.0), data.query(
                (pl.questions.CustomValue(wrong, 1.0, "shape", 2),)))


class Scored(learners.JointTreeClassifier):
    """A learner of the kit whose every fit is scored."""

    def plan(self, schema=None):
        return Holdout(0.2).plan(learners.JointTreeClassifier(**self.get_params()),
                                 schema or self.schema)

    def fit(self, X, y=None, **named):
        inner = learners.JointTreeClassifier(**self.get_params()).fit(X, y, holdout=0.2)
        vars(self).update(vars(inner))
        self.private_score_ = np.array([self.private_score_.records,
                                        self.private_score_.estimates[0].value])
        return self


@pytest.mark.parametrize("name", [
    "no-read-before-grant", "refusal-reads-nothing", "spend-within-plan", "rows-are-treated-alone",
    "nothing-private-in-the-model",
    pytest.param("lockstep-holds", marks=pytest.mark.slow)])
def test_the_kit_finds_nothing(name):
    CHECKS[name](Scored(epsilon=1.0))


RUN = """
[run]
learner = "joint-tree-classifier"
[data]
schema = "s.json"
table = "t.csv"
[budget]
epsilon = 1.0
[evaluate]
holdout = 0.2
epsilon = 0.5
"""


@pytest.fixture
def run_file(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps(CLASSES.to_dict()), encoding="utf-8")
    lines = "".join(f"{x},{y}\n" for x, y in zip(X["x"], Y, strict=True))
    (tmp_path / "t.csv").write_text("x,y\n" + lines, encoding="utf-8")
    (tmp_path / "r.toml").write_text(RUN, encoding="utf-8")
    return tmp_path / "r.toml"


def test_a_run_scores_itself(run_file, tmp_path):
    priced = CliRunner().invoke(main, ["plan", str(run_file), "--format", "json"])
    assert json.loads(priced.stdout)["price"]["epsilon"] == pytest.approx(1.0)
    done = CliRunner().invoke(main, ["run", str(run_file), "--model", str(tmp_path / "m")])
    assert done.exit_code == 0, done.stderr
    for words in ("private score", "accuracy", "95 % of noise and sample", "held out by a private",
                  "epsilon 0.5 for the score alone", "asserted"):
        assert words in " ".join(done.stdout.split())
    assert pl.load_model(tmp_path / "m").private_score_.epsilon == pytest.approx(0.5)
    (tmp_path / "r.ledger").unlink()
    again = CliRunner().invoke(main, ["run", str(run_file), "--format", "json"])
    found = json.loads(again.stdout)["private_score"]
    assert found["holdout"] == 0.2 and {"accuracy", "auc"} <= set(found["scores"])
    shown = CliRunner().invoke(main, ["show", str(tmp_path / "r.ledger")])
    assert "private score of about" in shown.stdout and "balanced accuracy" in shown.stdout
    figures = CliRunner().invoke(main, ["show", str(tmp_path / "r.ledger"), "--format", "json"])
    assert json.loads(figures.stdout)["grants"][0]["score"] == found  # what the run itself said
    assert found["level"] == 0.95 and len(found["scores"]["accuracy"]["noise"]) == 2
    assert read_history(str(tmp_path / "r.ledger")).faults == []


@pytest.mark.parametrize("wrong", [
    "epsilon = 0.5\npublic = true", "epsilon = 0.5\ntest = 't.csv'", "epsilon = 0.0",
    "epsilon = nan", "epsilon = true", "epsilon = '1'", ""])
def test_run_files_that_mix_the_two_scores_are_refused(run_file, wrong):
    run_file.write_text(RUN.replace("[evaluate]\nholdout = 0.2\nepsilon = 0.5",
                                    f"[evaluate]\nholdout = 0.2\n{wrong}"), encoding="utf-8")
    assert CliRunner().invoke(main, ["plan", str(run_file)]).exit_code == 2


def test_an_isolated_learner_sees_no_held_out_rows(run_file):
    done = CliRunner().invoke(main, ["plan", str(run_file), "--isolate"])
    assert done.exit_code == 2 and "would see the rows" in done.stderr


def test_a_policy_without_assertions_refuses_before_anything_is_spent(run_file, tmp_path):
    with pl.Ledger.create(tmp_path / "r.ledger", budget=pl.Budget(1.0),
                          policy=pl.Policy(1.0, 1e-6)):
        pass
    done = CliRunner().invoke(main, ["run", str(run_file)])
    assert done.exit_code == 1 and "asserted" in done.stderr
    with pl.Ledger.open(tmp_path / "r.ledger") as ledger:
        assert ledger.spent == 0
