"""A confined learner's request waits as long as the ledger's owner said, and never by its own."""

import threading
import time

import pytest

import privledger as pl
from privledger.broker.server import Server
from tests.bodies import body_of
from tests.worlds import refused

ALL = pl.Gaussian(1.6)


def held(ledger, data):
    """Most of the budget in somebody's hands."""
    return ledger.request(ALL, data)


def until(true):
    while not true():
        time.sleep(0.01)


def later(act, seconds=0.3):
    thread = threading.Timer(seconds, act)
    thread.start()
    return thread


def test_a_confined_learner_waits_and_the_wait_is_not_its_time(start, tiny):
    ledger, data = tiny
    learner, first = start("Plain"), held(ledger, data)
    watch = learner._channel.watch
    begun = watch.started
    ledger.wait = 240.0
    line = ledger._history
    thread = threading.Thread(target=lambda: (
        until(lambda: line.refresh().line), first.close(failed=RuntimeError)))  # nothing was read
    thread.start()
    learner.fit(data)
    thread.join()
    assert watch.started > begun
    assert ledger.verify() == []
    assert ledger._history.refresh().refusals == 0


def ask(data, **said):
    """A request in a confined learner's words, and how long its answer took."""
    server, begun = Server(data, "x"), time.monotonic()
    reply = server.answer({"ask": "request", "define": [], "plan": pl.nodes.to_json(ALL),
                           "data": 0, "delta": 0.0, **said})
    return reply, server.waited, time.monotonic() - begun


def test_nobody_else_makes_it_wait(tiny):
    """A request that brings a wait of its own is refused at once, and nothing is in line."""
    ledger, data = tiny
    held(ledger, data)
    reply, waited, took = ask(data, wait=3600.0)
    assert "error" in reply and waited == 0 and took < 30
    assert not ledger._history.state.line


def test_what_was_waited_for_in_vain_is_a_refusal_that_reads_nothing(tiny):
    ledger, data = tiny
    held(ledger, data)
    ledger.wait = 0.3
    reply, waited, _ = ask(data)
    assert "error" in reply and waited >= 0.3
    assert data._vault.opened == 0 and ledger.verify() == []  # which writes notes down first
    state = ledger._history.refresh()
    assert state.refusals == 1 and not state.line


@pytest.mark.parametrize("bad", [-1, True, float("nan"), float("inf"), "5", 3601, None])
def test_how_long_is_checked(tiny, bad):
    with pytest.raises(pl.InvalidValue):
        tiny[0].wait = bad
    assert tiny[0].wait == 0


def test_a_learner_cannot_say_it_for_others(tiny):
    ledger, data = tiny
    with pytest.raises(AttributeError):
        data.ledger.wait = 5.0
    assert ledger.wait == 0


def test_a_fit_in_this_process_waits_too_and_an_answer_does_not(tiny):
    ledger, data = tiny
    first = held(ledger, data)
    ledger.wait = 240.0
    begun = time.monotonic()
    refused(pl.BudgetExceeded, lambda: ledger.answer(ALL, data.count()),
            lambda: data.ledger.request(ALL, data, wait=0.0))
    assert time.monotonic() - begun < 120
    thread = later(lambda: first.close(failed=RuntimeError))
    with data.ledger.request(ALL, data) as session:
        session.release(ALL, data.count())
    thread.join()
    assert [body_of(grant)["grant"] for grant in ledger.state.grants.values()
            if grant.touched] == [session.grant]
