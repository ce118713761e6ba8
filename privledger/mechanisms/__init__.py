"""What one mechanism call promises: frozen records and how each is priced."""

from privledger.mechanisms.additive import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from privledger.mechanisms.register import Mechanism, leaf_cost
from privledger.mechanisms.selection import Asserted, Exponential, RandomizedResponse

__all__ = [
    "Asserted",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Exponential",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "RandomizedResponse",
    "leaf_cost",
]
