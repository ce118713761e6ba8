"""Faults in prices and in the ledger: what a plan costs, what is booked, what still fits."""

from __future__ import annotations

from tests.bench.zoo.faults_sums import GUESS, KIT, LOCK
from tests.bench.zoo.patching import Fault

REGISTER, SELECTION = "privledger/graph/register.py", "privledger/graph/selection.py"
METER, FOLD = "privledger/graph/meter.py", "privledger/graph/fold.py"
SAMPLING, COST = "privledger/graph/fold_rules.py", "privledger/accounting/cost.py"
TUNING, SUBSAMPLE = "privledger/accounting/tuning.py", "privledger/accounting/subsample.py"
RULES, DECIDE = "privledger/ledger/filters.py", "privledger/ledger/decide.py"
STATE, RESERVE = "privledger/ledger/state.py", "privledger/guard/reserve.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        "laplace-priced-per-unit", "charge", REGISTER,
        "    part = as_promised(mechanism.l1_sensitivity) / Fraction(mechanism.scale)\n",
        "    part = 1 / Fraction(mechanism.scale)\n",
        "joint-replace", (LOCK,),
        "A sensitivity of two is priced as one."),
    Fault(
        "gaussian-priced-lower", "charge", REGISTER,
        "    mu = up(1 / mechanism.noise_multiplier)\n",
        "    mu = up(0.9 / mechanism.noise_multiplier)\n",
        "sgbdt", (LOCK, GUESS),
        "A Gaussian is priced at nine tenths of its mu, and calibrated to that."),
    Fault(
        "range-halved", "charge", SELECTION,
        "        return as_promised(self.epsilon) * (high - low) / 2\n",
        "        return as_promised(self.epsilon) * (high - low) / 4\n",
        "joint", (LOCK,),
        "An exponential mechanism is priced at half of its bounded range."),
    Fault(
        "permute-and-flip-as-bounded", "charge", REGISTER,
        "relation, orders: _thresholds(as_promised(one.epsilon), relation, orders),\n",
        "relation, orders: _bounded(as_promised(one.epsilon), relation, orders),\n",
        "diprime-flip-delta", (LOCK,),
        "Permute-and-flip has no bounded range, and composes worse than it is priced."),
    Fault(
        "a-set-for-the-price-of-one", "charge", REGISTER,
        "    return price(as_promised(mechanism.epsilon), relation, orders)\n",
        '    return price(as_promised(mechanism.epsilon) / getattr(mechanism, "k", 1), relation, '
        "orders)\n",
        "dpsis-topk", (LOCK,),
        "The epsilon of a set of k is for all of it, and divided by k."),
    Fault(
        "responses-priced-as-more", "charge", REGISTER,
        "    epsilon = response_loss(noise, buckets)\n",
        "    epsilon = response_loss(noise, buckets) / 2\n",
        "label", (LOCK, GUESS),
        "A randomised response is priced at half of its log ratio."),
    Fault(
        "sequence-as-maximum", "charge", FOLD,
        "    return sequential([cost_of(child, relation, orders) for child in node.nodes])\n",
        "    return maximum([cost_of(child, relation, orders) for child in node.nodes])\n",
        "joint", (LOCK, GUESS),
        "Releases on the same records are priced as if they were on disjoint ones."),
    Fault(
        "one-repeat-free", "charge", FOLD,
        "    return repeat(cost_of(node.node, relation, orders), node.count)\n",
        "    return repeat(cost_of(node.node, relation, orders), max(1, node.count - 1))\n",
        "dpboost", (LOCK,),
        "One of the repeats is never paid for."),
    Fault(
        "one-part-of-two", "parallel", FOLD,
        "    twice = [child for child in distinct for _ in range(min(2, "
        "node.nodes.count(child)))]\n",
        "    twice = list(distinct)\n",
        "colours", (LOCK,),
        "A replaced record changes two parts, and one of them is charged."),
    Fault(
        "rate-priced-at-half", "charge", SAMPLING,
        "    losses = None if inner.losses is None else poisson(node.rate, inner.losses)\n",
        "    losses = None if inner.losses is None else poisson(node.rate / 2, inner.losses)\n",
        "sgbdt-sampled", (LOCK,),
        "A sample is priced at half of its rate."),
    Fault(
        "amplified-by-the-rate", "charge", SUBSAMPLE,
        "        value = math.log1p(rate * math.expm1(pure))\n",
        "        value = rate * pure\n",
        "sampled", (LOCK,),
        "The rate times epsilon is only what a small epsilon comes to; the truth is above."),
    Fault(
        "a-trial-for-nothing", "tuning", TUNING,
        "    return up((2 + shape) * epsilon * (1 + 1e-15))\n",
        "    return up((1 + shape) * epsilon * (1 + 1e-15))\n",
        "search", (LOCK,),
        "The best of many trials is priced at one trial less than the theorem."),
    Fault(
        "root-of-the-repeats", "charge", COST,
        "    part = None if part is None else part * repeats\n",
        "    part = None if part is None else part * Fraction(repeats**0.5)\n",
        "dpboost", (LOCK, GUESS),
        "Pure epsilons add up with the number of releases, not with its root."),
    Fault(
        "plans-at-half-price", "charge", RULES,
        "        if part is not None and part <= as_written(self.budget.epsilon):\n"
        "            return units_of_fraction(part), 0\n",
        "        if part is not None and part <= as_written(self.budget.epsilon):\n"
        "            return units_of_fraction(part / 2), 0\n",
        "joint", (LOCK,),
        "The ledger books half of the epsilon that a plan costs."),
    Fault(
        "mu-at-half-price", "charge", RULES,
        "            return units_up(cost.gdp_squared), failed\n",
        "            return units_up(cost.gdp_squared / 2), failed\n",
        "sgbdt", (LOCK,),
        "The ledger books half of the mu squared that a plan costs."),
    Fault(
        "half-is-written", "charge", RESERVE,
        "    return [*first, evolve(asked, units=decision.units, delta_units",
        "    return [*first, evolve(asked, units=decision.units // 2, delta_units",
        "joint", (LOCK, KIT),
        "What is written is half of what was decided."),
    Fault(
        "grants-not-added-up", "charge", STATE,
        "        self.units += units\n",
        "        self.units = max(self.units, units)\n",
        "two-grants", (LOCK,),
        "The total is the dearest grant: any number of them fit."),
    Fault(
        "whoever-fits-before", "over budget", DECIDE,
        "    return (units + charge.units <= rule.cap_units\n",
        "    return (units < rule.cap_units\n",
        "joint", (LOCK, KIT),
        "A plan is granted while anything is left, whatever it costs."),
    Fault(
        "cap-without-its-square", "over budget", RULES,
        '        return FilterRule("gdp", 0.0, budget, units_down(down(mu * mu)), reserve)\n',
        '        return FilterRule("gdp", 0.0, budget, units_down(down(mu)), reserve)\n',
        "sgbdt", (LOCK, KIT),
        "The cap on squares of mu is mu itself, which is larger below one."),
    Fault(
        "plan-never-used-up", "replayed grant", METER,
        "                self._left[leaf] = times - 1\n",
        "                self._left[leaf] = times\n",
        "overreaching", (LOCK,),
        "A reserved node answers again and again."),
    Fault(
        "one-repeat-more", "replayed grant", METER,
        "        flatten(node.node, times * node.count, counts)\n",
        "        flatten(node.node, times * (node.count + 1), counts)\n",
        "overreaching", (LOCK,),
        "One release more than was reserved is answered."),
    Fault(
        "any-rate-will-do", "replayed grant", METER,
        "        name: getattr(step, name) for name in found[1]} and (\n",
        "        name: found[1][name] if name == \"rate\" else getattr(step, name) "
        "for name in found[1]} and (\n",
        "overreaching", (LOCK,),
        "A sample of a larger rate is answered under the price of a smaller one."),
    Fault(
        "one-sample-as-two", "replayed grant", METER,
        "        if opened is not None:\n            bound, meters, unit = opened\n",
        "        if opened is not None and chain[0].kind != \"poisson\":\n"
        "            bound, meters, unit = opened\n",
        "overreaching", (LOCK,),
        "Two releases on one sample are paid for as on two."))
