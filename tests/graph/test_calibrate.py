"""Calibration of any one parameter: it meets the target, and a little more does not."""

import pytest

import privledger as pl
from tests.all_cases import all_cases
from tests.worlds import refused

NOISES = [
    (lambda z: pl.Repeat(pl.PoissonSample(0.1, pl.Gaussian(z)), 200), 1.0, 1e-6, "add_remove"),
    (lambda z: pl.Sequential([pl.Gaussian(z), pl.Repeat(pl.Laplace(z), 9)]), 0.5, 1e-9,
     "add_remove"),
    (lambda z: pl.nodes.FixedSizeSample(10, 100, pl.Gaussian(z)), 0.3, 1e-6, "replace_one"),
    (lambda z: pl.nodes.Tuning(pl.Repeat(pl.Gaussian(z), 20), success=0.1), 2.0, 1e-6,
     "add_remove"),
    (lambda z: pl.nodes.Group(3, pl.Laplace(z)), 1.0, 0.0, "add_remove"),
    (lambda z: pl.nodes.AsReplaceOne(pl.Repeat(pl.DiscreteGaussian(z), 5)), 1.0, 1e-6,
     "replace_one"),
    (lambda z: pl.Parallel([pl.Gaussian(z), pl.Laplace(2 * z)]), 0.7, 1e-6, "add_remove"),
    (lambda z: pl.SparseVector(z, 2 * z, 3), 1.0, 0.0, "add_remove")]


def meets(build, epsilon, delta=0.0, relation="add_remove", off=0.999, **options):
    """It meets the target, and what is so much off does not."""
    found = pl.calibrate(build, epsilon, delta, relation, **options)
    assert pl.epsilon(build(found), delta, relation) <= epsilon
    assert pl.epsilon(build(found * off), delta, relation) > epsilon


@all_cases(("build", "epsilon", "delta", "relation"), NOISES)
def test_the_noise_meets_the_target_and_less_noise_does_not(build, epsilon, delta, relation):
    meets(build, epsilon, delta, relation)


@pytest.mark.parametrize("build", [
    lambda q: pl.Repeat(pl.PoissonSample(q, pl.Gaussian(1.0)), 100),
    lambda e: pl.Repeat(pl.Exponential(e), 30),
    lambda e: pl.Sequential([pl.PermuteAndFlip(e), pl.Gaussian(9.0)])])
def test_the_largest_parameter(build):
    meets(build, 1.0, 1e-6, off=1.001, largest=True)


@pytest.mark.parametrize("node", [
    pl.Gaussian(30.0), pl.PoissonSample(0.05, pl.Gaussian(1.5)), pl.Laplace(40.0)])
def test_the_largest_number_of_rounds(node):
    rounds = pl.calibrate(lambda n: pl.Repeat(node, n), 1.0, 1e-6, whole=True)
    assert isinstance(rounds, int)
    assert pl.epsilon(pl.Repeat(node, rounds), 1e-6) <= 1.0
    assert pl.epsilon(pl.Repeat(node, rounds + 1), 1e-6) > 1.0


def test_what_cannot_be_met_is_refused():
    refused(pl.InvalidValue, lambda: pl.calibrate(lambda z: pl.Sequential([pl.Laplace(0.5),
            pl.Gaussian(z)]), 1.0, 1e-6), lambda: pl.calibrate(lambda n: pl.Repeat(pl.Gaussian(0.1),
            n), 1.0, 1e-6, whole=True))


def always_wrong(parameter):
    raise ZeroDivisionError("in the builder")


@all_cases("options", [{}, {"largest": True}, {"whole": True}])
@all_cases(("build", "kind", "words"), [
    (always_wrong, ZeroDivisionError, "in the builder"),
    (lambda z: pl.Gaussian("loud"), pl.InvalidValue, "noise_multiplier"),
    (lambda z: pl.Repeat(pl.Gaussian(1.0), -3), pl.InvalidValue, "count"),
    (lambda z: None, pl.InvalidValue, "node"),
    (lambda z: pl.Gaussian(noise=z), TypeError, "noise"),
    (lambda z: [][5], IndexError, "list index")])
def test_what_went_wrong_in_the_builder_is_what_is_raised(build, kind, words, options):
    refused(kind, lambda: pl.calibrate(build, 1.0, 1e-6, **options), match=words)


def test_a_refusal_of_some_parameters_is_the_cause():
    def build(noise):
        if noise > 3:
            raise pl.InvalidValue("noise", noise, "at most 3 here")
        return pl.Gaussian(noise)

    with pytest.raises(pl.InvalidValue, match="target") as missed:
        pl.calibrate(build, 0.01, 1e-6)
    assert "at most 3 here" in str(missed.value.__cause__)


@all_cases("epsilon", [1e-139, 1e-12, 1e-6, 1.0, 1e6, 1e9, 1e139])
@all_cases("build", [
    pl.Laplace, pl.PermuteAndFlip, pl.DiscreteLaplace, pl.Exponential,
    lambda z: pl.Sequential([pl.Laplace(z), pl.Laplace(3 * z)]),
    lambda z: pl.Parallel([pl.Laplace(z)] * 2), lambda z: pl.nodes.Group(3, pl.Laplace(z))])
def test_all_the_noise_that_a_node_allows_is_searched(build, epsilon):
    """Laplace had no answer at epsilon 1e-12, and a thousand times too much noise at 1e9."""
    largest = build in (pl.PermuteAndFlip, pl.DiscreteLaplace, pl.Exponential)
    meets(build, epsilon, off=1.000001 if largest else 0.999999, largest=largest)


@all_cases("epsilon", [1e-12, 1e-3, 1e9])
@all_cases("delta", [1e-300, 1e-50, 1e-5])
@all_cases("build", [pl.Gaussian, pl.DiscreteGaussian])
def test_gaussian_noise_at_tiny_deltas(build, epsilon, delta):
    meets(build, epsilon, delta)


def test_a_node_that_allows_less_noise_than_is_searched():
    """A step beyond what is allowed costs infinity, and is then no reason to go further."""
    meets(lambda scale: pl.Sequential([pl.Laplace(scale), pl.Laplace(scale * 1e127)]), 1e-12,
          off=0.999999)
    assert 1e140 / pl.calibrate(pl.Laplace, 1.0000000001e-140) == pytest.approx(1)


@pytest.mark.parametrize("epsilon", [1e-141, 1e-300])
def test_what_no_allowed_noise_reaches_is_refused(epsilon):
    refused(pl.InvalidValue, lambda: pl.calibrate(pl.Laplace, epsilon), match="within reach")
    refused(pl.InvalidValue, lambda: pl.calibrate(pl.Gaussian, epsilon), match="delta")


def test_rounds_are_counted_up_to_what_repeat_allows():
    assert pl.calibrate(lambda n: pl.Repeat(pl.Laplace(1e18), n), 1.0, whole=True) == 10**15
    assert pl.calibrate(lambda n: pl.Repeat(pl.Laplace(1e15), n), 1e-3, whole=True) \
        == pytest.approx(10**12, abs=1)
