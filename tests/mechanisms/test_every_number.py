"""Every parameter of every public name that takes a number, against every number that is none.

The parameters are found by introspection: a new one that is neither in `NUMBERS` nor in
`NO_NUMBERS` fails the test.
"""

import datetime
import inspect
import math
import re
import tempfile
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import privledger as pl
from privledger.questions.closed_set import BLOCKS, QUESTIONS


class OnlyFloat:
    def __float__(self):
        return 1.0


class OnlyIndex:
    def __index__(self):
        return 1


class Sneaky(float):
    """A float that compares as it likes."""

    def __lt__(self, other):
        return True

    __le__ = __gt__ = __ge__ = __lt__


class Sly(int):
    """A whole number that is never below another one, nor above."""

    def __lt__(self, other):
        return False

    __gt__ = __lt__


NONE = [
    math.nan, -math.nan, math.inf, -math.inf, np.float64("nan"), np.float32("nan"),
    np.float16("inf"), np.float32("-inf"), np.longdouble("nan"), np.longdouble("inf"),
    Sneaky("nan"), Sneaky("inf"), True, False, np.bool_(True), np.bool_(False), "1", "nan", "",
    "0x1", np.str_("1"), b"1", bytearray(b"1"), memoryview(b"1"), 1j, complex(1, 0),
    np.complex128(1), complex("nan"), [1.0], [], (1.0,), {1.0}, {1.0: 1.0}, frozenset({1}),
    np.array([1.0]), np.array([[1]]), np.array(1.0), np.array(2), np.array([]), np.array(True),
    np.array("1"), np.ma.masked, np.void(b"1"), np.datetime64("2026"), np.timedelta64(1, "s"),
    datetime.timedelta(1), datetime.date(2026, 1, 1), Decimal("NaN"), Decimal("sNaN"),
    Decimal("Infinity"), Decimal("-Infinity"), Decimal("1.5"), OnlyFloat(), OnlyIndex(), object(),
    float, int, len, range(2), slice(1), iter([1]), NotImplemented, Ellipsis, 10**400, -(10**400),
    Fraction(10**400), Fraction(-(10**400)), ValueError("1")]
"""Never a finite real number."""
assert len(NONE) >= 50

SUBNORMAL = [5e-324, -5e-324, 1e-310, np.float64(5e-324)]
NEGATIVE = [-1, -1.0, -1e-300, -0.5, np.float32(-1), np.int8(-1), Fraction(-1, 3), Sneaky(-1.0),
            Sly(-1)]
ZERO = [0, 0.0, -0.0, np.float64(-0.0), np.int64(0), Fraction(0)]
POSITIVE = [*NONE, None, *SUBNORMAL, *NEGATIVE, *ZERO]
BROKEN = [0.5, 1.0, 1.5, np.float64(2.0), Fraction(3, 2), 2.0]  # floats are no whole numbers
WHOLE = [*NONE, None, *NEGATIVE, *BROKEN]
COUNT = [*WHOLE, 0, np.int64(0)]
RATE = [*POSITIVE, 1.0000000000000002, 2, 1e300]
DELTA = [*NONE, None, *SUBNORMAL, *NEGATIVE, 1, 1.0, 1.5, 1e300]
FINITE = [*NONE]
AT_LEAST_ZERO = [*NONE, None, *SUBNORMAL, *NEGATIVE]
ORDER = [*POSITIVE, 1, 1.0, 0.5]

# In lists of whole numbers; a 0-d array of one is one.
PLACE = [v for v in [*NONE, None, -2, *BROKEN]
         if not (isinstance(v, np.ndarray) and v.shape == () and v.dtype.kind in "iu")]

MODEL = Path(tempfile.mkdtemp(prefix="pl-model-")) / "kept.model"
G = pl.Gaussian(1.0)
L = pl.Laplace(1.0)


def unless_none(values):
    return [value for value in values if value is not None]


def column(**more):
    return pl.Schema("s", (pl.Column("x", "numeric", "feature", **{"lower": 0.0, "upper": 1.0,
                                                                   **more}),))


def schema_of(**more):
    return {"name": "s", "columns": [{"name": "x", "kind": "numeric", "role": "feature",
                                      "lower": 0.0, "upper": 1.0}], **more}


