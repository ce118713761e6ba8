"""One seed drives everything: who runs, what the disk does, what the clock says, who is hit.

Threads are real, so that frames and locals are, but only one of them runs at a time: at every line
of the code under test (`WATCHED`) the world may let another one go on, or raise an interrupt.
Waiting is waiting in the world: for a bell, or for its clock. Where everybody waits, the clock
moves on; where it has moved on for long, it is a hang. The plan of a schedule is drawn from the
seed before it begins, so a seed replays.
"""

from __future__ import annotations

import sys
import threading
from random import Random

from privledger import mutex

WATCHED = ("privledger.mutex", "privledger.ledger.queue", "privledger.ledger.history",
           "privledger.ledger.state", "privledger.ledger.settle",
           "privledger.storage.memory", "privledger.ledger.log", "tests.simulation.disk")
"""Modules at whose lines the world decides. Others run as one step."""

_STEPS = ("privledger.mutex", "privledger.storage.memory", "privledger.ledger.state")
LOGIC = tuple(name for name in WATCHED if name not in _STEPS)

_modules = {}  # identity of code -> the module it is in, and the code, so that it lives on

LONGEST = 900.0
MOST_STEPS = 200_000


class Hang(Exception):
    """Somebody waits for ever."""


class Interrupt(KeyboardInterrupt):
    """Ctrl-C in a simulated thread."""


class Stop(BaseException):
    """The schedule is over for a thread that hangs."""


class Task:
    """One thread of a schedule."""

    def __init__(self, world, number, work):
        self.world, self.number, self.work = world, number, work
        self.baton = threading.Lock()
        self.baton.acquire()
        self.result = self.error = None
        self.over = False
        self.until = None  # the clock at which it goes on without a ring
        self.bell = None
        self.ident = 0
        self.was_hit = False
        self.hits = []  # line events, counted from its begin, at which it is interrupted
        self.lines = 0

    def ready(self):
        return not self.over and (self.until is None or (
            self.bell is not None and self.bell.rung) or self.until <= self.world.time)


class Bell:
    """A bell of the world: waiting for it lets others run."""

    __slots__ = ("rung", "world")

    def __init__(self, world):
        self.world, self.rung = world, False

    def ring(self):
        self.rung = True

    def wait(self, seconds):
        self.world.wait(self, seconds)
        rung, self.rung = self.rung, False
        return rung


