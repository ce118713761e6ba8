"""What would fit instead: epsilon, rounds, noise. By the ledger's own filter, rounded safely."""

from __future__ import annotations

import math
from fractions import Fraction

from attrs import frozen

from privledger.accounting import check_relation
from privledger.graph import Node, Repeat, cost_of
from privledger.ledger import FilterRule, State
from privledger.ledger.view_figures import REMAINDER, Figure
from privledger.numerals import many

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
