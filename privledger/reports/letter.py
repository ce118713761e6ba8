"""A letter to one person, in plain words: what was done with the data, and what it can tell."""

from __future__ import annotations

import math
from collections.abc import Iterable
from textwrap import fill

from privledger.ledger import Budget
from privledger.ledger.view_people import PersonSpend
from privledger.ledger.view_records import Line
from privledger.numerals import many
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


def letter_to(spend: PersonSpend, relation: str, budget: Budget, simulated: bool) -> str:
    """The whole letter, in lines of at most 78 characters. It names nobody.

    Args:
        relation: of the ledger. budget: what it promises.
        simulated: whether its noise protects nobody.
    """
    parts = [_opening(spend), _done(spend), *map(_line, spend.lines[:_MOST_LINES])]
    if len(spend.lines) > _MOST_LINES:
        parts.append(f"... and {len(spend.lines) - _MOST_LINES} more.")
    parts += [_meaning(spend, relation, budget), _odds(budget), _limits()]
    if simulated:
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


def _odds(budget: Budget) -> str:
    """By the promise, not by what was spent so far: that is no bound for what is known already."""
    epsilon, delta = budget.epsilon, budget.delta
    if epsilon > 20:
        return ("A number of that size promises very little: ask us what else protects your data.")
    most = math.ceil(100 * math.exp(epsilon) / (1 + math.exp(epsilon)) * 10) / 10
    chance = "" if delta == 0 else (
        f" With a chance of at most {exact(delta)} it may fail to hold.")
    return ("In other words: somebody who saw everything that came out, knew everything about "
            "everybody else, and had to guess between two possibilities that seemed equally likely "
            f"before, would be right in at most {exact(min(most, 100.0))} of 100 cases. Without "
            f"it, 50.{chance}")


def _limits() -> str:
    return ("It does not hide what is true of many people: if a study finds that smokers fall ill, "
            "that says something about every smoker, whether they took part or not. And it says "
            "nothing about who could see your data before they were protected.")


def _listed(names: Iterable[str]) -> str:
    held = list(names)
    return ", ".join(held[:-1]) + f" and {held[-1]}" if len(held) > 1 else "".join(held)
