"""What one call of a mechanism costs, in every currency.

`renyi` gives a Renyi bound in nats at an order, `pure` an epsilon, `gdp` a squared Gaussian-DP
parameter, `zcdp` a rho; each infinite where nothing is proved.
"""

from __future__ import annotations

import math
from typing import Any, Callable  # noqa: UP035

from .closed_forms import (
    LAPLACE,
    RANGE,
    STEPS,
    Shape,
    gain,
    lesser,
    mu_of_pure,
    of_choices,
    of_laplace,
    of_range,
    of_response,
    of_steps,
    on_sample,
)
from .reading import Bad, Node, NoPrice

Curve = Callable[[float], float]
Atom = tuple[float, float]  # loss, and its chance under the likelier table; or what a record adds


class Price:
    """Of a node, for one relation.

    `exact` is the squared mu of what is Gaussian through and through, else None. `failure` is a
    probability with which nothing is promised. `shape` is what a sample can say more of,
    `choices` how often a range is all there is, and `rows` is squared mu and rho for several rows.
    `amounts`, where a random amount is all there is: its law, of how many rows, if exchanged.
    """

    __slots__ = ("amounts", "choices", "exact", "failure", "gdp", "pure", "renyi", "rows", "shape",
                 "zcdp")

    def __init__(self, renyi: Curve, pure: float = math.inf, exact: float | None = None,
                 gdp: float | None = None, zcdp: float | None = None,
                 failure: float = 0.0, shape: Shape | None = None) -> None:
        self.renyi, self.pure, self.exact, self.failure = renyi, pure, exact, failure
        self.shape, self.choices = shape, (shape[1], 1) if shape and shape[0] == RANGE else None
        if gdp is None:
            gdp = exact if exact is not None else mu_of_pure(pure) ** 2
        if zcdp is None:
            zcdp = 0.0 if pure == 0 else gdp / 2
            if pure < math.inf:
                zcdp = min(zcdp, pure * math.tanh(pure / 2))
        self.gdp, self.zcdp = gdp, zcdp
        self.amounts: tuple[tuple[Atom, ...], int, bool] | None = None
        self.rows: Callable[[int], tuple[float, float]] = self.by_steps

    def by_steps(self, steps: int) -> tuple[float, float]:
        """Squared mu and rho of tables so many records apart: square roots add up; a pure part
        and a release that is known by its shape cost less."""
        found = [(self.gdp * steps**2, self.zcdp * steps**2)]
        if 0 < self.pure < math.inf:
            found.append(of_steps(self.pure, steps))
        if self.shape is not None:
            size = self.shape[1] * steps
            found.append(of_laplace(size) if self.shape[0] == LAPLACE else of_range(size)
                         if self.shape[0] == RANGE else
                         of_steps(self.shape[1], int(self.shape[2]) * steps))
        if self.choices is not None:
            found.append((of_choices(self.choices[0] * steps, self.choices[1]), math.inf))
        return min(one[0] for one in found), min(one[1] for one in found)


def nothing() -> Price:
    """The price of what releases nothing."""
    return Price(lambda order: 0.0, 0.0, 0.0)


def laplace_curve(epsilon: float) -> Curve:
    """Mironov 2017 (arXiv:1702.07476), Prop. 6."""
    def curve(order: float) -> float:
        beta, rise = order - 1, (order - 1) * epsilon
        if rise > 600:
            return epsilon + (math.log(order / (2 * order - 1)) + beta / order * math.exp(
                -min((2 * order - 1) * epsilon, 600))) / beta
        fall = order * epsilon
        moment = (order * over_one(rise) + beta * over_one(-fall)) / (2 * order - 1)
        return min(epsilon, math.log1p(moment) / beta)
    return curve


def over_one(x: float) -> float:
    """exp(x) - 1 - x, with all digits."""
    if abs(x) < 0.1:
        return sum(x**k / math.factorial(k) for k in range(2, 14))
    return math.expm1(x) - x


def pure_curve(epsilon: float) -> Curve:
    """Randomized response, the largest of all. Bun, Steinke 2016 (arXiv:1605.02065), Lemma B.4."""
    def curve(order: float) -> float:
        beta = order - 1
        if epsilon > 600 or beta * epsilon > 600:
            tails = math.log1p(math.exp(-min((2 * beta + 1) * epsilon, 600)))
            return max(0.0, epsilon - (math.log1p(math.exp(-min(epsilon, 600))) - tails) / beta)
        likely = 1 / (1 + math.exp(-epsilon))
        moment = likely * gain(epsilon, beta) + (1 - likely) * gain(-epsilon, beta)
        return min(epsilon, math.log1p(moment) / beta)
    return curve


