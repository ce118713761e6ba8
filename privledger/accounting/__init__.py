"""Privacy accounting: mathematics only, no data, no noise, no storage.

Every bound is rounded up, every cap down, and impossible numbers are refused.
"""

from privledger.accounting.allocation import (
    allocation_rdp,
    full_probability,
    truncated_gaussian_rdp,
)
from privledger.accounting.certificate import (
    ACCOUNTANTS,
    Certificate,
    delta_at,
    epsilon_at,
    epsilon_at_least,
    largest_count,
    smallest,
)
from privledger.accounting.convert import (
    delta_from_rdp,
    delta_from_zcdp,
    epsilon_from_rdp,
    epsilon_from_zcdp,
    published_sgbdt_epsilon,
    rdp_cap,
    zcdp_cap,
)
from privledger.accounting.cost import Cost, maximum, pairwise_parallel, repeat, sequential
from privledger.accounting.currencies import (
    Currencies,
    laplace_currencies,
    range_currencies,
    response_currencies,
    steps_currencies,
)
from privledger.accounting.curve import DEFAULT_ORDERS, RdpCurve, check_orders, sum_curves
from privledger.accounting.gaussian import (
    delta_from_mu,
    epsilon_from_mu,
    mu_from_epsilon_delta,
    mu_from_pure,
)
from privledger.accounting.relation import (
    RELATIONS,
    UNITS,
    WHO,
    Relation,
    check_relation,
    check_unit,
    promise,
)
from privledger.accounting.renyi import (
    bounded_range_rdp,
    gaussian_rdp,
    laplace_rdp,
    pure_rdp,
    zcdp_rdp,
)
from privledger.accounting.subsample import (
    poisson_gaussian_rdp,
    poisson_generic_rdp,
    poisson_pure_epsilon,
)
from privledger.accounting.tradeoff import (
    Tradeoff,
    cost_tradeoff,
    failing,
    gaussian_tradeoff,
    odds_rise,
    pure_tradeoff,
    renyi_tradeoff,
    zcdp_tradeoff,
)

__all__ = [
    "ACCOUNTANTS",
    "DEFAULT_ORDERS",
    "RELATIONS",
    "UNITS",
    "WHO",
    "Certificate",
    "Cost",
    "Currencies",
    "RdpCurve",
    "Relation",
    "Tradeoff",
    "allocation_rdp",
    "bounded_range_rdp",
    "check_orders",
    "check_relation",
    "check_unit",
    "cost_tradeoff",
    "delta_at",
    "delta_from_mu",
    "delta_from_rdp",
    "delta_from_zcdp",
    "epsilon_at",
    "epsilon_at_least",
    "epsilon_from_mu",
    "epsilon_from_rdp",
    "epsilon_from_zcdp",
    "failing",
    "full_probability",
    "gaussian_rdp",
    "gaussian_tradeoff",
    "laplace_currencies",
    "laplace_rdp",
    "largest_count",
    "maximum",
    "mu_from_epsilon_delta",
    "mu_from_pure",
    "odds_rise",
    "pairwise_parallel",
    "poisson_gaussian_rdp",
    "poisson_generic_rdp",
    "poisson_pure_epsilon",
    "promise",
    "published_sgbdt_epsilon",
    "pure_rdp",
    "pure_tradeoff",
    "range_currencies",
    "rdp_cap",
    "renyi_tradeoff",
    "repeat",
    "response_currencies",
    "sequential",
    "smallest",
    "steps_currencies",
    "sum_curves",
    "truncated_gaussian_rdp",
    "zcdp_cap",
    "zcdp_rdp",
    "zcdp_tradeoff",
]
