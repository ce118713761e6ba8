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

from privledger.accounting.pld.envelopes import RHO as RHO
from privledger.accounting.pld.envelopes import SQUARED_MU as SQUARED_MU
from privledger.accounting.pld.envelopes import choices as choices
from privledger.accounting.pld.envelopes import choices_squared as choices_squared
from privledger.accounting.pld.envelopes import envelope_currency as envelope_currency
from privledger.accounting.pld.envelopes import sampled_pure as sampled_pure
from privledger.accounting.pld.losses import LEAST_RATE as LEAST_RATE
from privledger.accounting.pld.losses import NOTHING as NOTHING
from privledger.accounting.pld.losses import Losses as Losses
from privledger.accounting.pld.losses import allocated as allocated
from privledger.accounting.pld.losses import both_ways as both_ways
from privledger.accounting.pld.losses import dearest as dearest
from privledger.accounting.pld.losses import fixed_size as fixed_size
from privledger.accounting.pld.losses import gaussian_shift as gaussian_shift
from privledger.accounting.pld.losses import laplace_shift as laplace_shift
from privledger.accounting.pld.losses import losses_rdp as losses_rdp
from privledger.accounting.pld.losses import mixture as mixture
from privledger.accounting.pld.losses import moved as moved
from privledger.accounting.pld.losses import poisson as poisson
from privledger.accounting.pld.losses import together as together
from privledger.accounting.pld.losses import truncated as truncated
from privledger.accounting.pld.mixtures import MixturePair as MixturePair
from privledger.accounting.pld.mixtures import amounts as amounts
from privledger.accounting.pld.pairs import AtomPair as AtomPair
from privledger.accounting.pld.pairs import BoundedRangePair as BoundedRangePair
from privledger.accounting.pld.pairs import GaussianPair as GaussianPair
from privledger.accounting.pld.pairs import LaplacePair as LaplacePair
from privledger.accounting.pld.pairs import discrete_gaussian_pair as discrete_gaussian_pair
from privledger.accounting.pld.pairs import discrete_laplace_pair as discrete_laplace_pair
from privledger.accounting.pld.pairs import pure_pair as pure_pair
from privledger.accounting.pld.pairs import response_loss as response_loss
from privledger.accounting.pld.pairs import response_pair as response_pair
from privledger.accounting.pld.pairs import wide_discrete_mu as wide_discrete_mu
from privledger.accounting.pld.several_rows import grouped as grouped
from privledger.accounting.pld.several_rows import replaced as replaced
