"""Whatever goes wrong inside the guard, what comes out holds no row, no value and no frame."""

import asyncio
import gc
import sys
import threading
import types
import warnings

import numpy as np
import pytest

import privledger as pl
from privledger.noise.source import SystemSource
from privledger.tables.chunk import Rows
from tests.worlds import protected, schema_of

SECRET = 0.7182818284
SCHEMA = schema_of("one", {"x": (0.0, 1.0)}, y=(0.0, 1.0))
TABLE = {"x": np.full(40, SECRET)}, np.full(40, SECRET)
G = pl.Gaussian(5.0)


class Cancelled(BaseException):
    """A stranger's own, with a value."""


def raising(make):
    def function(table):
        error = make(float(table["x"][0]), table)
        error.add_note(f"value {table['x'][0]}")
        raise error
    return function


def looked(seen, values):
    """Whether an object of a frame is a record, or made of records."""
    if isinstance(seen, Rows):
        return True
    if isinstance(seen, np.ndarray):
        return seen.size in (40,) and seen.dtype.kind == "f"
    if isinstance(seen, float):
        return seen == SECRET
    return isinstance(seen, str) and str(SECRET)[:8] in seen


def walk(error, seen=None):
    """Everything that an exception holds: frames, contexts, causes, notes, arguments."""
    seen = set() if seen is None else seen
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield from error.args
    yield str(error)
    yield from getattr(error, "__notes__", ())
    yield from vars(error).values()
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").startswith("privledger"):
            yield from trace.tb_frame.f_locals.values()
        trace = trace.tb_next
    for other in (error.__context__, error.__cause__):
        yield from walk(other, seen)


def check_clean(error):
    assert not [one for one in walk(error) if looked(one, SECRET)]
    assert not hasattr(error, "__notes__") and error.__context__ is None
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    # Nobody inside kept it either: no frame of the guard refers to it any more.
    for holder in gc.get_referrers(error):
        assert not isinstance(holder, types.FrameType) or holder in frames or (
            not holder.f_globals.get("__name__", "").startswith("privledger"))


@pytest.fixture
def ledger():
    return pl.Ledger.create(None, budget=pl.Budget(50.0, 1e-6), filter="gdp")


KINDS = {
    "interrupt": (lambda value, table: KeyboardInterrupt(value), KeyboardInterrupt),
    "exit": (lambda value, table: SystemExit(value), SystemExit),
    "generator": (lambda value, table: GeneratorExit(table), GeneratorExit),
    "cancelled": (lambda value, table: asyncio.CancelledError(value), asyncio.CancelledError),
    "a stranger's": (lambda value, table: Cancelled(value), BaseException),
    "memory": (lambda value, table: MemoryError(value), pl.errors.DataError),
    "recursion": (lambda value, table: RecursionError(value), pl.errors.DataError),
    "value": (lambda value, table: ValueError(value, table), pl.errors.DataError),
    "one of ours": (lambda value, table: pl.NotGranted(f"{value}"), pl.errors.DataError),
    "ours by name": (lambda value, table: pl.errors.DataError(f"{value}"), pl.errors.DataError),
    "a telling type": (lambda value, table: type(str(value), (Exception,), {})(),
                       pl.errors.DataError),
    "group": (lambda value, table: BaseExceptionGroup(str(value), [KeyboardInterrupt(value)]),
              BaseException)}


@pytest.mark.parametrize(("make", "kind"), KINDS.values(), ids=KINDS)
def test_what_a_function_of_rows_raises(ledger, make, kind):
    data = ledger.protect(*TABLE, SCHEMA)
    query = pl.questions.Query(data,
                               (pl.questions.CustomValue(raising(make), clip=1.0, why="rows alone"),
                                ))
    session = ledger.request(G, data)
    with pytest.raises(kind) as caught:
        session.release(G, query)
    assert type(caught.value) is kind
    check_clean(caught.value)
    session.close(failed=kind)
    assert ledger.spent > 0 and ledger.verify() == []
    assert [grant.releases for grant in ledger.state.grants.values()] == [1]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError])
