"""Nothing is read without a grant, and nothing that can be printed shows a value."""

import contextlib
import gc
import traceback

import numpy as np
import pytest

import privledger as pl
from privledger.guard.vault import Pass, _vault_of
from privledger.questions.cells import CoinCells
from privledger.tables.chunk import Rows
from tests.bodies import body_of
from tests.worlds import refused, schema_of

G = pl.Gaussian(20.0)
SECRET = 0.7312345678
SCHEMA = schema_of("guarded", {"x": (0.0, 1.0), "c": ["a", "b", "hidden"]}, y=(0.0, 1.0))
TABLE = {"x": np.full(60, SECRET), "c": np.array(["a", "b", "hidden"] * 20)}
Y = np.full(60, SECRET)


@pytest.fixture
def pair(make_ledger):
    ledger = make_ledger()
    return ledger, ledger.protect(TABLE, Y, SCHEMA, name="rows")


def unread(data, release, error=pl.NotGranted):
    """`release` is refused and the vault stays shut."""
    before = data._vault.opened
    refused(error, release, match="[Nn]othing was read|no .*|over")
    assert data._vault.opened == before


def test_one_release_opens_the_vault_once(pair):
    ledger, data = pair
    with ledger.request(pl.Repeat(G, 3), data) as session:
        for number in range(1, 4):
            session.release(G, data.count())
            assert data._vault.opened == number and not data._vault.reading


def test_describing_reads_nothing(pair):
    _, data = pair
    handles = [data, data.poisson(0.1), data.partition(3)[1], data.select(["x", "c"]),
               data.partition(data.cells("c"))[0].poisson(0.5)]
    for handle in handles:
        handle.count(), handle.sum("x"), handle.histogram("c"), handle.sum("y")
        repr(handle), str(handle), handle.chain, handle.identity
    assert data._vault.opened == 0


def test_a_refused_request_opens_nothing(make_ledger):
    ledger = make_ledger(0.1)
    data = ledger.protect(TABLE, Y, SCHEMA)
    for plan in (pl.Gaussian(0.1), pl.Repeat(G, 10**9)):
        unread(data, lambda plan=plan: ledger.request(plan, data), pl.BudgetExceeded)
    refused(pl.errors.RelationMismatch, lambda: ledger.request(pl.RandomizedResponse(0.5), data))
    assert data._vault.opened == 0


def test_a_closed_session_reads_nothing(pair):
    ledger, data = pair
    with ledger.request(pl.Repeat(G, 5), data) as session:
        pass
    unread(data, lambda: session.release(G, data.count()))


def test_another_mechanism_or_handle_reads_nothing(pair):
    ledger, data = pair
    with ledger.request(G, data) as session:
        unread(data, lambda: session.release(pl.Gaussian(19.9), data.count()))
        unread(data, lambda: session.release(G, data.poisson(0.5).count()))
        unread(data, lambda: session.release(G, data.partition(2)[0].count()))
        session.release(G, data.count())
        unread(data, lambda: session.release(G, data.count()))


def test_other_data_read_nothing(pair, make_ledger):
    ledger, data = pair
    twin = ledger.protect(TABLE, Y, SCHEMA, name="rows")  # even under the same name
    foreign = make_ledger().protect(TABLE, Y, SCHEMA, name="rows")
    with ledger.request(pl.Repeat(G, 3), data) as session:
        for other in (twin, foreign):
            unread(other, lambda other=other: session.release(G, other.count()))
        session.release(G, data.count())
    assert twin._vault.opened == foreign._vault.opened == 0


def test_another_ledger_cannot_take_the_data_over(pair, make_ledger):
    """A learner can make a ledger of its own; it must not get at data that another one guards."""
    _, data = pair
    own = make_ledger(1e6, 0.1)
    g = pl.Gaussian(0.001)

    def take():
        taken = own.append(data, {"x": [0.5], "c": ["a"]}, [0.5])
        with own.request(g, taken) as session:
            session.release(g, taken.count())

    refused(pl.PrivledgerError, take)


def test_a_handle_rewritten_for_another_ledger_reads_nothing(pair, make_ledger):
    import attrs

    ledger, data = pair
    own = make_ledger(1e6, 0.1)
    g = pl.Gaussian(0.001)

    def take():
        moved = attrs.evolve(data, ledger=own)
        with own.request(g, moved) as session:
            session.release(g, moved.count())

    refused((pl.PrivledgerError, TypeError), take)
    assert data._vault.opened == 0 and ledger.spent == 0


def test_the_vault_asks_for_a_standing_grant_of_its_own_data(pair):
    ledger, data = pair

    vault = _vault_of(data._vault)

    class Permission:
        covers, active, _guardian = data.identity, True, ledger._history

    over = Pass(data.identity, ledger._history)
    over.over = True
    session = ledger.request(G, data)
    for leave in (Permission(), over, Pass("other", ledger._history),
                  Pass(data.identity, object()), session):
        with pytest.raises(pl.NotGranted), vault.open(leave):
            pass
    session.close()
    assert data._vault.opened == 0


