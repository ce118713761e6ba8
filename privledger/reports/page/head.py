"""What a reader sees first: one verdict, four chips, three gauges, and what to do."""

from __future__ import annotations

from attrs import frozen

from privledger.accounting import promise
from privledger.ledger.decide import LEDGER
from privledger.ledger.view import Comparison, View
from privledger.ledger.view_charges import BudgetFigures
from privledger.ledger.view_figures import clean
from privledger.numerals import in_100, many
from privledger.reports.page.charts import day_text
from privledger.reports.page.past import FindingText, PageHistory
from privledger.reports.receipt import RULE
from privledger.reports.risk import Risk
from privledger.reports.survey import LedgerVerdict

OK, TODO, BAD, INFO = "ok", "todo", "bad", "info"
"""Tones. `OK`: checked, and holds. `TODO`: the reader has something to do. `BAD`: a promise is
broken, or the page cannot be believed. `INFO`: for information."""
_MARKS = {OK: "✓", TODO: "!", BAD: "!", INFO: "?"}


@frozen
class Chip:
    """One statement, which leads to its proof: `link` is the id of a part of the page."""

    tone: str
    title: str
    text: str
    link: str
    mark: str = ""

    @property
    def sign(self) -> str:
        """So that the state never stands on the colour alone."""
        return self.mark or _MARKS[self.tone]


@frozen
class Gauge:
    """One card: a title, a large number with its unit, a bar, and sentences.

    Attributes:
        share: of the bar, 0 to 1 or more; None for no bar. guess: the bar begins with the half
            that guessing gives. flag: a word beside the title. pill: the share in words.
        unit: what the share is of. link: (id of a part of the page, words) beside it.
        lines: what it means for the next run.
    """

    tone: str
    title: str
    number: str
    of: str
    share: float | None
    lines: tuple[str, ...]
    flag: str = ""
    pill: str = ""
    unit: str = ""
    link: tuple[str, str] | None = None
    guess: bool = False

    @property
    def filled(self) -> float:
        """Percent of the bar, at most all of it."""
        return 0.0 if self.share is None else round(100 * min(1.0, self.share), 2)

    @property
    def limit(self) -> float | None:
        """Where the budget ended, in percent of the bar; None unless it was passed."""
        return round(100 / self.share, 1) if self.share is not None and self.share > 1 else None


@frozen
class PageHead:
    """The first screen.

    Attributes:
        tone, word, sentence: the verdict, and the next action if there is one. facts: one line.
        withheld: why there is no gauge; empty where there are. todo: what to do, in order.
        labels: what a promise about labels leaves open; empty for all others.
    """

    tone: str
    word: str
    sentence: str
    facts: str
    chips: tuple[Chip, ...]
    gauges: tuple[Gauge, ...] = ()
    todo: tuple[str, ...] = ()
    withheld: str = ""
    labels: str = ""


def cap_name(title: str) -> str:
    """A budget as the page calls it.

    >>> cap_name("the cap for data t"), cap_name("the ledger")
    ('table t', 'the whole ledger')
    """
    if title == LEDGER:
        return "the whole ledger"
    name = title.removeprefix("the cap for ")
    return clean("table " + name.removeprefix("data ") if name.startswith("data ") else name, 80)


def head_of(view: View, verdict: LedgerVerdict, risk: Risk | None, entries: int,
            seen: PageHistory, claims: int) -> PageHead:
    """Of a history that can be believed, within its budget or over it.

    Args:
        risk: None if the budget is passed. claims: grants that rest on unverified claims.
    """
    tone = BAD if verdict.findings or view.simulated else OK
    word = ("NOT PRIVATE" if view.simulated else "Promise broken" if verdict.findings
            else "Promise kept")
    who = "person" if view.about == "person" else "record"
    grants = many(sum(not one.handed_back and one.kind == "grant" for one in view.charges), "grant")
    days = list(dict.fromkeys(day_text(one) for one in (seen.begun, seen.last) if one))
    span = f", {' to '.join(days)}" if days else ""
    epsilon, delta = view.promised
    claimed = bool(claims or view.asserted.grants)
    return PageHead(
        tone, word, _sentence(view, verdict, grants, claims, claimed),
        f"Promise: epsilon {epsilon.text()} at delta {delta.text()} for each {who}. {grants} on "
        f"{many(len(view.tables), 'table')}{span}.",
        (_checked(view, verdict, entries), _claims(claims, claimed, verdict.publishable),
         Chip(INFO, many(view.refused, "refusal"), "nothing was read for them", "refusals", "×")
         if view.refused else Chip(OK, "0 refusals", "every request fitted", "refusals"),
         _receipt(verdict.compared, required=_receipt_required(view))),
        (_spent(view), _tightest(view), _risk(view, risk, who)), _todo(view, verdict),
        labels=promise(view.relation, view.about) if view.relation == "replace_label" else "")


