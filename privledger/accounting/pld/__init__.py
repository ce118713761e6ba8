"""Privacy-loss distributions: certified bounds on epsilon and delta of fixed compositions.

    pairs, sampled, mixtures, grid  dominating pairs
    allocated               the pair of a record in one of several rounds
    coins                   one of two pairs, by a coin
    losses                  how a node is built of pairs, one lane for each direction
    several_rows            the same for several rows, and for a row that is exchanged
    envelopes               squared mu and rho of a lane
    probe, lattice          where to compute: tilt, window, mesh
    moments                 Renyi bounds of a pair
    masses, merged          a pair on a lattice, above it and below it
    between, blended        many noise levels between few
    compose, solve          the sum of losses by FFT, and what it proves
    price                   the questions

Proofs: docs/proofs/privacy-loss.md.
"""

from privledger.accounting.pld.by_pld import (
    Price,
    delta_by_pld,
    epsilon_by_pld,
    epsilon_lower_by_pld,
)
from privledger.accounting.pld.envelopes import RHO, SQUARED_MU, envelope_currency, sampled_pure
from privledger.accounting.pld.losses import (
    LEAST_RATE,
    NOTHING,
    Losses,
    allocated,
    both_ways,
    dearest,
    fixed_size,
    gaussian_shift,
    laplace_shift,
    losses_rdp,
    moved,
    poisson,
    together,
    truncated,
)
from privledger.accounting.pld.pairs import (
    AtomPair,
    BoundedRangePair,
    GaussianPair,
    LaplacePair,
    discrete_gaussian_pair,
    discrete_laplace_pair,
    pure_pair,
    response_loss,
    response_pair,
    wide_discrete_mu,
)
from privledger.accounting.pld.several_rows import grouped, replaced

__all__ = [
    "LEAST_RATE",
    "NOTHING",
    "RHO",
    "SQUARED_MU",
    "AtomPair",
    "BoundedRangePair",
    "GaussianPair",
    "LaplacePair",
    "Losses",
    "Price",
    "allocated",
    "both_ways",
    "dearest",
    "delta_by_pld",
    "discrete_gaussian_pair",
    "discrete_laplace_pair",
    "envelope_currency",
    "epsilon_by_pld",
    "epsilon_lower_by_pld",
    "fixed_size",
    "gaussian_shift",
    "grouped",
    "laplace_shift",
    "losses_rdp",
    "moved",
    "poisson",
    "pure_pair",
    "replaced",
    "response_loss",
    "response_pair",
    "sampled_pure",
    "together",
    "truncated",
    "wide_discrete_mu",
]
