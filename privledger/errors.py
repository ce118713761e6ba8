"""The one exception tree.

    PrivledgerError
    ├── InvalidValue (also ValueError)     a number or name that can never be right
    │   ├── InvalidMechanism               a mechanism record that checks itself failed
    │   ├── InvalidCurve                   a Renyi curve that is not one
    │   └── InvalidPlan                    a plan or a run file that cannot be priced
    ├── UnsupportedNode                    no proof at hand for this node or combination
    │   └── RelationMismatch               a node stated for another neighbouring relation
    ├── BudgetExceeded                     a request asks for more than is left; nothing was read
    ├── PolicyViolation                    the ledger's own policy forbids it; nothing was read
    ├── NotGranted                         a release that no grant covers; nothing was read
    │   └── ScopeBusy                      another grant holds the filter scope
    ├── LedgerError                        the store itself
    │   ├── LedgerCorrupt                  truncated, edited, or not a ledger
    │   ├── LedgerMissing                  there is none at that place
    │   ├── LedgerMisplaced                moved, replaced, or under two names; nothing was read
    │   ├── LedgerTooNew                   written by a later format
    │   ├── LedgerBusy                     another process holds the write lock
    │   └── NotSettled                     what was released is out, and not in the history yet
    ├── DataError (also ValueError)        the table does not fit its schema; no value is shown
    │   ├── SchemaError                    the schema itself
    │   ├── DataDerived                    a bound or list that says it came from the data
    │   └── SpoolError                     a chunk on disk is missing, changed, or cannot be written
    ├── EngineError                        what answers chunks is gone, or says what cannot be
    ├── LearnerError                       a plugin that cannot be loaded
    ├── ModelError                         a model that cannot be kept, or a file that is none
    └── IsolationError                     a learner's own process ended, hung or broke the protocol
        ├── IsolationUnavailable           this machine cannot confine one; nothing was read
        └── IsolationLimit                 it used more than it was allowed: time, memory, words

Messages name columns, parameters and rules. They never carry a record's value.
"""

from __future__ import annotations

import sys
from html import escape

from privledger.numerals import downward, many, meant_of, upward

__all__ = ["BudgetExceeded", "DataDerived", "DataError", "EngineError", "InvalidCurve",
           "InvalidMechanism", "InvalidPlan", "InvalidValue", "IsolationError", "IsolationLimit",
           "IsolationUnavailable", "LearnerError", "LedgerBusy", "LedgerCorrupt", "LedgerError",
           "LedgerMisplaced", "LedgerMissing", "LedgerTooNew", "ModelError", "NotGranted",
           "NotSettled", "PolicyViolation", "PrivledgerError", "RelationMismatch", "SchemaError",
           "ScopeBusy", "SpoolError", "UnsupportedNode"]

_KNOWN = frozenset({"builtins", "privledger", "numpy", "scipy", "sklearn", "pandas", "sqlite3"})


def public_name(kind: type[BaseException]) -> str:
    """The name of an exception type that may be stored and shown.

    Any author can make a type whose name quotes a value: what is not part of Python or of a known
    package is called by the nearest base that is.
    """
    for base in kind.__mro__:
        module = getattr(base, "__module__", "")
        if (isinstance(module, str) and module.partition(".")[0] in _KNOWN
                and getattr(sys.modules.get(module), base.__name__, None) is base):
            return str(base.__name__)
    return "BaseException"


class PrivledgerError(Exception):
    """Base of everything this package raises on purpose."""

    def __reduce__(self) -> tuple[object, ...]:  # whatever its own constructor asks for
        return _rebuilt, (type(self), self.args), vars(self)


def _rebuilt(kind: type[PrivledgerError], said: tuple[object, ...]) -> PrivledgerError:
    return kind.__new__(kind, *said)


class InvalidValue(PrivledgerError, ValueError):
    """A parameter that can never be right: NaN, infinite, negative, boolean, out of range."""

    def __init__(self, name: str, value: object, rule: str, text: str = "") -> None:
        wanted, colon, why = rule.partition(": ")
        super().__init__(text or f"{name} must be {wanted}, got {value!r}{meant_of(rule, value)}"
                                 f"{colon}{why}")
        self.name, self.value, self.rule = name, value, rule


class InvalidMechanism(InvalidValue):
    """A mechanism record was given an impossible parameter."""


class InvalidCurve(InvalidValue):
    """A Renyi curve with a negative, NaN or misaligned bound."""


class InvalidPlan(InvalidValue):
    """A plan, a run file or a policy that cannot be understood."""


class UnsupportedNode(PrivledgerError):
    """No accountant here has a proof for this node or combination, so it is refused."""


class RelationMismatch(UnsupportedNode):
    """A node or a request is stated for another neighbouring relation."""


