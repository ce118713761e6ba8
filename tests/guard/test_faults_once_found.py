"""History: each fault that a reader of the proofs found, once. Each was a real undercharge."""

import subprocess
import sys

import numpy as np
import pytest
from attrs import evolve

import privledger as pl
from privledger.guard.handle import _ledger
from privledger.guard.vault import Pass, _vault_of
from privledger.questions.blocks import clipped
from privledger.questions.cells import CoinCells
from privledger.questions.score import Gradient
from tests.all_cases import all_cases
from tests.alone import verify_history
from tests.worlds import refused, refuses, schema_of

SCHEMA = schema_of("t", {"x": (0, 1), "c": ["a", "b", "d"]}, y=(0, 1))
N = 1000


def protected(epsilon=10.0, **options):
    ledger = pl.Ledger.create(None, budget=pl.Budget(epsilon, 1e-6), **options)
    place = np.arange(N)
    X = {"x": place / N, "c": np.array(["a", "b", "d"])[place % 3]}
    return ledger, ledger.protect(X, place / N, SCHEMA)


def test_a_second_filter_in_one_grant_is_refused():
    ledger, data = protected()
    node = pl.IndividualFilter("gdp", 0.001)
    with ledger.request(node, data) as session:
        session.filtered(node)
        session.filtered(node)
        refused(pl.NotGranted, lambda: session.filtered(pl.IndividualFilter("gdp", 0.002)))


def test_the_bound_of_a_count_cannot_be_set():
    refused(TypeError, lambda: pl.questions.Ones(clip=1e-6))


def test_cells_of_a_column_are_as_many_as_the_schema_says():
    ledger, data = protected()
    node = pl.Gaussian(5.0)
    with ledger.request(node, data) as session, pytest.raises(pl.InvalidValue):
        session.release(node,
                        data.query((pl.questions.Ones(),), pl.questions.CategoryCells("c", 1)))


def test_a_partition_of_unknown_make_is_refused_unread():
    class Peek:
        count = 2

        def index(self, rows):
            raise AssertionError("must not be called")

    ledger, data = protected()
    node = pl.Gaussian(5.0)
    refuses(ledger, data, node, data.query((pl.questions.Ones(),), Peek()))


def test_replacing_one_unsigned_vector_by_another_costs_root_two():
    class Wide:
        clip, width, signed, asserted = 1.0, 3, False, False

    _, data = protected()
    query = pl.questions.Query(data, (pl.questions.Ones(),))
    assert query.sensitivity(Wide(), "replace_one", 2) >= 2**0.5
    assert query.sensitivity(Wide(), "replace_one", 1) == 2.0


def test_a_gradient_that_is_not_a_number_contributes_nothing():
    class Broken:
        clip, width, signed, asserted = 1.0, 1, True, False

        def values(self, rows):
            return np.array([np.nan, np.inf, -np.inf, 0.5])

    assert clipped(Broken(), None, 2).tolist() == [0.0, 1.0, -1.0, 0.5]


def test_a_group_inside_a_sample_is_refused():
    with pytest.raises(pl.errors.UnsupportedNode):
        pl.epsilon(pl.PoissonSample(0.1, pl.nodes.Group(3, pl.Gaussian(2.0))), delta=1e-6)


def test_a_selected_handle_bins_its_own_columns():
    ledger, data = protected(mode="simulation", seed=2)
    part = data.select(["c"])
    bins = part.bins(8)
    cells = pl.questions.TreeCells(bins, [pl.questions.Test(0, np.array([0, 1, 2, 3], np.uint8))],
                                   4)
    node = pl.Gaussian(0.01)
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e6, 1e-6), mode="simulation", seed=2)
    data = ledger.protect({"x": np.zeros(6), "c": list("aabbbd")}, np.zeros(6), SCHEMA)
    with ledger.request(node, data) as session:
        found = session.release(node, data.select(["c"]).query((pl.questions.Ones(),), cells))
    assert np.rint(found).tolist() == [2, 3, 1, 0]


def test_a_ledger_in_memory_is_not_forked():
    import os

    ledger, data = protected()
    child = os.fork()
    if child == 0:
        try:
            ledger.request(pl.Gaussian(5.0), data)
        except pl.LedgerError:
            os._exit(7)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7