def _receipt_required(view: View) -> bool:
    return view.policy is not None and view.policy.require_receipt


def passed(view: View) -> tuple[BudgetFigures, ...]:
    """Budgets of which more was spent than promised."""
    return tuple(one for one in view.budgets if one.full.value > 1)


def _sentence(view: View, verdict: LedgerVerdict, grants: str, claims: int, claimed: bool) -> str:
    if view.simulated:
        return "A simulation. Its noise can be repeated, so these numbers protect no one."
    if verdict.findings:
        over = next(iter(passed(view)), view.budgets[0])
        which = "" if over.name == LEDGER else f"{cap_name(over.name)}: ".capitalize()
        if over.spent.value > over.epsilon.value:
            return (f"{which}Epsilon {over.spent.text(4)} was spent. "
                    f"{over.epsilon.text()} was promised.")
        return f"{which}More was spent than promised: {clean(verdict.findings[0].message, 200)}."
    if not view.live:
        return "Nothing was granted yet."
    kept = "The one grant fits the budget." if grants == "1 grant" else (
        f"All {grants} fit the budget." if not grants.startswith("0 ") else "The budget is kept.")
    if claimed:
        kept += " Check the unverified claims." if verdict.publishable or claims != 1 else (
            " Check the unverified claim.")
    if _receipt_required(view) and verdict.compared.kind == "nothing":
        kept += " Compare it with a receipt: the policy requires one."
    return kept


def _checked(view: View, verdict: LedgerVerdict, entries: int) -> Chip:
    if view.simulated:
        return Chip(BAD, "Simulated", "seeded noise", "promise")
    if verdict.findings:
        at = max(one.position for one in verdict.findings)
        return Chip(BAD, "Over budget", f"{many(len(verdict.findings), 'limit')} passed"
                    + ("" if verdict.publishable or at < 0 else f" at entry {at}"), "todo-h")
    said = "everything" if verdict.publishable else many(entries, "entry", "entries")
    return Chip(OK, "Verified", f"{said} re-read and re-priced", "promise")


def _claims(claims: int, claimed: bool, publishable: bool) -> Chip:
    if not claimed:
        return Chip(OK, "No unverified claims", "every charge is proved", "claims")
    title = "Unverified claims" if publishable else many(claims, "unverified claim")
    return Chip(TODO, title, "check them: totals rest on them", "claims")


def _receipt(compared: Comparison, *, required: bool = False) -> Chip:
    if compared.kind == "receipt":
        signed = ", signature checked" if compared.signature == "checked" else ""
        when = f", {day_text(compared.time)}" if compared.time else ", no date"
        return Chip(OK, "Receipt matches", f"entry {compared.entries}{when}{signed}", "receipt")
    if compared.kind == "head":
        return Chip(OK, "Head matches", str(compared.head)[:12], "receipt")
    if required:
        return Chip(TODO, "Receipt is missing", "the policy requires one", "receipt")
    return Chip(INFO, "No receipt compared", "deletions would go unnoticed", "receipt")


def _tone(view: View, one: BudgetFigures) -> str:
    if view.simulated:
        return INFO
    return BAD if one.full.value > 1 else TODO if one.times == 0 else OK


_FLAGS = {BAD: "passed", TODO: "nearly full"}


def _room(one: BudgetFigures, run: str) -> str:
    if one.full.value > 1:
        return "No room is left. Every further request is refused."
    if one.times == 0:
        return (f"Room for epsilon {one.left.text(4)}. That is less than the last run took."
                if one.left.value > 0 else "The budget is used up.")
    return f"Room for {run}epsilon {one.left.text(4)}."