# name.parameter -> (build from (book, data, value), what is refused)
NUMBERS = {
    "Asserted.epsilon": (lambda b, d, v: pl.Asserted(v, "why"), POSITIVE),
    "Asserted.delta": (lambda b, d, v: pl.Asserted(1.0, "why", v), DELTA),
    "AssertedZCDP.rho": (lambda b, d, v: pl.AssertedZCDP(v, "why"), POSITIVE),
    "Bins.numeric_bins": (lambda b, d, v: pl.questions.Bins(d.schema, numeric_bins=v),
                          [*COUNT, 65535]),
    "Budget.epsilon": (lambda b, d, v: pl.Budget(v), POSITIVE),
    "Budget.split.parts": (lambda b, d, v: pl.Budget(1.0).split(v), COUNT),
    "Budget.delta": (lambda b, d, v: pl.Budget(1.0, v), DELTA),
    "Budget.failure": (lambda b, d, v: pl.Budget(1.0, 0.5, v), DELTA),
    "Cap.labels": (lambda b, d, v: pl.Cap(pl.Budget(1.0), labels={"team": v}),
                   [v for v in POSITIVE if not isinstance(v, str)]),
    "Column.lower": (lambda b, d, v: column(lower=v), FINITE),
    "Column.upper": (lambda b, d, v: column(upper=v), FINITE),
    "ColumnValue.center": (lambda b, d, v: pl.questions.ColumnValue("size", v, 1.0), FINITE),
    "ColumnMoments.lower": (lambda b, d, v: pl.questions.ColumnMoments("size", v, 2.0), FINITE),
    "ColumnMoments.upper": (lambda b, d, v: pl.questions.ColumnMoments("size", 0.0, v), FINITE),
    "ColumnMoments.degree": (lambda b, d, v: pl.questions.ColumnMoments("size", 0.0, 1.0, v),
                             COUNT),
    "ColumnValue.scale": (lambda b, d, v: pl.questions.ColumnValue("size", 0.0, v), POSITIVE),
    "ColumnValue.clip": (lambda b, d, v: pl.questions.ColumnValue("size", 0.0, 1.0, clip=v),
                         POSITIVE),
    "CustomValue.clip": (lambda b, d, v: pl.questions.CustomValue(len, v, "why"), POSITIVE),
    "CustomValue.width": (lambda b, d, v: pl.questions.CustomValue(len, 1.0, "why", v), COUNT),
    "Bins.grid": (lambda b, d, v: pl.questions.Bins(d.schema, grid=v), COUNT),
    "Bins.cuts": (lambda b, d, v: pl.questions.Bins(
        d.schema, 8, [[v]] + [[]] * (len(d.schema.features) - 1)), [*COUNT, 2000]),
    **{f"TableChoice.{name}": (lambda b, d, v, place=place: pl.questions.TableChoice(
        d, (d.cells("size", [0.5]),), *([0.0, 0.0, v], [0.0]) if place else ([0.0] * 3, [v])),
        [*FINITE, None, 1e300]) for place, name in enumerate(("penalty", "expected"))},
    "QuantileChoice.quantile": (
        lambda b, d, v: pl.questions.QuantileChoice(d, "size", v, 0.0, 1.0), RATE),
    "QuantileChoice.lower": (
        lambda b, d, v: pl.questions.QuantileChoice(d, "size", 0.5, v, 1.0), [*FINITE, None]),
    "QuantileChoice.upper": (
        lambda b, d, v: pl.questions.QuantileChoice(d, "size", 0.5, 0.0, v), [*FINITE, None]),
    "QuantileChoice.bins": (
        lambda b, d, v: pl.questions.QuantileChoice(d, "size", 0.5, 0.0, 1.0, v), COUNT),
    "Dataset.quantile.quantile": (lambda b, d, v: d.quantile("size", v), RATE),
    "Dataset.quantile.lower": (lambda b, d, v: d.quantile("size", lower=v), FINITE),
    "Dataset.quantile.upper": (lambda b, d, v: d.quantile("size", upper=v), FINITE),
    "Dataset.quantile.bins": (lambda b, d, v: d.quantile("size", bins=v), COUNT),
    **{f"RowEncoding.{name}": (lambda b, d, v, place=place: pl.questions.RowEncoding(
        *({0: ["size"], 1: [0], 2: [0.0], 3: [1.0], 4: [False], 5: "", 6: 1.0, 7: 1.0, 8: (),
           9: 1e3} | {place: [[v, v]] if place == 8 else v if place > 5 else [v]}).values()), kinds)
       for place, name, kinds in (
           (1, "categories", WHOLE), (2, "centers", FINITE), (3, "scales", POSITIVE),
           (6, "weight", POSITIVE), (7, "reach", [*POSITIVE, 64.5]),
           (8, "waves", [*FINITE, 1024.5]), (9, "steep", [*POSITIVE, 999.0, 1e13]))},
    "LinearGradient.clip": (lambda b, d, v: pl.questions.LinearGradient(
        pl.questions.RowEncoding(["size"], [0], [0.0], [1.0], [False]), v), POSITIVE),
    "NearestCells.centers": (lambda b, d, v: pl.questions.NearestCells(["size"], [[v]]),
                             [*NONE, 1.0000000000000002, -2, 1e300]),
    "RowValues.clip": (lambda b, d, v: pl.questions.RowValues(["size"], v), POSITIVE),
    "Dataset.row_sum.clip": (lambda b, d, v: d.row_sum(["size"], clip=v),
                             [value for value in POSITIVE if value is not None]),
    "Dataset.features_by.weights": (
        lambda b, d, v: d.features_by("agreement", weights=(v,)), COUNT),
    "Dataset.bins.grid": (lambda b, d, v: d.bins(grid=v), COUNT),
    "Dataset.bins.cuts": (lambda b, d, v: d.bins(
        8, [[v]] + [[]] * (len(d.schema.features) - 1)), [*COUNT, 2000]),
    "Dataset.bins.numeric_bins": (lambda b, d, v: d.bins(numeric_bins=v), COUNT),
    "Dataset.cells.edges": (lambda b, d, v: d.cells("size", edges=[v, 2.0]), FINITE),
    "Dataset.custom.sensitivity": (lambda b, d, v: d.custom(len, v, "why"), POSITIVE),
    "Dataset.histogram.edges": (lambda b, d, v: d.histogram("size", edges=[v, 2.0]), FINITE),
    "Dataset.partition.parts": (lambda b, d, v: d.partition(v), [*COUNT, 1]),
    "AboveThreshold.threshold": (
        lambda b, d, v: d.sparse_vector().above(d.count(), v), FINITE),
    "ThresholdRun.above.threshold": (
        lambda b, d, v: d.sparse_vector().above(d.count(), v), FINITE),
    "ThresholdRun.depth": (lambda b, d, v: pl.questions.ThresholdRun(v), WHOLE),
    "Dataset.fixed_size.size": (lambda b, d, v: d.fixed_size(v, 10), COUNT),
    "Dataset.fixed_size.out_of": (lambda b, d, v: d.fixed_size(2, v), COUNT),
    "Dataset.truncated_poisson.rate": (lambda b, d, v: d.truncated_poisson(v, 5, 10), RATE),
    "Dataset.truncated_poisson.most": (lambda b, d, v: d.truncated_poisson(0.5, v, 10), COUNT),
    "Dataset.truncated_poisson.out_of": (lambda b, d, v: d.truncated_poisson(0.5, 5, v), COUNT),
    "Dataset.random_allocation.steps": (lambda b, d, v: d.random_allocation(v), [*COUNT, 1]),
    "Dataset.poisson.rate": (lambda b, d, v: d.poisson(v), RATE),
    "Dataset.score.start": (lambda b, d, v: d.score("squared", [v]), FINITE),
    "Dataset.score.center": (lambda b, d, v: d.score("squared", [0.0], center=v), FINITE),
    "Dataset.score.scale": (lambda b, d, v: d.score("squared", [0.0], scale=v), POSITIVE),
    "Dataset.sum.lower": (lambda b, d, v: d.sum("size", lower=v), FINITE),
    "Dataset.sum.upper": (lambda b, d, v: d.sum("size", upper=v), FINITE),
    "Correlated.coefficients": (
        lambda b, d, v: pl.nodes.Correlated(G, (1.0, v), 9, 4, 2), FINITE),
    "dyadic.coefficients": (lambda b, d, v: pl.nodes.dyadic([v]), FINITE),
    "Dataset.correlated.groups": (lambda b, d, v: d.correlated(v),
                                  [value for value in [*COUNT, 1] if value is not None]),
    "Correlated.steps": (lambda b, d, v: pl.nodes.Correlated(G, (1.0,), v, 1, 2), COUNT),
    "Correlated.separation": (lambda b, d, v: pl.nodes.Correlated(G, (1.0,), 9, v, 2), COUNT),
    "Correlated.participations": (lambda b, d, v: pl.nodes.Correlated(G, (1.0,), 9, 4, v), COUNT),
    "MixtureOfGaussians.standard_deviation": (
        lambda b, d, v: pl.nodes.MixtureOfGaussians(v, [1.0], [1.0]), POSITIVE),
    "MixtureOfGaussians.sensitivities": (
        lambda b, d, v: pl.nodes.MixtureOfGaussians(1.0, [1.0, v], [0.5, 0.5]), AT_LEAST_ZERO),
    "MixtureOfGaussians.probabilities": (
        lambda b, d, v: pl.nodes.MixtureOfGaussians(1.0, [0.0, 1.0], [0.5, v]), [*RATE, 0.4]),
    "DiscreteGaussian.sigma": (lambda b, d, v: pl.DiscreteGaussian(v), POSITIVE),
    "DiscreteGaussian.sensitivity": (lambda b, d, v: pl.DiscreteGaussian(1.0, v), COUNT),
    "DiscreteLaplace.parameter": (lambda b, d, v: pl.DiscreteLaplace(v), POSITIVE),
    "DiscreteLaplace.sensitivity": (lambda b, d, v: pl.DiscreteLaplace(1.0, v), COUNT),
    "Exponential.epsilon": (lambda b, d, v: pl.Exponential(v), POSITIVE),
    "FixedSizeSample.size": (lambda b, d, v: pl.nodes.FixedSizeSample(v, 10, G), COUNT),
    "FixedSizeSample.out_of": (lambda b, d, v: pl.nodes.FixedSizeSample(2, v, G), COUNT),
    "Gaussian.noise_multiplier": (lambda b, d, v: pl.Gaussian(v), POSITIVE),
    "Gaussian.shares": (lambda b, d, v: pl.Gaussian(1.0, (v, 0.1)), POSITIVE),
    "Group.rows": (lambda b, d, v: pl.nodes.Group(v, G), COUNT),
    "IndividualFilter.cap": (lambda b, d, v: pl.IndividualFilter("gdp", v), POSITIVE),
    "IndividualFilter.order": (lambda b, d, v: pl.IndividualFilter("renyi", 1.0, v), ORDER),
    "RandomAllocation.steps": (lambda b, d, v: pl.nodes.RandomAllocation(v, G), COUNT),
    "RowsPerPersonCells.edges": (
        lambda b, d, v: pl.questions.RowsPerPersonCells([v, 2.0]), FINITE),
    "Dataset.rows_per_person.edges": (lambda b, d, v: d.rows_per_person([v, 2.0]), FINITE),
    "IntervalCells.edges": (lambda b, d, v: pl.questions.IntervalCells("size", [v, 2.0]), FINITE),
    "Laplace.scale": (lambda b, d, v: pl.Laplace(v), POSITIVE),
    "Laplace.l1_sensitivity": (lambda b, d, v: pl.Laplace(1.0, v), POSITIVE),
    "Ledger.create.order": (lambda b, d, v: pl.Ledger.create(
        None, budget=pl.Budget(1.0, 1e-6), filter="rdp", order=v), unless_none(ORDER)),
    "Ledger.create.seed": (lambda b, d, v: pl.Ledger.create(
        None, budget=pl.Budget(1.0), mode="simulation", seed=v), unless_none(
            [v for v in WHOLE if not (type(v) is int and v > 0)])),
    "Ledger.open_or_create.order": (lambda b, d, v: pl.Ledger.open_or_create(
        _nowhere(), budget=pl.Budget(1.0, 1e-6), filter="rdp", order=v), unless_none(ORDER)),
    "Ledger.open_or_create.seed": (lambda b, d, v: pl.Ledger.open_or_create(
        _nowhere(), budget=pl.Budget(1.0), mode="simulation", seed=v), unless_none(
            [v for v in WHOLE if not (type(v) is int and v > 0)])),
    "Ledger.would_grant.delta": (lambda b, d, v: b.would_grant(G, d, delta=v), DELTA),
    "LedgerHandle.would_grant.delta": (lambda b, d, v: d.ledger.would_grant(G, d, delta=v), DELTA),
    "Ledger.open_scope.delta": (lambda b, d, v: b.open_scope(
        pl.IndividualFilter("gdp", 0.1), delta=v), DELTA),
    "Ledger.record.row": (lambda b, d, v: b.record(v), WHOLE),
    "Ledger.answer.delta": (lambda b, d, v: b.answer(G, d.count(), delta=v), DELTA),
    "Ledger.foreign.delta": (lambda b, d, v: b.foreign(
        G, table="t", library="l", version="1", hook="h", delta=v), DELTA),
    "Ledger.request.delta": (lambda b, d, v: b.request(G, d, delta=v), DELTA),
    "Ledger.request.claimed": (lambda b, d, v: b.request(G, d, claimed=v),
                               unless_none(AT_LEAST_ZERO)),
    "Ledger.request.lease": (lambda b, d, v: b.request(G, d, lease=v), unless_none(POSITIVE)),
    "Ledger.request.wait": (lambda b, d, v: b.request(G, d, wait=v),
                            unless_none([*AT_LEAST_ZERO, 3601, 1e300])),
    "LedgerHandle.answer.delta": (lambda b, d, v: d.ledger.answer(G, d.count(), delta=v), DELTA),
    "LedgerHandle.request.delta": (lambda b, d, v: d.ledger.request(G, d, delta=v), DELTA),
    "LedgerHandle.request.claimed": (lambda b, d, v: d.ledger.request(G, d, claimed=v),
                                     unless_none(AT_LEAST_ZERO)),
    "LedgerHandle.request.lease": (lambda b, d, v: d.ledger.request(G, d, lease=v),
                                   unless_none(POSITIVE)),
    "LedgerHandle.request.wait": (lambda b, d, v: d.ledger.request(G, d, wait=v),
                                  unless_none(AT_LEAST_ZERO)),
    "LedgerHandle.open_scope.delta": (lambda b, d, v: d.ledger.open_scope(
        pl.IndividualFilter("gdp", 1.0), delta=v), DELTA),
    "PermuteAndFlip.epsilon": (lambda b, d, v: pl.PermuteAndFlip(v), POSITIVE),
    "PoissonSample.rate": (lambda b, d, v: pl.PoissonSample(v, G), RATE),
    "RandomizedResponse.noise_parameter": (lambda b, d, v: pl.RandomizedResponse(v), RATE),
    "RandomizedResponse.num_buckets": (lambda b, d, v: pl.RandomizedResponse(0.5, v),
                                       [*COUNT, 1]),
    "Repeat.count": (lambda b, d, v: pl.Repeat(G, v), COUNT),
    "ReportNoisyMax.epsilon": (lambda b, d, v: pl.ReportNoisyMax(v), POSITIVE),
    "Schema.public_rows": (lambda b, d, v: pl.Schema.from_dict(schema_of(public_rows=v)),
                           unless_none(COUNT)),
    "Schema.public_people": (lambda b, d, v: pl.Schema.from_dict(schema_of(public_people=v)),
                           unless_none(COUNT)),
    "Schema.most_records": (lambda b, d, v: pl.Schema.from_dict(schema_of(
        most_records=v, most_records_provenance="public")), unless_none(COUNT)),
    "Schema.expected_rows": (lambda b, d, v: pl.Schema.from_dict(schema_of(
        expected_rows=v, expected_rows_provenance="public")), unless_none(COUNT)),
    "Session.best_of.candidates": (lambda b, d, v: tuned(b, d, v), COUNT),
    "load_model.most_mb": (lambda b, d, v: pl.load_model(kept_model(), most_mb=v), COUNT),
    "Score.gradient.clip": (lambda b, d, v: d.score("squared", [0.0]).gradient(v), POSITIVE),
    "Session.release.rollover": (lambda b, d, v: released(b, d, v), WHOLE),
    "SparseVector.threshold_scale": (lambda b, d, v: pl.SparseVector(v, 1.0, 1), POSITIVE),
    "SparseVector.query_scale": (lambda b, d, v: pl.SparseVector(1.0, v, 1), POSITIVE),
    "SparseVector.cutoff": (lambda b, d, v: pl.SparseVector(1.0, 1.0, v), COUNT),
    "SparseVector.sensitivity": (lambda b, d, v: pl.SparseVector(1.0, 1.0, 1, v), POSITIVE),
    "CategoryCells.count": (lambda b, d, v: released(b, d, 0, cells=pl.questions.CategoryCells(
        "colour", v)), COUNT),
    "Test.feature": (lambda b, d, v: released(b, d, 0, cells=tree(d, feature=v)), WHOLE),
    "TreeCells.count": (lambda b, d, v: released(b, d, 0, cells=tree(d, count=v)), COUNT),
    "ResidualCells.edges": (lambda b, d, v: pl.questions.ResidualCells(
        d.score("squared", [0.0]), [v, 2.0]), FINITE),
    "Score.start": (lambda b, d, v: pl.questions.Score("squared", [v]), FINITE),
    "Score.center": (lambda b, d, v: pl.questions.Score("squared", [0.0], v), FINITE),
    "Score.scale": (lambda b, d, v: pl.questions.Score("squared", [0.0], 0.0, v), POSITIVE),
    "Score.add.values": (lambda b, d, v: d.score("squared", [0.0]).add(
        pl.questions.CategoryCells("colour", 4), [v, 0.0, 0.0, 0.0]), FINITE),
    "Choice.penalty": (lambda b, d, v: pl.questions.Choice(
        d, d.root(d.bins(8)), "rank", "both", penalty=v), AT_LEAST_ZERO),
    "Choice.features": (lambda b, d, v: pl.questions.Choice(
        d, d.root(d.bins(8)), "rank", features=[v]), [*PLACE, 99]),
    "GrownCells.feature": (lambda b, d, v: pl.questions.GrownCells(
        d.bins(8), d.root(d.bins(8)), [v], [1]), PLACE),
    "GrownCells.cut": (lambda b, d, v: pl.questions.GrownCells(
        d.bins(8), d.root(d.bins(8)), [0], [v]), PLACE),
    "GrownCells.grow.feature": (lambda b, d, v: d.root(d.bins(8)).grow([v], [1]), PLACE),
    "GrownCells.grow.cut": (lambda b, d, v: d.root(d.bins(8)).grow([0], [v]), PLACE),
    "Policy.max_epsilon": (lambda b, d, v: pl.Policy(v, 0.1), AT_LEAST_ZERO),
    "Policy.max_delta": (lambda b, d, v: pl.Policy(1.0, v), DELTA),
    "Policy.min_delta": (lambda b, d, v: pl.Policy(1.0, 0.5, v), DELTA),
    "Policy.min_rows": (lambda b, d, v: pl.Policy(1.0, 0.1, min_rows=v), unless_none(COUNT)),
    "ClassIs.position": (lambda b, d, v: pl.questions.ClassIs(v), WHOLE),
    "MappedCells.count": (lambda b, d, v: pl.questions.MappedCells(
        [pl.questions.IntervalCells("size", [0.5])], [0, 1], v), [*COUNT, 1]),
    "MappedCells.numbers": (lambda b, d, v: pl.questions.MappedCells(
        [pl.questions.IntervalCells("size", [0.5])], [0, v], 9), PLACE),
    "IndexCells.count": (lambda b, d, v: pl.questions.IndexCells([0, 1], v), [*COUNT, 1]),
    "IndexCells.places": (lambda b, d, v: pl.questions.IndexCells([0, v], 9), PLACE),
    "Dataset.labels.rows": (lambda b, d, v: d.labels(rows=[v]), PLACE),
    "Dataset.labels.candidates": (lambda b, d, v: d.labels(candidates=[[v, 1]]), PLACE),
    "Score.gradient.coordinate": (lambda b, d, v: d.score("softmax", [0.0, 0.0]).gradient(
        1.0, coordinate=v), unless_none([*WHOLE, 2])),
    "Score.hessian.within": (lambda b, d, v: d.score("squared", [0.0]).hessian(v),
                             unless_none(POSITIVE)),
    "Votes.blocks": (lambda b, d, v: pl.questions.Votes(v), COUNT),
    "Votes.most": (lambda b, d, v: pl.questions.Votes(most=v), COUNT),
    "Votes.penalty": (lambda b, d, v: pl.questions.Votes(penalty=v), POSITIVE),
    "CustomScores.sensitivity": (lambda b, d, v: pl.questions.CustomScores(len, v, "why"),
                                 POSITIVE),
    "CustomScores.change": (lambda b, d, v: pl.questions.CustomScores(len, 1.0, "why", (v, 1.0)),
                            NONE),
    "FeatureChoice.excluded": (lambda b, d, v: pl.questions.FeatureChoice(d, "rank", (v,)), WHOLE),
    "FeatureChoice.without.features": (
        lambda b, d, v: pl.questions.FeatureChoice(d, "rank").without(v), WHOLE),
    "Dataset.features_by.excluded": (
        lambda b, d, v: d.features_by("rank", excluded=[v]), WHOLE),
    "LabelQuery.rows": (lambda b, d, v: pl.questions.LabelQuery(d, rows=[v]), PLACE),
    "LabelQuery.candidates": (lambda b, d, v: pl.questions.LabelQuery(d, candidates=[[v, 1]]),
                              PLACE),
    "rdp_per_record.shares": (lambda b, d, v: pl.nodes.rdp_per_record(G, [v], [2.0]), FINITE),
    "tpr.fpr": (lambda b, d, v: pl.nodes.tpr(G, v),
                [*NONE, None, *SUBNORMAL, *NEGATIVE, 1.5, 1e300]),
    "cyclic_poisson.coefficients": (lambda b, d, v: pl.nodes.cyclic_poisson(
        [v], 1.0, rate=0.1, groups=2, steps=4), FINITE),
    "cyclic_poisson.noise_multiplier": (lambda b, d, v: pl.nodes.cyclic_poisson(
        [1.0], v, rate=0.1, groups=2, steps=4), POSITIVE),
    "cyclic_poisson.rate": (lambda b, d, v: pl.nodes.cyclic_poisson(
        [1.0], 1.0, rate=v, groups=2, steps=4), RATE),
    "cyclic_poisson.groups": (lambda b, d, v: pl.nodes.cyclic_poisson(
        [1.0], 1.0, rate=0.1, groups=v, steps=4), COUNT),
    "cyclic_poisson.steps": (lambda b, d, v: pl.nodes.cyclic_poisson(
        [1.0], 1.0, rate=0.1, groups=2, steps=v), COUNT),
    "several_of_many.rounds": (lambda b, d, v: pl.nodes.several_of_many(v, 1, G), COUNT),
    "several_of_many.participations": (
        lambda b, d, v: pl.nodes.several_of_many(10**9, v, G), COUNT),
    "correlated_gaussian.noise_multiplier": (lambda b, d, v: pl.nodes.correlated_gaussian(
        np.eye(2), v, separation=1, participations=1), POSITIVE),
    "correlated_gaussian.separation": (lambda b, d, v: pl.nodes.correlated_gaussian(
        np.eye(1000), 1.0, separation=v, participations=1), COUNT),
    "correlated_gaussian.participations": (lambda b, d, v: pl.nodes.correlated_gaussian(
        np.eye(4), 1.0, separation=1, participations=v), COUNT),
    "correlated_gaussian.strategy": (lambda b, d, v: pl.nodes.correlated_gaussian(
        [[v]], 1.0, separation=1, participations=1), FINITE),
    "PartitionSelection.threshold": (
        lambda b, d, v: pl.nodes.PartitionSelection(v, 2.0), [*POSITIVE, 1, 1.0, 0.5]),
    "PartitionSelection.scale": (lambda b, d, v: pl.nodes.PartitionSelection(9.0, v), POSITIVE),
    "PartitionSelection.groups_per_person": (
        lambda b, d, v: pl.nodes.PartitionSelection(9.0, 2.0, v), COUNT),
    "TopK.k": (lambda b, d, v: pl.TopK(v, 1.0), COUNT),
    "TopK.epsilon": (lambda b, d, v: pl.TopK(1, v), POSITIVE),
    "Federated.parties": (lambda b, d, v: pl.nodes.Federated(G, v, 0), COUNT),
    "Federated.colluding": (lambda b, d, v: pl.nodes.Federated(G, 1000, v), PLACE),
    "Federated.least_honest": (lambda b, d, v: pl.nodes.Federated(G, 1000, 0, v), COUNT),
    "Policy.max_alone_epsilon": (lambda b, d, v: pl.Policy(
        1.0, 1e-6, max_alone_epsilon=v), unless_none(AT_LEAST_ZERO)),
    "Policy.least_honest": (lambda b, d, v: pl.Policy(1.0, 1e-6, least_honest=v),
                            unless_none(COUNT)),
    "TruncatedPoissonSample.rate": (
        lambda b, d, v: pl.nodes.TruncatedPoissonSample(v, 5, 9, G), RATE),
    "TruncatedPoissonSample.most": (
        lambda b, d, v: pl.nodes.TruncatedPoissonSample(0.1, v, 9, G), COUNT),
    "TruncatedPoissonSample.out_of": (
        lambda b, d, v: pl.nodes.TruncatedPoissonSample(0.1, 5, v, G), COUNT),
    "Tuning.mean": (lambda b, d, v: pl.nodes.Tuning(L, "poisson", v), POSITIVE),
    "calibrate.epsilon": (lambda b, d, v: pl.calibrate(pl.Gaussian, v, 1e-6), POSITIVE),
    "calibrate.delta": (lambda b, d, v: pl.calibrate(pl.Gaussian, 1.0, v), DELTA),
    "certify.delta": (lambda b, d, v: pl.certify(G, delta=v), DELTA),
    "delta.epsilon": (lambda b, d, v: pl.delta(G, epsilon=v), AT_LEAST_ZERO),
    "epsilon.delta": (lambda b, d, v: pl.epsilon(G, delta=v), DELTA),
    "explain.delta": (lambda b, d, v: pl.explain(G, delta=v), DELTA),
    "rdp.orders": (lambda b, d, v: pl.rdp(G, [2.0, v]), ORDER),
    "rdp_per_record.orders": (lambda b, d, v: pl.nodes.rdp_per_record(
        G, np.array([0.5]), [2.0, v]), ORDER),
    "Tuning.success": (lambda b, d, v: pl.nodes.Tuning(L, "negative_binomial", 2.0, v), FINITE)}

