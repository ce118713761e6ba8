"""What each tool says of a learner that runs a fault; and of the same learner without it."""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from types import FrameType
from typing import Any

from attrs import frozen

from privledger.testing import CHECKS, LearnerCheckFailed
from privledger.testing.fitting import ways
from privledger.testing.guessing import guessing_audit
from privledger.testing.lockstep import lockstep
from tests.bench.zoo.patching import Fault, Tool, applied, changed
from tests.bench.zoo.suspects import SUSPECTS, Suspect
from tests.noise_laws.noise_law import LAWS, noise_law

LISTS = ("sums", "choices", "guard", "prices", "noise", "learners")
FAULTS: tuple[Fault, ...] = tuple(
    fault for name in LISTS
    for fault in importlib.import_module(f"tests.bench.zoo.faults_{name}").FAULTS)
LOCK_SECONDS = 0.5
DRAWS = 1 << 14
GUESSES = 1000
"""Fits at most: enough for a leak, not for a tenth of the noise."""
SLOW_CHECKS = ("epsilon-holds",)
"""Fits by the hundred: guessing is the tool for that."""


@frozen
class Outcome:
    """What a tool said.

    Attributes:
        fault: None where there was none. by: what it noticed; empty if nothing.
        seconds: of processor time.
    """

    suspect: str
    fault: Fault | None
    tool: Tool
    by: str
    seconds: float


def by_lockstep(suspect: Suspect, fault: Fault | None, seed: int) -> str:
    """The premise that a lock finds broken."""
    found = lockstep(suspect.make(), suspect.example(), seconds=LOCK_SECONDS, seed=seed)
    return "" if found.holds else f"{found.premise}: {found.why}"


def by_noise_law(suspect: Suspect, fault: Fault | None, seed: int) -> str:
    """The first kind of noise that has another law than its price assumes."""
    for law in LAWS:
        (found,) = noise_law(laws=[law], size=DRAWS, seed=seed)
        if not found.holds:
            return found.law
    return ""


NOT_FOR_THE_KIT = ("search", "search-number", "overreaching", "colours", "sampled", "scoped",
                   "fixed", "allocated",
                   "stumbling", "leaving", "missing", "two-grants", "contest")
"""Honest, and fail some check: they fail on purpose, ask twice, or need a column."""


def by_kit(suspect: Suspect, fault: Fault | None, seed: int) -> str:
    """The first check of the kit that fails, but for those that fit by the hundred."""
    for name, check in CHECKS.items():
        if name not in SLOW_CHECKS:
            try:
                check(suspect.make(), suspect.example())
            except LearnerCheckFailed:
                return name
    return ""


def by_guessing(suspect: Suspect, fault: Fault | None, seed: int) -> str:
    """What bets on which table a fit was of have disproved."""
    learner = suspect.make()
    found = guessing_audit(learner, suspect.example(), fits=GUESSES, seed=seed, patient=False,
                           way=ways(learner)[-1 if suspect.plain else 0])
    return "" if found.holds else f"epsilon {found.epsilon_low:.3g} or more"


HUNTS: dict[Tool, Callable[[Suspect, Fault | None, int], str]] = {
    "lockstep": by_lockstep, "noise law": by_noise_law, "guessing": by_guessing, "kit": by_kit}
"""The tools that there are."""
PROOFS: tuple[Tool, ...] = ("lockstep", "noise law")


def hunted(name: str, fault: Fault | None, tool: Tool, seed: int) -> Outcome:
    """What one tool says of one suspect, with a fault or without."""
    suspect = SUSPECTS[name]
    with applied(fault) if fault is not None else nullcontext(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        try:
            by = HUNTS[tool](suspect, fault, seed)
        except Exception as error:  # what an honest learner never meets is noticed, too
            by = f"raised {type(error).__name__}: {error}"
        return Outcome(name, fault, tool, by, time.process_time() - start)


def hunt(faults: Iterable[Fault], tools: Iterable[Tool], seed: int) -> Iterator[Outcome]:
    """Every fault before every tool."""
    chosen = tuple(tools)
    for fault in faults:
        for tool in chosen:
            if tool != "kit" or fault.learner not in NOT_FOR_THE_KIT:
                yield hunted(fault.learner, fault, tool, seed)


def found_first(fault: Fault, seed: int) -> list[Outcome]:
    """Lockstep and the noise law, the one for this kind of fault first, until one notices."""
    outcomes = []
    for tool in sorted(PROOFS, key=lambda tool: tool != fault.seen_by[0]):
        outcomes.append(hunted(fault.learner, fault, tool, seed))
        if outcomes[-1].by:
            break
    return outcomes


def honest(tools: Iterable[Tool], seed: int) -> Iterator[Outcome]:
    """Every suspect without a fault: whatever is noticed is a false alarm."""
    for tool in tools:
        for name in SUSPECTS:
            if tool != "kit" or name not in NOT_FOR_THE_KIT:
                yield hunted(name, None, tool, seed)


def runs(fault: Fault) -> bool:
    """Whether one fit of its learner comes to the code that the fault is in."""
    ((_, after),) = changed(fault)
    suspect, seen = SUSPECTS[fault.learner], set[tuple[str, int]]()

    def notice(frame: FrameType, event: str, argument: object) -> None:
        seen.add((frame.f_code.co_qualname, frame.f_code.co_firstlineno))

    with applied(fault), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.setprofile(notice)
        try:
            suspect.fit()
        finally:
            sys.setprofile(None)
    return (after.co_qualname, after.co_firstlineno) in seen


def as_row(outcome: Outcome) -> dict[str, Any]:
    """For `--json`."""
    return {"fault": None if outcome.fault is None else outcome.fault.name,
            "learner": outcome.suspect, "tool": outcome.tool, "by": outcome.by,
            "seconds": round(outcome.seconds, 3)}