def test_a_renyi_filter_at_an_order_off_the_grid_is_priced_at_that_order():
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter="rdp", order=40.3)
    _, data = protected()
    data = ledger.protect({"x": np.zeros(3), "c": list("abd")}, np.zeros(3), SCHEMA)
    node = pl.IndividualFilter("renyi", 0.5, order=40.3)
    ledger.request(node, data).close()
    assert ledger.spent > 0
    assert ledger.verify() == []


class Stranger:
    """Cells of a stranger's make."""

    count = 1

    def index(self, rows):
        raise AssertionError("must not see the rows")


def test_asking_again_does_not_get_past_a_refusal():
    _, data = protected()
    score = data.score("squared", [0.0])
    refused(pl.errors.UnsupportedNode, lambda: score.add(Stranger(), np.zeros(1)))
    ledger, data = protected()
    score = data.score("squared", [0.0])
    score.add(pl.questions.CategoryCells("c", 9), np.zeros(9))
    node = pl.Gaussian(5.0)
    with ledger.request(pl.Repeat(node, 3), data) as session:
        for _ in range(3):
            with pytest.raises(pl.InvalidValue):
                session.release(node, data.query((score.gradient(1.0),)))
    assert data._vault.opened == 0


def test_a_score_is_checked_for_each_table_it_meets():
    """Checked where a column has two categories, used where it has three."""
    two = schema_of("two", {"c": ["a", "b"]}, y=(0, 1))
    node = pl.Gaussian(5.0)
    small = pl.Ledger.create(None, budget=pl.Budget(10.0, 1e-6))
    guarded = small.protect({"c": np.array(["a", "b"])}, np.zeros(2), two)
    score = guarded.score("squared", [0.0])
    score.add(pl.questions.CategoryCells("c", 3), np.zeros(3))
    with small.request(node, guarded) as session:
        session.release(node, guarded.query((score.gradient(1.0),)))
    ledger, data = protected()
    refuses(ledger, data, node, data.query((score.gradient(1.0),)), pl.InvalidValue)


def test_late_arrivals_make_one_chain_and_no_branches():
    """Two branches of one table could hold one person twice, each time with a fresh cap."""
    ledger, data = protected()
    more = {"x": [0.5], "c": ["a"]}
    grown = ledger.append(data, more, [0.5])
    refused(pl.NotGranted, lambda: ledger.append(data, more, [0.5]))
    ledger.append(grown, more, [0.5])


@pytest.mark.filterwarnings("error")
def test_floating_point_warnings_do_not_tell_which_records_overflow():
    ledger, data = protected()
    node = pl.Gaussian(5.0)
    with ledger.request(pl.Repeat(node, 2), data) as session, np.errstate(all="raise"):
        session.release(node, data.query((pl.questions.ColumnValue("x", 0.0, 1e-139),)))
        score = data.score("squared", [0.0])
        for _ in range(2):
            score.add(pl.questions.CategoryCells("c", 4), np.full(4, 1.7e308))
        session.release(node, data.query((score.gradient(1.0),)))


@pytest.mark.parametrize("clip", [1e-305, 1e-170, 1e141, 5e-324])
def test_bounds_at_the_edge_of_floating_point_are_refused(clip):
    _, data = protected()
    refused(pl.InvalidValue, lambda: pl.questions.ColumnValue("x", 0.0, 1.0, clip=clip),
            lambda: data.score("squared", [0.0]).gradient(clip))


def test_a_handle_whose_steps_were_changed_is_refused_unread():
    import attrs

    ledger, data = protected()
    node = pl.Gaussian(5.0)
    part = data.partition(2)[0]
    whole = attrs.evolve(part, steps=(attrs.evolve(part.steps[0], cells=None),))
    reserved = pl.IndividualFilter("gdp", 0.01, node=pl.Repeat(node, 3))
    with ledger.request(pl.Sequential([pl.Parallel([node, node], "iid_per_record"), reserved]),
                        data) as session:
        refused(pl.NotGranted, lambda: session.release(node, whole.count()))
        wide = session.filtered(pl.IndividualFilter("gdp", 1e4))
        step = wide.steps[0]
        caps = f"gdp:{0.01.hex()}:{0.0.hex()}"
        forged = attrs.evolve(wide, steps=(attrs.evolve(
            step, context=attrs.evolve(step.context, caps=caps)),))
        refused(pl.NotGranted, lambda: session.release(node, forged.count()))
    assert data._vault.opened == 0