NO_NUMBERS = {
    "what the package computed and hands out": [
        "ClaimStep.claimed", "ClaimStep.sound", "ClaimStep.delta", "Explanation.lower",
        "Finding.position", "Receipt.counter", "Receipt.entries", "Receipt.epsilon",
        "Receipt.delta", "step_sums.rows",
        "Groups.counts", "RecordSpend.row", "RecordSpend.bound", "RecordSpend.epsilon",
        "Bins.edges.feature", "Picked.cut", "Picked.feature"],
    "how the guard talks to itself; strangers' values are checked where they come in": [
        "Schema.check_size.records",
        "Dataset.ledger", "Dataset.vault",
        "Session.release.mechanism", "Session.release.query", "Ledger.answer.query",
        "LedgerHandle.answer.query", "Dataset.ask.question", "Dataset.ask.budget",
        "Dataset.choose.options",
        "Dataset.choose_label.options"],
    "ids of people: whole numbers are ids, and kinds of bad ones are in tests/people/test_ids.py": [
        "Ledger.append.people", "Ledger.protect.people", "Ledger.record.person"],
    "private tables: checked against the schema, column by column (tests/facts, tests/tables)": [
        "Learner.fit.X", "Learner.fit.y", "Ledger.append.X", "Ledger.append.y",
        "Ledger.protect.X", "Ledger.protect.y", "encode_features.X"],
    "records, functions and names": [
        "Choice.allowed", "Column.missing_value_marker",
        "Dataset.custom.function", "Exponential.score_change", "OneOf.nodes",
        "Parallel.nodes",
        "RowValues.names", "NamedCells.names", "NearestCells.names", "RowEncoding.names",
        "RowEncoding.wide",
        "Query.blocks", "Schema.columns", "Schema.from_dict.value", "Score.add.cells",
        "Sequential.nodes", "TreeCells.tests", "Tuning.shape", "from_dp_event.event",
        "from_json.value", "Test.table", "Session.best_of.node", "Session.within.node",
        "save_model.learner"],
    "the guard calls them on copies of its own": [
        "Score.updates.first",
        "Score.begin.n", "Score.apply.scores", "Score.apply.term", "Score.apply.values",
        "RowEncoding.weights.values", "RowEncoding.farthest.values",
        "RowEncoding.moves.values", "RowEncoding.sums.factors"],
    "post-processing of released values": ["probabilities.scores"],
}
"""Why a parameter that takes anything is not in `NUMBERS`."""
ASKED = {"data", "prepare.mechanism", "check_chooser.mechanism", "sensitivity.norm", "sketch.state",
         "merge.a", "merge.b", "noted.state", "scores.merged", "scores.one", "picked.chosen",
         "finish.merged", "noised.merged", "at.step", "takes.answer",
         "on_grid.norm", "on_grid.grid", "total.norm", "total.grid",
         "among.classes", "among.positions"}
