"""Peers that mean harm: replies of any shape, a trainer that stalls, words of another meeting."""

import contextlib
import threading
import time
import tracemalloc

import grpc
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privledger.errors import EngineError, InvalidValue, PrivledgerError
from privledger.federation import Federation, InProcess, Party, Run, coordinator, verify_statements
from privledger.federation.calls import METHOD, SERVICE, Callers, answer_calls
from privledger.federation.cards import new_identity
from privledger.tables.values import array_out
from tests.all_cases import all_cases
from tests.federation.test_rounds import BUDGET, PLAN, SCHEMA, count_of, few, guarded, table
from tests.worlds import refused

GOOD = {"shapes": [[2], []], "grids": ["0x1.0p-3", "0x1.0p+0"],
        "masked": array_out(np.array([8, 16, 3], dtype=np.uint64))}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9)
    | st.sampled_from(["0x1p9999", "0x0p0", "-0x1p0", 10**18, -1]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["dtype", "shape", "data", "x"]), inner, max_size=4), max_leaves=8)
REFUSALS = (PrivledgerError, ValueError, ArithmeticError)  # what makes an attempt void


def test_a_sum_of_replies():
    first, second = coordinator._summed([GOOD, GOOD])
    assert first.tolist() == [2, 4] and second == 6


@settings(max_examples=50)
@given(st.sampled_from(sorted(GOOD)), JSON, st.booleans())
def test_a_reply_of_any_shape_makes_the_attempt_void_and_no_other_error(field, value, first):
    bad = GOOD | {field: value}
    try:
        found = coordinator._summed([bad, GOOD] if first else [GOOD, bad])
    except REFUSALS:
        return
    assert [one.tolist() for one in found] == [[2, 4], 6]


@all_cases("shapes", [
    [[10**9], []], [[10**6, 10**6], []], [5], [[[1]]], [None], [{"a": 1}], [[1] * 50], [[True]],
    [[-1]], [[2.0], []], ["12"], [[2]] * 90_000])
def test_a_size_that_is_only_said_takes_no_memory(shapes):
    tracemalloc.start()
    try:
        refused(REFUSALS, lambda: coordinator._summed([GOOD | {"shapes": shapes}] * 2))
        assert tracemalloc.get_traced_memory()[1] < 40e6
    finally:
        tracemalloc.stop()


def test_such_a_reply_ends_a_run_by_name():
    _, _, federation, lines = few()
    lines[0].change = lambda message, ask: (
        ask(message) | {"shapes": [5]} if message.get("round") == 1 else ask(message))
    refused(EngineError, lambda: count_of(federation), match="void")


def test_statements_of_two_meetings_do_not_go_together():
    """The same run, the same keys, the same questions, another day."""
    own = [new_identity(name) for name in ("north", "south")]
    run = Run.of("a run", tuple(one.card.owner for one in own), SCHEMA, PLAN, delta=0.0,
                 learner="somebody")
    said = []
    for _ in range(2):
        lines = {one.card.owner.name: InProcess(Party(
            run, one.card.owner.name, guarded(*table(20))[1], one.secret)) for one in own}
        federation = Federation(run, SCHEMA, lines, BUDGET)
        count_of(federation)
        said.append(federation.statements)
    assert verify_statements(run, said[0]) == verify_statements(run, said[1]) == []
    assert any("split" in one for one in verify_statements(run, [said[0][0], said[1][1]]))


@pytest.fixture
def one_owner():
    own, boss = new_identity("north"), new_identity("boss")
    run = Run.of("a run", (own.card.owner,), SCHEMA, PLAN, delta=0.0, learner="somebody")
    ledger, data = guarded(*table(20))
    return own, boss, run, ledger, Party(run, "north", data, own.secret)


def test_a_trainer_that_stalls_does_not_keep_an_owner(one_owner):
    own, boss, run, ledger, party = one_owner
    with Callers(run, (own.card,), boss, "127.0.0.1:0", 120) as calls:
        line = calls.lines["north"]
        with pytest.raises(EngineError, match="the call ended: cancelled"):
            answer_calls(party, own, boss.card, f"127.0.0.1:{calls.port}", wait=120, silence=0.3)
        with pytest.raises(EngineError, match="gone"):  # and the trainer knows
            line.receive()
    assert ledger.spent == 0 and "error" in party.answer({"run": run.digest.hex()})


