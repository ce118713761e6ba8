"""What one mechanism call promises: frozen records and how each is priced."""

from privledger.mechanisms.additive import (
    Asserted,
    AssertedZCDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
)
from privledger.mechanisms.register import MECHANISMS, Mechanism, answering, leaf_cost
from privledger.mechanisms.selection import (
    Exponential,
    PartitionSelection,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
    SparseVector,
    TopK,
)

__all__ = [
    "MECHANISMS",
    "Asserted",
    "AssertedZCDP",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Exponential",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "PartitionSelection",
    "PermuteAndFlip",
    "RandomizedResponse",
    "ReportNoisyMax",
    "SparseVector",
    "TopK",
    "answering",
    "leaf_cost",
]