def integer_curve(parameter: float, sensitivity: int) -> Curve:
    """Of integer noise on an integer: what it loses, and no more (a sample shows that it is less
    than what pure DP says)."""
    epsilon = parameter * sensitivity
    if sensitivity > 2000 or epsilon > 30:
        return lambda order: 0.9 * laplace_curve(epsilon)(order)
    ratio = math.exp(-parameter)
    ends = 1 / (1 + ratio)
    middle = [(parameter * (sensitivity - 2 * x), (1 - ratio) / (1 + ratio) * ratio**x)
              for x in range(1, sensitivity)]
    atoms = [(epsilon, ends), (-epsilon, ends * ratio**sensitivity), *middle]

    def curve(order: float) -> float:
        beta = order - 1
        if beta * epsilon > 600:
            return 0.9 * epsilon
        return min(epsilon, math.log1p(max(0.0, math.fsum(
            mass * gain(loss, beta) for loss, mass in atoms))) / beta)
    return curve


def bounded_curve(eta: float) -> Curve:
    """Losses t and t - eta at the worst t. Dong, Durfee, Rogers 2020 (arXiv:1909.13830)."""
    def curve(order: float) -> float:
        beta = order - 1
        if eta == 0:
            return 0.0
        peak, log_c = worst_loss(eta, order), math.log(-math.expm1(-eta))
        if beta * eta > 1 or eta > 1:
            found = peak + (math.log(-math.expm1(-order * eta)) - math.log(order) - log_c) / beta
            return min(eta, order * eta * eta / 8, max(0.0, found))
        likely = -math.expm1(peak - eta) / -math.expm1(-eta)
        rare = math.exp(peak - eta) * -math.expm1(-peak) / -math.expm1(-eta)
        moment = likely * gain(peak, beta) + rare * gain(peak - eta, beta)
        return min(eta, order * eta * eta / 8, math.log1p(moment) / beta)
    return curve


def worst_loss(eta: float, order: float) -> float:
    """The t of the largest moment: exp(t) = (1 - exp(-a eta)) b / ((exp(-eta) - exp(-a eta)) a),
    for a = order and b = order - 1."""
    beta = order - 1
    return eta + log_share(order * eta) - log_share(beta * eta)


def log_share(x: float) -> float:
    """log((1 - exp(-x)) / x)."""
    if x < 0.05:
        return x * (-0.5 + x * (1 / 24 - x**2 / 2880 + x**4 / 181440))
    return math.log(-math.expm1(-x)) - math.log(x)


def pure_price(epsilon: float, curve: Curve | None = None, failure: float = 0.0) -> Price:
    """The price of an epsilon; `curve` if more is known than pure DP says."""
    return Price(curve or pure_curve(epsilon), epsilon, failure=failure,
                 shape=None if failure else (STEPS, epsilon, 1))


def laplace_price(epsilon: float) -> Price:
    """The price of a threshold with Laplace noise, which noisy maxima are at most."""
    return Price(laplace_curve(epsilon), epsilon, None, *of_laplace(epsilon),
                 shape=(LAPLACE, epsilon))


def bounded_price(eta: float) -> Price:
    """The price of a bounded range eta."""
    return Price(bounded_curve(eta), eta, None, *of_range(eta), shape=(RANGE, eta))


def on_poisson(rate: float, inner: Price, found: Price) -> Price:
    """What is known of a Poisson sample by pure DP, and by what one release inside may be."""
    if 0 < inner.pure < math.inf:
        known = [on_sample(rate, (STEPS, inner.pure, 1), found.pure)]
        if inner.shape is not None:
            known.append(on_sample(rate, inner.shape, found.pure))
        for one in known:
            found.gdp, found.zcdp = lesser((found.gdp, found.zcdp), one)
    return found


def rho_price(rho: float) -> Price:
    """The price of zCDP with this rho; no pure epsilon follows."""
    return Price(lambda order: order * rho, gdp=math.inf, zcdp=rho)