class World(mutex.Threads):
    """Stands in for `privledger.mutex.threads` while a schedule runs."""

    def __init__(self, seed, watched=WATCHED):
        self.random = Random(seed)
        self.watched = frozenset(watched)
        self.time = 0.0
        self.pid = 1
        self.tasks, self.now = [], None
        self.main = threading.Lock()
        self.main.acquire()
        self.steps = 0
        self.next_switch = self._gap()
        self.stuck, self.stopping = 0, False
        self.trail = []
        self.fork = None  # what a forked child does, and at which line
        self._left = self._given = 0  # lines until something is decided: now, and at first
        self._at_line = self.line

    # What the code under test asks for.

    def clock(self):
        return self.time

    def process(self):
        return self.pid

    def bell(self):
        return Bell(self)

    def sleep(self, seconds):
        self.wait(None, seconds)

    def interrupt(self):
        """One that a callback of the collector got is for no main thread: that is the runner's."""

    # Scheduling.

    def _gap(self):
        """Lines until somebody else may run: mostly few, sometimes many."""
        return self.random.choice((1, 3, 8, 20, 40, 80, 300))

    def add(self, work, hits=()):
        task = Task(self, len(self.tasks), work)
        task.hits = sorted(hits)
        self.tasks.append(task)
        return task

    def run(self):
        """Run every task to its end.

        Raises:
            Hang: at least one of them waits for ever.
        """
        for task in self.tasks:
            crew.send(task)
        self._pass_on(None)
        self.main.acquire()
        if self.stuck:
            raise Hang(f"{self.stuck} threads wait for ever")

    def run_on(self, task):
        """Run one more task after the others."""
        self.tasks = [task]
        self.run()

    def _choose(self):
        ready = [task for task in self.tasks if task.ready()]
        if not ready:
            waiting = [task for task in self.tasks if not task.over]
            if not waiting:
                return None
            self.time = min(task.until for task in waiting)
            ready = [task for task in waiting if task.ready()]
        return ready[0] if len(ready) == 1 else self.random.choice(ready)

    def _pass_on(self, me):
        """Give the baton to whoever is next; wait until it comes back."""
        self._count()
        if self.time > LONGEST or self.steps > MOST_STEPS:
            self.stuck = self.stuck or sum(not task.over for task in self.tasks)
            self.stopping = True
        task = self._choose()
        if task is not me:
            self.now = task
        self._look_ahead()
        if task is me:
            return
        (self.main if task is None else task.baton).release()
        if me is not None and not me.over:
            me.baton.acquire()

    def wait(self, bell, seconds):
        me = self.now
        if me is None:  # before the schedule begins
            self.time += seconds
            return
        me.bell, me.until = bell, self.time + seconds
        self._pass_on(me)
        me.bell = me.until = None
        if self.stopping:
            raise Stop

    def finish(self, task):
        task.over = True
        self._pass_on(task)

    # Lines.

    def trace(self, frame, event, arg):
        code = frame.f_code  # by its identity: to hash code is to hash all that is in it
        known = _modules.get(id(code))
        if known is None:
            known = _modules[id(code)] = frame.f_globals.get("__name__", ""), code
        return self._at_line if known[0] in self.watched else None

    def _count(self):
        """Count the lines that were run since `_look_ahead`, all of them by `now`."""
        run, self._given = self._given - self._left, self._left
        if run:
            self.steps += run
            self.now.lines += run
            self.next_switch -= run

    def _look_ahead(self):
        """Find how many lines nothing can happen at, so that `line` only counts down."""
        me, left = self.now, self.next_switch
        if me is not None and me.hits:
            left = min(left, me.hits[0] - me.lines)
        if self.fork is not None and self.fork[0] > self.steps:
            left = min(left, self.fork[0] - self.steps)
        self._left = self._given = 1 if self.stopping else max(1, left)

    def line(self, frame, event, arg):
        if event == "line":
            self._left -= 1
            if self._left <= 0:
                self._decide(frame)

    def _decide(self, frame):
        """At a line where somebody else may run, a child is forked, or an interrupt comes."""
        me = self.now
        self._count()
        if self.stopping:
            raise Stop
        if self.next_switch <= 0:
            self.next_switch = self._gap()
            if len(self.tasks) > 1:
                self._pass_on(me)
                if self.stopping:
                    raise Stop
        if self.fork is not None and self.steps == self.fork[0]:
            self.fork[1](self)
        self._look_ahead()
        if me.hits and me.lines >= me.hits[0]:
            me.hits.pop(0)
            me.was_hit = True
            self.trail.append((me.number, frame.f_code.co_name, frame.f_lineno))
            sys.setprofile(self.revive)
            self._look_ahead()
            raise Interrupt

    def revive(self, frame, event, arg):
        """An exception out of a trace function ends tracing: it begins again with the next call,
        so that handlers are interrupted, too."""
        sys.setprofile(None)
        sys.settrace(self.trace)
        while frame is not None:
            if frame.f_globals.get("__name__") in self.watched:
                frame.f_trace = self._at_line
            frame = frame.f_back


class Crew:
    """Threads that serve one schedule after the other: to start one takes longer than to use it."""

    def __init__(self):
        self._free = []

    def send(self, task):
        member = self._free.pop() if self._free else Member(self)
        member.serve(task)

    def back(self, member):
        self._free.append(member)


class Member:
    def __init__(self, crew):
        self._crew, self._task = crew, None
        self._call = threading.Lock()
        self._call.acquire()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def serve(self, task):
        self._task = task
        task.ident = self._thread.ident
        self._call.release()

    def _run(self):
        while True:
            self._call.acquire()
            task, self._task = self._task, None
            task.baton.acquire()
            perform(task)
            self._crew.back(self)
            task.world.finish(task)
            del task


def perform(task):
    sys.settrace(task.world.trace)
    try:
        task.result = task.work()
    except Stop:
        pass
    except BaseException as error:
        task.error = error.with_traceback(None)
    finally:
        sys.settrace(None)
        sys.setprofile(None)


crew = Crew()
