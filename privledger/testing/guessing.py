"""A privacy audit by guessing: a fair coin chooses each fit's table, and bets are on the coin.

If the claim holds, wealth of 1 / false_alarm is reached with probability at most `false_alarm`,
however long one plays and whatever is learned on the way: docs/proofs/guessing.md.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Callable, Sequence

import numpy as np
from attrs import define, evolve, field, frozen
from numpy.typing import ArrayLike, NDArray

from privledger.accounting import Cost, Relation, delta_at
from privledger.errors import PrivledgerError
from privledger.graph import Group, Node, Repeat, Sequential, cost_of
from privledger.graph.additive import Gaussian, Laplace
from privledger.plugins import Priced
from privledger.reading import stepwise
from privledger.rounding import count, down, multiply_up, non_negative, probability
from privledger.testing.examples import Example, examples_for, worst_pair
from privledger.testing.fitting import Way, delta_of, fresh, outputs, relation_of, ways
from privledger.testing.scoring import (
    NAMES,
    SHARES,
    BetAccount,
    BetClaim,
    BetScore,
    for_a_group,
    learned,
    log_factors,
    log_sum,
    shares_of_bets,
)
from privledger.testing.structure import probes_beside

# What a plan says of tables that differ in several records: more than its epsilon and delta.

MOST_RECORDS, MOST_APART = 32, 0.8
PARTS = (0.0, 0.25, 0.5, 0.75)


@frozen
class PlanClaims:
    """(epsilon, delta) pairs that hold of tables `records` apart, if the plan is what it says."""

    records: int
    claims: tuple[tuple[float, float], ...]


def for_several(node: Node, records: int) -> Node:
    """The node as it is for tables that differ in so many records.

    Noise is added to a query that moves so many times as far; of any other node the accountant
    knows what a group loses.
    """
    match node:
        case Laplace():
            return evolve(node, l1_sensitivity=multiply_up(node.l1_sensitivity, float(records)))
        case Gaussian():
            return evolve(node, noise_multiplier=down(node.noise_multiplier / records))
        case Repeat():
            return evolve(node, node=for_several(node.node, records))
        case Sequential():
            return evolve(node, nodes=tuple(for_several(one, records) for one in node.nodes))
    return Group(records, node)


def _cost(plan: Node, relation: Relation, records: int) -> Cost | None:
    """What a group pays; None where it is unknown."""
    try:
        return cost_of(plan if records == 1 else for_several(plan, records), relation)
    except PrivledgerError:
        return None


def _apart(cost: Cost | None) -> float:
    """The largest distance in total variation that the plan allows."""
    try:
        return 1.0 if cost is None else delta_at(cost, 0.0).delta
    except PrivledgerError:
        return 1.0


def plan_claims(plan: Node, epsilon: float, relation: Relation,
                most: int = MOST_RECORDS) -> PlanClaims:
    """The number of records at which guesses see most, and the claims there.

    Guesses see little where both tables look alike, and nothing where a mechanism may tell them
    apart: best is a distance of about .8. docs/proofs/guessing.md has the figures.

    Args:
        epsilon: of one record, which says where claims are looked at.
        most: records.
    """
    records = 1
    for more in range(2, most + 1):
        if _apart(_cost(plan, relation, more)) > MOST_APART:
            break
        records = more
    cost, claims = _cost(plan, relation, records), []
    if cost is None:
        return PlanClaims(1, ())
    for part in PARTS:
        try:
            delta = delta_at(cost, part * records * epsilon).delta
        except PrivledgerError:
            continue
        if delta < 1:
            claims.append((part * records * epsilon, delta))
    return PlanClaims(records, tuple(claims))


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Pair = tuple[Example, Example]
FITS, FALSE_ALARM = 4000, 1e-6
LOOKS, CHUNK, GROWTH = 24, 8, 1.2
"""Fits before the first bet; fits between two looks at the wealth; how often scores are learned."""

_WEIGHTS = np.array([0.6, 0.15, 0.1, 0.05, 0.1])  # of the scores, in the order of their names
_FAR = 1e100


@frozen
class Guessed:
    """What guesses about fits on two tables prove about a claim.

    Attributes:
        claimed: epsilon of one record. delta: of the claim.
        fits: that were made; which table, a fair coin said each time.
        guesses: fits where the leading bettor named a table. right: how many of them.
        wealth: the most that the bets on the claim came to, from 1, as a logarithm.
        epsilon_low: epsilon is at least this at `delta`, unless something of probability
            `false_alarm` happened. Zero if nothing was proved.
        holds: whether nothing was proved against the claim. Not a proof of it.
        records: in which the two tables differ.
        event: what was looked at.
        stopped: before all fits were made: `disproved`, `hopeless`, or an empty text.
    """

    claimed: float
    fits: int
    guesses: int
    right: int
    wealth: float
    epsilon_low: float
    holds: bool
    delta: float
    false_alarm: float
    stopped: str = ""
    records: int = 1
    event: str = ""
    relation: str = ""


@define(eq=False)
class _Game:
    """Outputs and coins so far, the bettors, and what they guessed."""

    purse: BetAccount
    values: list[Floats] = field(factory=list)
    second: list[bool] = field(factory=list)
    outcomes: list[Ints] = field(factory=list)
    wealth: float = 0.0
    most: float = 0.0
    guesses: int = 0
    right: int = 0
    bets: int = 0
    due: int = LOOKS
    scores: tuple[BetScore, ...] = ()

    def learn(self) -> None:
        """Scores from all fits so far, whenever there are a fifth more of them."""
        if len(self.second) < self.due:
            return
        self.scores = learned(np.stack(self.values), np.array(self.second))
        self.due = max(self.due + CHUNK, int(len(self.second) * GROWTH))

    def play(self, values: Floats, second: NDArray[np.bool_]) -> None:
        """Bet on these fits with the scores of the earlier ones, then take note of them."""
        if self.scores:
            said = np.stack([score.guesses(values) for score in self.scores], axis=1)
            outcomes = said * np.where(second, 1, -1)[:, None, None]
            leading = outcomes[(slice(None), *self.purse.favourite())]
            self.guesses += int((leading != 0).sum())
            self.right += int((leading > 0).sum())
            path = self.purse.settle(outcomes)
            self.wealth, self.most = float(path[-1]), max(self.most, float(path.max()))
            self.outcomes.append(outcomes)
            self.bets += len(second)
        self.values += list(values)
        self.second += second.tolist()

    def hopeless(self, goal: float, left: int) -> bool:
        """Whether the bettor who won the most would not come near `goal` at twice that speed."""
        if self.bets < 2 * LOOKS:
            return False
        speed = (max(self.purse.best(), 0.0) + 1.0) / self.bets
        return self.wealth + 2 * speed * left < goal


def _coins(seed: int | None) -> Callable[[int], NDArray[np.bool_]]:
    """So many fair coins: the operating system's, or bits of a hash of the seed, for tests."""
    tossed = 0

    def toss(size: int) -> NDArray[np.bool_]:
        nonlocal tossed
        if seed is None:
            words = secrets.token_bytes(size)
        else:
            words = hashlib.shake_256(f"{seed}.{tossed}".encode()).digest(size)
            tossed += 1
        return np.asarray(np.frombuffer(words, dtype=np.uint8) % 2 == 1)

    return toss


