"""The ledger against a small model of itself: random histories on every store.

The model (`Oracle`) knows nothing of entries, stores or locks: it adds fractions up. Its caps
come from the stand-alone verifier's own inversion, not from the ledger. Runs are derandomized:
the same histories every time.
"""

from __future__ import annotations

import contextlib
import platform
from fractions import Fraction
from unittest import mock

import pytest
from attrs import define, field
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import privledger as pl
from privledger.cli.export import entry_line
from privledger.guard import Ledger
from privledger.ledger.events import Holder
from privledger.ledger.history import now
from privledger.reports import receipt_is_in_history
from privledger.rounding import from_units
from tests.alone import verify_history
from tests.faults.small import KINDS, guard, places

BUDGET, SMALL = pl.Budget(2.0, 1e-6), pl.Budget(1.2, 1e-6)
CAPS = {"data": pl.Cap(SMALL, data="a"), "label": pl.Cap(SMALL, labels={"team": "red"})}
SCOPE = pl.IndividualFilter("gdp", 1 / 64)
NOISES = (4.0, 8.0, 16.0)  # powers of two: a price is a fraction without rounding
CLOSE = 1e-12
GONE = Holder(platform.node(), 2**22 + 1, "a process that is gone")

verifier = verify_history


def cap_of(budget):
    """The largest mu squared whose epsilon is at most the budget's, by bisection."""
    low, high = 0.0, 10.0
    for _ in range(80):
        middle = (low + high) / 2
        fits = verifier.epsilon_of_mu(middle**0.5, budget.delta) <= budget.epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low


WHOLE, PART = cap_of(BUDGET), cap_of(SMALL)


class Oops(Exception):
    pass


@define
class Line:
    """What the model knows of one grant."""

    price: Fraction
    data: str
    team: str
    rounds: int
    mortal: bool = False
    leased: bool = False
    scoped: bool = False
    status: str = "granted"
    done: int = 0
    charged: Fraction = field(init=False)

    def __attrs_post_init__(self):
        self.charged = Fraction(0) if self.scoped else self.price

    def falls_under(self, cap):
        return self.data == "a" if cap == "data" else self.team == "red"


@define
class Oracle:
    """Sums of fractions, and nothing else."""

    lines: dict = field(factory=dict)
    scope: Fraction = Fraction(0)
    bound: str = ""
    refused: int = 0
    broken: bool = False

    def total(self, cap=None):
        """Of the ledger, or of a cap; a scope falls under every cap."""
        return self.scope + sum(line.charged for line in self.lines.values()
                                if cap is None or line.falls_under(cap))

    def fits(self, price, line=None):
        asked = [(self.total(), WHOLE)]
        asked += [(self.total(cap), PART) for cap in CAPS if line is None or line.falls_under(cap)]
        sums = [(float(spent + price), cap) for spent, cap in asked]
        assert all(abs(total - cap) > 1e-9 for total, cap in sums)  # never a matter of rounding
        return all(total <= cap for total, cap in sums)

    def correct(self, line, price):
        """Totals only rise. What passed a cap once stays a finding, whatever is refunded later."""
        line.charged = max(line.charged, price)
        self.broken |= self.over()

    def over(self):
        return float(self.total()) > WHOLE or any(float(self.total(cap)) > PART for cap in CAPS)


