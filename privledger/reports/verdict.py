"""One verdict about a ledger, said in one line by `show`, `verify` and the page.

The line says whether the total is within the budget; how many unverified claims it rests on;
whether the noise was simulated; and which receipt the history was compared with. It is good only
where nothing is owed. What an unverified claim is, and what counts as none: docs/auditors.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from privledger.findings import Finding
from privledger.ledger.view import NOT_PRIVATE, View, Vouched
from privledger.ledger.view_compared import Comparison
from privledger.ledger.view_figures import Figure
from privledger.numerals import many

GOOD, OPEN, BAD = "good", "open", "bad"
OVER = "never-over-the-cap"
"""The rule that an overspent ledger breaks, by corrections above all."""
_DIGITS = 4


@frozen
class Clause:
    """A part of the line.

    Attributes:
        text: without a full stop.
        level: `GOOD`, `OPEN` (somebody owes something, or nobody looked), or `BAD`.
    """

    text: str
    level: str


@frozen
class Verdict:
    """What is to be said about a ledger, whoever says it.

    Attributes:
        findings: what an audit, or a comparison with a receipt, found.
        spent: epsilon of everything spent or reserved. budget, delta: as they were promised.
        simulated: seeded noise was used.
        answers: how many releases there are. vouched: the unverified claims.
        compared: with which receipt, of when; or with none.
        repriced: every plan was priced again; if not, the totals are the ledger's own, and
            answers were not counted.
        publishable: how many answers there were may depend on the rows, and is not said.
        trusting: whether a price rests on other owners' keeping their noise to themselves.
    """

    findings: tuple[Finding, ...]
    spent: Figure
    budget: Figure
    delta: Figure
    simulated: bool
    answers: int
    vouched: Vouched
    compared: Comparison
    repriced: bool = True
    publishable: bool = False
    trusting: bool = False

    @property
    def over(self) -> bool:
        """Whether the only fault is that more was spent than promised."""
        return bool(self.findings) and all(one.rule == OVER for one in self.findings)

    @property
    def word(self) -> str:
        """The verdict in two words."""
        if self.findings:
            return "OVER BUDGET" if self.over else "NOT TRUSTED"
        return NOT_PRIVATE if self.simulated else "within budget"

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """The line, part by part, the worst first."""
        found = [self._budget()]
        if self.simulated:
            bad = Clause(f"{NOT_PRIVATE}: simulation with seeded noise; its numbers protect "
                         "nobody", BAD)
            found.insert(1 if self.findings else 0, bad)
        elif not self.findings:
            found.append(Clause("not simulated", GOOD))
        if not self.findings or self.over:
            found += [self._priced(), self._word(), *self._trust()]
        known = self.compared.kind != "nothing"
        return (*found, Clause(self.compared.text, GOOD if known else OPEN))

    @property
    def level(self) -> str:
        """`GOOD` only where nothing is owed. The comparison has its own: its clause's level."""
        levels = {one.level for one in self.clauses[:-1]}
        return BAD if BAD in levels else OPEN if OPEN in levels else GOOD

    @property
    def text(self) -> str:
        """The line."""
        return "; ".join(one.text for one in self.clauses)

    def as_dict(self) -> dict[str, Any]:
        """JSON values; what is not said of a publishable page is None."""
        vouched, said = self.vouched, not self.publishable
        return {"verdict": self.word, "line": self.text, "level": self.level,
                "simulated": self.simulated, "answers": self.answers if said else None,
                "vouched_answers": vouched.answers if said else None,
                "vouched_grants": vouched.grants if said else None,
                "vouched": list(vouched.words) if said else None,
                "trusting": self.trusting, "repriced": self.repriced,
                "comparison": self.compared.as_dict()}

    def _budget(self) -> Clause:
        spent = (f"epsilon {self.spent.text(_DIGITS)} of {self.budget.text()} spent at delta "
                 f"{self.delta.text()}")
        found = many(len(self.findings), "finding")
        if self.over:
            return Clause(f"OVER BUDGET: {spent}; {found}", BAD)
        if self.findings:
            return Clause(f"NOT TRUSTED: {found}; nothing below is certain", BAD)
        if self.simulated:  # nobody is protected by it, so it keeps to no budget
            return Clause(f"it counted {spent}", OPEN)
        if self.repriced:
            return Clause(f"within budget: {spent}", GOOD)
        return Clause(f"by its own totals within budget: {spent}", OPEN)

    def _priced(self) -> Clause:
        if self.repriced:
            what = "everything" if self.publishable else "every entry"
            return Clause(f"{what} re-read and re-priced", GOOD)
        return Clause("every hash was checked, NOTHING was priced again (privledger verify does "
                      "that, or show --all)", OPEN)

    def _trust(self) -> list[Clause]:
        return [Clause("part of the price rests on other owners' keeping their noise to "
                       "themselves", OPEN)] if self.trusting else []

    def _word(self) -> Clause:
        vouched = self.vouched
        if not self.repriced:
            return Clause("what rests on unverified claims was not counted", OPEN)
        if vouched.grants and self.publishable:
            return Clause("part of it rests on unverified claims", OPEN)
        if not vouched.grants:
            return Clause("nothing rests on an unverified claim", GOOD)
        if not vouched.answers:
            return Clause(f"on unverified claims: the price of {many(vouched.grants, 'grant')}",
                          OPEN)
        return Clause(f"on unverified claims: {vouched.answers} of "
                      f"{many(self.answers, 'answer')}, under {many(vouched.grants, 'grant')}",
                      OPEN)


def verdict_of(view: View, findings: Sequence[Finding], *, repriced: bool = True,
               publishable: bool = False) -> Verdict:
    """Of a ledger that was read with its entries.

    Args:
        findings: of its audit, and of a comparison. repriced, publishable: as in `Verdict`.
    """
    epsilon, delta = view.promised
    answers = sum(line.count for lines in view.releases.values() for line in lines)
    return Verdict(tuple(findings), view.spent, epsilon, delta, view.simulated, answers,
                   view.asserted, view.compared, repriced, publishable, view.trusting)