def test_sessions_are_made_by_the_ledger_only():
    _, data = protected()
    refused(TypeError, lambda: pl.Session(plan=pl.Gaussian(1.0), key=object(), history=None,
            data=data, source=None, state=None))


def test_a_stream_that_failed_does_not_take_its_records_twice():
    from privledger_learners import SGBDTRegressor

    schema = schema_of("s", {"x": (0, 1)}, y=(0, 1))
    X, y = {"x": np.linspace(0, 1, 50)}, np.linspace(0, 1, 50)
    learner = SGBDTRegressor(epsilon=1.0, delta=1e-6, schema=schema, n_trees=10)
    learner.partial_fit(X, y)
    ledger = _ledger(learner.ledger_)

    class Crash(Exception):
        pass

    def stop(releases):
        if releases > 3:
            raise Crash

    ledger.on_release = stop
    refused(Crash, lambda: learner.partial_fit(X, y))
    ledger.on_release = None
    refused(pl.NotGranted, lambda: learner.partial_fit(X, y))
    learner.partial_fit(learner.data_)
    assert learner.ledger_.verify() == []


def test_a_vault_opens_for_grants_of_its_own_history_only():
    """Two ledgers may know tables under one name; a grant of one is none of the other."""
    _, data = protected()

    with (pytest.raises(pl.NotGranted), _vault_of(data._vault).open(Pass(data.identity, object()))):
        raise AssertionError("must not open")
    assert data._vault.opened == 0


def handle(data, *steps):
    """A handle as nobody should be able to make it."""
    return pl.Dataset(data.schema, data._vault, steps, data.ledger)


def test_a_sample_is_not_drawn_from_itself():
    """It was priced as rate 0.01 and was one sample of rate 0.1."""
    ledger, data = protected()
    node = pl.PoissonSample(0.1, pl.PoissonSample(0.1, pl.Gaussian(5.0)))
    step = data.poisson(0.1).steps[0]
    refuses(ledger, data, pl.Gaussian(5.0), handle(data, step, step).count(), pl.NotGranted,
            node=node)


def test_one_sample_does_not_pass_for_two_at_two_places():
    ledger, data = protected()
    sampled = pl.PoissonSample(0.1, pl.Gaussian(5.0))
    parts = data.partition(pl.questions.CategoryCells("c", 4))
    node = pl.Sequential([sampled, pl.Parallel([sampled] * 4)])
    step = data.poisson(0.1).steps[0]
    with ledger.request(node, data) as session:
        session.release(pl.Gaussian(5.0), handle(data, step).count())
        with pytest.raises(pl.NotGranted):
            session.release(pl.Gaussian(5.0), handle(data, *parts[0].steps, step).count())
        session.release(pl.Gaussian(5.0), parts[0].poisson(0.1).count())


def test_a_sample_has_no_parts():
    """The plan saw one sample, the rows a fresh one for each part."""
    ledger, data = protected()
    node = pl.PoissonSample(0.1, pl.Repeat(pl.Gaussian(5.0), 2))
    step = data.poisson(0.1).steps[0]
    other = evolve(step, context=evolve(step.context, part=5))
    with ledger.request(node, data) as session, pytest.raises(pl.NotGranted):
        session.release(pl.Gaussian(5.0), handle(data, other).count())


class Greedy(float):
    """A number that keeps the arrays it is asked to calculate with."""

    __array_ufunc__ = None
    __hash__ = float.__hash__

    def __new__(cls, value, seen):
        made = super().__new__(cls, value)
        made.seen = seen
        return made

    def _take(self, other):
        if isinstance(other, np.ndarray):
            self.seen.append(other)
        return other

    __rsub__ = __rtruediv__ = __radd__ = __ge__ = _take