"""Of questions and blocks: the guard calls them on copies of its own (questions/question.py)."""


def released(ledger, data, rollover, cells=None):
    query = data.count() if cells is None else data.query((pl.questions.Ones(),), cells)
    with ledger.request(G, data) as session:
        session.release(G, query, rollover=rollover)


def tuned(ledger, data, candidates):
    node = pl.nodes.Tuning(G, shape=1.0, success=0.3)
    with ledger.request(node, data) as session:
        session.best_of(node, candidates, lambda handle, number: (0.0, None))


def kept_model():
    """A model file that is fine: what is wrong is the limit."""
    from privledger_learners import JointTreeRegressor

    schema = pl.Schema.from_dict({"name": "s", "columns": [
        {"name": "x", "kind": "numeric", "role": "feature", "lower": 0.0, "upper": 1.0},
        {"name": "y", "kind": "numeric", "role": "target", "lower": 0.0, "upper": 1.0}]})
    if not MODEL.exists():
        learner = JointTreeRegressor(epsilon=1.0, schema=schema)
        pl.save_model(learner.fit({"x": np.linspace(0, 1, 50)}, np.linspace(0, 1, 50)), MODEL)
    return MODEL


def tree(data, feature=0, count=2):
    bins = data.bins(8)
    table = np.zeros(bins.sizes()[0], np.uint8)
    table[4:] = 1
    return pl.questions.TreeCells(bins, (pl.questions.Test(feature, table),), count)