def test_nobody_takes_the_place_of_an_owner_that_called(one_owner):
    own, boss, run, _, party = one_owner
    again = Party(run, "north", guarded(*table(20))[1], own.secret)
    with Callers(run, (own.card,), boss, "127.0.0.1:0", 120) as calls:
        address = f"127.0.0.1:{calls.port}"
        first = threading.Thread(target=answer_calls, args=(party, own, boss.card, address))
        first.start()
        calls.wait(120)
        with pytest.raises(EngineError, match="already exists"):
            answer_calls(again, own, boss.card, address, wait=120)
        assert count_of(Federation(run, SCHEMA, calls.lines, BUDGET)) is not None
    first.join(120)
    assert party.statement is not None and again.statement is None


def test_an_owner_that_restarts_before_all_are_there_calls_again(one_owner):
    """It cost everybody a restart."""
    own, boss, run, _, party = one_owner
    again = Party(run, "north", guarded(*table(20))[1], own.secret)
    with Callers(run, (own.card,), boss, "127.0.0.1:0", 120) as calls:
        address = f"127.0.0.1:{calls.port}"
        with pytest.raises(EngineError, match="the call ended"):
            answer_calls(party, own, boss.card, address, wait=120, silence=0.2)
        second = threading.Thread(target=answer_calls, args=(again, own, boss.card, address))
        for _ in range(2400):  # until the trainer knows that the first is gone
            if not calls._here:
                break
            time.sleep(0.05)
        second.start()
        calls.wait(120)
        assert count_of(Federation(run, SCHEMA, calls.lines, BUDGET)) is not None
    second.join(120)
    assert again.statement is not None and party.statement is None


@pytest.mark.parametrize("bad", [0, -1, True, float("nan"), float("inf"), "1", None])
def test_silences_that_are_none(one_owner, bad):
    own, boss, _, _, party = one_owner
    refused(InvalidValue, lambda: answer_calls(party, own, boss.card, "127.0.0.1:1", silence=bad))


def test_calls_that_say_nothing_keep_nobody_out():
    """One owner opens more calls than there are threads; the other still comes in."""
    quiet, own, boss = (new_identity(name) for name in ("quiet", "north", "boss"))
    run = Run.of("a run", (quiet.card.owner, own.card.owner), SCHEMA, PLAN, delta=0.0,
                 learner="somebody")
    party = Party(run, "north", guarded(*table(20))[1], own.secret)
    credentials = grpc.ssl_channel_credentials(
        boss.card.certificate.encode(), quiet.transport_key.encode(),
        quiet.card.certificate.encode())
    done = threading.Event()
    with (Callers(run, (quiet.card, own.card), boss, "127.0.0.1:0", 120) as calls,
          grpc.secure_channel(f"127.0.0.1:{calls.port}", credentials,
                              [("grpc.ssl_target_name_override", boss.card.host)]) as channel):
        method = channel.stream_stream(f"/{SERVICE}/{METHOD}")
        kept = [method(iter(lambda: done.wait(120) and None, None)) for _ in range(20)]
        first = threading.Thread(target=left_alone, args=(
            party, own, boss.card, f"127.0.0.1:{calls.port}"))
        first.start()
        assert calls.lines["north"].there.wait(120)
        assert not calls.lines["quiet"].there.is_set()
        done.set()
        for one in kept:
            one.cancel()
    first.join(120)


def left_alone(*given):
    with contextlib.suppress(EngineError):
        answer_calls(*given)


def test_everybody_is_told_that_it_is_over_before_the_first_is_waited_for():
    heard = []

    class Slow(InProcess):
        def send(self, message):
            heard.append(("send", *message))
            super().send(message)

        def receive(self):
            heard.append(("receive",))
            return super().receive()

    _, run, federation, lines = few()
    federation.lines = {name: Slow(line.party) for name, line in zip(run.names, lines, strict=True)}
    federation.end()
    assert heard == [("send", "end")] * 3 + [("receive",)] * 3
