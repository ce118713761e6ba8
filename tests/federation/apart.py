"""Owners in processes of their own: `python -m tests.federation.apart`, one order per line.

Every owner, and whoever trains, is a forked child that talks over loopback. What a child has read
and sent is in its log before it goes on, so that it is known even if the child is killed. Its
result is a file. Faults are named by an order's `mode`; see `BENDS` and `TURNS`.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import time
import traceback
from pathlib import Path

import grpc
from attrs import define, field
from privledger_learners import SGBDTRegressor

import privledger as pl
from privledger.federation import Federation, Party, Run, calls, new_key, public_key
from privledger.federation.calls import METHOD, SERVICE, Callers, answer_calls
from privledger.federation.cards import read_card, read_identity
from privledger.guard.vault import Vault
from tests.federation.test_rounds import SCHEMA, Silent, split, table

BUDGET = pl.Budget(20.0, 1e-6)
LEAF, TIMES, ROWS = pl.Gaussian(2.0), 8, 400


def learner(order):
    """The same for all, and for one table."""
    return SGBDTRegressor(epsilon=2.0, delta=1e-6, schema=SCHEMA, random_state=1,
                          n_trees=order.get("trees", 10))


def agreed(order):
    """(run, cards of the owners) of an order."""
    cards = tuple(read_card(f"{order['keys']}/owner{i}.card") for i in range(order["owners"]))
    fits = order["work"] == "fit"
    plan = learner(order).plan(SCHEMA) if fits else pl.Repeat(LEAF, TIMES)
    return Run.of("a run", tuple(card.owner for card in cards), SCHEMA, plan,
                  delta=1e-6 if fits else 0.0, learner="somebody"), cards


# An owner that does wrong: (reply, owner's wrapper) -> reply. It answered honestly before.

def dropped(reply, _own):
    """It dies where its reply would go out."""
    if "masked" in reply:
        os._exit(9)
    return reply


def silent(reply, _own):
    """It says nothing any more."""
    if "masked" in reply:
        time.sleep(6)
    return reply


def unreadable(reply, _own):
    """No JSON."""
    if "masked" in reply:
        calls.written = lambda value: b"\xff\xfe no reply"
    return reply


def of(**change):
    """Its first masked replies say something else."""
    return lambda reply, own: reply | change if "masked" in reply else reply


def replayed(reply, own):
    """Its second reply is its first one again."""
    if "masked" in reply:
        own.kept.append(reply)
        return own.kept[0]
    return reply


def swapped(reply, _own):
    """Another key than the one that it signed."""
    return reply | {"public": reply["signature"][:44]} if "public" in reply else reply


BENDS = {"drop": dropped, "silent": silent, "unreadable": unreadable, "replay": replayed,
         "swapped": swapped, "shapes": of(shapes=[[7]]), "nothing": of(masked=None),
         "grids": of(grids=["0x1.0p+3"]), "": lambda reply, own: reply}


@define
class Bent:
    """A party whose replies a fault changes; it has what `answer_calls` needs."""

    party: Party
    mode: str
    log: int
    kept: list = field(factory=list)

    run = property(lambda self: self.party.run)
    statement = property(lambda self: self.party.statement)

    def answer(self, message):
        reply = self.party.answer(message)
        if "masked" in reply:
            os.write(self.log, b"sent\n")
        return BENDS[self.mode](reply, self)

    def close(self):
        self.party.close()


def party(order):
    """One owner, from its ledger's creation to the end of the run."""
    place, name = Path(order["place"]), order["name"]
    log = os.open(place / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    real = Vault.check
    Vault.check = lambda self, task: (os.write(log, b"read\n"), real(self, task))[1]
    run, _ = agreed(order)
    own = read_identity(f"{order['keys']}/{name}.secret")
    ledger = pl.Ledger.create(place / f"{name}.ledger", budget=BUDGET)
    if order["quiet"]:
        ledger._source = Silent()
    X, y = split(*table(ROWS), order["edges"])[int(name.removeprefix("owner"))]
    one = Party(run, name, ledger.protect(X, y, SCHEMA, name="table"), own.secret)
    address = f"127.0.0.1:{port(place, order['wait'])}"
    start = time.process_time()
    answer_calls(Bent(one, order.get("mode", ""), log), own,
                 read_card(f"{order['keys']}/trainer.card"), address, wait=order["wait"])
    return {"cpu": time.process_time() - start, "spent": ledger.spent}


def port(place, wait):
    """Where whoever trains listens."""
    for _ in range(int(100 * wait)):
        if (place / "port").exists():
            return int((place / "port").read_text())
        time.sleep(0.01)
    raise TimeoutError


# Whoever trains and does wrong: a message on its way to an owner is changed.

def to_some(chosen):
    """Another question to the owners whose place is chosen."""
    def turn(message, place):
        if message.get("asked", {}).get("ask") == "release" and chosen(place):
            message = copy.deepcopy(message)
            message["asked"]["query"]["what"] = "something else"
        return message
    return turn


def own_key(message, place):
    """To the first owner, a key of whoever trains as that of the last."""
    if "meet" in message and place == 0:
        message = copy.deepcopy(message)
        message["meet"][-1]["public"] = message["meet"][0]["public"]
    return message


TURNS = {"one": to_some(lambda place: place == 1), "half": to_some(lambda place: place % 2),
         "key": own_key}


@define
class Turned:
    """A line whose messages are counted, kept and changed."""

    line: object
    turn: object
    place: int
    sent: list = field(factory=list)
    down: int = 0
    up: int = 0

    def send(self, message):
        self.sent.append(self.turn(message, self.place))
        self.down += len(json.dumps(self.sent[-1]))
        self.line.send(self.sent[-1])

    def receive(self):
        reply = self.line.receive()
        self.up += len(json.dumps(reply))
        return reply


def asked_again(lines):
    """What owners say to a used attempt, an older round, and a round to come."""
    found = []
    for line in lines:
        last = line.sent[-1]
        first = next(one for one in line.sent if one.get("round") == 1)
        for message in (last, first, first | {"attempt": 1}, last | {"round": TIMES + 3},
                        last | {"attempt": 1, "members": last["members"][1:]},
                        last | {"attempt": 1, "run": "0" * 64}):
            line.send(message)
            found.append(line.receive().get("text", "answered"))
    return found


def trainer(order):
    """Whoever trains, from its first word to the end of the run."""
    place, mode = Path(order["place"]), order.get("mode", "")
    run, cards = agreed(order)
    own = read_identity(f"{order['keys']}/{order['name']}.secret")
    with Callers(run, cards, own, "127.0.0.1:0", order.get("patience", 60.0)) as there:
        (place / "port.new").write_text(str(there.port))
        (place / "port.new").rename(place / "port")
        there.wait(order["wait"])
        (place / "met").touch()
        while order.get("waits") and not (place / "stranger.json").exists():
            time.sleep(0.01)
        turn = TURNS.get(mode, lambda message, place: message)
        lines = {name: Turned(line, turn, i) for i, (name, line) in enumerate(there.lines.items())}
        federation = Federation(run, SCHEMA, lines, BUDGET)
        try:
            found = worked(order, federation, list(lines.values()))
        finally:
            federation.end()
        return found | {"down": max(line.down for line in lines.values()),
                        "up": max(line.up for line in lines.values()),
                        "statements": len(federation.statements)}


def worked(order, federation, lines):
    """What is asked."""
    if order["work"] == "fit":
        return {"said": learner(order).fit(federation.data).predict(table(ROWS)[0]).tobytes().hex()}
    data, found, refused = federation.data, [], []
    with data.ledger.request(pl.Repeat(LEAF, TIMES), data) as session:
        for _ in range(TIMES):
            found.append(session.release(LEAF, data.histogram("colour")).tolist())
        if order.get("mode") == "again":
            refused = asked_again(lines)
    return {"said": found, "refused": refused}


def stranger(order):
    """Calls that nobody should take: the status of each."""
    place, keys = Path(order["place"]), order["keys"]
    run, _ = agreed(order)
    root = read_card(f"{keys}/trainer.card")
    strange, known = (read_identity(f"{keys}/{name}.secret") for name in ("stranger", "owner0"))
    address, found = f"127.0.0.1:{port(place, order['wait'])}", {}
    while not (place / "met").exists():  # owners call first
        time.sleep(0.01)
    for what, who, said in (("nobody", None, run.digest.hex()),
                            ("stranger", strange, run.digest.hex()),
                            ("another run", known, "0" * 64), ("again", known, run.digest.hex())):
        shown = [None, None] if who is None else [
            who.transport_key.encode(), who.card.certificate.encode()]
        credentials = grpc.ssl_channel_credentials(root.certificate.encode(), *shown)
        with grpc.secure_channel(address, credentials, [
                ("grpc.ssl_target_name_override", root.host)]) as channel:
            call = channel.stream_stream(f"/{SERVICE}/{METHOD}")
            try:
                found[what] = repr(next(call(iter([calls.written({"run": said})]), timeout=20)))
            except grpc.RpcError as error:
                found[what] = error.code().name
    return found


ROLES = {"party": party, "trainer": trainer, "stranger": stranger}


def child(order):
    """One process: its result is written whole or not at all."""
    try:
        found = ROLES[order["role"]](order)
    except BaseException as error:
        found = {"error": type(error).__name__, "text": str(error),
                 "trace": traceback.format_exc()}
    file = Path(order["place"]) / f"{order['name']}.json"
    file.with_suffix(".new").write_text(json.dumps(found))
    file.with_suffix(".new").rename(file)


def waited(pid, seconds):
    """Until a child is over; one that is not in time is killed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.005)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return None


def main():
    """Serve orders until the input ends. gRPC starts in children alone."""
    public_key(new_key())
    for line in sys.stdin:
        order = json.loads(line)
        if "end" in order:
            print(json.dumps(waited(order["end"], order["seconds"])), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(2, 1)
            try:
                child(order)
            finally:
                os._exit(0)
        print(json.dumps(pid), flush=True)


if __name__ == "__main__":
    main()
