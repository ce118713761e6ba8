"""One open grant at a time on a filter scope.

Two open ones counted each other at the worst case: both released noise alone, and nobody said so.
"""

import os
import subprocess
import sys
import threading
import time

import pytest

import privledger as pl
from privledger.guard import reserve as alone
from tests.worlds import refused, schema_of

ONE = schema_of("one", {"x": (-1.0, 1.0)})
ROWS = {"x": [1.0] * 400}
NOISE = pl.Gaussian(1.0)  # one round of the whole cap
CAP = 1.0 * (1 + 1e-9)
NODE = pl.IndividualFilter("gdp", CAP)


@pytest.fixture(params=["memory", "file"])
def place(request, tmp_path):
    return None if request.param == "memory" else tmp_path / "scope.ledger"


@pytest.fixture
def opened(place):
    with pl.Ledger.create(place, budget=pl.Budget(20.0, 1e-6), filter="gdp") as ledger:
        data = ledger.protect(ROWS, ONE, name="people", fingerprint_key=b"k" * 16)
        yield ledger, data, ledger.open_scope(NODE, name="s")


def count_in(session):
    """About 400 where everybody could pay, about 0 where nobody could (both within 30)."""
    return float(session.release(NOISE, session.filtered().count()))


def test_the_second_is_refused_before_anything_is_read_or_charged(opened):
    ledger, data, scope = opened
    first = ledger.request(NODE, data, scope=scope)
    before, grants = ledger.spent, len(ledger.state.grants)
    with pytest.raises(pl.errors.ScopeBusy) as caught:
        data.ledger.request(NODE, data, scope=scope)
    assert caught.value.scope == "s" and caught.value.grants == (first.grant,)
    assert isinstance(caught.value, pl.NotGranted)
    assert (ledger.spent, len(ledger.state.grants), data._vault.opened) == (before, grants, 0)
    assert abs(count_in(first) - 400) < 30  # the first is none the worse
    first.close()
    with ledger.request(NODE, data, scope=scope) as second:
        assert abs(count_in(second)) < 30  # nothing is left, and that is right
    assert ledger.verify() == []


def test_a_thread_never_waits_for_itself(opened):
    ledger, data, scope = opened
    with ledger.request(NODE, data, scope=scope):
        begun = time.monotonic()
        with pytest.raises(pl.errors.ScopeBusy, match="this thread"):
            ledger.request(NODE, data, scope=scope, wait=600.0)
        assert time.monotonic() - begun < 300


def test_another_thread_waits_as_long_as_it_says(opened):
    ledger, data, scope = opened
    half = pl.IndividualFilter("gdp", CAP, node=pl.Gaussian(2.0))
    first = ledger.request(half, data, scope=scope)
    found = []

    def second(wait):
        try:
            with ledger.request(NODE, data, scope=scope, wait=wait) as session:
                found.append(float(session.release(pl.Gaussian(2.0), session.filtered().count())))
        except pl.errors.ScopeBusy as busy:
            found.append(busy)

    thread = threading.Thread(target=second, args=(0.05,))
    thread.start()
    thread.join(120)
    assert isinstance(found.pop(), pl.errors.ScopeBusy)
    thread = threading.Thread(target=second, args=(120.0,))
    thread.start()
    first.release(pl.Gaussian(2.0), first.filtered().count())
    first.close()
    thread.join(120)
    assert abs(found.pop() - 400) < 60 and ledger.verify() == []


@pytest.mark.parametrize("wait", [-1.0, float("nan"), float("inf"), True, 1e9, "1"])
def test_the_wait_is_a_bounded_number(opened, wait):
    ledger, data, scope = opened
    refused(pl.InvalidValue, lambda: ledger.request(NODE, data, scope=scope, wait=wait))
    with ledger.request(NODE, data, scope=scope):
        pass


def test_a_session_that_was_let_go_blocks_nobody_and_keeps_its_worst_case(opened):
    ledger, data, scope = opened
    quarter = pl.IndividualFilter("gdp", CAP, node=pl.Gaussian(2.0))
    dropped = ledger.request(quarter, data, scope=scope)
    name = dropped.grant
    del dropped
    with ledger.request(quarter, data, scope=scope) as session:
        assert abs(float(session.release(pl.Gaussian(2.0), session.filtered().count())) - 400) < 60
    assert ledger.state.grants[name].status == "crashed"
    ledger.request(NODE, data, scope=scope)  # dropped at once, with the whole cap
    refused(pl.NotGranted, lambda: ledger.request(quarter, data, scope=scope), match="used up")
    assert ledger.verify() == []