def found():
    """Parameters of the public names that take a number, or say nothing of what they take."""
    offered = {name: getattr(pl, name) for name in pl.__all__}
    for face in (pl.nodes, pl.questions):
        offered |= {name: getattr(face, name) for name in face.__all__}
    for name, thing in sorted(offered.items()):
        if inspect.isclass(thing) and issubclass(thing, BaseException):
            continue
        todo = [(name, thing)]
        if inspect.isclass(thing):
            todo += [(f"{name}.{key}", value) for key, value in inspect.getmembers(thing)
                     if callable(value) and not key.startswith("_")]
        for title, function in todo:
            try:
                parameters = inspect.signature(function).parameters
            except (TypeError, ValueError):
                continue
            for key, parameter in parameters.items():
                said = "" if parameter.annotation is parameter.empty else str(parameter.annotation)
                numeric = re.search(r"\b(float\d*|int\d*|Real|Number|Fraction|Decimal)\b", said)
                if key not in ("self", "args", "kwargs") and (numeric or said in (
                        "", "Any", "object")) and not said.startswith("Callable"):
                    yield f"{title}.{key}"


OF_DATA = {"Column.lower", "Column.upper", "Schema.most_records", "Schema.expected_rows",
           "Ledger.record.row"}
"""What is refused as no schema, or as no record of it; all other numbers as invalid values."""


