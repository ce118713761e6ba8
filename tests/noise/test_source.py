"""The operating-system source: laws, forks, threads, copies and refusals."""

from __future__ import annotations

import copy
import inspect
import math
import os
import pickle
import sys
import threading

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import chdtrc, erf, ndtr

from privledger.errors import InvalidValue
from privledger.noise import source as source_module
from privledger.noise.source import NoiseSource, SystemSource
from tests.worlds import refused

FALSE_ALARM = 2e-8
"""Of each statistical check; there are under 30 here, so below 1e-6 for all together.

Chi-square's own tail is an approximation, hence cells expected at least 100 times.
"""

N = 400_000


@pytest.fixture
def source() -> SystemSource:
    return SystemSource()


def assert_fits(counts: NDArray[np.int64], probabilities: NDArray[np.float64]) -> None:
    """Pearson's chi-square; cells expected under 100 times are merged into their neighbour."""
    total, observed, expected = counts.sum(), [0.0], [0.0]
    for seen, probability in zip(counts, probabilities, strict=True):
        if expected[-1] > 100:
            observed.append(0.0)
            expected.append(0.0)
        observed[-1] += seen
        expected[-1] += probability * total
    left, right = np.array(observed), np.array(expected)
    keep = right > 100
    left[np.flatnonzero(keep)[-1]] += left[~keep].sum()
    right[np.flatnonzero(keep)[-1]] += right[~keep].sum()
    left, right = left[keep], right[keep]
    statistic = float(((left - right) ** 2 / right).sum())
    assert len(left) == 1 or chdtrc(len(left) - 1, statistic) > FALSE_ALARM


def gaussian_pmf(steps: NDArray[np.int64], sigma: float) -> NDArray[np.float64]:
    edges = np.append(steps - 0.5, steps[-1] + 0.5) / (sigma * math.sqrt(2))
    return np.diff(erf(edges)) / 2  # type: ignore[no-any-return]


def laplace_pmf(steps: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    away = np.exp(-np.abs(steps) / scale) * math.sinh(0.5 / scale)
    return np.where(steps == 0, -math.expm1(-0.5 / scale), away)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 7.5])
@pytest.mark.parametrize("as_array", [False, True])
def test_small_gaussians_follow_their_probabilities(
    source: SystemSource, sigma: float, as_array: bool
) -> None:
    draws = source.gaussian(np.full(N, sigma) if as_array else sigma, N)
    reach = max(3, math.ceil(8 * sigma))
    steps = np.arange(-reach, reach + 1)
    assert np.abs(draws).max() <= reach
    assert_fits(np.bincount(draws + reach, minlength=len(steps)), gaussian_pmf(steps, sigma))


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5])
def test_small_laplaces_follow_their_probabilities(source: SystemSource, scale: float) -> None:
    draws = source.laplace(scale, N)
    reach = math.ceil(32 * scale)
    steps = np.arange(-reach, reach + 1)
    assert np.abs(draws).max() <= reach
    assert_fits(np.bincount(draws + reach, minlength=len(steps)), laplace_pmf(steps, scale))


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("scale", [1000 / 3, 2.0**20, 2.0**30])
def test_wide_draws_follow_their_distribution(
    source: SystemSource, kind: str, scale: float
) -> None:
    """Dvoretzky-Kiefer-Wolfowitz with Massart's constant: no asymptotics."""
    draws = np.sort(getattr(source, kind)(scale, N))
    edges = (draws + 0.5) / scale
    exact = ndtr(edges) if kind == "gaussian" else np.where(
        edges < 0, np.exp(np.minimum(edges, 0)) / 2, 1 - np.exp(-np.abs(edges)) / 2)
    # The last of equal draws carries the whole step of the empirical distribution.
    at_most = np.searchsorted(draws, draws, side="right") / N
    assert np.abs(at_most - exact).max() < math.sqrt(math.log(2 / FALSE_ALARM) / (2 * N))


@pytest.mark.parametrize(("kind", "beyond"), [("gaussian", 3.5), ("laplace", 8.0)])
def test_tails_have_their_weight(source: SystemSource, kind: str, beyond: float) -> None:
    scale, n = 2.0**16, 2_000_000
    cut = math.ceil(beyond * scale)
    edge = (cut - 0.5) / scale
    one_side = float(ndtr(-edge)) if kind == "gaussian" else math.exp(-edge) / 2
    draws = getattr(source, kind)(scale, n)
    for seen in (int((draws >= cut).sum()), int((draws <= -cut).sum())):
        mean = n * one_side
        # Bernstein's inequality.
        log_alarm = math.log(2 / FALSE_ALARM)
        assert abs(seen - mean) < math.sqrt(2 * mean * log_alarm) + log_alarm


def test_each_coordinate_has_its_own_scale(source: SystemSource) -> None:
    scales = np.tile([1.0, 1000.0], 20_000)
    draws = source.gaussian(scales, len(scales)).reshape(-1, 2).astype(float)
    assert draws[:, 0].std() == pytest.approx(math.sqrt(1 + 1 / 12), rel=0.05)
    assert draws[:, 1].std() == pytest.approx(1000, rel=0.05)