class Model(RuleBasedStateMachine):
    """Every step is done twice: by the ledger, and by the model."""

    locations = None  # set by the test
    sessions = Bundle("sessions")

    @initialize()
    def create(self):
        self.place = next(self.locations)
        self.ledger = Ledger.create(self.place, budget=BUDGET, filter="gdp", caps=[*CAPS.values()])
        self.model, self.receipts, self.opened = Oracle(), [], [self.ledger]
        self.data = {name: guard(self.ledger, name) for name in "ab"}
        self.held = {}

    def ask(self, work, line):
        """Request by `work`; the model says beforehand whether it is granted."""
        vault, expected = self.data[line.data]._vault, self.model.fits(line.charged, line)
        before = vault.opened
        try:
            session = work()
        except pl.BudgetExceeded:
            assert not expected and vault.opened == before
            self.model.refused += 1
            return None
        assert expected and vault.opened == before
        self.model.lines[session.grant] = line
        self.held[session.grant] = session
        self.receipts.append(self.ledger.receipt.as_dict())
        return session.grant

    @rule(target=sessions, noise=st.sampled_from(NOISES), rounds=st.integers(1, 3),
          name=st.sampled_from("ab"), team=st.sampled_from(["red", "blue", ""]),
          end=st.sampled_from(["", "", "mortal", "leased"]))
    def request(self, noise, rounds, name, team, end):
        line = Line(rounds / Fraction(noise) ** 2, name, team, rounds, end == "mortal",
                    end == "leased")
        holder = mock.patch("privledger.guard.service.this_process", return_value=GONE)
        with holder if line.mortal else contextlib.nullcontext():
            return self.ask(lambda: self.ledger.request(
                pl.Repeat(pl.Gaussian(noise), rounds), self.data[name],
                labels={"team": team} if team else None,
                lease=60.0 if line.leased else None), line)

    @rule()
    def open_scope(self):
        price = Fraction(0) if self.model.scope else Fraction(SCOPE.cap)
        expected = self.model.scope > 0 or self.model.fits(price)
        try:
            self.scope = self.ledger.open_scope(SCOPE, name="s")
        except pl.BudgetExceeded:
            assert not expected
            self.model.refused += 1
            return
        assert expected
        self.model.scope = Fraction(SCOPE.cap)

    @precondition(lambda self: self.model.scope)
    @rule(target=sessions, name=st.sampled_from("ab"))
    def request_in_scope(self, name):
        plan = pl.IndividualFilter("gdp", SCOPE.cap, node=pl.Repeat(pl.Gaussian(16.0), 2))
        if self.model.bound not in ("", name):
            with pytest.raises(pl.NotGranted):
                self.ledger.request(plan, self.data[name], scope=self.scope)
            return None
        drawn = [(grant, line) for grant, line in self.model.lines.items() if line.scoped]
        unsettled = [grant for grant, line in drawn if line.status == "granted"]
        if unsettled:  # whoever asks then looks for holders that are gone, dropped ones included
            for grant, line in self.model.lines.items():
                if line.status == "granted" and (
                        line.mortal or (line.scoped and grant not in self.held)):
                    line.status = "crashed"
        if any(grant in self.held for grant in unsettled):
            with pytest.raises(pl.errors.ScopeBusy):
                self.ledger.request(plan, self.data[name], scope=self.scope)
            return None
        lost = sum(line.status == "crashed" for _, line in drawn) * 2 / 256
        if lost >= SCOPE.cap:
            with pytest.raises(pl.NotGranted, match="used up"):
                self.ledger.request(plan, self.data[name], scope=self.scope)
            return None
        # A scope is paid for: what is left of the ledger does not matter any more.
        session = self.ledger.request(plan, self.data[name], scope=self.scope)
        self.model.bound = name
        self.model.lines[session.grant] = Line(Fraction(0), name, "", 2, scoped=True)
        self.held[session.grant] = session
        return session.grant

    @rule(grant=sessions)
    def release(self, grant):
        session, line = self.held.get(grant), self.model.lines.get(grant)
        if session is None:
            return
        vault = session.data._vault
        before, mechanism = vault.opened, session.plan.node.node if line.scoped else (
            session.plan.node)
        handle = session.filtered() if line.scoped else session.data
        if session.active and line.done < line.rounds:
            session.release(mechanism, handle.count())
            line.done += 1
            assert vault.opened == before + 1
        else:
            with pytest.raises(pl.NotGranted):
                session.release(mechanism, handle.count())
            assert vault.opened == before

    @rule(grant=sessions, failed=st.booleans())
    def close(self, grant, failed):
        session, line = self.held.get(grant), self.model.lines.get(grant)
        if session is None or not session.active:
            return
        if not failed:
            session.close()
        else:
            with pytest.raises(Oops), session:
                raise Oops
        line.status = "aborted" if failed and not line.done else "settled"
        if line.status == "aborted":
            line.charged -= Fraction(0) if line.scoped else line.price  # corrections stay
        self.receipts.append(self.ledger.receipt.as_dict())

    @rule(grant=sessions)
    def drop(self, grant):
        """The holder forgets its session: nobody will ever settle it."""
        self.held.pop(grant, None)

    @rule(later=st.booleans())
    def reopen(self, later):
        """Another handle goes on; holders that are gone, and leases that are over, are noted."""
        clock = mock.patch("privledger.ledger.history.now", return_value="2199" + now()[4:])
        with clock if later else contextlib.nullcontext():
            if self.place is None:
                self.ledger._history.mark_crashed()
            else:
                self.ledger = Ledger.open(self.place)
                self.opened.append(self.ledger)
                self.data = {name: guard(self.ledger, name) for name in "ab"}
        for line in self.model.lines.values():
            if line.status == "granted" and (line.mortal or (later and line.leased)):
                line.status = "crashed"

    @rule(grant=sessions, factor=st.sampled_from([Fraction(1, 2), 1, 2, 4]))
    def correct(self, grant, factor):
        line = self.model.lines.get(grant)
        if line is None:
            return
        rounds = max(1, int(line.rounds * factor))
        node = pl.Repeat(pl.Gaussian(16.0), rounds)
        if line.scoped:
            return  # what ran beside a filter: tests/ledger/test_corrections.py
        if line.status == "aborted":
            with pytest.raises(pl.InvalidValue):
                self.ledger.correct(grant, node, "an audit")
            return
        self.ledger.correct(grant, node, "an audit")
        self.model.correct(line, Fraction(rounds, 256))

    @precondition(lambda self: self.model.lines and len(self.model.lines) % 5 == 0)
    @rule(grant=sessions)
    def give_up(self, grant):
        """Nothing can be promised for a grant any more: the ledger grants nothing from there."""
        line = self.model.lines.get(grant)
        if line is None or line.scoped or line.status == "aborted":
            return
        self.ledger.correct(grant, None, "the noise was not there")
        self.model.correct(line, Fraction(self.ledger.state.rule.cap_units + 1, 2**192))

    @rule()
    def verify(self):
        found = self.ledger.verify()
        assert {finding.rule for finding in found} == (
            {"never-over-the-cap"} if self.model.broken else set())

    @invariant()
    def they_agree(self):
        if not hasattr(self, "model"):
            return
        state = self.ledger.state
        assert from_units(state.units) == pytest.approx(float(self.model.total()), rel=CLOSE)
        for (units, _), cap in zip(state.cap_spent, CAPS, strict=True):
            assert from_units(units) == pytest.approx(float(self.model.total(cap)), rel=CLOSE)
        assert {name: grant.status for name, grant in state.grants.items()} == {
            name: line.status for name, line in self.model.lines.items()}
        for name, grant in state.grants.items():
            if grant.status != "aborted":
                assert from_units(grant.charged[0]) == pytest.approx(
                    float(self.model.lines[name].charged), rel=CLOSE)

    def teardown(self):
        if not hasattr(self, "model"):
            return
        for session in self.held.values():
            line = self.model.lines[session.grant]
            if session.active:
                session.close()
                line.status = "settled"
        for ledger in self.opened:
            ledger._history.flush()
        self.they_agree()
        self.verify()
        entries = self.ledger._history.store.read()
        assert self.ledger.state.refusals == self.model.refused
        for name, line in self.model.lines.items():
            kept = self.ledger.state.grants[name]
            assert kept.releases == (line.done if line.status in ("settled", "aborted") else 0)
        for receipt in self.receipts:  # no history was ever rewritten
            assert not list(receipt_is_in_history(entries, receipt))
        if self.model.bound:
            assert self.ledger.record(0, self.model.bound) is not None
        self.another_reading(entries)
        for ledger in self.opened:
            ledger.close()

    def another_reading(self, entries):
        """The stand-alone verifier, which shares no code with the ledger."""
        book = verifier.Book()
        for entry in entries:
            book.take(entry_line(entry).encode("ascii"))
        assert bool(book.faults) is self.model.broken


SIZES = {"memory": (40, 30), "sqlite": (30, 30), "postgres": (15, 30)}


def run(kind, request, examples, steps):
    machine = type(f"Model_{kind}", (Model,), {"locations": places(kind, request)})
    run_state_machine_as_test(machine, settings=settings(
        derandomize=True, database=None, print_blob=False, deadline=None, max_examples=examples,
        stateful_step_count=steps, suppress_health_check=list(HealthCheck)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [SIZES, pytest.param(dict.fromkeys(KINDS, (200, 50)),
                                                       marks=pytest.mark.slow)],
                         ids=["short", "long"])
def test_ledgers_follow_the_model(kind, request, sizes):
    run(kind, request, *sizes[kind])