def test_an_interrupt_at_every_line_inside(kind):
    """At each line of our own code that runs while rows are open, in each kind of question."""
    for place in range(1, 400, 7):
        ledger, data = protected(pl.Budget(50.0, 1e-6), *TABLE, SCHEMA, filter="gdp")
        session = ledger.request(G, data)
        query = pl.questions.Query(data, (pl.questions.ColumnValue("x", 0.5, 0.5),))
        error = stopped(lambda session=session, query=query: session.release(G, query), kind, place)
        if error is None:
            break
        check_clean(error)
        assert isinstance(error, kind | pl.errors.DataError)
        session.close(failed=type(error))
        assert ledger.verify() == []
    assert place > 20


def stopped(call, kind, place):
    """The error of `call` if an interrupt comes at the `place`-th line below the guard."""
    left = [place]

    def local(frame, event, arg):
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise kind
        return local

    def trace(frame, event, arg):
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("privledger.guard", "privledger.questions", "privledger.tables")):
            return None
        above = frame
        while above is not None:
            if above.f_code.co_name in ("guarded", "_once"):
                return local
            above = above.f_back
        return None

    sys.settrace(trace)
    try:
        call()
    except BaseException as error:
        return error
    finally:
        sys.settrace(None)
    return None


def test_labels_choices_and_noise_that_fail(monkeypatch, ledger):
    data = ledger.protect(*TABLE, SCHEMA)

    def broken(self, sigma, size):
        raise KeyboardInterrupt(sigma)

    monkeypatch.setattr(SystemSource, "gaussian", broken)
    session = ledger.request(G, data)
    with pytest.raises(KeyboardInterrupt) as caught:
        session.release(G, pl.questions.Query(data, (pl.questions.Ones(),)))
    check_clean(caught.value)
    labels = pl.Ledger.create(None, budget=pl.Budget(50.0), relation="replace_label")
    schema = schema_of("labels", {"x": (0.0, 1.0)}, y=["a", "b"])
    guarded = labels.protect(TABLE[0], ["a", "b"] * 20, schema, public_features=True)
    monkeypatch.setattr(SystemSource, "randomized_response", broken)
    mechanism = pl.RandomizedResponse(0.5, 2)
    session = labels.request(pl.nodes.LabelOnly(mechanism), guarded)
    monkeypatch.setattr(SystemSource, "randomized_response",
                        lambda *args: (_ for _ in ()).throw(KeyboardInterrupt(args)))
    with pytest.raises(KeyboardInterrupt) as caught:
        session.release(mechanism, guarded.labels())
    check_clean(caught.value)


def test_the_table_is_free_for_others_after_an_interrupt(ledger):
    data = ledger.protect(*TABLE, SCHEMA)
    query = pl.questions.Query(data,
                               (pl.questions.CustomValue(raising(KINDS["interrupt"][0]), clip=1.0,
                                                         why="x"),))
    session = ledger.request(pl.Repeat(G, 3), data)
    with pytest.raises(KeyboardInterrupt) as kept:
        session.release(G, query)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(
        session.release(G, pl.questions.Query(data, (pl.questions.Ones(),)))))
    thread.start()
    thread.join(120)
    assert len(answers) == 1 and kept.value is not None


def test_warnings_of_a_function_of_rows_say_nothing(ledger):
    def warns(table):
        warnings.warn(f"saw {table['x'][0]}", stacklevel=1)
        return table["x"]

    data = ledger.protect(*TABLE, SCHEMA)
    before = list(warnings.filters)
    with ledger.request(G, data) as session, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        session.release(G,
                        pl.questions.Query(data,
                                           (pl.questions.CustomValue(warns, clip=1.0,
                                                                     why="rows alone"),)))
    assert not said and warnings.filters == before
