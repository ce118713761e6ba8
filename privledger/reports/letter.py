"""A letter to one person, in plain words: what was done with the data, and what it can tell."""

from __future__ import annotations

import math
from collections.abc import Iterable
from textwrap import fill

from privledger.ledger import Budget
from privledger.ledger.view_people import PersonSpend
from privledger.ledger.view_records import Line
from privledger.numerals import in_100, many
from privledger.reports.risk import SIMULATED, Risk
from privledger.reports.safe_text import clean
from privledger.rounding import exact, upward

_WIDTH = 78
_HIDDEN = {
    "add_remove": "whether you are in the data at all",
    "replace_one": "what your data are; that somebody has your place in them is public",
    "replace_label": "your labels, the one column that is learnt; everything else about you in "
                     "these tables is public",
}
_MOST_LINES = 200


def letter_to(spend: PersonSpend, budget: Budget, risk: Risk) -> str:
    """The whole letter, in lines of at most 78 characters. It names nobody.

    Args:
        budget: what the ledger promises. risk: of the same ledger, as `show` and `risk` have it.
    """
    parts = [_opening(spend), _done(spend), *map(_line, spend.lines[:_MOST_LINES])]
    if len(spend.lines) > _MOST_LINES:
        parts.append(f"... and {len(spend.lines) - _MOST_LINES} more.")
    parts += [_meaning(spend, risk.relation, budget), _odds(budget, risk), _limits()]
    if risk.why == SIMULATED:
        parts.insert(0, "NOT PRIVATE: this ledger was a simulation. Nothing below protects you.")
    return "\n\n".join(fill(part, _WIDTH) if not part.startswith("- ") else
                       fill(part, _WIDTH, subsequent_indent="  ") for part in parts)


def _opening(spend: PersonSpend) -> str:
    where = _listed(clean(name, 80) for name in spend.tables)
    return (f"You are in {many(len(spend.tables), 'table')} of ours: {where}. This letter says "
            "what was computed from them, for whom, and how much that can tell anybody about you. "
            "Nothing of what you told us is in it.")


def _done(spend: PersonSpend) -> str:
    if not spend.lines:
        return "Nothing was computed yet from tables in which you are."
    return (f"So far {many(len(spend.lines), 'computation')} used a table in which you are. Each "
            "was entered in a book before it began, and noise was added to everything that came "
            "out:")


def _line(line: Line) -> str:
    share = "all that one computation may take" if line.share >= 1 else (
        f"{max(1, math.ceil(100 * line.share))} per cent of what it was allowed to take from "
        "anybody")
    if line.amount == 0:
        share = "nothing"
    when = clean(line.time, 40)[:10] or "on an unknown day"
    return (f"- {when}, {clean(line.learner, 80) or 'somebody who gave no name'}, on "
            f"{clean(line.data, 80)}: it took {share}.")


def _meaning(spend: PersonSpend, relation: str, budget: Budget) -> str:
    return (f"As the book counts it, all of it together is epsilon {upward(spend.epsilon)} so far. "
            f"What it promises you is that this never passes {exact(budget.epsilon)}, for "
            "everything you have in all tables of the book, now and in later years. What that "
            f"hides is {_HIDDEN.get(relation, 'what the book says')}.")


def _odds(budget: Budget, risk: Risk) -> str:
    """By the promise, not by what was spent so far: that is no bound for what is known already.
    The number is the one of `show`, `risk` and the page."""
    if risk.why:
        return f"How much can be found out about you has no bound. {risk.why}"
    right = risk.odds[0].right
    if right > 0.99:
        small = ("A promise of that size hides very little: ask us what else protects your data. ")
    else:
        small = ""
    chance = "" if budget.delta == 0 else (
        f" With a chance of at most {exact(budget.delta)} the promise may fail to hold; the number "
        "counts that.")
    claims = "" if not risk.vouched else (
        f" {many(risk.vouched, 'computation')} {'rests' if risk.vouched == 1 else 'rest'} on "
        "unverified claims: if they are wrong, so is this number.")
    return (f"{small}In other words: somebody who saw everything that came out, knew everything "
            "about everybody else, and had to guess between two possibilities that seemed equally "
            f"likely before, would be right in at most {in_100(right)} of 100 cases. Without "
            f"it, 50.{chance}{claims}")


def _limits() -> str:
    return ("It does not hide what is true of many people: if a study finds that smokers fall ill, "
            "that says something about every smoker, whether they took part or not. And it says "
            "nothing about who could see your data before they were protected.")


def _listed(names: Iterable[str]) -> str:
    held = list(names)
    return ", ".join(held[:-1]) + f" and {held[-1]}" if len(held) > 1 else "".join(held)
