"""What a plan costs, by which theorem, and whether a ledger would grant it. Opens no data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from attrs import field, frozen

from privledger.accounting import check_relation
from privledger.errors import BudgetExceeded, PrivledgerError
from privledger.graph import AsReplaceOne, Group, Node, Repeat, certify, cost_of
from privledger.ledger import (
    Budget,
    Charge,
    FilterRule,
    State,
    booked_by_filters,
    choose_filter,
    decide,
    fixed_filter,
    own_epsilon,
)
from privledger.ledger.events import Granted
from privledger.ledger.view import View, view_of
from privledger.ledger.view_figures import REMAINDER, Amount, Figure, summed_figures
from privledger.numerals import many
from privledger.rounding import exact, from_units, up


@frozen
class PriceFigures:
    """A plan before the ledger.

    Attributes:
        epsilon, delta, relation: what is proved for the plan alone, by the best accountant.
        theorem, accountant, order: what that rests on.
        filter, filter_theorem, unit: how the ledger adds plans up.
        amount, cap: the plan and the whole budget, in `unit`.
        charged: epsilon that the ledger books, at the budget's delta; after rounding and by its
            filter, so never below what an honest report may say.
        charged_delta: delta that goes with it.
        spent, left: epsilons of the ledger before the plan.
        total, total_delta: what the ledger would have spent after it.
        refusal: the ledger's own words, or None if it would be granted.
        fixes: where this first plan fixes the filter for the ledger's life: every filter that the
            ledger could have, and the epsilon that it would book for the plan; else empty.
        cheaper: where an earlier first plan fixed it (`auto`): the filters that would book less.
        error: the typed refusal, for a caller that has to stop.
        charge: what the ledger would book, in scaled integers.
    """

    epsilon: float
    delta: float
    relation: str
    theorem: str
    accountant: str
    order: float | None
    filter: str
    filter_theorem: str
    unit: str
    amount: float
    cap: float
    charged: float
    charged_delta: float
    spent: float
    left: float
    total: float
    total_delta: float
    refusal: str | None
    fixes: tuple[tuple[str, float], ...] = ()
    cheaper: tuple[tuple[str, float], ...] = ()
    error: BudgetExceeded | None = field(default=None, repr=False)
    charge: Charge = field(kw_only=True, repr=False)
    rule: FilterRule = field(kw_only=True, repr=False)

    @property
    def fits(self) -> bool:
        """Whether the ledger would grant the plan now."""
        return self.refusal is None

    @property
    def like_it(self) -> int:
        """How many such plans fit a new ledger of this filter."""
        return int(self.rule.holds(self.charge.units, self.charge.delta_units))


def rule_for(node: Node, budget: Budget, relation: str, filter: str) -> FilterRule:
    """The filter a new ledger would use if `node` were its first plan."""
    if filter == "auto":
        return choose_filter(cost_of(node, check_relation(relation)), budget)
    return fixed_filter(filter, budget)


def price_plan(node: Node, delta: float, *, budget: Budget, relation: str = "add_remove",
               filter: str = "auto", state: State | None = None, data: str = "",
               labels: Mapping[str, str] | None = None, everywhere: bool = False) -> PriceFigures:
    """Price `node` against a fresh ledger with `budget`, or against the `state` of one.

    Args:
        delta: what the plan is stated at; 0 for pure DP.
        state: of an existing ledger; then its own budget, relation and filter count.
        data, labels: the table's name, and what the request carries: caps that match them count.
        everywhere: the table is not known, so every cap counts.

    Raises:
        UnsupportedNode, RelationMismatch: it cannot be priced, so it would be refused.
    """
    known = state or State()
    if state is not None and state.budget is not None:
        budget, relation, filter = state.budget, state.relation, state.filter_asked
    checked = check_relation(relation)
    rule = known.rule or rule_for(node, budget, checked, filter)
    certificate = certify(node, delta, checked)
    units, delta_units = rule.price(cost_of(node, checked), delta)
    asked = None if everywhere else Granted(
        grant="", learner="", data=data, plan={}, delta=delta, units=units,
        delta_units=delta_units, labels=dict(labels or {}))
    decision = decide(known, rule, cost_of(node, checked), delta, asked)
    error = None if isinstance(decision, Charge) else decision.error(
        own_epsilon(node, rule, checked))
    alone = Amount(units, delta_units, rule)
    before = Amount(known.units, known.delta_units, rule)
    after = summed_figures((before, alone), rule)
    auto = known.rule is not None and filter == "auto"
    booked = (booked_by_filters(node, delta, budget, checked, rule)
              if auto or known.rule is None else ())
    return PriceFigures(
        epsilon=certificate.epsilon, delta=delta, relation=checked,
        theorem=certificate.theorem, accountant=certificate.accountant,
        order=certificate.order, filter=rule.kind, filter_theorem=rule.theorem,
        unit=rule.unit, amount=alone.own.value, cap=from_units(rule.cap_units),
        charged=alone.epsilon.value, charged_delta=alone.delta.value,
        spent=before.epsilon.value, left=before.left.value, total=after.epsilon.value,
        total_delta=after.delta.value,
        refusal=None if error is None else str(error), error=error,
        charge=Charge(units, delta_units), rule=rule,
        fixes=() if auto else booked,
        cheaper=tuple(one for one in booked if auto and one[1] < alone.epsilon.value),
    )


# What would fit instead: epsilon, rounds, noise. By the ledger's own filter, rounded safely.

_SAFE = 1 + 1e-9  # covers the rounding of a price that is asked for afresh


@frozen
class Fit:
    """The largest request that the budget and the policy would let through.

    Attributes:
        epsilon: of a whole plan; 0 if nothing fits.
        rounds: of the same plan, if it repeats something; None where that is not known.
        noise: factor by which every noise would have to grow, above 1; None where that is not
            known, or where what stands in the way is not the noise.
        exact: whether a plan like the one that was asked for costs here what it says.
    """

    epsilon: float
    rounds: int | None = None
    noise: float | None = None
    exact: bool = True

    @property
    def text(self) -> str:
        """For a message."""
        if not self.epsilon > 0:
            return "nothing fits"
        parts = [f"epsilon {Figure(self.epsilon, 'epsilon', REMAINDER).text(4)}"
                 + ("" if self.exact else " of Gaussian noise")]
        if self.rounds:
            parts.append(f"{many(self.rounds, 'round')} of the same noise")
        if self.noise is not None and self.noise > 1:
            parts.append(f"{Figure(self.noise, 'factor').text(4)} times the noise")
        return "would fit: " + ", or ".join(parts)


def what_fits(node: Node, relation: str, rule: FilterRule, cap_units: int, state: State) -> Fit:
    """How `node` would have to change to fit `cap_units` on top of what `state` has spent.

    Rounds are counted where repeating adds up (every filter but `basic`); noise is known for
    plans of unsampled Gaussians (their price falls with the square of it) and of pure
    mechanisms under `basic` (it falls at least in proportion, for Laplace noise).
    """
    left = max(0, min(cap_units, rule.cap_units) - state.units)
    cost = cost_of(node, check_relation(relation), rule.orders)
    asked, _ = rule.price(cost, rule.budget.delta)
    plain = rule.kind == "basic" or cost.mu_squared is not None
    if not left or not asked:
        return Fit(rule.left_of(rule.cap_units - left), exact=plain)
    share = Fraction(left, asked)
    rounds = noise = None
    if share < 1 and isinstance(node, Repeat) and rule.kind != "basic":
        rounds = int(node.count * share / Fraction(_SAFE))
    if cost.mu_squared is not None and rule.kind != "basic":
        needed = math.sqrt(1 / share) * _SAFE
        noise = needed if needed > 1 else None  # it fits as far as noise goes
    return Fit(rule.left_of(rule.cap_units - left), rounds, noise, plain)


# Questions about a ledger that change nothing: would more fit, and under another relation.

@frozen
class OtherPrice:
    """Everything paid for, as one plan, priced once more.

    Attributes:
        epsilon: at `delta`; None if nothing is proved. why: the theorem, or what is missing.
    """

    what: str
    relation: str
    epsilon: float | None
    delta: float
    why: str


def other_prices(state: State, relation: str) -> list[OtherPrice]:
    """The ledger's plans as they are, and what they would cost under `relation`.

    Sensitivities are stated for the ledger's own relation: under replace_one, each plan counts as
    one removal and one addition. The reverse has no price: the row count was public.
    """
    assert state.budget is not None
    delta = state.budget.delta
    whole = view_of(state).whole()
    own = _priced("as it is", whole, state.relation, delta)
    if relation == state.relation:
        return [own]
    what = f"under {relation}"
    if relation != "replace_one" or state.relation != "add_remove":
        return [own, OtherPrice(what, relation, None, delta,
                                f"no theorem converts {state.relation} to {relation}")]
    return [own, _priced(what, AsReplaceOne(whole), relation, delta)]


def group_price(state: State, rows: int) -> OtherPrice:
    """What one person with so many rows is promised."""
    assert state.budget is not None
    whole = view_of(state).whole()
    return _priced(f"for {many(rows, 'row')} of one person", Group(rows, whole), state.relation,
                   state.budget.delta)


def _priced(what: str, node: Node, relation: str, delta: float) -> OtherPrice:
    try:
        found = certify(node, delta, check_relation(relation))
    except PrivledgerError as error:
        return OtherPrice(what, relation, None, delta, str(error))
    return OtherPrice(what, relation, found.epsilon, delta, found.theorem)


# The total by hand: theorem, formula, its numbers, and a few lines of SciPy that redo it.

MOST_TERMS = 12
NOTHING = "nothing was spent yet, so there is nothing to recalculate"


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
                "to recalculate in Python:", *(f"  {line}" for line in self.script.splitlines()))


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


def _worked(rule: FilterRule, total: float, epsilon: float, delta: float) -> tuple[str, str, str]:
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