def _goal(false_alarm: float) -> float:
    """Log wealth that disproves; a little more, for what sums of logarithms lose by rounding."""
    return -math.log(false_alarm) + 1e-6


def fits_needed(epsilon: float, false_alarm: float = FALSE_ALARM) -> int:
    """Fits after which a whole leak is proved to cost more than `epsilon`, and a few more."""
    gain = math.log1p(SHARES[-1] * float(BetClaim(epsilon).stakes()[2]))
    first = math.log(len(SHARES) / shares_of_bets()[0])  # one way to bet has to do it
    return LOOKS + CHUNK * (2 + math.ceil((_goal(false_alarm) + first) / gain / CHUNK))


def _row(output: ArrayLike) -> Floats:
    found = np.asarray(output, dtype=np.float64).ravel()
    return np.clip(np.nan_to_num(found, nan=-_FAR, posinf=_FAR, neginf=-_FAR), -_FAR, _FAR)


def guess(fit: Callable[[int], ArrayLike], *, epsilon: float, delta: float = 0.0, fits: int = FITS,
          false_alarm: float = FALSE_ALARM, seed: int | None = None, records: int = 1,
          claims: Sequence[tuple[float, float]] = (), patient: bool = True) -> Guessed:
    """Guess from the output which of two tables each fit was on, and bet on being right.

    Args:
        fit: of 0 or 1, the table; gives the output, the same number of floats each time.
        epsilon, delta: what the mechanism claims of one record.
        fits: at most, on either table. It stops as soon as the claim is disproved.
        false_alarm: probability that an honest mechanism is said to break its claim.
        seed: of the coins, for tests; None for the operating system's.
        records: in which the two tables differ.
        claims: further (epsilon, delta) that hold of these two tables if the mechanism is what
            it says, for example all of a Gaussian's: they see more. None of them follows from
            `epsilon` alone.
        patient: whether to go on where there is no hope.

    >>> honest = guess(lambda table: [0.0], epsilon=1.0, fits=100, seed=1)
    >>> honest.holds, honest.epsilon_low
    (True, 0.0)
    >>> leak = guess(lambda table: [table], epsilon=1.0, fits=100, seed=1)
    >>> leak.holds, leak.stopped
    (False, 'disproved')
    """
    non_negative("epsilon", epsilon)
    probability("delta", delta, zero=True)
    probability("false_alarm", false_alarm)
    count("fits", fits)
    count("records", records)
    every = [for_a_group(epsilon, delta, records),
             *(BetClaim(non_negative("epsilon", e), probability("delta", d, zero=True, one=True))
               for e, d in claims)]
    game = _Game(BetAccount(every, np.outer(_WEIGHTS, shares_of_bets())))
    goal, stopped, coins = _goal(false_alarm), "", _coins(seed)
    for begun in stepwise(f"fits, {CHUNK} at a time", range(0, fits, CHUNK)):
        game.learn()
        tossed = coins(min(CHUNK, fits - begun))
        game.play(np.stack([_row(fit(int(coin))) for coin in tossed]), tossed)
        if game.most >= goal:
            stopped = "disproved"
        elif not patient and game.hopeless(goal, fits - len(game.second)):
            stopped = "hopeless"
        if stopped:
            break
    low = _epsilon_low(game, delta, records, goal)
    if stopped != "disproved":
        low = min(low, epsilon)
    return Guessed(float(epsilon), len(game.second), game.guesses, game.right, game.most, low,
                   stopped != "disproved", float(delta), float(false_alarm), stopped, records,
                   NAMES[game.purse.favourite()[0]])


