"""Risk in words: what somebody who knows everything else can find out, at most.

One record, from the ledger's own trade-off curve; `risk`, `show`, `explain` and the page print it.
Every bound is rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from textwrap import fill

from attrs import frozen

from privledger.accounting import Tradeoff, check_relation, pure_tradeoff
from privledger.errors import InvalidValue
from privledger.graph import Node, tradeoff, trusts
from privledger.ledger import Budget
from privledger.ledger.filters import FilterRule
from privledger.ledger.view import View
from privledger.ledger.view_figures import clean
from privledger.ledger.view_people import PersonSpend
from privledger.ledger.view_records import SpendLine
from privledger.numerals import in_100, many
from privledger.reports.outline import leaves
from privledger.rounding import exact, probability, up, upward

WRONG = (0.01, 0.001)
"""Shares of the innocent that are accused, unless somebody asks for others."""
ROWS = 5
"""Of one person, or people of one household, beside one."""
MOST_ASKED = 20
LIMITS = ("Releases outside this ledger come on top, and so do facts about a whole group, which "
          "are learned with or without anybody's row.")
SIMULATED = "NOT PRIVATE: the noise is seeded, so whoever knows the seed learns every row."
VOID = ("Nothing is promised: an auditor's correction says so of a grant; everybody may be found "
        "out.")

_GUESS = {
    "add_remove": "whether {one} was in",
    "replace_one": "which of two values {one} had",
    "replace_label": "which of two labels {one} had (its other columns are not protected)",
}


@frozen
class Odds:
    """Bounds for one row or person, or for several at once.

    Attributes:
        number: of rows, or people.
        right: share of right guesses where both cases are equally likely; a coin has 1/2.
        caught: (share of the innocent accused, share of the others caught), as asked.
    """

    number: int
    right: float
    caught: tuple[tuple[float, float], ...]


@frozen
class Prior:
    """Bounds where the case is rarer, or likelier, than even.

    Attributes:
        right: share of right guesses; saying always the likelier has `blind`.
        precision: (share of the innocent accused, share of accusations that are right).
    """

    prior: float
    right: float
    blind: float
    precision: tuple[tuple[float, float], ...]


@frozen
class Risk:
    """What can be found out, at most.

    Attributes:
        source: which curve it was read from. about: `row` or `person`.
        odds: for one and for several; empty where nothing is promised, and `why` says so.
        vouched: grants that rest on unverified claims.
        so_far: what was spent and reserved, read alone. How much that is may have been chosen by
            earlier answers, so it is no promise; the budget, which was fixed first, is.
        fixed: a plan that was fixed beforehand, not a ledger.
        trusting: whether some noise is made of several owners' shares.
    """

    source: str
    relation: str
    about: str
    odds: tuple[Odds, ...] = ()
    priors: tuple[Prior, ...] = ()
    vouched: int = 0
    so_far: Odds | None = None
    fixed: bool = False
    why: str = ""
    trusting: bool = False

    @property
    def sentences(self) -> tuple[str, ...]:
        """The words, in order; the first is the headline."""
        if self.why:
            return (self.why,)
        words = [_first(self.odds[0], self.relation, self.about),
                 *(f"Accusing {_of(wrong)} wrongly, they catch at most {in_100(caught)} in 100."
                   for wrong, caught in self.odds[0].caught),
                 *(_several(one, self.about) for one in self.odds[1:]),
                 *([] if self.so_far is None else [
                     "That is when all of the budget is spent. What is spent so far, had it been "
                     f"fixed beforehand: {in_100(self.so_far.right)} of 100 times."]),
                 *(line for one in self.priors for line in _rare(one)), LIMITS]
        if self.vouched:
            rest = "rests" if self.vouched == 1 else "rest"
            words.append(f"{many(self.vouched, 'grant')} {rest} on unverified claims: if they are "
                         "wrong, so are these figures.")
        if self.trusting:
            words.append("Some noise is made of several owners' shares: who knows the shares of "
                         "all others finds out more (the price alone).")
        return tuple(words)

    def as_dict(self) -> dict[str, object]:
        """JSON values."""
        return {
            "source": self.source, "relation": self.relation, "unit": self.about,
            "fixed_plan": self.fixed, "vouched_grants": self.vouched,
            "trusting": self.trusting, "why": self.why,
            "so_far": None if self.so_far is None else self.so_far.right,
            "odds": [{"number": one.number, "right": one.right,
                      "caught": [{"wrong": wrong, "caught": caught}
                                 for wrong, caught in one.caught]} for one in self.odds],
            "priors": [{"prior": one.prior, "right": one.right, "blind": one.blind,
                        "precision": [{"wrong": wrong, "precision": right}
                                      for wrong, right in one.precision]}
                       for one in self.priors],
            "words": list(self.sentences),
        }


def _first(one: Odds, relation: str, about: str) -> str:
    who = "one row" if about == "row" else "one person, with all rows,"
    guess = _GUESS[relation].format(one=who)
    return (f"Someone who knows everything else and sees every release, guessing {guess}: right "
            f"at most {in_100(one.right)} of 100 times (coin: 50).")


def _of(wrong: float) -> str:
    """A share of the innocent: 1 in 100, 1 in 1000, else as a number."""
    turned = 1 / wrong
    if abs(turned - round(turned)) < 1e-9 * turned:
        return f"1 in {round(turned)}"
    return f"a share of {exact(wrong)}"


def _several(one: Odds, about: str) -> str:
    who = (f"{one.number} rows of one person" if about == "row"
           else f"{one.number} people together")
    return f"{who}: right at most {in_100(one.right)} of 100 times."


def _rare(one: Prior) -> list[str]:
    words = [f"If it holds in a share of {exact(one.prior)} of the cases: right at most "
             f"{in_100(one.right)} of 100 times (always saying the likelier: "
             f"{in_100(one.blind)})."]
    return words + [f"Of their accusations, accusing {_of(wrong)} wrongly, at most "
                    f"{in_100(right)} in 100 are right." for wrong, right in one.precision]


def checked_level(name: str, values: Sequence[float]) -> tuple[float, ...]:
    """Probabilities strictly between 0 and 1, at most `MOST_ASKED` of them."""
    if len(values) > MOST_ASKED:
        raise InvalidValue(name, len(values), f"at most {MOST_ASKED} of them")
    return tuple(probability(name, value) for value in values)


def ledger_risk(view: View, *, wrong: Sequence[float] = WRONG,
                priors: Sequence[float] = ()) -> Risk:
    """Of everything that a ledger may ever spend, read from its filter's own curve.

    Args:
        wrong: shares of the innocent that are accused. priors: shares of the table, or the
            world, for which the case holds.
    """
    about, wrong, priors = view.about, checked_level("wrong", wrong), checked_level("prior", priors)
    vouched = view.asserted.grants
    if view.simulated or any(one.paid and one.plan is None for one in view.charges):
        why = SIMULATED if view.simulated else VOID
        return Risk("nothing", view.relation, about, vouched=vouched, why=why)
    source, odds, found, so_far = _of_ledger(
        view.rule, view.budget.epsilon, view.budget.delta, view.total.units,
        view.total.delta_units, wrong, priors)
    return Risk(source, view.relation, about, odds, found, vouched, so_far,
                trusting=view.trusting)


@lru_cache(maxsize=32)
def _of_ledger(
    rule: FilterRule | None, epsilon: float, delta: float, units: int, delta_units: int,
    wrong: tuple[float, ...], priors: tuple[float, ...],
) -> tuple[str, tuple[Odds, ...], tuple[Prior, ...], Odds]:
    """The budget by the ledger's filter; by itself while none is fixed."""
    if rule is None:
        curve, so_far = pure_tradeoff(epsilon, delta), Odds(1, 0.5, ())
    else:  # corrections may have passed the cap
        curve = rule.tradeoff(max(rule.cap_units, units), max(rule.delta_cap_units, delta_units))
        so_far, = _odds(rule.tradeoff(units, delta_units), (), (1,))
    return (curve.source, _odds(curve, wrong),
            tuple(_prior_of(curve, prior, wrong) for prior in priors), so_far)