def integer_price(sigma: float, sensitivity: int) -> Price:
    """A discrete Gaussian: zCDP of the Gaussian, and its Gaussian DP where it is wide."""
    usual = rho_price((sensitivity / sigma) ** 2 / 2)
    if sigma > 2000 and sensitivity <= 1e4 * sigma:
        usual.gdp = sensitivity**2 / (sigma**2 - 64)
    return usual


def leaf_price(node: Node, relation: str) -> Price:
    """For the relation that its sensitivity is stated for."""
    name, field = node.name, node.fields
    if name in ("PostProcess", "Public"):
        return nothing()
    if relation == "replace_label":
        raise Bad(f"{name} outside of LabelOnly, in a ledger about labels")
    if name == "Gaussian":
        squared = field["noise_multiplier"] ** -2
        return Price(lambda order: order * squared / 2, exact=squared)
    if name == "Laplace":
        return laplace_price(field["l1_sensitivity"] / field["scale"])
    if name == "DiscreteLaplace":
        parameter, steps = field["parameter"], field["sensitivity"]
        return Price(integer_curve(parameter, steps), parameter * steps, None,
                     *of_steps(parameter, steps), shape=(STEPS, parameter, steps))
    if name == "DiscreteGaussian":
        return integer_price(field["sigma"], field["sensitivity"])
    if name == "Exponential":
        low, high = field["score_change"]
        return bounded_price(field["epsilon"] * (high - low) / 2)
    if name in ("ReportNoisyMax", "TopK") and field["noise"] == "gumbel":
        return bounded_price(field["epsilon"])
    if name in ("PermuteAndFlip", "ReportNoisyMax", "TopK"):
        return laplace_price(field["epsilon"])
    if name == "PartitionSelection":
        return group_price(field, relation)
    if name == "Asserted":
        return pure_price(field["epsilon"], failure=field["delta"])
    if name == "AssertedZCDP":
        return rho_price(field["rho"])
    return sparse(field) if name == "SparseVector" else response(field, relation)


def group_price(field: Any, relation: str) -> Price:
    """Counts of all groups that one person is in; fails where a group of one person shows."""
    scale, groups, noise = field["scale"], field["groups_per_person"], field["noise"]
    far, epsilon = (field["threshold"] - 1) / scale, groups / scale
    alone = {"laplace": math.exp(-far) / 2, "gaussian": math.erfc(far / math.sqrt(2)) / 2,
             "geometric": math.exp(-far) * math.tanh(0.5 / scale)}[noise]
    drawn = noise != "geometric" or (0.125 <= scale <= 1000 and alone >= 8.99e-13)
    if relation != "add_remove" or not (field["threshold"] > 1 and drawn):
        raise Bad("PartitionSelection outside of add_remove, or with a number that it cannot have")
    failure = -math.expm1(groups * math.log1p(-alone))
    if noise == "gaussian":
        squared = groups / scale**2
        return Price(lambda order: order * squared / 2, gdp=squared, failure=failure)
    return (pure_price(epsilon, failure=failure) if noise == "geometric" else
            Price(laplace_curve(epsilon), epsilon, None, *of_laplace(epsilon), failure))


def sparse(field: Any) -> Price:
    """The threshold once, then every query that is found."""
    first = field["sensitivity"] / field["threshold_scale"]
    each = field["sensitivity"] / field["query_scale"] * (1 if field["monotone"] else 2)
    found = each * field["cutoff"]
    threshold, both = laplace_curve(first), pure_curve(first + found)
    return pure_price(first + found, lambda order: min(both(order), threshold(order) + found))


def response(field: Any, relation: str) -> Price:
    """Randomized response, with its two or three losses."""
    if relation != "replace_one":
        raise Bad("RandomizedResponse outside of replace_one")
    noise, buckets = field["noise_parameter"], field["num_buckets"]
    epsilon = math.log1p(buckets * (1 - noise) / noise)
    if epsilon == 0:
        return nothing()
    two = pure_curve(epsilon)
    if buckets == 2:
        return pure_price(epsilon, two)
    both = of_response(epsilon, noise, buckets)
    share = 1 - noise + 2 * noise / buckets

    def curve(order: float) -> float:
        beta, bound = order - 1, two(order)
        if beta * bound >= 600:
            return bound
        return min(bound, math.log1p(share * math.expm1(beta * bound)) / beta)
    return Price(curve, epsilon, None, *both, shape=(STEPS, epsilon, 1))


# Renyi divergences of mechanisms that run on a random sample.

DIGITS = 60.0
MOST_POINTS = 200_000
MOST_MOMENTS = 96