def _nowhere():
    return Path(tempfile.mkdtemp()) / "l.ledger"


def test_no_parameter_is_forgotten():
    kinds = {kind.__name__ for kind in (*QUESTIONS, *BLOCKS)}
    excused = {name for names in NO_NUMBERS.values() for name in names} | {
        name for name in found() for kind, _, rest in [name.partition(".")]
        if kind in kinds and rest in ASKED}
    assert set(found()) - set(NUMBERS) - excused == set()
    assert set(NUMBERS) & excused == set()
    assert excused <= set(found())  # nothing is excused that is gone


@pytest.mark.parametrize("wrong", [0.5, 1.0, Sneaky(-1.0), Sly(-1), Sly(9), -1, 9, 10**400, None,
                                   "1", Decimal(1), Fraction(1), np.array([1]), math.nan])
def test_what_is_no_whole_number_is_no_place(wrong, make_ledger, schema, table):
    """Of a part, or of a round; loops over parts end at the first that is none."""
    data = make_ledger().protect(*table, schema)
    for parts in (data.partition(data.cells("size", [1.0])), data.random_allocation(3)):
        with pytest.raises((IndexError, TypeError)):
            parts[wrong]
        assert len(list(parts)) == len(parts) == 3
        assert parts[np.int64(2)].steps[-1].context.part == 2


@pytest.mark.parametrize("name", NUMBERS)
def test_every_bad_number_is_refused(name, make_ledger, schema, table):
    ledger = make_ledger()
    data = ledger.protect(*table, schema)
    build, values = NUMBERS[name]
    passed, wrong = [], []
    refused = pl.PrivledgerError if name in OF_DATA else pl.InvalidValue
    assert len(values) >= 50
    for value in values:
        try:
            build(ledger, data, value)
        except refused:
            continue
        except Exception as error:
            wrong.append((repr(value), type(error).__name__, str(error)[:60]))
        else:
            passed.append(repr(value))
    assert (passed, wrong) == ([], [])
    assert data._vault.opened == 0