def test_length_is_private(pair):
    refused(TypeError, lambda: len(pair[1]), match="private")
    refused(TypeError, lambda: list(pair[1]))


def test_nothing_printable_shows_a_value(pair):
    ledger, data = pair
    score = data.score("squared", [0.0])
    partition = data.partition(data.cells("c"))
    things = [data, data._vault, ledger, data.count(), data.sum("x"), partition, partition[0],
              data.poisson(0.5), score, data.bins(), SCHEMA]
    with ledger.request(pl.Repeat(G, 2), data) as session:
        session.release(G, data.sum("x"))
        session.release(G, data.query((score.gradient(1.0),)))
        with _vault_of(data._vault).open(Pass(data.identity, ledger._history)) as rows:
            things += [rows, rows.features, session]
            text = " ".join(f"{thing!r} {thing!s} {thing:}" for thing in things)
    assert "0.73" not in text
    assert " 60" not in text and "n=60" not in text


def test_a_custom_query_does_not_leak_its_text(pair):
    ledger, data = pair

    def quotes(columns):
        raise ValueError(f"the first is {columns['x'][0]!r}")

    class Named(Exception):
        def __str__(self):
            return str(SECRET)

    def named(columns):
        raise Named

    for function in (quotes, named, lambda t: "0.7312", lambda t: t["x"][:3], lambda t: None,
                     lambda t: np.array(["0.7312x"] * 60), lambda t: t["missing"]):
        with pytest.raises(pl.errors.DataError) as caught, ledger.request(G, data) as session:
            session.release(G, data.custom(function, 1.0, "why"))
        shown = "".join(traceback.format_exception(caught.value))
        assert "0.7312" not in str(caught.value)
        assert "the first is 0.7312" not in shown


def test_an_error_from_inside_the_guard_carries_no_rows(pair):
    """A traceback keeps the variables of its frames; none of them may be private arrays."""
    ledger, data = pair

    def bad(columns):
        raise ValueError

    queries = [data.custom(bad, 1.0, "why"),
               data.query((pl.questions.ColumnValue("nowhere", 0.0, 1.0),))]
    for query in queries:
        with pytest.raises(pl.PrivledgerError) as caught, ledger.request(G, data) as session:
            session.release(G, query)
        error = caught.value
        while error is not None:
            frame = error.__traceback__
            while frame is not None:
                held = frame.tb_frame.f_locals.values()
                assert not [item for item in held if isinstance(item, Rows)]
                frame = frame.tb_next
            error = error.__context__


def test_a_custom_query_is_marked_as_asserted_for_ever(pair):
    ledger, data = pair
    with ledger.request(G, data) as session:
        session.release(G, data.custom(lambda t: t["x"], 1.0, "every row alone"))
    questions = next(body_of(entry)["questions"] for entry in ledger._history.store.read()
                     if entry.event.kind == "released")
    assert questions == ["asserted: custom query (every row alone)"]
    for why in ("", " ", None, 3):
        with pytest.raises((pl.InvalidValue, TypeError)):
            data.custom(lambda t: t["x"], 1.0, why)
        with pytest.raises((pl.InvalidValue, TypeError)):
            pl.questions.CustomValue(lambda t: t["x"], 1.0, why)
    with pytest.raises(TypeError):
        pl.questions.CustomValue(lambda t: t["x"], 1.0, "why", asserted=False)


def test_a_custom_query_cannot_change_the_guarded_rows(pair):
    ledger, data = pair

    def plant(columns):
        for column in columns.values():
            column[:] = 1
        return np.zeros(60)

    g = pl.Gaussian(1.0)
    with ledger.request(pl.Repeat(g, 3), data) as session:
        before = session.release(g, data.sum("x", lower=0.0, upper=1.0))
        with contextlib.suppress(pl.errors.DataError):
            session.release(g, data.custom(plant, 1.0, "why"))
        after = session.release(g, data.sum("x", lower=0.0, upper=1.0))
    # 60 * 0.46 = 27.7 before; rows overwritten with ones would give 60.
    assert abs(after - before) < 20


class Spy:
    """A stranger's block or cells: it would see the rows."""

    clip, width, signed, asserted, count = 1.0, 1, True, False, 2

    def __init__(self):
        self.seen = []

    def values(self, rows):
        self.seen.append(rows)
        return np.zeros(rows.n)

    def index(self, rows):
        self.seen.append(rows)
        return np.zeros(rows.n, dtype=int)

    of = codes = values
    sizes = lambda self: (3, 3)  # noqa: E731
    loss, updates = "squared", ()


def score_of(data, *late):
    """A score whose updates are put in behind its back: `add` refuses them."""
    score = data.score("squared", [0.0])
    score._updates.extend((one, np.zeros(2)) for one in late)
    return score


def logistic(spy):
    spy.loss = "logistic"
    return spy