def _epsilon_low(game: _Game, delta: float, records: int, goal: float) -> float:
    """The largest epsilon that the same guesses disprove, by bisection; 0 if none.

    Its stakes fall as epsilon rises, for every outcome: so does the wealth, and what disproves
    one epsilon disproves all smaller ones.
    """
    if not game.outcomes:
        return 0.0
    outcomes = np.concatenate(game.outcomes)

    def disproved(epsilon: float) -> bool:
        claim = for_a_group(epsilon, delta, records)
        stakes = claim.stakes()
        # Never more than these lose in truth: a missing guess costs delta, not less.
        stakes[1] = -claim.delta
        path = np.cumsum(log_factors(stakes[None])[outcomes + 1], axis=0)
        return bool((log_sum((path + game.purse.prior[..., :1, :] + math.log(
            game.purse.prior.shape[2])).reshape(len(path), -1)) >= goal).any())

    low, high = 0.0, 0.25
    if not disproved(0.0):
        return 0.0
    while high < 64 and disproved(high):
        low, high = high, 2 * high
    for _ in range(10):
        middle = (low + high) / 2
        low, high = (middle, high) if disproved(middle) else (low, middle)
    return low


def guessing_audit(learner: Priced, example: Example | None = None, *, pair: Pair | None = None,
                   fits: int = FITS, false_alarm: float = FALSE_ALARM, way: Way | None = None,
                   seed: int | None = None, deep: bool = True, patient: bool = True) -> Guessed:
    """Fit a learner on two tables, as the coin says, and bet against its epsilon and its plan.

    The tables are equal records, and beside them as many with the farthest target as make a
    lie most visible: one table is so many steps from the other.

    Args:
        example: whose records the tables are made of. pair: neighbouring tables of your own,
            where you know a worse case.
        fits: at most, in all. way: how the learner gets its tables; None for behind a ledger.
        deep: whether to bet against all that the plan says, or its epsilon and delta alone, on
            tables that differ in one record.
        false_alarm, seed, patient: as for `guess`.
    """
    relation = relation_of(learner)
    base = examples_for(learner, example)[0] if pair is None else pair[0]
    epsilon, plan = float(learner.epsilon), PlanClaims(1, ())
    if deep:
        plan = plan_claims(fresh(learner).plan(base.schema), epsilon, relation,
                           most=MOST_RECORDS if pair is None else 1)
    tables = worst_pair(base, relation, plan.records) if pair is None else pair
    probes, by = probes_beside(tables[0]), ways(learner)[0] if way is None else way
    found = guess(lambda table: outputs(by.fit(tables[table]), probes), epsilon=epsilon,
                  delta=delta_of(learner), fits=fits, false_alarm=false_alarm, seed=seed,
                  records=plan.records, claims=plan.claims, patient=patient)
    return evolve(found, relation=relation)