@pytest.mark.parametrize("ask", [
    lambda data, one: data.query((pl.questions.ColumnValue("x", one, one),)),
    lambda data, one: data.query((pl.questions.ColumnValue("x", 0.5, 0.5, one),)),
    lambda data, one: data.query((Gradient(data.score("squared", [0.0]), one, 1),)),
    lambda data, one: data.query((data.score("squared", [0.0]).hessian(one),)),
    lambda data, one: data.query((data.score("squared", [0.0], center=one,
                                             scale=one).gradient(1.0),)),
    lambda data, one: data.choose(data.root(data.bins(4)), "gain", features=[0], penalty=one,
                                  gradient=data.score("squared", [0.0]).gradient(1.0))])
def test_no_number_of_a_strangers_make_meets_the_rows(ask):
    ledger, data = protected()
    seen = []
    query = ask(data, Greedy(1.0, seen))
    node = pl.Exponential(1.0, (-1, 1 / 3)) if isinstance(query,
                                                          pl.questions.Choice) else pl.Gaussian(5.0)
    with ledger.request(node, data) as session, pytest.raises(pl.errors.UnsupportedNode):
        session.release(node, query)
    assert not seen
    assert data._vault.opened == 0


def test_a_score_keeps_the_numbers_it_was_made_of():
    _, data = protected()
    score = data.score("squared", [0.0])
    for name in ("loss", "start", "center", "scale"):
        with pytest.raises(AttributeError):
            setattr(score, name, 1.0)


def test_bins_are_of_the_packages_own_schema():
    """A stranger's schema gave other columns to the rows than it had given to the check."""
    ledger, data = protected()

    class Own:
        features = SCHEMA.features

    query = data.query((pl.questions.Ones(),), pl.questions.GrownCells(pl.questions.Bins(Own(), 4)))
    refuses(ledger, data, pl.Gaussian(5.0), query)


def test_the_number_of_rows_is_that_of_the_table_and_not_of_a_handle():
    policy = pl.Policy.from_dict({"policy": {"max_epsilon": 10.0, "max_delta": 1e-6,
                                              "min_rows": 100}})
    ledger, data = protected(policy=policy)
    forged = evolve(data, schema=evolve(
        SCHEMA, expected_rows=10**6, expected_rows_provenance="declared"))
    refused(pl.errors.PolicyViolation, lambda: ledger.request(pl.Gaussian(5.0), forged))


HUGE = [2**63, 2**64 - 1]


@pytest.mark.parametrize("huge", HUGE)
def test_a_huge_unsigned_number_is_no_negative_position(huge):
    """It answered the last label twice for the price of one, and made a query on a part fail
    exactly if one record was in it: a label without noise."""
    _, data = protected(relation="replace_one")
    with pytest.raises(pl.InvalidValue):
        pl.questions.IndexCells(np.array([huge] + [0] * (N - 1), dtype=np.uint64), 2)
    for options in ({"rows": np.array([0, huge], dtype=np.uint64)},
                    {"candidates": np.array([[0, huge]], dtype=np.uint64)}):
        with pytest.raises(pl.InvalidValue):
            data.labels(**options)


class Shifty:
    """A filter whose cap is small where it is compared, and huge where it is used."""

    kind, order, node = "gdp", 0.0, None
    asked = 0

    @property
    def cap(self):
        Shifty.asked += 1
        return 0.001 if Shifty.asked % 2 else 1e9

    def __eq__(self, other):
        return True

    __hash__ = None


def test_a_filter_of_a_strangers_make_is_refused():
    ledger, data = protected()
    reserved = pl.IndividualFilter("gdp", 0.001)
    with ledger.request(reserved, data) as session, pytest.raises(pl.InvalidValue):
        session.filtered(Shifty())
    scope = ledger.open_scope(reserved, name="shared")
    refused(pl.InvalidValue, lambda: ledger.open_scope(Shifty()),
            lambda: ledger.request(reserved, data, scope=evolve(scope, node=Shifty())))


