"""Risk in words: the most that an attacker who knows everything else can find out.

One record, from the ledger's own trade-off curve; `risk`, `show`, `explain` and the page print it.
Every bound is rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from textwrap import fill

from attrs import frozen

from privledger.accounting import Tradeoff, check_relation, pure_tradeoff
from privledger.errors import InvalidValue
from privledger.graph import Node, tradeoff, trusts
from privledger.ledger import Budget
from privledger.ledger.filters import FilterRule
from privledger.ledger.view import View
from privledger.ledger.view_charges import UNNAMED
from privledger.ledger.view_figures import clean
from privledger.ledger.view_people import PersonSpend
from privledger.ledger.view_records import SpendLine
from privledger.numerals import in_100, many
from privledger.reports.outline import leaves
from privledger.rounding import exact, probability, up, upward

WRONG = (0.01, 0.001)
"""Shares of outsiders that are accused, by default."""
ROWS = 5
"""Of one person, or people of one household, beside one."""
MOST_ASKED = 20
LIMITS = ("Releases outside this ledger add to this. Facts about a whole group are learned with "
          "or without any one person's rows.")
SIMULATED = ("NOT PRIVATE: the noise is seeded, so an attacker who knows the seed learns every "
             "row.")
VOID = ("Nothing is promised: an auditor's correction voided the promise of a grant, so any row "
        "may be disclosed.")

_GUESS = {
    "add_remove": "whether {one} was used",
    "replace_one": "which of two values {one} had",
    "replace_label": "which of two labels {one} had (its other columns are not protected)",
}
_ACCUSED = {
    "add_remove": ("accuses {wrong} % of outsiders", "identify at most {caught} % of insiders"),
    "replace_one": ("names a value in {wrong} % of cases",
                    "rightly name it in at most {caught} % of cases"),
    "replace_label": ("names a label in {wrong} % of cases",
                      "rightly name it in at most {caught} % of cases"),
}


@frozen
class Odds:
    """Bounds for one row or person, or for several at once.

    Attributes:
        number: of rows, or people.
        right: share of right guesses where both cases are equally likely; a coin has 1/2.
        caught: (share of outsiders accused, share of insiders identified), as asked.
    """

    number: int
    right: float
    caught: tuple[tuple[float, float], ...]


@frozen
class Prior:
    """Bounds where the case is rarer, or likelier, than even.

    Attributes:
        right: share of right guesses; always naming the likelier case has `blind`.
        precision: (share of outsiders accused, share of accusations that are right).
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
        accuse, identify = _ACCUSED[self.relation]
        first, *several = self.headline
        words = [first, *(f"If the attacker wrongly {accuse.format(wrong=_percent(wrong))}, they "
                   f"{identify.format(caught=in_100(caught))}."
                   for wrong, caught in self.odds[0].caught), *several,
                 *([] if self.so_far is None else [
                     "These figures are for the whole budget. For what is spent so far, had it "
                     f"been fixed in advance: at most {in_100(self.so_far.right)} of 100 tries."]),
                 *(line for one in self.priors for line in _rare(one, accuse)), LIMITS]
        if self.vouched:
            rest = "rests" if self.vouched == 1 else "rest"
            words.append(f"{many(self.vouched, 'grant')} {rest} on unverified claims: if they are "
                         "wrong, so are these figures.")
        if self.trusting:
            words.append("Some noise is the sum of several owners' shares: a party that knows all "
                         "other shares can find out more (see the alone price).")
        return tuple(words)

    @property
    def headline(self) -> tuple[str, ...]:
        """What can be told of one row or person, and then of several."""
        return (_first(self.odds[0], self.relation, self.about),
                *(_several(one, self.about) for one in self.odds[1:]))

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
    others, who = (("row", "one given row") if about == "row" else
                   ("person", "one given person, with all rows,"))
    guess = _GUESS[relation].format(one=who)
    return (f"Worst case: an attacker who knows every other {others} and sees every output can "
            f"tell {guess} in at most {in_100(one.right)} of 100 tries (guessing: 50).")


def _percent(share: float) -> str:
    """A share as it was asked for, in per cent: "1" for 0.01, without rounding."""
    return format(Decimal(exact(share)).scaleb(2).normalize(), "f")


def _several(one: Odds, about: str) -> str:
    who = (f"{one.number} rows of one person" if about == "row"
           else f"{one.number} people together")
    return f"For {who}: at most {in_100(one.right)} of 100 tries."