def excess(loss: float, order: float) -> float:
    """log of (1 + u)^order - 1 - order u, for loss = log(1 + u); minus infinity for 0."""
    high = order * loss
    if abs(loss) * order < 0.05:
        value = sum((order**k - order) * loss**k / math.factorial(k) for k in range(2, 14))
    elif high > 40:
        share = order * math.expm1(loss) if loss < 700 else math.inf
        return high + (math.log1p(-(1 + share) * math.exp(-high)) if share < math.inf else 0.0)
    else:
        value = math.expm1(high) - order * math.expm1(loss)
    return math.log(value) if value > 0 else -math.inf


def sampled_gaussian(rate: float, noise: float, order: float) -> float:
    """The trapezoid rule on the whole line, whose error falls with exp(-2 pi a / step).

    Mironov, Talwar, Zhang 2019 (arXiv:1908.10530) for the pair of distributions.
    """
    if not 0.02 <= noise <= 1e6 or not rate > 1e-12:
        raise NoPrice("a sample of a Gaussian with so much or so little noise")
    free = math.sqrt(2 * DIGITS)
    height = free if order == int(order) else min(free, 0.99 * math.pi * noise)
    step = 2 * math.pi * height / (DIGITS + height * height / 2)
    low, high = -free - 1, max(order, 2.0) / noise + free + 1
    if (high - low) / step > MOST_POINTS:
        raise NoPrice("a sample of a Gaussian at so high an order")
    logs = []
    for place in range(math.floor(low / step), math.ceil(high / step) + 1):
        x = place * step
        w = x / noise - 0.5 / noise**2
        loss = math.log1p(rate * math.expm1(w)) if w < 500 else w + math.log(rate)
        logs.append(excess(loss, order) - x * x / 2)
    top = max(logs)
    log_moment = top + math.log(math.fsum(math.exp(value - top) for value in logs)) + math.log(
        step) - math.log(math.sqrt(2 * math.pi))
    whole = math.log1p(math.exp(log_moment)) if log_moment < 40 else log_moment
    return whole / (order - 1)


def sampled_moments(rate: float, curve: Curve, order: float) -> float:
    """From the Renyi divergences of what runs, at whole orders; else the one below counts.

    The moment of (1 - q) Q + q P is a binomial sum of the moments of P against Q.
    """
    top = math.floor(order)
    if top < 2:
        return 0.0
    if top > 4096:
        raise NoPrice("a sample at so high an order")
    logs = []
    for k in range(2, top + 1):
        moment = (k - 1) * curve(float(k))
        if moment == math.inf:
            return math.inf
        choose = math.lgamma(top + 1) - math.lgamma(k + 1) - math.lgamma(top - k + 1)
        weight = choose + k * math.log(rate) + (top - k) * math.log1p(-rate)
        if moment > 0:
            logs.append(weight + (moment if moment > 40 else math.log(math.expm1(moment))))
    if not logs:
        return 0.0
    largest = max(logs)
    total = largest + math.log(math.fsum(math.exp(value - largest) for value in logs))
    return (math.log1p(math.exp(total)) if total < 40 else total) / (top - 1)


def allocated_curve(steps: int, curve: Curve, order: float) -> float:
    """A record in one of several rounds: from the mixture to the plain law, at the whole order
    below. order! / steps^order times a coefficient of a power of the series of one round's moments
    exp((k - 1) curve(k))/k!; all terms are positive.
    """
    top = min(math.floor(order), MOST_MOMENTS)
    if top < 2:
        return 0.0
    whole = steps
    series = [(k - 1) * curve(float(k)) - math.lgamma(k + 1) if k > 1 else 0.0
              for k in range(top + 1)]
    if series[-1] == math.inf:
        return 0.0
    found: list[float] | None = None
    while steps:
        if steps & 1:
            found = series if found is None else product_of(found, series)
        steps >>= 1
        series = product_of(series, series) if steps else series
    log_moment = (found or series)[top] + math.lgamma(top + 1) - top * math.log(whole)
    return max(0.0, log_moment) / (top - 1)


def product_of(one: list[float], other: list[float]) -> list[float]:
    """Coefficients of the product of two power series, all as logarithms."""
    found = []
    for n in range(len(one)):
        terms = [one[k] + other[n - k] for k in range(n + 1)]
        largest = max(terms)
        found.append(largest + math.log(math.fsum(math.exp(term - largest) for term in terms)))
    return found
