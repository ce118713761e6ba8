"""Ledgers that protect labels only: public features, parts by position, randomised response."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import privledger as pl
from privledger.accounting.cost import LABELS_ONLY
from privledger.cli.app import main
from privledger.graph import Context
from privledger.guard.vault import _vault_of
from privledger.noise.source import SystemSource
from privledger.questions.label_query import respond
from privledger.questions.question import Step
from tests.bodies import body_of
from tests.worlds import protected, refused, refuses, schema_of

SCHEMA = schema_of("people", {"size": (0.0, 1.0), "colour": ["red", "green"]}, kind=["a", "b", "c"])
N = 90
X = {"size": np.linspace(0, 1, N), "colour": np.array(["red", "green"])[np.arange(N) % 2]}
CODES = np.arange(N) % 3
Y = np.array(["a", "b", "c"])[CODES]
HOLES = np.where(np.arange(N) % 5 == 0, None, Y)
R = pl.RandomizedResponse(0.5, 3)
KEPT = pl.RandomizedResponse(1e-12, 3)
ALARM = 1e-8  # of every chi-square below; a test has at most ten


def guarded(epsilon=100.0, y=Y, schema=SCHEMA, path=None, **options):
    ledger = pl.Ledger.create(path, budget=pl.Budget(epsilon), relation="replace_label", **options)
    return ledger, ledger.protect(X, y, schema, public_features=True,
                                  unlabelled=any(label is None for label in y))


def asked(plan, ask, **options):
    """(ledger, what `ask(session, data)` returns) under one grant."""
    ledger, data = guarded(**options)
    with ledger.request(pl.nodes.LabelOnly(plan), data) as session:
        return ledger, ask(session, data)


# --- what is public, and who says so ------------------------------------------------------------

def test_public_features_and_labels_only_need_each_other():
    for relation in ("add_remove", "replace_one"):
        ledger = pl.Ledger.create(None, budget=pl.Budget(1.0), relation=relation)
        with pytest.raises(pl.errors.RelationMismatch, match="replace_label"):
            ledger.protect(X, Y, SCHEMA, public_features=True)
        data = ledger.protect(X, Y, SCHEMA)
        for name in ("public_features", "public_rows", "public_labelled"):
            with pytest.raises(pl.NotGranted, match="private here"):
                getattr(data, name)
        with pytest.raises(pl.InvalidValue):
            ledger.protect(X, Y, SCHEMA, unlabelled=1)
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0), relation="replace_label")
    refused(pl.errors.RelationMismatch, lambda: ledger.protect(X, Y, SCHEMA), match="labels only")
    with pytest.raises(pl.errors.DataError, match="pass y"):
        ledger.protect(X, None, SCHEMA, public_features=True)
    refused(pl.InvalidValue, lambda: ledger.protect(X, Y, SCHEMA, public_features="yes"))


def test_the_features_come_back_and_the_history_says_that_they_are_public():
    ledger, data = guarded()
    expected = pl.encode_features(X, SCHEMA)
    for held, column in zip(data.public_features.arrays, expected.arrays, strict=True):
        np.testing.assert_array_equal(held, column)
        with pytest.raises(ValueError):
            held[0] = 0
    assert data.public_rows == N
    assert data.public_labelled.all()
    assert len(data.select(["colour"]).public_features.arrays) == 1
    with pytest.raises(pl.NotGranted):
        _ = data.partition(data.cells("colour"))[0].public_rows
    refused(TypeError, lambda: len(data))
    ledger._history.flush()
    bodies = [body_of(entry) for entry in ledger._history.store.read()
              if entry.event.kind == "protected"]
    assert [body["public_features"] for body in bodies] == [True]
    assert "unlabelled" not in bodies[0]


def test_late_arrivals_keep_what_was_declared():
    ledger, data = guarded()
    more = ledger.append(data, {"size": [0.5], "colour": ["red"]}, ["a"])
    assert more.public_rows == N + 1
    assert ledger.relation == "replace_label"


# --- single labels ------------------------------------------------------------------------------

def test_labels_come_in_the_order_given_to_protect():
    ledger, found = asked(KEPT, lambda session, data: session.release(KEPT, data.labels()))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, CODES)
    assert ledger.verify() == []
    assert ledger.spent == pytest.approx(pl.epsilon(KEPT, relation="replace_one"))


@pytest.mark.parametrize("rows", [slice(0, 10), slice(None, None, -1), [5, 3, 80],
                                  np.array([7], dtype=np.uint8)])
def test_labels_of_some_rows(rows):
    _, found = asked(KEPT, lambda session, data: session.release(KEPT, data.labels(rows)))
    np.testing.assert_array_equal(found, CODES[rows])


@pytest.mark.parametrize("rows", [[0, 0], [0, N], [-1], [], [0.5], [True], [[0]], slice(5, 5), "a"])
def test_rows_that_cannot_be_are_refused_unread(rows):
    ledger, data = guarded()
    with (pytest.raises(pl.InvalidValue), ledger.request(pl.nodes.LabelOnly(R), data) as session):
        session.release(R, data.labels(rows))
    assert ledger.spent == 0
    assert data._vault.opened == 0


@pytest.mark.parametrize(("mechanism", "build"), [
    (pl.RandomizedResponse(0.5, 2), lambda data: data.labels()),
    (pl.RandomizedResponse(0.5, 3), lambda data: data.labels(candidates=[[0, 1]] * N)),
    (pl.RandomizedResponse(0.5, 2), lambda data: data.labels(candidates=[[1, 1]] * N)),
    (pl.RandomizedResponse(0.5, 2),
     lambda data: data.labels(candidates=[[1, 1]] + [[0, 1]] * (N - 1))),
    (pl.RandomizedResponse(0.5, 2), lambda data: data.labels(candidates=[[0, 3]] * N)),
    (pl.RandomizedResponse(0.5, 2), lambda data: data.labels(candidates=[[0, 1]] * 5)),
    (pl.RandomizedResponse(0.5, 2), lambda data: data.labels(candidates=[0, 1])),
    (pl.RandomizedResponse(0.5, 2), lambda data: data.labels(slice(4), [[0, 1]] * N)),
    (pl.Laplace(1.0), lambda data: data.labels()),
    (R, lambda data: data.histogram("kind")), (R, lambda data: data.poisson(0.5).labels()),
    (R, lambda data: data.partition(3)[0].labels()),
    (R, lambda data: data.partition(data.cells("kind"))[0].labels())])
def test_questions_that_do_not_fit_are_refused_unread(mechanism, build):
    ledger, data = guarded()
    with (pytest.raises((pl.InvalidValue, pl.errors.UnsupportedNode)),
          ledger.request(pl.nodes.LabelOnly(pl.Repeat(mechanism, 2)), data) as session):
        session.release(mechanism, build(data))
    assert ledger.spent == 0
    assert data._vault.opened == 0


def test_labels_need_a_grant_for_these_data():
    ledger, data = guarded()
    _, other = guarded()
    with ledger.request(pl.nodes.LabelOnly(R), data) as session:
        refused(pl.NotGranted, lambda: session.release(R, other.labels()), match="other data")
        session.release(R, data.labels())
        refused(pl.NotGranted, lambda: session.release(R, data.labels()))
    refused(pl.NotGranted, lambda: session.release(R, data.labels()), match="settled")


def test_where_records_are_protected_there_are_no_single_labels():
    for relation in ("add_remove", "replace_one"):
        ledger, data = protected(pl.Budget(10.0), X, Y, SCHEMA, relation=relation)
        refuses(ledger, data, R, data.labels(), pl.errors.RelationMismatch, "replace_label",
                node=pl.Laplace(1.0))


def test_a_numeric_target_has_no_classes():
    schema = pl.Schema("p", (*SCHEMA.columns[:2], pl.Column("pay", "numeric", "target", 0.0, 9.0)))
    ledger, data = guarded(y=np.linspace(0, 9, N), schema=schema)
    with (pytest.raises(pl.SchemaError), ledger.request(pl.nodes.LabelOnly(R), data) as session):
        session.release(R, data.labels())
    noise = pl.Laplace(0.01, l1_sensitivity=2.0)
    with pl.Ledger.create(None, budget=pl.Budget(500.0), relation="replace_label") as wide:
        data = wide.protect(X, np.linspace(0, 9, N), schema, public_features=True)
        with wide.request(pl.nodes.LabelOnly(noise), data) as session:
            assert abs(session.release(noise, data.sum("pay"))) < 1


# --- two stages on disjoint rows: one price -----------------------------------------------------

def halves(count=2):
    return pl.questions.IndexCells(np.arange(N) % count, count)


def test_two_halves_cost_as_much_as_one():
    second = pl.RandomizedResponse(0.4, 2)
    plan = pl.Parallel([R, second], "index")

    def ask(session, data):
        parts = data.partition(halves())
        assert parts.certificate == "index"
        first = session.release(R, parts[0].labels())
        lists = np.stack([first, (first + 1) % 3], axis=1)
        return first, session.release(second, parts[1].labels(candidates=lists))

    ledger, (first, later) = asked(plan, ask)
    assert len(first) == len(later) == N // 2
    assert ledger.spent == max(pl.epsilon(R, relation="replace_one"),
                               pl.epsilon(second, relation="replace_one"))
    assert ledger.verify() == []


def test_parts_that_overlap_are_not_admitted():
    """The same half twice, a second partition, or the whole table under a parallel plan."""
    ledger, data = guarded()
    parts, others = data.partition(halves()), data.partition(halves())
    with ledger.request(pl.nodes.LabelOnly(pl.Parallel([R, R], "index")), data) as session:
        session.release(R, parts[0].labels())
        for again in (parts[0], others[1], data, data.partition(halves(3))[1]):
            with pytest.raises(pl.NotGranted):
                session.release(R, again.labels())
        forged = pl.Dataset(SCHEMA, data._vault, (Step(parts[1].steps[0].context,
                                                       pl.questions.IndexCells(np.zeros(N, int),
                                                                               2)),),
                            ledger)
        refused((pl.NotGranted, pl.InvalidValue), lambda: session.release(R, forged.labels()))
        session.release(R, parts[1].labels())


def test_parts_by_public_features_are_parts_by_position():
    def ask(session, data):
        parts = data.partition(data.cells("colour"))
        assert parts.certificate == "index"
        assert data.partition(data.cells("kind")).certificate == "public_predicate"
        assert data.partition(2).certificate == "iid_per_record"
        return [session.release(KEPT, parts[j].labels(slice(0, 3))) for j in range(2)]

    _, found = asked(pl.Parallel([KEPT] * 3, "index"), ask)
    np.testing.assert_array_equal(found, [CODES[0:6:2], CODES[1:6:2]])


def test_a_forged_certificate_is_refused():
    ledger, data = guarded()
    cells = data.cells("kind")
    step = Step(Context("part", "mine", part=0, parts=3, certificate="index"), cells)
    forged = pl.Dataset(SCHEMA, data._vault, (step,), ledger)
    noise = pl.Laplace(1.0)
    with ledger.request(pl.nodes.LabelOnly(pl.Parallel([noise] * 3, "index")), data) as session:
        refused(pl.NotGranted, lambda: session.release(noise, forged.count()),
                lambda: session.release(R, forged.labels()), match="derivation")


def test_parts_by_position_need_a_public_number_of_rows():
    private, data = protected(pl.Budget(10.0), X, Y, SCHEMA)
    refused(pl.errors.RelationMismatch, lambda: data.partition(halves()))
    refuses(private, data, pl.Laplace(1.0), data.query((pl.questions.Ones(),), halves()),
            pl.errors.RelationMismatch)
    known, data = protected(pl.Budget(10.0), X, Y, SCHEMA, relation="replace_one")
    noise = pl.Laplace(0.5, l1_sensitivity=1.0)
    with known.request(pl.Parallel([noise, noise], "index"), data) as session:
        parts = data.partition(halves())
        assert [session.release(noise, parts[j].count()) > 0 for j in range(2)] == [True, True]
    assert known.spent == pl.epsilon(noise)


@pytest.mark.parametrize("build", [
    lambda: pl.questions.IndexCells([], 1), lambda: pl.questions.IndexCells([0, 2], 2),
    lambda: pl.questions.IndexCells([-1], 2),
    lambda: pl.questions.IndexCells([0.5], 2), lambda: pl.questions.IndexCells([[0]], 1),
    lambda: pl.questions.IndexCells([0], 0),
    lambda: guarded()[1].partition(pl.questions.IndexCells([0], 1)),
    lambda: pl.questions.ClassIs(-1), lambda: pl.questions.ClassIs(0.5)])
def test_malformed_parts_are_refused(build):
    refused(pl.InvalidValue, build)


def test_positions_are_a_copy():
    places = np.zeros(N, dtype=np.int64)
    cells = pl.questions.IndexCells(places, 2)
    places[:] = 1
    assert not cells.places.any()
    with pytest.raises(ValueError):
        cells.places[0] = 1


def test_a_class_beyond_the_schema_is_refused():
    ledger, data = guarded()
    with (pytest.raises(pl.SchemaError, match="fewer classes"),
          ledger.request(pl.nodes.LabelOnly(pl.Laplace(1.0)), data) as session):
        session.release(pl.Laplace(1.0), data.query((pl.questions.ClassIs(3),)))


# --- the law of randomised response -------------------------------------------------------------

def chance(counts, law):
    """P-value of the counts under the law."""
    return stats.chisquare(counts, np.array(law) * counts.sum()).pvalue


@pytest.mark.parametrize(("noise", "buckets"), [(0.3, 2), (0.7, 5), (1.0, 3)])
def test_the_law_of_randomised_response(noise, buckets):
    """False alarm at most 5e-8."""
    source, n = SystemSource(), 40_000
    for code in range(buckets):
        found = source.randomized_response(np.full(n, code), buckets, noise)
        law = np.full(buckets, noise / buckets)
        law[code] += 1 - noise
        assert chance(np.bincount(found, minlength=buckets), law) > ALARM


def test_the_law_among_candidates():
    """A label inside its list, at either place, and one outside. False alarm at most 3e-8."""
    source, n = SystemSource(), 40_000
    lists, mechanism = np.tile([4, 1], (n, 1)), pl.RandomizedResponse(0.3, 2)
    for code, law in ((4, [0.85, 0.15]), (1, [0.15, 0.85]), (2, [0.5, 0.5])):
        found = respond(source, np.full(n, code), lists, mechanism)
        assert set(found) <= {1, 4}
        assert chance(np.array([(found == 4).sum(), (found == 1).sum()]), law) > ALARM


@given(st.floats(1e-3, 1.0), st.integers(2, 20))
@settings(max_examples=100, deadline=None)
def test_no_two_labels_are_further_apart_than_the_price(noise, k):
    """Every pair of laws: inside at two places, and outside, where all k are alike."""
    price = pl.epsilon(pl.nodes.LabelOnly(pl.RandomizedResponse(noise, k)), 0.0, "replace_label")
    laws = [np.full(k, noise / k) for _ in range(2)] + [np.full(k, 1 / k)]
    for place in range(2):
        laws[place][place] += 1 - noise
    for one in laws:
        for two in laws:
            assert np.log(one / two).max() <= price * (1 + 1e-12) + 1e-12


# --- rows without a label -----------------------------------------------------------------------

def test_missing_labels_have_to_be_announced():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0))
    refused(pl.errors.DataError, lambda: ledger.protect(X, HOLES, SCHEMA), match="missing")
    data = ledger.protect(X, HOLES, SCHEMA, unlabelled=True)
    assert np.sum(_vault_of(data._vault)._Vault__rows.target == -1) == N // 5
    refused(pl.errors.DataError, lambda: ledger.protect(X, None, SCHEMA, unlabelled=True))
    with pytest.raises(pl.errors.DataError, match="category"):
        ledger.protect(X, np.where(HOLES == "a", "z", HOLES), SCHEMA, unlabelled=True)


def test_structure_from_some_and_labels_from_the_others_at_the_larger_price():
    ledger, data = protected(pl.Budget(200.0), X, HOLES, SCHEMA, unlabelled=True)
    noise = pl.Laplace(0.01)
    parts = data.partition(pl.questions.LabelledCells())
    assert parts.certificate == "public_predicate"
    with ledger.request(pl.Parallel([noise, noise]), data) as session:
        bare = session.release(noise, parts[0].histogram("colour"))
        kinds = session.release(noise, parts[1].histogram("kind"))
    assert np.allclose(bare[:2], 9, atol=1)
    known = HOLES != None  # noqa: E711
    assert np.allclose(kinds, np.bincount(CODES[known]), atol=1)
    assert ledger.spent == pl.epsilon(noise)


def numeric(unlabelled=True):
    schema = pl.Schema("p", (*SCHEMA.columns[:2], pl.Column("pay", "numeric", "target", 0.0, 9.0)))
    y = np.where(np.arange(N) % 5 == 0, np.nan, 9.0)
    ledger = pl.Ledger.create(None, budget=pl.Budget(3000.0, 1e-6))
    return ledger, ledger.protect(X, y, schema, unlabelled=unlabelled)


def test_the_target_is_asked_of_the_labelled_part_only():
    ledger, data = numeric()
    noise = pl.Gaussian(0.05)
    score = data.score("squared", [0.0], center=4.5, scale=4.5)
    turned_away = [data.sum("pay"), data.histogram("pay", [3.0]), data.custom(len, 1.0, "why"),
               data.query((score.gradient(1.0),)), data.query((score.hessian(),)),
               data.query((pl.questions.Ones(),), pl.questions.ResidualCells(score, (0.1,))),
               data.partition(data.cells("pay", [3.0]))[0].count()]
    part = data.partition(pl.questions.LabelledCells())
    turned_away.append(part[0].sum("pay"))
    plan = pl.Sequential([noise, pl.Parallel([noise, pl.Sequential([noise] * 2)])])
    with ledger.request(plan, data) as session:
        for query in turned_away:
            with pytest.raises(pl.errors.UnsupportedNode, match="no label"):
                session.release(noise, query)
        assert data._vault.opened == 0
        assert abs(session.release(noise, data.count()) - N) < 1
        assert abs(session.release(noise, part[1].sum("pay")) - 0.8 * N) < 1
        found = session.release(noise, part[1].query((score.gradient(1.0),)))
        assert abs(found - 0.8 * N) < 1


def test_where_every_row_has_a_label_there_are_no_such_parts():
    ledger, data = guarded()
    noise = pl.Laplace(1.0)
    with (pytest.raises(pl.errors.UnsupportedNode, match="unlabelled=True"),
          ledger.request(pl.nodes.LabelOnly(pl.Parallel([noise] * 2, "index")), data) as session):
        session.release(noise, data.partition(pl.questions.LabelledCells())[1].count())


def test_labels_only_with_rows_that_have_none():
    plan = pl.Sequential([R, pl.Parallel([pl.nodes.Public("no labels here"), KEPT], "index")])

    def ask(session, data):
        with pytest.raises(pl.errors.UnsupportedNode, match="no label"):
            session.release(R, data.labels())
        parts = data.partition(pl.questions.LabelledCells())
        assert parts.certificate == "index"
        with pytest.raises(pl.errors.UnsupportedNode, match="no label"):
            session.release(KEPT, parts[0].labels())
        return data.public_labelled, session.release(KEPT, parts[1].labels())

    _, (known, found) = asked(plan, ask, y=HOLES)
    np.testing.assert_array_equal(known, HOLES != None)  # noqa: E711
    np.testing.assert_array_equal(found, CODES[known])


# --- what readers see ---------------------------------------------------------------------------

def test_show_and_check_say_labels_only(tmp_path):
    path = tmp_path / "labels.ledger"
    ledger, data = guarded(path=path)
    with ledger.request(pl.nodes.LabelOnly(R), data) as session:
        session.release(R, data.labels())
    ledger.close()
    shown = CliRunner().invoke(main, ["show", str(path), "--all"]).output
    assert "LABELS ONLY" in shown
    assert "labels of 90 records" in shown
    assert LABELS_ONLY in repr(ledger)
    policy = tmp_path / "policy.toml"
    for extra, code in (("", 1), ('relation = "replace_one"\n', 1),
                        ('relation = "replace_label"\n', 0)):
        policy.write_text(f"[policy]\nmax_epsilon = 200\nmax_delta = 0\n{extra}")
        result = CliRunner().invoke(main, ["check", str(path), "--policy", str(policy)])
        assert result.exit_code == code, result.output
        assert ("wrong-relation" in result.output) == bool(code)
    written = json.loads(json.dumps(pl.nodes.to_json(pl.nodes.LabelOnly(R))))
    assert written["inner"]["num_buckets"] == 3


def test_what_goes_wrong_with_labels_is_not_told(monkeypatch):
    """An error inside may depend on the labels: only that it failed gets out; the charge stands."""
    import privledger.questions.label_query as labels

    def fails(*_):
        raise KeyError("record 3 has label 1")

    schema = schema_of("s", {"x": (0.0, 1.0)}, t=["n", "p"])
    ledger = pl.Ledger.create(None, budget=pl.Budget(9.0, 0.0), relation="replace_label")
    data = ledger.protect({"x": [0.1, 0.9]}, ["n", "p"], schema, public_features=True)
    response = pl.RandomizedResponse(0.5, 2)
    monkeypatch.setattr(labels, "respond", fails)
    with ledger.request(pl.nodes.LabelOnly(response), data) as session:
        with pytest.raises(pl.errors.DataError) as caught:
            session.release(response, data.labels())
        assert session.releases == 1
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert "label 1" not in str(caught.value)
    assert ledger.spent > 0
