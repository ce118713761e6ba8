"""The suite `noise-law`: whether noise has the law that its price assumes.

The operating system's words are replaced by stratified ones (`stratified.py`); they go through
the real samplers, and through real releases of a real ledger. Where one word makes one draw,
the distance between the draws and the law is at most about 1/N, by proof and not by chance: a
larger one is a fault. Other laws are compared by chi-square at a false alarm of 1e-9, or at the
word where the answer changes. docs/proofs/noise-law.md has statements, proofs and limits.

Not shown: that the operating system's words are uniform and independent; a fault that shows for
scales, candidates or tables that are not tried here; anything about time or memory.

    python -m tests.noise_laws.noise_law
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Sequence

from privledger.errors import InvalidValue
from privledger.noise.seeded import SeededSource
from privledger.noise.source import NoiseSource
from privledger.rounding import count
from privledger.testing.fitting import fail
from tests.noise_laws import (
    choice_laws,
    discrete_laws,
    edge_laws,
    pool_laws,
    sampler_laws,
    session_laws,
)
from tests.noise_laws.distances import Finding, LawResult, worst
from tests.noise_laws.sampler_laws import Bench
from tests.noise_laws.stratified import Dealer, DealtSource

SUITE = "noise-law"
MOST_DRAWS = 1 << 24
FEWEST_DRAWS = 1 << 14

# Names are stable, as those of checks are.
LAWS: dict[str, Callable[[Bench], list[Finding]]] = {
    "gaussian": sampler_laws.gaussian,
    "laplace": sampler_laws.laplace,
    "discrete-laplace": discrete_laws.discrete_laplace,
    "discrete-gaussian": discrete_laws.discrete_gaussian,
    "rounding-edges": edge_laws.rounding_edges,
    "far-tails": edge_laws.far_tails,
    "choice-edges": edge_laws.choice_edges,
    "bernoulli": sampler_laws.bernoulli,
    "uniform": sampler_laws.uniform,
    "exponential": sampler_laws.exponential,
    "permute-and-flip": sampler_laws.permute_and_flip,
    "randomized-response": sampler_laws.randomized_response,
    "top-k-exponential": sampler_laws.top_k_exponential,
    "top-k-gumbel": sampler_laws.top_k_gumbel,
    "trials": sampler_laws.trials,
    "words": pool_laws.words,
    "pool": pool_laws.pool,
    "session-gaussian": session_laws.session_gaussian,
    "session-laplace": session_laws.session_laplace,
    "session-discrete": discrete_laws.session_discrete,
    "session-correlated": session_laws.session_correlated,
    "session-sample": session_laws.session_sample,
    "session-fixed": session_laws.session_fixed,
    "session-truncated": session_laws.session_truncated,
    "session-allocation": session_laws.session_allocation,
    "session-coins": session_laws.session_coins,
    "session-exponential": choice_laws.session_exponential,
    "session-permute-and-flip": choice_laws.session_flips,
    "session-features": choice_laws.session_features,
    "session-responses": choice_laws.session_responses,
    "session-trials": choice_laws.session_trials}


def noise_law(source_factory: Callable[[Dealer], NoiseSource] | None = None, *,
              laws: Sequence[str] | None = None, size: int = 1 << 18,
              seed: int = 0) -> tuple[LawResult, ...]:
    """Look at the law of every kind of noise.

    Args:
        source_factory: makes the source to look at over a stream of words (called with a number
            of words, it returns them: uint64); None for the package's own samplers.
        laws: names from `LAWS`; None for all.
        size: draws of a law that costs little for each, 2**14 to 2**24; others have fewer.
            Distances are at most about 1/size, so a larger one sees smaller faults.
        seed: where words lie inside their strata, and their order. The same seed gives the
            same answer, but for `pool`, which looks at real entropy.

    Returns:
        One result per law, in the order asked. `distance` of a law whose words were not used
        once each is infinite.

    Raises:
        InvalidValue: no such law, or an impossible size or seed.

    >>> [result.holds for result in noise_law(laws=["bernoulli"], size=2**14)]
    [True]
    """
    asked = tuple(LAWS) if laws is None else tuple(laws)
    for name in asked:
        if name not in LAWS:
            raise InvalidValue("laws", name, f"names out of {', '.join(LAWS)}")
    draws = count("size", size, least=FEWEST_DRAWS, most=MOST_DRAWS)
    start = count("seed", seed, least=0)
    make = DealtSource if source_factory is None else source_factory
    return tuple(worst(name, LAWS[name](
        Bench(make, draws, SeededSource(zlib.crc32(name.encode()) + (start << 32)))))
        for name in asked)


def check_noise_law(source_factory: Callable[[Dealer], NoiseSource] | None = None, *,
                    laws: Sequence[str] | None = None, size: int = 1 << 18,
                    seed: int = 0) -> None:
    """Raise `LearnerCheckFailed`, with the check `noise-law`, unless every law holds.

    Arguments as for `noise_law`.
    """
    for result in noise_law(source_factory, laws=laws, size=size, seed=seed):
        if not result.holds:
            fail(SUITE, f"{result.law}: {result.distance:.4g} from its law after {result.draws} "
                        f"draws; a right one is never past {result.bound:.4g}")


def main() -> int:
    """Print every law; 0 if all hold, else 1."""
    results = noise_law()
    for result in results:
        print(f"{'holds' if result.holds else 'FAILS':6}{result.law:26}"
              f"distance {result.distance:<12.4g}bound {result.bound:<12.4g}"
              f"{result.draws:>9} draws")
    return 0 if all(result.holds for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
