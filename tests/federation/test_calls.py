"""Owners that call over loopback, with mutual TLS: in threads by default, as processes if slow."""

import contextlib
import copy
import json
import subprocess
import sys
import threading
from pathlib import Path

import grpc
import pytest
from privledger_learners import SGBDTRegressor

import privledger as pl
from privledger.errors import EngineError, InvalidPlan, NotGranted
from privledger.federation import Federation, Party, Run, verify_statements
from privledger.federation.calls import METHOD, SERVICE, Callers, answer_calls
from privledger.federation.cards import new_identity, read_identity, write_identity
from tests.federation import owner_process
from tests.federation.owner_process import SCHEMA, Silent, table
from tests.worlds import refused

ROWS, BUDGET = 400, pl.Budget(3.0, 1e-6)
ROOT = Path(__file__).parents[2]
PLAN = pl.Repeat(pl.Gaussian(20.0), 6)
WORLDS = [("threads", 3), pytest.param(("processes", 5), marks=pytest.mark.slow),
          pytest.param(("processes", 20), marks=pytest.mark.slow)]
GARBAGE = ["gone", "mute", "replay", "short", "no numbers"]


def learner():
    return SGBDTRegressor(epsilon=2.0, delta=1e-6, schema=SCHEMA, n_trees=10, random_state=1)


def thread(config):
    """An owner in a thread: (wait for its end, what it said)."""
    told = []

    def work():
        try:
            told.append(owner_process.take_part(config))
        except (pl.PrivledgerError, SystemExit) as error:
            told.append(error)

    one = threading.Thread(target=work, daemon=True)
    one.start()
    return lambda: (one.join(120), told[0])[1]