def _rare(one: Prior, accuse: str) -> list[str]:
    words = [f"If it is true in {_percent(one.prior)} % of cases: right in at most "
             f"{in_100(one.right)} of 100 tries (always naming the likelier case: "
             f"{in_100(one.blind)})."]
    return words + [f"If the attacker wrongly {accuse.format(wrong=_percent(wrong))}, at most "
                    f"{in_100(right)} % of these statements are right."
                    for wrong, right in one.precision]


def checked_level(name: str, values: Sequence[float]) -> tuple[float, ...]:
    """Probabilities strictly between 0 and 1, at most `MOST_ASKED` of them."""
    if len(values) > MOST_ASKED:
        raise InvalidValue(name, len(values), f"at most {MOST_ASKED} of them")
    return tuple(probability(name, value) for value in values)


def ledger_risk(view: View, *, wrong: Sequence[float] = WRONG,
                priors: Sequence[float] = ()) -> Risk:
    """Of everything that a ledger may ever spend, read from its filter's own curve.

    Args:
        wrong: shares of outsiders that are accused. priors: shares of the table, or the
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
    return Risk(source, view.relation, about, odds, found, vouched, so_far, trusting=view.trusting)


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


# A statement to one person, in plain words: what was done with the data, what it can reveal.

_WIDTH = 78
_HIDDEN = {
    "add_remove": "whether you are in the data at all",
    "replace_one": "what your data are; that there is an entry in your place is public",
    "replace_label": "your labels, the one column that is learnt; everything else about you in "
                     "these tables is public",
}
_MOST_LINES = 200


def letter_to(spend: PersonSpend, budget: Budget, risk: Risk) -> str:
    """The whole statement, in lines of at most 78 characters. It names no person.

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
    return (f"You are in {many(len(spend.tables), 'table')} of ours: {where}. This statement lists "
            "what was computed from them and for which learner, and how much the results can "
            "reveal about you. It contains none of your data.")


def _done(spend: PersonSpend) -> str:
    if not spend.lines:
        return "Nothing has been computed yet from tables in which you are."
    return (f"So far {many(len(spend.lines), 'computation')} used a table in which you are. Each "
            "was entered in a ledger before it began, and noise was added to every result:")


def _line(line: SpendLine) -> str:
    share = "all that one computation may use" if line.share >= 1 else (
        f"{max(1, math.ceil(100 * line.share))} per cent of what it may use of one person's "
        "budget")
    if line.amount == 0:
        share = "nothing"
    when = clean(line.time, 40)[:10] or "date not recorded"
    return (f"- {when}, {clean(line.learner, 80) or UNNAMED}, on "
            f"{clean(line.data, 80)}: it used {share}.")


def _meaning(spend: PersonSpend, relation: str, budget: Budget) -> str:
    return (f"By the ledger's count, all of this together is epsilon {upward(spend.epsilon)} so "
            f"far. The ledger promises you that it never exceeds {exact(budget.epsilon)}, for "
            "everything you have in all tables of the ledger, now and in later years. This "
            f"protects {_HIDDEN.get(relation, 'what the ledger states')}.")


def _odds_text(budget: Budget, risk: Risk) -> str:
    """By the promise, not by what was spent so far: that is no bound for what is known already.
    The number is the one of `show`, `risk` and the page."""
    if risk.why:
        return f"How much can be found out about you has no bound. {risk.why}"
    right = risk.odds[0].right
    if right > 0.99:
        small = "A promise of that size protects very little: ask us what else protects your data. "
    else:
        small = ""
    chance = "" if budget.delta == 0 else (
        f" With a chance of at most {exact(budget.delta)} the promise may fail to hold; the number "
        "counts that.")
    claims = "" if not risk.vouched else (
        f" {many(risk.vouched, 'computation')} {'rests' if risk.vouched == 1 else 'rest'} on "
        "unverified claims: if they are wrong, so is this number.")
    return (f"{small}In other words: suppose an attacker saw every result, knew everything about "
            "every other person, and had to choose between two possibilities that seemed equally "
            f"likely before. The attacker would be right in at most {in_100(right)} of 100 cases. "
            f"Without the results, it would be 50.{chance}{claims}")


def _limits() -> str:
    return ("It does not hide what is true of many people: if a study finds that smokers fall ill, "
            "that says something about every smoker, whether they took part or not. It also does "
            "not say who could read your data before they were protected.")


def _listed(names: Iterable[str]) -> str:
    held = list(names)
    return ", ".join(held[:-1]) + f" and {held[-1]}" if len(held) > 1 else "".join(held)
