"""Schedules: what a seed lets happen, and the laws that hold at its end."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from contextlib import contextmanager
from random import Random

import numpy as np

import privledger as pl
from privledger import mutex
from privledger.guard.handle import _granted
from privledger.guard.ledger import Ledger
from privledger.ledger import History, audit, settle
from privledger.ledger.settle import settle_left, take_up
from privledger.noise.source import SystemSource
from tests.bodies import body_of, said
from tests.simulation.disk import FAULTS, Disk, RecoveryFolder
from tests.simulation.world import LOGIC, WATCHED, Interrupt, World

CAP = 4
G = pl.Gaussian(60.0)
SCHEMA = pl.Schema("one", (pl.Column("x", "numeric", "feature", 0.0, 1.0),))
TABLE = {"x": np.linspace(0, 1, 8)}


class Lost(AssertionError):
    """A law does not hold."""


def must(true, what):
    if not true:
        raise Lost(what)


@contextmanager
def inside(world):
    """The code under test lives in this world."""
    before, mutex.threads = mutex.threads, world
    try:
        yield world
    finally:
        mutex.threads = before


def _template(cap):
    plan = pl.Repeat(G, cap)
    made = Ledger.create(None, budget=pl.Budget(pl.epsilon(plan, delta=1e-6) * 1.0001, 1e-6),
                         filter="gdp")
    return made._history.store.read()


BEGIN = _template(CAP)


def note(number):
    """One line; refused when there are `CAP` of them."""
    def decide(state):
        if state.refusals >= CAP:
            raise pl.NotGranted("over the cap")
        return said(("refused", {"number": number}))
    return decide


def hits_of(random, most, chance):
    """At which lines a thread is interrupted: at none, at one, or at two that are close."""
    if random.random() > chance:
        return ()
    first = random.randrange(1, most)
    return (first,) if random.random() < 0.7 else (first, first + random.randrange(1, 12))


def watched_in(random):
    """Every module, or only those where most can go wrong: the rest is then one step."""
    return WATCHED if random.random() < 0.3 else LOGIC


def faults_of(random, chance):
    return [random.choice(FAULTS) if random.random() < chance else None for _ in range(4)]


# The queue and the history.

def queue(seed):
    """Threads that commit to one history; every one of them may be interrupted, and the disk fail.

    Laws: nobody waits for ever; what was acknowledged is there once, nothing is there twice, no
    more than the cap; a thread that was not interrupted itself is served or refused, whatever
    happened to others; the state is what is on the disk.
    """
    random = Random(seed)
    disk = Disk(BEGIN, faults_of(random, 0.15) if random.random() < 0.3 else ())
    world = World(random.random(), watched_in(random))
    acknowledged, bad = [], []
    with inside(world):
        history = History(disk)
        history.refresh()

        looks = random.random() < 0.4

        def worker(number, times, client):
            def work():
                for turn in range(times):
                    name = f"{number}.{turn}"
                    try:
                        if looks:
                            client.look(lambda state: state.refusals)
                        (entry,) = [one for one in client.commit(note(name))
                                    if body_of(one).get("number") == name]
                        acknowledged.append((name, entry.position, entry.hash))
                    except pl.NotGranted:
                        pass
                    except Interrupt:
                        if not tasks[number].was_hit:
                            bad.append("an interrupt reached another thread")
                    except pl.LedgerError:
                        if not disk.met:
                            bad.append("an error that is somebody else's")
            return work

        threads = random.randrange(2, 4)
        other = History(disk)  # of another process
        clients = [history, random.choice((history, history, other)), history]
        tasks = [world.add(worker(number, random.randrange(1, 3), clients[number]),
                           hits_of(random, 180, 0.45)) for number in range(threads)]
        if random.random() < 0.2:
            history.note(*said(("refused", {"number": "noted"})))
        world.run()
        must(not bad, bad)
        _check_queue(history, disk, acknowledged, tasks, world)
    return world


def _check_queue(history, disk, acknowledged, tasks, world):
    disk.plan.clear()
    last = world.add(lambda: history.commit(lambda state: []))  # whatever was left is over now
    world.run_on(last)
    must(last.error is None, f"a later commit fails: {last.error!r}")
    there = [one for one in disk._entries if one.event.kind == "refused"]
    names = Counter(body_of(one)["number"] for one in there)
    must(max(names.values(), default=0) <= 1, f"written twice: {names}")
    must(len(there) <= CAP + 1 - (names["noted"] == 0), "more than the cap")
    places = {(body_of(one)["number"], one.position, one.hash) for one in there}
    must(set(acknowledged) <= places, "acknowledged, and not there")
    must(names["noted"] == 1 or all(body_of(one)["number"] != "noted"
                                    for one in history._pending) or not there,
         "a note was lost")
    state = history.state
    must((state.position, state.head) == (disk._entries[-1].position, disk._entries[-1].hash),
         "the state is not what is on the disk")
    must(state.refusals == len(there), "the state counts another number")
    for task in tasks:
        must(task.error is None, f"{task.error!r}")


def lines(seed):
    """An interrupt at line number `seed // 2` of a thread that reads and commits, beside another:
    an odd seed runs it first and alone, so that no line is left to the luck of a version."""
    disk, world, acknowledged = Disk(BEGIN), World(seed // 2), []
    with inside(world):
        history = History(disk)
        history.refresh()
        History(disk).commit(lambda state: [*note("0")(state), *note("1")(state)])

        def work(names):
            for name in names:
                try:
                    history.refresh()
                    entry = history.commit(note(name))[-1]
                    acknowledged.append((name, entry.position, entry.hash))
                except Interrupt:
                    pass

        tasks = [world.add(lambda: work("2"), [1 + seed // 2]), world.add(lambda: work("3"))]
        if seed % 2:
            world.next_switch, tasks[1].until = 10**9, 1.0
        world.run()
        must("3" in {name for name, _, _ in acknowledged}, "somebody else was not served")
        _check_queue(history, disk, acknowledged, tasks, world)
    return world


# Sessions.

def session(seed):
    """Threads that request, release and close under one ledger; the disk and the shelf may fail.

    Laws: as above, and every answer that came out is itemised, once, after the ledger was closed
    or opened again, whatever failed; no charge is lost; the audit is clean.
    """
    random = Random(seed)
    disk = Disk(BEGIN, faults_of(random, 0.35) if random.random() < 0.6 else ())
    shelf = RecoveryFolder([random.random() < 0.3 for _ in range(6)])
    world = World(random.random(), watched_in(random))
    out, granted, kept = Counter(), [], []
    with inside(world), recovery_folders(shelf):
        ledger = Ledger(disk, SystemSource())
        data = ledger.protect(TABLE, SCHEMA, name="rows")
        query = pl.questions.Query(data, (pl.questions.Ones(),))

        def worker(number, releases):
            def work():
                try:
                    held = ledger.request(G if releases < 2 else pl.Repeat(G, releases), data)
                except (pl.BudgetExceeded, pl.LedgerError, KeyboardInterrupt):
                    return
                granted.append(held.grant)
                kept.append(held)
                try:
                    for _ in range(releases):
                        held.release(G, query)
                        out[held.grant] += 1
                except KeyboardInterrupt:
                    pass
                for _ in range(2):
                    try:
                        held.close()
                        return
                    except (pl.LedgerError, KeyboardInterrupt):
                        pass
            return work

        tasks = [world.add(worker(number, random.randrange(1, 3)), hits_of(random, 500, 0.5))
                 for number in range(2)]
        world.run()
        for task in tasks:
            must(task.error is None, f"{task.error!r}")
        disk.plan.clear()
        shelf.plan.clear()
        # A crash takes what is in no file; a session that was closed, or tried to be, is in one.
        dies = random.random() < 0.5 and all(
            _granted(held)._settled or held.grant in shelf.files for held in kept)
        _end_of(world, ledger, shelf, kept, dies)
        _check_sessions(disk, out, granted, thorough=seed % 8 == 0)
    return world


def _end_of(world, ledger, shelf, kept, dies):
    """The process ends, with or without a word; another one opens the ledger."""
    def end():
        if not dies:
            for held in kept:
                held.close()
            settle_left(ledger._history)
            ledger._history.flush()
        for _ in range(2):  # killed before the removal, it comes again
            must(take_up(History(ledger._history.store)) == [], "a spill of ours was refused")
            again = {} if shelf.files else shelf.ever
            shelf.files.update(again)
        must(take_up(History(ledger._history.store)) == [], "a spill of ours came twice")

    last = world.add(end)
    world.run_on(last)
    must(last.error is None, f"{last.error!r}")
    must(not shelf.files, "a spill is left")


def _check_sessions(disk, out, granted, thorough):
    entries = disk._entries
    state = History(disk).refresh()
    must(not thorough or audit(disk) == [], "the audit has findings")
    charged = {one.event.grant: one.event.units for one in entries if one.event.kind == "granted"}
    must(set(granted) <= set(charged), "a charge was lost")
    must(state.units == sum(charged.values()) and state.rule.cap_units >= state.units,
         "over the budget, or handed back")
    items = Counter()
    for one in entries:
        if one.event.kind == "released":
            items[one.event.grant] += len(one.event.items)
    for name, number in out.items():
        must(items[name] in (number, number + 1), f"{items[name]} of {number} answers itemised")


@contextmanager
def recovery_folders(shelf):
    right, settle.recovery_folders = settle.recovery_folders, lambda location, uuid: [shelf]
    try:
        yield
    finally:
        settle.recovery_folders = right


# Forks.

def forked(seed):
    """A real fork at one line of a schedule of `queue`'s kind: the child commits, and ends."""
    random = Random(seed)
    disk = Disk(BEGIN)
    world = World(random.random())
    status = []
    with inside(world):
        history = History(disk)
        history.refresh()

        def child(world):
            pid = os.fork()
            if pid == 0:
                _live(history, disk)
            status.append(os.waitpid(pid, 0)[1])

        world.fork = random.randrange(1, 260), child
        tasks = [world.add(lambda number=number: history.commit(note(number)),
                           hits_of(random, 160, 0.2)) for number in range(2)]
        world.run()
        must(status in ([], [0]), f"a forked child ended with {status}")
        for task in tasks:
            must(task.error is None or isinstance(task.error, Interrupt), f"{task.error!r}")
    return world


def _live(history, disk):
    """In the child: nothing of the parent's threads is here, and nobody must be waited for."""
    status = 1
    try:
        sys.settrace(None)
        mutex.threads = mutex.Threads()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        disk._pid = os.getpid()
        history.commit(lambda state: said(("refused", {"number": "child"})))
        there = [body_of(one)["number"] for one in disk.read() if one.event.kind == "refused"]
        state = history.refresh()
        status = 0 if there.count("child") == 1 and len(set(there)) == len(there) == (
            state.refusals) and audit(disk) == [] else 3
    finally:
        os._exit(status)


KINDS = {"lines": lines, "queue": queue, "session": session, "forked": forked}


def find(kind, seeds):
    """The first seed at which a law does not hold, and what it was; (None, None) if all hold."""
    for seed in seeds:
        try:
            KINDS[kind](seed)
        except Exception as error:  # whatever it is: no schedule ends with one
            return seed, error
    return None, None