def inherited(kind, spy, *fields):
    """An instance of a subclass of a known kind, which hands what it is given to the spy."""
    return type("Sneaky", (kind,), {"index": lambda self, rows: spy.index(rows),
                                    "values": lambda self, rows: spy.values(rows)})(*fields)


ONES = (pl.questions.Ones(),)
BUILT = {
    "part": lambda data, spy: data.partition(spy),
    "score update": lambda data, spy: score_of(data).add(spy, np.zeros(2)),
    "coins": lambda data, spy: CoinCells(2, spy.index)}
SPIES = {
    "block": lambda data, spy: data.query((spy,)),
    "cells": lambda data, spy: data.query(ONES, spy),
    "late update": lambda data, spy: data.query((score_of(data, spy).gradient(1.0),)),
    "late coins": lambda data, spy: data.query((score_of(data, inherited(
        CoinCells, spy, 2)).gradient(1.0),)),
    "residuals": lambda data, spy: data.query(ONES, pl.questions.ResidualCells(spy, (0.5,))),
    "gradient": lambda data, spy: data.query((type(score_of(data).gradient(1.0))(spy, 1.0, 1),)),
    "hessian": lambda data, spy: data.query((type(score_of(data).hessian())(logistic(spy)),)),
    "bins": lambda data, spy: data.query(ONES, pl.questions.TreeCells(
        spy, (pl.questions.Test(0, np.zeros(3, dtype=np.uint8)),), 2)),
    "coins": lambda data, spy: data.query(ONES, inherited(CoinCells, spy, 2)),
    "subclass": lambda data, spy: data.query((inherited(
        pl.questions.ColumnValue, spy, "x", 0.5, 0.5),))}
STAIRS = pl.Sequential([G, pl.Parallel([G, G])])


@pytest.mark.parametrize("build", BUILT.values(), ids=BUILT)
def test_a_stranger_is_no_part_of_a_description(pair, build):
    _, data = pair
    spy = Spy()
    with pytest.raises((pl.PrivledgerError, TypeError)):
        build(data, spy)
    assert not spy.seen


@pytest.mark.parametrize("ask", SPIES.values(), ids=SPIES)
def test_a_strangers_code_never_sees_the_rows(pair, ask):
    """Blocks, cells, bins and scores are closed sets; only `custom` runs foreign code, asserted.

    The guard itself refuses: each of these descriptions can be written down, and would show the
    rows to its spy if it were computed with.
    """
    ledger, data = pair
    spy = Spy()
    question = ask(data, spy)
    with ledger.request(STAIRS, data) as session:
        unread(data, lambda: session.release(G, question), pl.errors.UnsupportedNode)
    assert not spy.seen
    rows = Rows(pl.encode_features(TABLE, SCHEMA), Y)
    for part in (*question.blocks, question.cells):
        with contextlib.suppress(TypeError, AttributeError, ValueError):
            getattr(part, "values", getattr(part, "index", None))(rows)
    assert spy.seen


def test_a_stranger_cannot_join_a_score_that_was_asked_about(pair):
    """The guard has its own copy by then; what is added later is copied, and so refused, too."""
    ledger, data = pair
    spy, score = Spy(), score_of(data)
    question = data.query((score.gradient(1.0),))
    with ledger.request(pl.Repeat(G, 2), data) as session:
        session.release(G, question)
        score._updates.append((spy, np.zeros(2)))
        unread(data, lambda: session.release(G, question), pl.errors.UnsupportedNode)
    assert not spy.seen


def test_a_query_subclass_cannot_lower_its_own_sensitivity(pair):
    ledger, data = pair

    class Tiny(pl.questions.Query):
        def sensitivity(self, block, relation, norm):
            return 1e-9

    with ledger.request(G, data) as session:
        try:
            answer = session.release(G, Tiny(data, (pl.questions.Ones(),)))
        except (pl.PrivledgerError, TypeError):
            return
    # Noise of standard deviation 20 is that close to 60 with probability below 1e-6.
    assert abs(answer - 60) > 1e-5


def test_guarded_arrays_are_not_the_callers_arrays(make_ledger):
    """Whoever goes on working with the table it handed over does not change the guarded rows."""
    ledger = make_ledger()
    x, c, y = TABLE["x"].copy(), TABLE["c"].copy(), Y.copy()
    data = ledger.protect({"x": x, "c": c}, y, SCHEMA)
    x[:], y[:] = 0.0, 0.0
    g = pl.Gaussian(0.5)
    with ledger.request(pl.Repeat(g, 2), data) as session:
        assert abs(session.release(g, data.sum("x")) - 60 * (SECRET - 0.5) * 2) < 10
        assert abs(session.release(g, data.sum("y")) - 60 * (SECRET - 0.5) * 2) < 10


def test_forgotten_handles_free_the_rows(make_ledger):
    import weakref

    ledger = make_ledger()
    data = ledger.protect(TABLE, Y, SCHEMA)
    with ledger.request(G, data) as session:
        session.release(G, data.count())
    vault = weakref.ref(_vault_of(data._vault))
    del data, session
    gc.collect()
    assert vault() is None