def test_a_grant_that_read_nothing_takes_nothing(opened):
    """It counted with its worst case: the next one released noise alone."""
    ledger, data, scope = opened
    with ledger.request(NODE, data, scope=scope):
        pass
    assert ledger.record(0).lines == ()
    with ledger.request(NODE, data, scope=scope) as session:
        assert abs(count_in(session) - 400) < 30
    assert ledger.verify() == []


def test_a_failing_grant_that_read_keeps_what_it_took(opened):
    ledger, data, scope = opened
    session = ledger.request(NODE, data, scope=scope)
    count_in(session)
    session.close(failed=KeyError)
    with ledger.request(NODE, data, scope=scope) as session:
        assert abs(count_in(session)) < 30


def test_a_request_that_is_interrupted_after_its_grant_blocks_nobody(opened, monkeypatch):
    ledger, data, scope = opened
    quarter = pl.IndividualFilter("gdp", CAP, node=pl.Gaussian(2.0))

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("privledger.guard.service.GrantedPlan", interrupted)
    refused(KeyboardInterrupt, lambda: data.ledger.request(quarter, data, scope=scope))
    monkeypatch.undo()
    with pytest.raises(pl.InvalidValue):  # a refused one leaves no trace either
        ledger.request(pl.IndividualFilter("gdp", CAP / 2), data, scope=scope)
    with ledger.request(quarter, data, scope=scope) as session:
        assert abs(float(session.release(pl.Gaussian(2.0), session.filtered().count())) - 400) < 60
    assert [grant.status for grant in ledger.state.grants.values()] == ["crashed", "settled"]
    assert ledger.verify() == [] and not alone._HERE.keys() & ledger.state.grants.keys()


CHILD = """
import sys, privledger as pl
schema = pl.Schema("one", (pl.Column("x", "numeric", "feature", -1.0, 1.0),))
node = pl.IndividualFilter("gdp", float.fromhex(sys.argv[2]))
with pl.Ledger.open(sys.argv[1]) as ledger:
    data = ledger.protect({"x": [1.0] * 400}, schema, name="people", fingerprint_key=b"k" * 16)
    try:
        session = ledger.request(node, data, scope=pl.Scope("s", node), wait=float(sys.argv[3]))
        print("granted", flush=True)
        sys.stdin.readline()
        if sys.argv[4] == "dies":
            import os
            os._exit(9)
        session.close()
    except pl.errors.ScopeBusy:
        print("busy", flush=True)
"""


def child(place, wait=0.0, end="closes"):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(place), CAP.hex(), str(wait), end],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def told(process):
    answer = process.stdout.readline().strip()
    if answer == "busy":
        process.wait(120)
    return answer


@pytest.mark.parametrize("place", ["file"], indirect=True)
def test_two_processes_take_turns(place, opened):
    ledger, data, scope = opened
    held = child(place)
    try:
        assert told(held) == "granted"
        refused(pl.errors.ScopeBusy, lambda: ledger.request(NODE, data, scope=scope))
        waiting = threading.Timer(0.2, lambda: held.communicate("go on\n", timeout=120))
        waiting.start()
        with ledger.request(NODE, data, scope=scope, wait=120.0) as session:
            assert abs(count_in(session) - 400) < 30  # the other one read nothing
        waiting.join(120)
    finally:
        held.kill()
        held.wait(120)
    with ledger.request(NODE, data, scope=scope):
        other = child(place)
        assert told(other) == "busy"
        other.communicate(timeout=120)
    assert ledger.verify() == []


@pytest.mark.parametrize("place", ["file"], indirect=True)
def test_a_holder_that_died_blocks_nobody_and_keeps_its_worst_case(place, opened):
    ledger, data, scope = opened
    held = child(place, end="dies")
    assert told(held) == "granted"
    held.communicate("go on\n", timeout=120)
    with pytest.raises(pl.NotGranted, match="used up"):
        ledger.request(NODE, data, scope=scope, wait=120.0)
    assert [grant.status for grant in ledger.state.grants.values()] == ["crashed"]


def test_a_forked_child_holds_nothing_of_its_parent(opened, monkeypatch):
    """Same thread number, another process: waiting is no waiting for oneself there."""
    ledger, data, scope = opened
    first = ledger.request(NODE, data, scope=scope)
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)
    with pytest.raises(pl.errors.ScopeBusy, match="wait=seconds"):
        ledger.request(NODE, data, scope=scope, wait=0.01)
    monkeypatch.undo()
    first.close()
    assert first.grant not in alone._HERE
