"""Powers of transforms close to 1 against mpmath, at every bound that they state."""

from __future__ import annotations

import math

import mpmath as mp  # type: ignore[import-untyped]
import numpy as np
from scipy.fft import rfft

from privledger.accounting.pld import compose
from privledger.accounting.pld.lattice import close, near


def law(size, seed):
    """Nearly all mass at a few points around 0, a little far away; the sum is 1 to a rounding."""
    rng = np.random.default_rng(seed)
    tilted = np.zeros(size)
    tilted[:12] = rng.random(12)
    tilted[-9:] = rng.random(9)
    tilted[rng.integers(100, size - 100, 40)] = 1e-7 * rng.random(40)
    return tilted / tilted.sum()


def true_power(tilted, frequency, count):
    size = len(tilted)
    places = np.flatnonzero(tilted)
    total = mp.fsum(mp.mpf(tilted[i]) for i in places)
    value = mp.fsum(mp.mpf(tilted[i]) / total * mp.expjpi(mp.mpf(-2 * int(i) * frequency) / size)
                    for i in places)
    return value**count


def test_powers_are_within_their_errors():
    size, count, half = 6000, 50_000, 64
    for seed in range(3):
        tilted = law(size, seed)
        # The last that are near, on each side, and the first that are far: none counts twice.
        tilted[[half - 1, half, size - half, size - half - 1]] = (2e-6, 3e-6, 5e-6, 7e-6)
        tilted /= tilted.sum()
        at = np.arange(40)
        far = tilted.copy()
        far[:half] = far[-half:] = 0
        off = compose._fft_error(size) * math.sqrt(size) * float(np.linalg.norm(far))
        power, relative = close(tilted, at, half, rfft(far), off).power(count, size)
        naive = rfft(tilted) ** count
        with mp.workdps(40):
            for frequency in (0, 1, 2, 5, 11, 23):
                truth = true_power(tilted, frequency, count)
                found = mp.mpmathify(complex(power[frequency]))
                assert abs(found - truth) <= relative[frequency] * abs(truth)
                assert relative[frequency] < 1e-8
        assert np.abs(power[:40] - naive[:40]).max() < 1e-8
        assert not power[40:].any()


def test_it_is_used_where_rounds_are_many_only():
    tilted = law(6000, 1)
    reach = np.abs(rfft(tilted)) + 1e-12
    assert compose._finer(tilted, 100, reach) is None
    found = compose._finer(tilted, 10**6, reach)
    assert found is not None and found[1].max() < 1e-6
    assert near(10**6, 10**6) == 0