@pytest.mark.parametrize("rate", [0.001, 0.3, 0.5, 0.99])
def test_bernoulli_rates(source: SystemSource, rate: float) -> None:
    hits = int(source.bernoulli(rate, N).sum())
    assert_fits(np.array([N - hits, hits]), np.array([1 - rate, rate]))


def test_bernoulli_ends(source: SystemSource) -> None:
    assert not source.bernoulli(0, 10_000).any()
    assert source.bernoulli(1, 10_000).all()


def test_integer_below_is_uniform(source: SystemSource) -> None:
    draws = np.array([source.integer_below(7) for _ in range(20_000)])
    assert_fits(np.bincount(draws, minlength=7), np.full(7, 1 / 7))


def test_words_have_uniform_bytes(source: SystemSource) -> None:
    octets = source.integers64(N).view(np.uint8)
    assert_fits(np.bincount(octets, minlength=256), np.full(256, 1 / 256))


@pytest.mark.parametrize("size", [0, 1, 7, 8191, 8192, 8193, 40_000])
def test_sizes_and_types(source: SystemSource, size: int) -> None:
    for draws, dtype in (
        (source.gaussian(3.0, size), np.int64),
        (source.gaussian(np.full(size, 3.0), size), np.int64),
        (source.laplace(3.0, size), np.int64),
        (source.integers64(size), np.uint64),
        (source.bernoulli(0.5, size), np.bool_)):
        assert draws.shape == (size,)
        assert draws.dtype == dtype
        assert draws.flags.writeable


@pytest.mark.parametrize("size", [-1, 1.0, True, "3", None, math.nan])
def test_impossible_sizes_are_refused(source: SystemSource, size: object) -> None:
    for call in (
        lambda: source.gaussian(1.0, size),  # type: ignore[arg-type]
        lambda: source.laplace(1.0, size),  # type: ignore[arg-type]
        lambda: source.bernoulli(0.5, size),  # type: ignore[arg-type]
        lambda: source.integers64(size),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidValue):
            call()


@pytest.mark.parametrize("scale", [math.nan, math.inf, 0, -1.0, True, "1", 1e-310])
def test_impossible_scales_are_refused_even_for_no_draws(
    source: SystemSource, scale: object
) -> None:
    refused(InvalidValue, lambda: source.gaussian(scale, 0), match="sigma")
    refused(InvalidValue, lambda: source.laplace(scale, 0), match="scale")


def test_words_are_never_handed_out_twice(source: SystemSource) -> None:
    """Batches that end before, at and after the buffer's end. 64-bit repeats: under 1e-9."""
    words = np.concatenate([source.integers64(size) for size in [1, 128, 5000, 4000, 9000, 3] * 9])
    assert len(np.unique(words)) == len(words)
    assert words.all()


def test_used_words_are_wiped(source: SystemSource) -> None:
    taken = source.integers64(100)
    assert not np.isin(taken, source._pool._words).any()


def words_in_child(source: SystemSource) -> bytes:
    """What a forked child draws next."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(send, source.integers64(4).tobytes())
        finally:
            os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


@needs_fork
def test_forked_children_draw_different_words(source: SystemSource) -> None:
    source.integers64(1)  # fills the buffer
    answers = [words_in_child(source) for _ in range(3)] + [source.integers64(4).tobytes()]
    assert all(len(answer) == 32 for answer in answers)
    assert len(set(answers)) == 4


@needs_fork
def test_process_number_alone_protects_a_child(
    source: SystemSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.integers64(1)
    monkeypatch.setattr(source_module, "_sources", set())  # the hook now finds nothing
    assert words_in_child(source) != source.integers64(4).tobytes()


@needs_fork
def test_the_hook_alone_protects_a_child(
    source: SystemSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process number can come round again after many forks."""
    monkeypatch.setattr(os, "getpid", lambda: source._pool.process)
    source.integers64(1)
    assert words_in_child(source) != source.integers64(4).tobytes()


@needs_fork
def test_a_child_is_not_stuck_on_a_lock_held_elsewhere(source: SystemSource) -> None:
    source.integers64(1)
    with source._pool._lock:
        assert len(words_in_child(source)) == 32


def test_threads_share_without_repeats(source: SystemSource) -> None:
    found: list[NDArray[np.uint64]] = []

    def draw() -> None:
        found.extend(source.integers64(37) for _ in range(1500))

    threads = [threading.Thread(target=draw) for _ in range(6)]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # makes a missing lock show
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(usual)
    words = np.concatenate(found)
    assert len(words) == 6 * 1500 * 37
    assert len(np.unique(words)) == len(words)


def test_pickling_is_refused_and_copies_are_the_source(source: SystemSource) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(source, protocol)
    assert copy.copy(source) is source
    assert copy.deepcopy({"noise": source})["noise"] is source


def test_it_is_private_and_has_no_seed(source: SystemSource) -> None:
    assert isinstance(source, NoiseSource)
    assert source.private is True
    assert "entropy" in source.describe()
    assert not inspect.signature(SystemSource).parameters