def test_public_features_stay_as_they_are():
    """A learner could make the view writable, give one record a code that no cell has, and see
    a query on the part of one label fail exactly if the record was in it."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 0.0), relation="replace_label")
    place = np.arange(N)
    X = {"x": place / N, "c": np.array(["a", "b", "d"])[place % 3]}
    data = ledger.protect(X, place / N, SCHEMA, public_features=True)
    for column in data.public_features.arrays:
        base = column
        while isinstance(base, np.ndarray):
            with pytest.raises(ValueError, match="WRITEABLE"):
                base.setflags(write=True)
            base = base.base
        assert isinstance(base, bytes)


SEEN = []


class Many(int):
    """A number of rounds that wants to see what it divides."""

    __array_ufunc__ = None

    def __mul__(self, other):
        return self

    def __rtruediv__(self, other):
        SEEN.append(other)
        return other


def test_the_number_of_rounds_left_does_not_meet_the_spends():
    ledger, data = protected()
    node = pl.IndividualFilter("gdp", 0.5)
    with ledger.request(node, data) as session:
        session.release(pl.Gaussian(5.0), session.filtered(node).count(), rollover=Many(3))
    assert not SEEN


def test_labels_of_a_part_that_coins_help_to_decide_are_refused():
    """It failed outside of the guard, with a bare AttributeError."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(10.0, 0.0), relation="replace_label")
    schema = schema_of("t", {"x": (0, 1)}, y=["a", "b"])
    data = ledger.protect({"x": np.arange(4) / 4}, np.array(["a", "b"] * 2), schema,
                          public_features=True)
    cells = pl.questions.CrossCells(data.partition(2).cells,
                                    pl.questions.IndexCells(np.zeros(4, int), 1))
    answer = pl.RandomizedResponse(0.5, 2)
    plan = pl.nodes.LabelOnly(pl.Parallel([answer] * 2, "index"))
    with ledger.request(plan, data) as session, pytest.raises(pl.errors.UnsupportedNode):
        session.release(answer, data.partition(cells)[0].labels())


@pytest.mark.parametrize("count", [-1, 0, True, 2.5, 2**70])
def test_no_learner_can_spoil_a_history_by_a_number_of_parts(count):
    """-1 went into the history as it was, and no audit trusted the ledger any more."""
    ledger, data = protected()
    noise, cells = pl.Gaussian(20.0), CoinCells(2)
    object.__setattr__(cells, "count", count)
    with ledger.request(noise, data) as session, pytest.raises(pl.InvalidValue):
        session.release(noise, data.query([pl.questions.Ones()], cells))
    refused(pl.InvalidValue, lambda: CoinCells(count))
    assert ledger.verify() == [] and data._vault.opened == 0


def test_an_argument_without_effect_is_refused_and_costs_nothing():
    schema = schema_of("t", {"x": (0, 10), "c": ["a", "b"]}, y=[0, 1])
    book = pl.Ledger.create(None, budget=pl.Budget(10.0))
    data = book.protect({"x": [1.0, 2.0], "c": ["a", "b"]}, [0, 1], schema)
    refused(pl.InvalidValue, lambda: data.histogram("c", "x"), lambda: data.cells("c", [1, 2]),
            lambda: data.cells("c", []), lambda: data.histogram("x", "c"),
            lambda: data.select(["x", "x"]), lambda: data.select("x"),
            lambda: data.row_sum(["x", "x"]), lambda: data.row_sum([]),
            lambda: data.score("logistic", [0.0], center=1.0),
            lambda: data.score("softmax", [0.0, 0.0], scale=2.0),
            lambda: data.choose(data.root(data.bins(4)), "rank", among="both", penalty=1.0),
            lambda: data.features_by(pl.questions.CustomScores(lambda X, y: np.zeros(2), 1.0,
            "why"), weights=[3, 4]), lambda: book.protect({"x": [1.0], "c": ["a"]}, None, schema,
            spool="spool"), lambda: pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6),
            filter="gdp", order=3.0), lambda: pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6),
            order=3.0))
    assert book.spent == 0
    with book.request(pl.Laplace(1.0), data) as session:
        with pytest.raises(pl.InvalidValue, match="rollover"):
            session.release(pl.Laplace(1.0), data.count(), rollover=3)
        session.release(pl.Laplace(1.0), data.count())


@all_cases("result", [
    [1j, 2j], np.array([1 + 2j, 3]), np.ma.masked_array([1.0, 2.0], [True, False]), ["1", "2"],
    np.array(["2020-01-01", "2021-01-01"], "datetime64[D]"), [b"1", b"2"], [None, 1.0],
    np.array([1j, 2], dtype=object)], ids=range(8))
