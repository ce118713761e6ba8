"""What the fields of one node ask of each other. Each raises `InvalidMechanism`.

They take fields, not nodes, so that `privledger.graph.nodes` may use them while it is being made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from privledger.errors import InvalidMechanism
from privledger.mechanisms import Gaussian
from privledger.rounding import MOST_COUNT, count, number, plain_float, positive, probability

MOST_PARTIES = 1000
MOST_CORRELATED = 2048
LEAST_SHARED = 0.01  # noise multiplier of shared noise: docs/proofs/federated.md
SEERS = ("coordinator", "parties", "anybody")


def listed(value: object) -> tuple[object, ...]:
    """The members of a composite, as a tuple."""
    if not isinstance(value, Iterable):
        raise InvalidMechanism("nodes", type(value).__name__, "a list of nodes")
    return tuple(value)


def numbers(value: object) -> tuple[object, ...]:
    """The coefficients of correlated noise, as a tuple of floats."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise InvalidMechanism("Correlated coefficients", type(value).__name__, "a list of numbers")
    return tuple([plain_float(one) for one in value])


def check_filter(kind: str, cap: float, order: float) -> None:
    """Of an individual filter: an order where the kind has one."""
    if kind not in ("gdp", "renyi"):
        raise InvalidMechanism("IndividualFilter kind", kind, "gdp or renyi")
    positive("IndividualFilter cap", cap)
    if kind == "renyi" and not positive("IndividualFilter order", order) > 1:
        raise InvalidMechanism("IndividualFilter order", order, "above 1")
    if kind == "gdp" and (type(order) is bool or order != 0):
        raise InvalidMechanism("IndividualFilter order", order, "zero for kind gdp")


def check_trials(distribution: str, shape: float, success: float, mean: float) -> None:
    """Of a tuning: the parameters of its distribution, and none of the other's."""
    for name, value in (("shape", shape), ("success", success), ("mean", mean)):
        number(f"Tuning {name}", value)
    if distribution == "negative_binomial":
        probability("Tuning success", success)
        found = number("Tuning shape", shape)
        if not (-1 < found <= 1000 and (found == 0 or abs(found) >= 1e-6)):
            raise InvalidMechanism("Tuning shape", shape,
                                   "above -1, at most 1000, and 0 or at least 1e-6 in size")
        if type(mean) is bool or mean != 0:
            raise InvalidMechanism("Tuning mean", mean, "0 for negative_binomial")
    elif distribution == "poisson":
        positive("Tuning mean", mean)
        if type(success) is bool or success != 0:
            raise InvalidMechanism("Tuning success", success, "0 for poisson")
    else:
        raise InvalidMechanism("Tuning distribution", distribution, "negative_binomial or poisson")


def check_trust(parties: int, colluding: int, least_honest: int, seen_by: str, noise: str) -> None:
    """Of a federation: how many are trusted, among how many."""
    count("Federated parties", parties, least=1, most=MOST_PARTIES)
    count("Federated colluding", colluding, least=0, most=parties - 1)
    count("Federated least_honest", least_honest, least=1, most=parties - colluding)
    if seen_by not in SEERS or noise not in ("local", "shared"):
        raise InvalidMechanism("Federated", f"{seen_by}, {noise}",
                               f"one of {', '.join(SEERS)}; local or shared")


def check_shared(node: object, below: Iterable[object], kinds: tuple[type, ...]) -> None:
    """Of a federation that shares noise: `node`, and all `below` it, is Gaussian noise and of
    `kinds`, as only that adds up."""
    inside = list(below)
    if not all(isinstance(one, kinds) for one in inside):
        raise InvalidMechanism("Federated node", type(node).__name__,
                               "made of Gaussian noise only, where noise is shared")
    if any(isinstance(one, Gaussian) and one.noise_multiplier < LEAST_SHARED for one in inside):
        raise InvalidMechanism("Federated node", "Gaussian noise that is shared",
                               f"of a multiplier of at least {LEAST_SHARED}")


def check_strategy(node: object, coefficients: Sequence[float], steps: int, separation: int,
                   participations: int) -> None:
    """Of correlated noise: what one record moves must follow from few numbers."""
    most = count("Correlated steps", steps, most=MOST_CORRELATED)
    apart = count("Correlated separation", separation, most=most)
    count("Correlated participations", participations, most=MOST_COUNT)
    if type(node) is not Gaussian or node.shares:
        raise InvalidMechanism("Correlated node", type(node).__name__,
                               "a Gaussian of one block: the noise of one step")
    found = [number("Correlated coefficients", one) for one in coefficients]
    if not 0 < len(found) <= most or not 1e-100 <= found[0] <= 1e100 or any(
            abs(one) > 1e100 for one in found):
        raise InvalidMechanism("Correlated coefficients", "given",
                               "1 to `steps` numbers of at most 1e100, the first at least 1e-100")
    falling = found[-1] >= 0 and all(a >= b for a, b in pairwise(found))
    if len(found) > apart and not falling:
        raise InvalidMechanism(
            "Correlated coefficients", "given", "no more than `separation`, or falling and not "
            "negative: else what a record moves takes the whole matrix, as in correlated_gaussian")
