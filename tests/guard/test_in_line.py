"""Waiting for budget: a new window, what is handed back, whose turn it is, and who is killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main
from privledger.guard import reserve as in_line
from privledger.ledger.events import Refused
from privledger.ledger.line import MOST_PLACES, QueuePosition
from privledger.reports import ledger_report
from tests.alone import verify_history
from tests.worlds import SIZES as SCHEMA
from tests.worlds import protected, refused

PART = pl.Laplace(2.5)  # epsilon .4
SOON = 240.0  # seconds that no test here takes


def ledger_of(where, budget=2.0, per_window=0.5):
    caps = [] if per_window is None else [pl.Cap(pl.Budget(per_window, 0.0), per_window=True)]
    ledger = pl.Ledger.create(where, budget=pl.Budget(budget, 0.0), caps=caps)
    data = ledger.protect({"size": [0.1, 0.2]}, [1, 2], SCHEMA, name="t")
    if caps:
        ledger.open_window("w1")
    return ledger, data


@pytest.fixture(params=["memory", "file"])
def where(request, tmp_path):
    return None if request.param == "memory" else tmp_path / "l.ledger"


def later(act, seconds=0.2):
    thread = threading.Timer(seconds, act)
    thread.start()
    return thread


def clean(ledger, where):
    assert ledger.verify() == []
    assert not ledger._history.refresh().line
    ledger.close()
    if where is not None:
        found = subprocess.run([sys.executable, verify_history.__file__, str(where)],
                               capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stdout


def test_a_new_window_is_waited_for(where):
    ledger, data = ledger_of(where)
    ledger.request(PART, data)
    thread = later(lambda: ledger.open_window("w2"))
    with ledger.request(PART, data, wait=SOON) as session:
        session.release(PART, data.count())
    thread.join()
    assert ledger._history.state.refusals == 0  # it waited, and was not refused
    assert ledger_report(ledger._history.store, ledger.state).refused == ()
    clean(ledger, where)


def test_what_is_handed_back_is_waited_for(where):
    ledger, data = ledger_of(where, 0.5, None)
    first = ledger.request(PART, data)
    thread = later(lambda: first.close(failed=RuntimeError))  # nothing was read under it
    ledger.request(PART, data, wait=SOON)
    thread.join()
    clean(ledger, where)


def test_time_over_is_one_refusal_that_reads_and_charges_nothing(where):
    ledger, data = ledger_of(where)
    ledger.request(PART, data)
    spent, begun = ledger.spent, time.monotonic()
    refused(pl.BudgetExceeded, lambda: ledger.request(PART, data, wait=0.3))
    assert time.monotonic() - begun >= 0.3
    assert (ledger.spent, data._vault.opened) == (spent, 0)
    ledger._history.flush()
    found = ledger_report(ledger._history.store, ledger.state).refused
    assert ledger._history.state.refusals == len(found) == 1
    clean(ledger, where)


def test_what_can_never_come_is_refused_at_once(where):
    ledger, data = ledger_of(where)
    ledger.request(PART, data)
    begun = time.monotonic()
    for node in (pl.Laplace(1.9), pl.Laplace(0.4)):  # above every window; above the ledger
        with pytest.raises(pl.BudgetExceeded):
            ledger.request(node, data, wait=SOON)
    assert time.monotonic() - begun < SOON / 2
    assert not ledger._history.state.line
    ledger.close()


def test_a_holder_that_read_gives_nothing_back_and_the_wait_ends(where):
    ledger, data = ledger_of(where, 0.5, None)
    first = ledger.request(PART, data)

    def use():
        first.release(PART, data.count())
        first.close()

    thread, begun = later(use), time.monotonic()
    refused(pl.BudgetExceeded, lambda: ledger.request(PART, data, wait=SOON))
    assert time.monotonic() - begun < SOON / 2
    thread.join()
    clean(ledger, where)


def test_nobody_overtakes_and_all_are_served(where):
    """.1 of the window is left. Whoever asks for .4 waits; .1 would fit, and is somebody's who
    came later."""
    ledger, data = ledger_of(where)
    ledger.request(PART, data)
    small, served = pl.Laplace(10.5), []
    waits = [threading.Thread(target=lambda node=node: served.append(
        ledger.request(node, data, wait=SOON).grant)) for node in (PART, small)]
    waits[0].start()
    while not ledger._history.state.line:
        time.sleep(0.01)
    refused(pl.BudgetExceeded, lambda: ledger.request(small, data), match="first in the queue")
    waits[1].start()
    while len(ledger._history.state.line) < 2:
        time.sleep(0.01)
    ledger.open_window("w2")
    for thread in waits:
        thread.join(SOON)
    assert len(served) == 2  # they fit together
    clean(ledger, where)


def test_teams_with_a_smaller_share_used_go_first(tmp_path):
    ledger, data = protected(pl.Budget(3.0, 0.0), {"size": [0.1, 0.2]}, [1, 2], SCHEMA,
                             caps=[pl.Cap(pl.Budget(0.5, 0.0), per_window=True),
                             pl.Cap(pl.Budget(1.5, 0.0), labels={"team": "a"}),
                             pl.Cap(pl.Budget(1.5, 0.0), labels={"team": "b"})], name="t")
    ledger.open_window("w1")
    ledger.request(PART, data, labels={"team": "a"})
    served = []
    for team in "ab":
        threading.Thread(target=lambda team=team: (
            ledger.request(PART, data, labels={"team": team}, wait=SOON),
            served.append(team))).start()
        while len(ledger._history.state.line) < "ab".index(team) + 1:
            time.sleep(0.01)
    for number in (2, 3):
        ledger.open_window(f"w{number}")
        while len(served) < number - 1:
            time.sleep(0.01)
    assert served == ["b", "a"]  # a came first, and had its share before
    assert ledger.verify() == []


def interrupt(monkeypatch):
    """Who waits is interrupted at its next pause."""
    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(in_line, "time", SimpleNamespace(monotonic=time.monotonic,
                                                         sleep=interrupted))


def test_an_interrupt_leaves_the_line(where, monkeypatch):
    ledger, data = ledger_of(where)
    ledger.request(PART, data)

    interrupt(monkeypatch)
    refused(KeyboardInterrupt, lambda: ledger.request(PART, data, wait=SOON))
    monkeypatch.undo()
    ledger.request(pl.Laplace(10.5), data)  # nobody is before it any more
    clean(ledger, where)


def test_a_place_that_nothing_can_come_for_holds_nobody_up():
    """An edited history, or one that was corrected meanwhile."""
    ledger, data = ledger_of(None)
    ledger.request(PART, data)
    ledger._history.commit(lambda state: [Refused("x", waits=QueuePosition(
        "grant-x", "t", {}, 2**250, 0, "2999-01-01T00:00:00+00:00"))])
    ledger.request(pl.Laplace(10.5), data)


WAITS = """
import sys, privledger as pl
from tests.guard.test_in_line import PART, SCHEMA
ledger = pl.Ledger.open(sys.argv[1])
data = ledger.protect({"size": [0.1, 0.2]}, [1, 2], SCHEMA, name="t")
ledger.request(PART, data, wait=600)
"""


def test_whoever_is_killed_while_it_waits_holds_nobody_up(tmp_path):
    where = tmp_path / "l.ledger"
    ledger, data = ledger_of(where)
    ledger.request(PART, data)
    child = subprocess.Popen([sys.executable, "-c", WAITS, str(where)])
    until = time.monotonic() + 120
    while not ledger._history.refresh().line:
        assert child.poll() is None and time.monotonic() < until
        time.sleep(0.02)
    small = pl.Laplace(10.5)
    refused(pl.BudgetExceeded, lambda: ledger.request(small, data), match="first in the queue")
    spent = ledger.spent
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert ledger.spent == spent  # it had reserved nothing
    ledger.request(small, data)
    assert ledger.verify() == []
    ledger.close()


HOLDS = """
import sys, time, privledger as pl
from tests.guard.test_in_line import PART, SCHEMA
ledger = pl.Ledger.open(sys.argv[1])
data = ledger.protect({"size": [0.1, 0.2]}, [1, 2], SCHEMA, name="t")
held = ledger.request(PART, data)
time.sleep(600)
"""


def test_what_a_dead_process_holds_never_comes_and_the_wait_ends(tmp_path):
    where = tmp_path / "l.ledger"
    ledger, data = ledger_of(where, 0.5, None)
    child = subprocess.Popen([sys.executable, "-c", HOLDS, str(where)])
    until = time.monotonic() + 120
    while not ledger._history.refresh().grants:
        assert child.poll() is None and time.monotonic() < until
        time.sleep(0.02)

    def kill():
        os.kill(child.pid, signal.SIGKILL)
        child.wait()

    thread, begun = later(kill), time.monotonic()
    refused(pl.BudgetExceeded, lambda: ledger.request(PART, data, wait=SOON))
    assert time.monotonic() - begun < SOON / 2
    thread.join()
    assert ledger.verify() == []
    ledger.close()


# None is what the ledger says: tests/broker/test_waiting_for_budget.py.
@pytest.mark.parametrize("wait", [-1, float("nan"), float("inf"), 3601, True, "1"])
def test_a_wait_is_a_number_of_seconds(wait):
    ledger, data = ledger_of(None)
    refused(pl.InvalidValue, lambda: ledger.request(PART, data, wait=wait))


def waiting(ledger, data, node):
    """A thread that waits for `node`, as soon as it is in line; it ends when it is interrupted."""
    def wait():
        with contextlib.suppress(KeyboardInterrupt):
            ledger.request(node, data, wait=SOON)

    thread = threading.Thread(target=wait)
    thread.start()
    until = time.monotonic() + SOON
    while not ledger._history.refresh().line:
        assert time.monotonic() < until
        time.sleep(0.01)
    return thread


def test_who_waits_for_what_it_holds_itself_stops_nobody(where, monkeypatch):
    """It was enough to hold .4, and to ask for a little more than what was left."""
    ledger, data = ledger_of(where, 2.0, None)
    held = ledger.request(PART, data)
    thread = waiting(ledger, data, pl.Laplace(1 / 1.7))
    for _ in range(3):
        with ledger.request(pl.Laplace(10.5), data) as session:
            session.release(pl.Laplace(10.5), data.count())
    ledger.request(pl.Laplace(0.9), data)  # even one after which it never comes
    held.close(failed=RuntimeError)
    interrupt(monkeypatch)
    thread.join()
    clean(ledger, where)


WAITS_LONG = """
import sys, privledger as pl
from tests.guard.test_in_line import SCHEMA
ledger = pl.Ledger.open(sys.argv[1])
data = ledger.protect({"size": [0.1, 0.2]}, [1, 2], SCHEMA, name="t")
ledger.request(pl.Laplace(1 / 1.7), data, wait=600, labels={"team": "hogs"})
"""


def test_small_requests_pass_who_waits_for_another_process(tmp_path):
    """It waits for the .4 that this process holds: .3 are left beside what it asks for."""
    where = tmp_path / "l.ledger"
    ledger, data = ledger_of(where, 2.0, None)
    held, small = ledger.request(PART, data), pl.Laplace(10.5)
    child = subprocess.Popen([sys.executable, "-c", WAITS_LONG, str(where)])
    try:
        until = time.monotonic() + 120
        while not ledger._history.refresh().line:
            assert child.poll() is None and time.monotonic() < until
            time.sleep(0.02)
        place = next(iter(ledger._history.state.line.values()))
        shown = CliRunner().invoke(main, ["show", str(where)]).output
        assert f"team=hogs waits for epsilon 1.7 on t, at most until {place.until}" in shown
        shown = CliRunner().invoke(main, ["show", str(where), "--format", "json"]).output
        (said,) = json.loads(shown)["waiting"]
        assert (said["grant"], said["until"], said["labels"]) == (
            place.grant, place.until, {"team": "hogs"}) and 1.69 < said["asked"] < 1.71
        assert f"until {place.until}" in CliRunner().invoke(main, ["log", str(where)]).output
        for _ in range(3):
            ledger.request(small, data).close()
        with pytest.raises(pl.BudgetExceeded, match="first in the queue"):
            ledger.request(small, data)  # no room beside it any more
        held.close(failed=RuntimeError)
        assert child.wait(120) == 0  # it comes all the same
    finally:
        child.kill()
        child.wait()
    assert ledger.verify() == [] and not ledger._history.refresh().line


@pytest.mark.parametrize("until", ["9999-12-31T23:59:59+00:00", "2000-01-01T00:00:00+00:00",
                                   "for ever"])
def test_a_place_that_somebody_made_up_for_ever_stops_nobody(until):
    ledger, data = ledger_of(None, 2.0, None)
    ledger.request(PART, data)
    units = ledger._history.state.rule.cap_units
    ledger._history.commit(lambda state: [Refused("nice", waits=QueuePosition(
        "grant-x", "t", {}, units, 0, until, "elsewhere", 1, "x"))])
    ledger.request(pl.Laplace(0.9), data)


def test_a_line_that_is_full_of_places_that_are_over_takes_another():
    ledger, data = ledger_of(None, 0.5, None)
    first = ledger.request(PART, data)
    ledger._history.commit(lambda state: [Refused("x", waits=QueuePosition(
        f"grant-{number}", "t", {}, 1, 0, "2026-01-01T00:00:00+00:00", "elsewhere", 1, "x"))
        for number in range(MOST_PLACES)])
    thread = later(lambda: first.close(failed=RuntimeError))
    ledger.request(PART, data, wait=SOON)
    thread.join()
    clean(ledger, None)