def test_a_custom_function_returns_real_numbers(result):
    schema = schema_of("t", {"x": (0, 10)})
    book = pl.Ledger.create(None, budget=pl.Budget(10.0))
    data = book.protect({"x": [1.0, 2.0]}, None, schema)
    with book.request(pl.Laplace(1.0), data) as session, pytest.raises(
            pl.errors.DataError, match="custom query raised TypeError"):
        session.release(pl.Laplace(1.0), data.custom(lambda table: result, 1.0, "why"))


@pytest.mark.parametrize("filter", ["basic", "gdp", "rdp", "zcdp"])
def test_a_block_that_read_nothing_is_handed_back(tmp_path, filter):
    """And one that read, was refused after reading, or may have run elsewhere, is not."""
    schema, path = schema_of("t", {"x": (0, 10)}), tmp_path / "l"
    book = pl.Ledger.create(path, budget=pl.Budget(9.0, 1e-6), filter=filter)
    data, plan = book.protect({"x": [1.0, 2.0]}, None, schema), pl.Laplace(2.0)
    with book.request(plan, data), book.request(plan, data) as inner:
        assert not inner.releases
    with book.request(plan, data) as session, pytest.raises(pl.NotGranted):
        session.release(pl.Laplace(3.0), data.count())
    assert book.spent == 0 and session.receipt.epsilon == 0
    kept = [lambda session: session.release(plan, data.count()), lambda session: session.close()]
    for done in kept:
        before = book.spent
        with book.request(plan, data) as session:
            done(session)
        assert book.spent > before
    if filter in ("rdp", "zcdp"):
        before = book.spent
        with book.request(pl.AssertedZCDP(1e-4, "why"), data):
            pass
        assert book.spent > before
    assert book.verify() == []
    book.close()
    done = subprocess.run([sys.executable, verify_history.__file__, str(path)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_scope_whose_block_read_nothing_pays_for_nobody(tmp_path):
    schema = schema_of("t", {"x": (0, 10)})
    book = pl.Ledger.create(tmp_path / "l", budget=pl.Budget(9.0, 1e-6))
    scope = book.open_scope(pl.IndividualFilter("gdp", .01))
    data, paid = book.protect({"x": [1.0, 2.0]}, None, schema), book.spent
    node = pl.IndividualFilter("gdp", .01, node=pl.Gaussian(20.0))
    with book.request(node, data, scope=scope) as session:
        session.filtered()
    assert (book.spent, book.record(0).total) == (paid, 0) and book.verify() == []
    with book.request(node, data, scope=scope) as session:
        session.release(pl.Gaussian(20.0), session.filtered().count())
    assert book.record(0).total > 0 and book.verify() == []


@pytest.mark.parametrize("filter", ["basic", "gdp", "rdp", "zcdp"])
def test_a_grant_that_read_nothing_is_handed_back_when_asked(tmp_path, filter):
    schema = schema_of("t", {"x": (0, 10)})
    book = pl.Ledger.create(tmp_path / "a.ledger", budget=pl.Budget(9.0, 1e-6), filter=filter)
    data, plan = book.protect({"x": [1.0, 2.0]}, None, schema), pl.Laplace(2.0)
    with book.request(plan, data) as session:
        assert book.spent > 0
        session.close(back=True)
        assert book.spent == 0 and not session.active
        refused(pl.NotGranted, lambda: session.release(plan, data.count()),
                lambda: session.close(back=True))
    with book.request(plan, data) as session:
        session.release(plan, data.count())
        refused(pl.NotGranted, lambda: session.close(back=True), match="read nothing")
        assert session.active
    spent = book.spent
    assert spent > 0
    for asserted in (pl.AssertedZCDP(1e-4, "why"),) if filter in ("rdp", "zcdp") else ():
        with book.request(asserted, data) as session, pytest.raises(pl.NotGranted):
            session.close(back=True)
        assert book.spent > spent
    assert book.verify() == []
    path = tmp_path / "a.ledger"
    book.close()
    done = subprocess.run([sys.executable, verify_history.__file__, str(path)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not pl.Ledger.open(path).verify()