class BudgetExceeded(PrivledgerError):
    """A request asks for more than is left. No data was read and nothing was spent.

    Attributes:
        asked: what the request would cost, in `unit`.
        spent: what was spent before the request, in `unit`.
        left: what was left before the request, in `unit`.
        unit: what these numbers measure, for example "epsilon" or "mu squared".
        fits: a sentence about what would fit.
        own: epsilon of the plan by itself, where the ledger's filter books more than that.
    """

    def __init__(self, *, asked: float, spent: float, left: float, unit: str = "epsilon",
                 fits: str = "", scope: str = "the ledger", own: float | None = None) -> None:
        costs = "" if own is None else f"{upward(own)}, which costs {unit} "
        here = "" if own is None else " by the ledger's filter"
        short = asked - left
        by = (f"; short by {unit} {upward(short)}" if 0 < short < 1e-6 * max(1.0, left) else "")
        text = (
            f"refused, nothing was read: the request asks for {unit} {costs}{upward(asked)}{here}"
            f", {downward(left)} of {scope} is left ({upward(spent)} spent{by})"
        )
        super().__init__(f"{text}; {fits}" if fits else text)
        self.asked, self.spent, self.left = asked, spent, left
        self.unit, self.fits, self.scope, self.own = unit, fits, scope, own

    def _repr_html_(self) -> str:
        """For notebooks. A scope may be a label from outside: everything is escaped."""
        rows = (("asked", f"{self.unit} {upward(self.asked)}"), ("left", downward(self.left)),
                ("of", self.scope), ("spent", upward(self.spent)), ("instead", self.fits))
        cells = "".join(f"<tr><th>{name}</th><td>{escape(value)}</td></tr>"
                        for name, value in rows if value)
        return f"<p><strong>refused</strong>, nothing was read</p><table>{cells}</table>"


class PolicyViolation(PrivledgerError):
    """The ledger's own policy forbids a request. No data was read and nothing was spent.

    Attributes:
        findings: (rule, message) of every rule that does not hold.
    """

    def __init__(self, findings: tuple[tuple[str, str], ...]) -> None:
        listed = "; ".join(f"{rule}: {message}" for rule, message in findings)
        super().__init__(f"refused by the ledger's policy, nothing was read: {listed}")
        self.findings = findings


class NotGranted(PrivledgerError):
    """A release that no grant covers. Nothing was read."""


class ScopeBusy(NotGranted):
    """Another grant on the filter scope is open. Nothing was read, nothing was charged.

    Attributes:
        scope: name of the scope.
        grants: names of the open grants on it.
    """

    def __init__(self, text: str, scope: str = "", grants: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.scope, self.grants = scope, grants


class LedgerError(PrivledgerError):
    """The store cannot do what was asked."""


class LedgerCorrupt(LedgerError):
    """The file is truncated, edited, or not a ledger."""


class LedgerMissing(LedgerError):
    """There is no ledger at that place. The place itself could be reached."""


class LedgerMisplaced(LedgerError):
    """The file is not, or not only, where it is said to be: linked, moved, replaced, removed.

    Nothing was read. A process that has it open closes it, and opens the one file there is.
    """


class LedgerTooNew(LedgerError):
    """The file was written by a later version of the format."""


class LedgerBusy(LedgerError):
    """Another process holds the write lock for too long."""


class NotSettled(LedgerError):
    """A session released something, and the ledger could not be written when it was closed.

    The charge stands, and closing again tries again.

    Attributes:
        grant: whose items they are.
        releases: how many of them are out.
        cause: why the ledger could not be written.
        spill: the file they are kept in until the ledger is next opened for writing, or None.
        why: why there is no such file; empty if there is one.
    """

    def __init__(self, *, grant: str, releases: int, cause: str, spill: str | None,
                 why: str = "") -> None:
        text = (f"{grant}: {many(releases, 'release')} {'is' if releases == 1 else 'are'} out and "
                f"its charge stands, but the ledger could not be written ({cause}). ")
        if spill is not None:
            text += (f"The list of releases is kept in {spill}. The ledger takes it in when it "
                     "is next opened for writing, or when close() is called again")
        else:
            text += (f"The list of releases could not be kept in a file either ({why}): only this "
                     "process has it. Make the ledger's folder writable, then call close() again")
        super().__init__(text)
        self.grant, self.releases, self.cause = grant, releases, cause
        self.spill, self.why = spill, why


class DataError(PrivledgerError, ValueError):
    """The table does not fit its schema. Columns and rules are named, values never."""


class SchemaError(DataError):
    """The schema itself cannot be used."""


class DataDerived(SchemaError):
    """A bound, category list or count that says it was read off the private data."""


class SpoolError(DataError):
    """A chunk of a table on disk is missing, changed, or cannot be written. No value is named."""


class EngineError(PrivledgerError):
    """What answers chunks is gone, unreachable, or says what cannot be. The charge stands."""


class LearnerError(PrivledgerError):
    """A learner plugin cannot be found or loaded."""


class ModelError(PrivledgerError):
    """A fitted learner that cannot be kept in a file, or a file that is not a model."""


class IsolationError(PrivledgerError):
    """A learner's own process ended, hung, failed or broke the protocol. Charges stand."""


class IsolationUnavailable(IsolationError):
    """A process cannot be confined here, or not for these files. Nothing was read."""


class IsolationLimit(IsolationError):
    """A learner's own process used more than its owner allowed. What was charged stands.

    Attributes:
        limit: which one, by the name that `[isolation]` of a run file gives it.
        allowed: how much was allowed, in the unit that the name ends with.
    """

    def __init__(self, limit: str, allowed: float, text: str = "") -> None:
        super().__init__(text or f"the learner exceeded a limit of its process: {limit} = "
                                 f"{allowed:g}; what was charged stands")
        self.limit, self.allowed = limit, allowed