def process(config):
    """An owner in a process of its own, as `thread`."""
    place = Path(config["ledger"]).with_suffix(".config")
    place.write_text(json.dumps(config))
    one = subprocess.Popen([sys.executable, "-m", owner_process.__name__, str(place)], text=True,
                           cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def ended():
        out, _ = one.communicate(timeout=120)
        return float(out) if one.returncode == 0 else EngineError(f"code {one.returncode}")

    ended.process = one
    return ended


@contextlib.contextmanager
def world(folder, how, plan, *, edges=None, delta=0.0, kinds=(), silent=True, patience=120.0,
          change=None, mute=0.0):
    """A federation whose owners call; yields it and, for each owner, how it ended."""
    start, k = ({"threads": thread, "processes": process}[how[0]], how[1])
    bounds = [0, *(edges or [ROWS * i // k for i in range(1, k)]), ROWS]
    own = [new_identity(f"owner-{i}") for i in range(k)]
    boss = new_identity("boss")
    for one in (*own, boss):
        write_identity(one, folder)
    run = Run.of("a run", tuple(one.card.owner for one in own), SCHEMA, plan, delta=delta,
                 learner="somebody")
    with Callers(run, tuple(one.card for one in own), boss, "127.0.0.1:0", patience) as calls:
        ended = [start({
            "rows": ROWS, "part": bounds[i:i + 2], "secret": str(folder / f"owner-{i}.secret"),
            "other": str(folder / "boss.card"), "ledger": str(folder / f"{i}.ledger"),
            "address": f"127.0.0.1:{calls.port}", "agreed": run.agreed, "silent": silent,
            "kind": kinds[i] if i < len(kinds) else "", "mute": mute})
            for i in range(k)]
        calls.wait(120)
        lines = dict(calls.lines)
        if change is not None:
            lines["owner-0"] = Changed(lines["owner-0"], change)
        yield Federation(run, SCHEMA, lines, BUDGET, 2), ended


class Changed:
    """A line whose messages a hostile trainer changes."""

    def __init__(self, line, change):
        self.line, self.change, self.before = line, change, []

    def send(self, message):
        self.before.append(copy.deepcopy(message))
        self.line.send(self.change(copy.deepcopy(message), self.before))

    def receive(self):
        return self.line.receive()


def asked(federation, node=PLAN):
    """Six counts."""
    with federation.data.ledger.request(node, federation.data) as session:
        return [session.release(node.node, federation.data.count()) for _ in range(node.count)]


def spent(folder, i):
    with pl.Ledger.open(folder / f"{i}.ledger") as ledger:
        assert ledger.verify() == []
        return ledger.spent


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("how", [
    pytest.param(("threads", 3)), pytest.param(("processes", 1), marks=pytest.mark.slow),
    pytest.param(("processes", 5), marks=pytest.mark.slow),
    pytest.param(("processes", 20), marks=pytest.mark.slow)])
def test_without_noise_it_is_the_model_of_one_table(tmp_path, how, skewed):
    X, y = table(ROWS)
    with pl.Ledger.create(None, budget=BUDGET) as ledger:
        ledger._source = Silent()
        central = learner().fit(ledger.protect(X, y, SCHEMA)).predict(X)
    edges = [2 * i + 2 for i in range(how[1] - 1)] if skewed else None
    with world(tmp_path, how, learner().plan(SCHEMA), edges=edges, delta=1e-6) as (found, ended):
        there = learner().fit(found.data).predict(X)
    assert (there == central).all()
    assert verify_statements(found.run, found.statements) == []
    assert all(1.99 < one() <= 2.0 for one in ended)


@pytest.mark.parametrize("how", WORLDS)
def test_one_reply_that_cannot_be_is_asked_again(tmp_path, how):
    with world(tmp_path, how, PLAN, kinds=["", "short once"]) as (found, ended):
        assert asked(found) == [ROWS] * 6
    assert len({one() for one in ended}) == 1


def hurry(federation, seconds):
    """From now on a reply may take so long."""
    for line in federation.lines.values():
        line.patience = seconds


@pytest.mark.parametrize("kind", GARBAGE)
@pytest.mark.parametrize("how", WORLDS)
def test_an_owner_that_spoils_it_makes_it_void_and_charges_stand(tmp_path, how, kind):
    seconds = 1.0 if how[0] == "threads" else 20.0  # that twenty processes on two cores may need
    with world(tmp_path, how, PLAN, kinds=["", kind], mute=2.5 * seconds) as (found, ended):
        if kind == "mute":  # only once everybody has paid: a reservation takes longer
            found.on_round = lambda place: hurry(found, seconds) if place == 3 else None
        refused(EngineError, lambda: asked(found), match="void")
        assert found.statements == []
    price = pl.epsilon(PLAN, 1e-6)
    for place, one in enumerate(ended):
        assert isinstance(one(), EngineError | SystemExit)
        assert spent(tmp_path, place) >= price * (1 - 1e-9)


def older(message, before):
    if message.get("round") == 3:
        message["round"] = 2
    return message


def replayed(message, before):
    return copy.deepcopy(before[-2]) if message.get("round") == 3 else message


def another_question(message, before):
    if message.get("round") == 3:
        message["asked"]["query"]["condition"] = None
        message["asked"]["query"]["more"] = 1
    return message


def another_run(message, before):
    return message | {"run": "0" * 64} if message.get("round") == 3 else message


def fewer_owners(message, before):
    if message.get("round") == 3:
        message["members"] = message["members"][:-1]
    return message


def another_plan(message, before):
    if message.get("asked", {}).get("ask") == "request":
        message["asked"]["plan"]["count"] = 7
    return message


@pytest.mark.parametrize("change", [older, replayed, another_question, another_run, fewer_owners,
                                    another_plan])
@pytest.mark.parametrize("how", WORLDS)
def test_a_trainer_that_plays_false_is_refused(tmp_path, how, change):
    with world(tmp_path, how, PLAN, change=change) as (found, ended):
        refused((EngineError, NotGranted, InvalidPlan), lambda: asked(found))
        found.end()
        assert found.statements == []  # whatever the others signed: one of them never will
    assert isinstance(ended[0](), EngineError)
    assert [one() for one in ended[1:]]


def test_a_stranger_gets_no_word(tmp_path):
    """Another key with a name of the roster; the right key at another trainer; no key at all."""
    north, boss, other = new_identity("north"), new_identity("boss"), new_identity("north")
    run = Run.of("a run", (north.card.owner,), SCHEMA, PLAN, delta=0.0, learner="somebody")

    def party():
        X, y = table(20)
        data = pl.Ledger.create(None, budget=BUDGET).protect(X, y, SCHEMA)
        return Party(run, "north", data, north.secret)

    with Callers(run, (north.card,), boss, "127.0.0.1:0", 120) as calls:
        address = f"127.0.0.1:{calls.port}"
        for own, card in ((other, boss.card), (north, other.card)):
            with pytest.raises(EngineError, match="does not answer"):
                answer_calls(party(), own, card, address, wait=0.7)
        with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError):
            next(channel.stream_stream(f"/{SERVICE}/{METHOD}")(iter([b"{}"]), timeout=2))
        refused(EngineError, lambda: calls.wait(0.2), match="did not call")


def joined(calls, own, boss, *first):
    """What the trainer's side says to these first bytes."""
    credentials = grpc.ssl_channel_credentials(
        boss.card.certificate.encode(), own.transport_key.encode(), own.card.certificate.encode())
    with grpc.secure_channel(f"127.0.0.1:{calls.port}", credentials,
                             [("grpc.ssl_target_name_override", boss.card.host)]) as channel:
        call = channel.stream_stream(f"/{SERVICE}/{METHOD}")(iter(first), timeout=120)
        with pytest.raises(grpc.RpcError) as found:
            next(call)
        return found.value.code().name


def test_first_words_that_are_none_of_this_run(tmp_path):
    north, boss = new_identity("north"), new_identity("boss")
    run = Run.of("a run", (north.card.owner,), SCHEMA, PLAN, delta=0.0, learner="somebody")
    with Callers(run, (north.card,), boss, "127.0.0.1:0", 120) as calls:
        for first in (b"", b"\xff", b"[]", b"{}", b'{"run": 3}', b'{"run": "' + b"0" * 64 + b'"}',
                      b"[" * 10_000, b"{" + b'"a":[],' * 1000 + b'"b":NaN}'):
            assert joined(calls, north, boss, first) == "PERMISSION_DENIED"
        assert joined(calls, north, boss) == "PERMISSION_DENIED"
        assert not calls.lines["north"].there.is_set()


def test_a_file_of_another_kind_is_no_secret_and_none_is_shown(tmp_path):
    one = new_identity("north")
    assert one.secret.hex() not in repr(one) and repr(one.secret) not in repr(one)
    assert one.transport_key[30:60] not in repr(one)
    _, place = write_identity(one, tmp_path)
    assert read_identity(place).secret == one.secret
    place.write_text(json.dumps(json.loads(place.read_text()) | {"kind": "another"}))
    with pytest.raises(InvalidPlan, match="federate keygen"):
        read_identity(place)