def plan_risk(plan: Node, relation: str, about: str = "row", *, wrong: Sequence[float] = WRONG,
              priors: Sequence[float] = (), several: bool = True) -> Risk:
    """Of one plan that is fixed before anything is seen, from its privacy losses.

    Args:
        wrong, priors: as of `ledger_risk`. several: say it for `ROWS` at once, too.

    Raises:
        UnsupportedNode: nothing is proved for it.
    """
    wrong, priors = checked_level("wrong", wrong), checked_level("prior", priors)
    curve = tradeoff(plan, check_relation(relation))
    vouched = any(type(leaf).__name__.startswith("Asserted") for leaf in leaves(plan))
    odds = _odds(curve, wrong, (1, ROWS) if several else (1,))
    return Risk(curve.source, relation, about, odds,
                tuple(_prior_of(curve, prior, wrong) for prior in priors), int(vouched), fixed=True,
                trusting=any(one.noise == "shared" for one in trusts(plan)))


def _odds(curve: Tradeoff, wrong: tuple[float, ...],
          numbers: tuple[int, ...] = (1, ROWS)) -> tuple[Odds, ...]:
    return tuple(
        Odds(number, min(1.0, up(0.5 + 0.5 * one.advantage)),
             tuple((each, one.hits(each)) for each in wrong))
        for number, one in ((each, curve.rows(each)) for each in numbers))


def _prior_of(curve: Tradeoff, prior: float, wrong: tuple[float, ...]) -> Prior:
    blind = max(prior, 1 - prior)
    return Prior(prior, max(blind, curve.accuracy(prior)), blind,
                 tuple((each, curve.precision(prior, each)) for each in wrong))


# A letter to one person, in plain words: what was done with the data, and what it can tell.

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
    parts += [_meaning(spend, risk.relation, budget), _odds_text(budget, risk), _limits()]
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


def _line(line: SpendLine) -> str:
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


def _odds_text(budget: Budget, risk: Risk) -> str:
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
