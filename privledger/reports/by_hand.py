"""The total by hand: theorem, formula, its numbers, and a few lines of SciPy that redo it."""

from __future__ import annotations

import math

from attrs import frozen

from privledger.ledger.filters import FilterRule
from privledger.ledger.view import View
from privledger.ledger.view_figures import Figure
from privledger.numerals import many
from privledger.rounding import exact, from_units, up

MOST_TERMS = 12
NOTHING = "nothing was spent yet, so there is nothing to redo"


@frozen
class Term:
    """One summand: a grant or scope, and its charge in the filter's unit."""

    name: str
    what: str
    value: float


@frozen
class ByHand:
    """How a ledger's total comes about.

    Attributes:
        theorem: that the sum rests on. unit: what is summed.
        terms: the dearest charges. others: how many more there are, of `rest` together.
        total: the sum, as the ledger holds it.
        formula: from the total to (epsilon, delta), with letters; `numbers` has them filled in.
        epsilon, delta: what comes out, rounded up.
        script: lines of Python that redo it from the numbers above; empty where nothing is spent.
    """

    theorem: str
    unit: str
    terms: tuple[Term, ...]
    others: int
    rest: float
    total: float
    formula: str
    numbers: str
    epsilon: Figure
    delta: Figure
    script: str

    @property
    def lines(self) -> tuple[str, ...]:
        """For a reader, from top to bottom."""
        if not self.script:
            return (NOTHING,)
        summed = [f"  {exact(term.value)}  {term.name}  {term.what}".rstrip()
                  for term in self.terms]
        if self.others:
            summed.append(f"  {exact(self.rest)}  {many(self.others, 'more charge')}")
        return (f"theorem: {self.theorem}", f"what adds up: {self.unit}", *summed,
                f"sum: {exact(self.total)} (each charge was rounded up to a multiple of 2^-192)",
                f"formula: {self.formula}", f"with its numbers: {self.numbers}",
                f"so epsilon <= {self.epsilon.text()} at delta {self.delta.text()}",
                "the same in Python:", *(f"  {line}" for line in self.script.splitlines()))

    def as_dict(self) -> dict[str, object]:
        """JSON values."""
        return {
            "theorem": self.theorem, "unit": self.unit, "total": self.total, "rest": self.rest,
            "others": self.others, "formula": self.formula, "numbers": self.numbers,
            "epsilon": self.epsilon.value, "delta": self.delta.value, "script": self.script,
            "terms": [{"name": term.name, "what": term.what, "value": term.value}
                      for term in self.terms],
        }


def by_hand(view: View) -> ByHand:
    """The total of a ledger, with everything needed to redo it."""
    rule = view.rule
    if rule is None or not view.total.units:
        return ByHand(view.theorem, view.unit, (), 0, 0.0, 0.0, "", "", view.spent,
                      view.spent_delta, "")
    charged = sorted((one for one in view.charges if one.amount.units),
                     key=lambda one: (-one.amount.units, one.position))
    terms = tuple(Term(one.name, " on ".join(part for part in (one.learner, one.table) if part),
                       one.amount.own.value) for one in charged[:MOST_TERMS])
    rest = from_units(sum(one.amount.units for one in charged[MOST_TERMS:]))
    total = from_units(view.total.units)
    formula, numbers, script = _worked(rule, total, view.spent.value, view.spent_delta.value)
    return ByHand(view.theorem, view.unit, terms, max(0, len(charged) - MOST_TERMS), rest, total,
                  formula, numbers, view.spent, view.spent_delta, script)


def _worked(rule: FilterRule, total: float, epsilon: float,
            delta: float) -> tuple[str, str, str]:
    """Formula, the formula with numbers, and a script, for each kind of filter."""
    spent, eps, at = exact(total), exact(epsilon), exact(rule.budget.rest)
    if rule.kind == "gdp":
        mu = exact(up(math.sqrt(total)))
        return (
            "delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), mu = sqrt(sum)",
            f"{at} = Phi({mu}/2 - {eps}/{mu}) - e^{eps} Phi(-{mu}/2 - {eps}/{mu})",
            f"from math import exp, sqrt\nfrom scipy.optimize import brentq\n"
            f"from scipy.stats import norm\nmu, delta = sqrt({spent}), {at}\n"
            "def loss(e):\n"
            "    return norm.cdf(mu/2 - e/mu) - exp(e) * norm.cdf(-mu/2 - e/mu) - delta\n"
            "print(brentq(loss, 0, 700, xtol=1e-13) if loss(0) > 0 else 0.0)")
    if rule.kind == "zcdp":
        return (
            "epsilon = min over orders a > 1 of a rho + ln(1 - 1/a) - ln(delta a)/(a - 1), "
            "rho = sum",
            f"{eps} = min of a {spent} + ln(1 - 1/a) - ln({at} a)/(a - 1)",
            f"from math import log\nfrom scipy.optimize import minimize_scalar\n"
            f"rho, delta = {spent}, {at}\n"
            "def at(t):\n"
            "    a = 1 + 10 ** t\n"
            "    return a * rho + log(1 - 1/a) - log(delta * a) / (a - 1)\n"
            "print(max(0.0, minimize_scalar(at, bounds=(-3, 9), method='bounded', "
            "options={'xatol': 1e-10}).fun))")
    if rule.kind == "rdp":
        order = exact(rule.order)
        return (
            "epsilon = r + ln(1 - 1/a) - ln(delta a)/(a - 1), r = sum, a the ledger's order",
            f"{eps} = {spent} + ln(1 - 1/{order}) - ln({at} {order})/({order} - 1)",
            f"from math import log\nr, a, delta = {spent}, {order}, {at}\n"
            "print(max(0.0, r + log(1 - 1/a) - log(delta * a) / (a - 1)))")
    return (
        "epsilon = the sum of epsilons, delta = the sum of deltas",
        f"{eps} = {spent}, and delta {exact(delta)}",
        f"print({spent})")