def _spent(view: View) -> Gauge:
    one = view.budgets[0]
    tone = _tone(view, one)
    lines = ["Counted as if the noise were secret." if view.simulated else
             _room(one, "one more run of up to ")]
    if view.federated:
        lines.append(f"Epsilon {view.alone.epsilon.text(4)} if you trust no other owner.")
    return Gauge(tone, "Spent of the ledger", one.spent.text(4), f"of {one.epsilon.text()} epsilon",
                 one.share.value, tuple(lines), _FLAGS.get(tone, ""), one.share.text(),
                 f"in {view.unit}, the unit that adds up" if view.unit else "of the budget")


def _tightest(view: View) -> Gauge:
    caps = view.budgets[1:]
    if not caps:
        return Gauge(INFO, "Tightest cap", "none", "", None,
                     ("This ledger has no caps per table, team or window. Its own budget is the "
                      "only limit.",))
    one = max(caps, key=lambda cap: cap.full.value)
    tone = _tone(view, one)
    return Gauge(tone, f"Tightest cap: {cap_name(one.name)}", one.spent.text(4),
                 f"of {one.epsilon.text()} epsilon", one.full.value, (_room(one, ""),),
                 _FLAGS.get(tone, ""), one.full.text(),
                 "of its budget.", ("caps", many(len(caps), "cap") + " in all"))


def _risk(view: View, risk: Risk | None, who: str) -> Gauge:
    title = "Worst-case risk to one " + ("person" if view.about == "person" else "row")
    if view.simulated:
        return Gauge(BAD, title, "100 of 100", "instead of 50", 1.0,
                     ("An attacker who knows the seed can find out everything about every "
                      f"{who}.",), guess=True)
    if risk is None or risk.why:
        return Gauge(BAD, title, "no bound", "holds any more", None, (
            f"The promised bound was for a budget of epsilon {view.promised[0].text()}. It is "
            "passed, so this page states no bound." if risk is None else
            risk.why,))
    first, *several = risk.headline
    return Gauge(OK, title, f"{in_100(risk.odds[0].right)} of 100", "instead of 50",
                 risk.odds[0].right, (f"{first} This is for the whole budget.",
                                      *(several if view.about == "row" else ())), guess=True)


def _todo(view: View, verdict: LedgerVerdict) -> tuple[str, ...]:
    if not verdict.findings:
        return ()
    corrected = [one for one in view.charges if one.corrections]
    return ("Stop all runs on these tables. The ledger refuses new requests by itself.",
            "Tell the owner of the data. Answers that were released cannot be taken back.",
            *([f"Read the newest correction, of {clean(corrected[-1].name, 60)}: "
               f"{clean(corrected[-1].why[-1], 200)}. Check that it is right."]
              if corrected else []))


def distrust_head(verdict: LedgerVerdict, entries: int, said: FindingText,
                  publishable: bool) -> PageHead:
    """Of a history that cannot be believed: no total, no price, no promise."""
    faults = verdict.findings
    first = next((one.position for one in faults if one.position >= 0), None)
    receipt = any(one.rule == RULE for one in faults)
    own = [one for one in faults if one.rule != RULE]
    where = "" if first is None else f" The first fault is at entry {first}."
    since = next((one.time for one in said.told if one.position == first and one.time), "")
    return PageHead(
        BAD, "Do not trust",
        ("This history was changed after it was written, or it is damaged." if own else
         "This is not the history of the receipt.") + " All totals are withheld.",
        f"{many(entries, 'entry', 'entries')} in the file.{where}",
        (Chip(BAD, "Not verified" if own else "Another history", many(len(faults), "fault")
              + ("" if first is None else f", the first at entry {first}"), "wrong", "×"),
         Chip(INFO, "Claims unknown", "cannot be counted", "wrong"),
         Chip(INFO, "Refusals unknown", "cannot be counted", "wrong"),
         Chip(BAD, "Receipt differs", "entries were removed or rewritten", "wrong", "×")
         if receipt else Chip(INFO, "Receipt unknown", "nothing can be compared", "wrong")),
        todo=("Use none of the numbers in this file.",
              "Find a copy or a backup, and compare: privledger diff COPY LEDGER. A receipt that "
              "was kept elsewhere tells which one is older: privledger verify LEDGER --receipt "
              "FILE.",
              "Ask the owner who could write to the file" + (
                  "." if publishable or not since else
                  f" since {day_text(since)}, the date of entry {first}.")),
        withheld="Spent, caps and risk are withheld: a changed history cannot be added up.")
