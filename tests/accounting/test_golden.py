"""Values from other libraries: equal where exact, never below a lower bound, as small as any.

Every case is priced as a node, through the public functions. Two values of the file have fewer
digits than the rest, which are listed here as exceptions.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privledger as pl
from privledger.accounting import Cost, RdpCurve, Relation, delta_at, epsilon_at
from tests.all_cases import all_cases

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden" / "accounting.json"
CASES: list[dict[str, Any]] = json.loads(GOLDEN.read_text())["cases"] if GOLDEN.exists() else []
pytestmark = pytest.mark.skipif(not CASES, reason="the shared golden file is not here")

EXACT = 1e-9
UPPER = 1.001  # our largest multiple of the smallest upper bound
# Found by a search that stops early; acc-272 and acc-276 have the same inputs and more digits.
ROUGH = {"acc-273": 5e-8, "acc-277": 5e-8}


def key(case: dict[str, Any]) -> str:
    return json.dumps([case["quantity"], case["inputs"]], sort_keys=True)


def smallest_uppers() -> dict[str, float]:
    found: dict[str, float] = defaultdict(lambda: math.inf)
    for case in CASES:
        if case["bound"] == "upper" and case["quantity"] in ("epsilon", "delta"):
            found[key(case)] = min(found[key(case)], case["value"])
    return found


BEST = smallest_uppers()


def chosen(*quantities: str) -> list[Any]:
    return [pytest.param(case, id=f"{case['id']}-{case['category']}-{case['bound']}")
            for case in CASES if case["quantity"] in quantities]


def leaf(values: dict[str, Any]) -> pl.Node:
    """The mechanism of a case, once and on all records."""
    if "rho" in values:
        return pl.AssertedZCDP(values["rho"], "the golden file")
    if "noise_parameter" in values:
        return pl.RandomizedResponse(values["noise_parameter"], values["num_buckets"])
    match values["mechanism"]:
        case "gaussian":
            return pl.Gaussian(values["sigma"])
        case "laplace":
            return pl.Laplace(values["scale_over_sensitivity"])
        case "exponential":
            return pl.Exponential(values["eps"])
        case "discrete_laplace":
            return pl.DiscreteLaplace(values["parameter"], values["sensitivity"])
        case "discrete_gaussian":
            return pl.DiscreteGaussian(values["sigma"], values["sensitivity"])
        case "laplace_svt":
            return pl.SparseVector(values["b"], 2 * values["b"], values["c"])
    raise AssertionError(f"no node for {values}")


def plan(values: dict[str, Any]) -> pl.Node:
    if "gaussian_sigmas" in values:
        return pl.Sequential([
            *(pl.Gaussian(sigma) for sigma in values["gaussian_sigmas"]),
            *(pl.Laplace(scale) for scale in values["laplace_scales"]),
            *(pl.Exponential(epsilon) for epsilon in values["exponential_eps"]),
            *(pl.Repeat(pl.PoissonSample(rate, pl.Gaussian(sigma)), count)
              for rate, sigma, count in values["poisson_gaussian_q_sigma_T"])])
    return around(leaf(values), values)


def around(node: pl.Node, values: dict[str, Any]) -> pl.Node:
    """`node` sampled and repeated as a case says."""
    if "sample_size" in values:
        node = pl.nodes.FixedSizeSample(values["sample_size"], values["source_dataset_size"], node)
    elif "q" in values:
        node = pl.PoissonSample(values["q"], node)
    return pl.Repeat(node, values["T"]) if values.get("T", 1) > 1 else node


def relation(values: dict[str, Any]) -> Relation:
    replaced = "noise_parameter" in values or "sample_size" in values
    assert values.get("neighbouring", "add_remove") == "add_remove" or replaced
    return "replace_one" if replaced else "add_remove"


def price(case: dict[str, Any]) -> float:
    values, wanted = case["inputs"], case["quantity"]
    if case["category"] == "rdp_to_dp":  # a bare curve is no node: the public conversion of one
        curve = RdpCurve(tuple(map(float, values["orders"])), tuple(values["rdp"]))
        cost = Cost("add_remove", math.inf, None, curve)
        return (delta_at(cost, values["epsilon"]).delta if wanted == "delta"
                else epsilon_at(cost, values["delta"]).epsilon)
    if wanted == "delta":
        return pl.delta(plan(values), values["epsilon"], relation(values))
    return pl.epsilon(plan(values), values["delta"], relation(values))


@all_cases("case", chosen("epsilon", "delta"))
def test_prices(case: dict[str, Any]) -> None:
    found = price(case)
    if case["bound"] == "lower":
        assert found >= case["value"]
    elif case["bound"] == "upper":
        assert 0 < found <= BEST[key(case)] * UPPER
    else:
        assert found == pytest.approx(case["value"], rel=EXACT)


@all_cases("case", chosen("epsilon", "delta"))
def test_bounds_of_the_same_inputs_hold_together(case: dict[str, Any]) -> None:
    """What is exact or a lower bound here is no larger than any upper bound of the file."""
    if case["bound"] != "upper":
        assert case["value"] <= BEST[key(case)] * (1 + EXACT)


@all_cases("case", chosen("rdp"))
def test_renyi_curves(case: dict[str, Any]) -> None:
    values = case["inputs"]
    orders = np.array(values["orders"], dtype=float)
    found = pl.rdp(plan(values), orders.tolist(), relation(values))
    expected = np.array(case["value"], dtype=float)
    known = np.isfinite(expected)
    assert known.any() and np.isfinite(found[known]).all()
    if case["bound"] == "upper":
        assert (found[known] <= expected[known] * UPPER).all()
        return
    np.testing.assert_allclose(found[known], expected[known], rtol=EXACT)


@all_cases(
    "case", chosen("sigma", "scale_over_sensitivity"))
def test_calibration(case: dict[str, Any]) -> None:
    values = case["inputs"]
    kind = {"gaussian": pl.Gaussian, "laplace": pl.Laplace}[values["mechanism"]]

    def build(noise: float) -> pl.Node:
        return around(kind(noise), values)

    noise = pl.calibrate(build, epsilon=values["epsilon"], delta=values["delta"])
    assert pl.epsilon(build(noise), values["delta"]) <= values["epsilon"]
    if case["bound"] == "upper":
        assert noise <= case["value"] * UPPER
    else:
        assert noise == pytest.approx(case["value"], rel=ROUGH.get(case["id"], EXACT))


def test_every_case_is_priced() -> None:
    known = {"epsilon", "delta", "rdp", "sigma", "scale_over_sensitivity"}
    assert {case["quantity"] for case in CASES} <= known
    assert {case["bound"] for case in CASES} <= {"exact", "lower", "upper"}
