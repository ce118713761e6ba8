"""Parts that may divide one person's records: which plans have a proved price under unit person.

A part by a predicate takes some of a person's rows and leaves the others, so the person is in
several parts at once, in each with a share of its weight; the shares add up to one. The dearest
part still bounds the whole wherever costs add up over releases and a share of a mechanism costs
at most this share of its price (docs/proofs/people.md, "Parts"). Everything else is refused.
"""

from __future__ import annotations

from privledger.accounting import check_relation
from privledger.errors import UnsupportedNode
from privledger.facts.columns import TableFacts
from privledger.graph import Node, cost_of
from privledger.graph.nodes import (
    Correlated,
    FixedSizeSample,
    IndividualFilter,
    OneOf,
    Parallel,
    PoissonSample,
    PostProcess,
    Public,
    RandomAllocation,
    Repeat,
    Sequential,
    TruncatedPoissonSample,
    Tuning,
    below,
    children,
)
from privledger.ledger import State
from privledger.mechanisms import (
    Exponential,
    Gaussian,
    Laplace,
    PermuteAndFlip,
    ReportNoisyMax,
    TopK,
)
from privledger.rounding import as_written

_FREE = (PostProcess, Public)
_WHOLE = (PoissonSample, FixedSizeSample, RandomAllocation, TruncatedPoissonSample, Correlated,
          Tuning)
_INNER = (Sequential, Repeat, OneOf, Parallel, *_FREE)
_ADDITIVE = (Gaussian, Laplace, Exponential, PermuteAndFlip, ReportNoisyMax, TopK)


def check_divided(plan: Node, facts: TableFacts, state: State) -> None:
    """Refuse a plan whose parts have no proved price for people who are in several of them.

    Raises:
        UnsupportedNode: nothing was read.
    """
    if facts.unit != "person":
        return
    found = _outside_filters(plan)
    divided = [(node, sampled) for node, sampled in found
               if isinstance(node, Parallel) and _divides(node, facts)]
    for node, _ in divided:
        _check_inside(node)
    other = [sampled for node, sampled in divided
             if not all(isinstance(one, Gaussian) for one in _priced(node))]
    if any(other):
        raise UnsupportedNode(
            "parts that may divide one person's records, inside a sample or a tuning: proved for "
            "Gaussian noise only; nothing was read")
    if other and not _adds_up(plan, state):
        raise UnsupportedNode(
            "parts that may divide one person's records, priced as a whole at a delta: proved for "
            "Gaussian noise only. Ask for less than the budget's epsilon without a delta, or of a "
            "ledger with filter=\"rdp\"; nothing was read")


def _adds_up(plan: Node, state: State) -> bool:
    """Whether the ledger charges what adds up: anything but a whole plan's epsilon at a delta."""
    kind = None if state.rule is None else state.rule.kind
    if kind in ("gdp", "zcdp", "rdp"):
        return True
    assert state.budget is not None
    part = cost_of(plan, check_relation(state.relation)).pure_part
    return part is not None and part <= as_written(state.budget.epsilon)


def _outside_filters(plan: Node) -> list[tuple[Node, bool]]:
    """Every node but those in an individual filter, where each person pays for what it sends; and
    whether it stands in something that is priced by more than its inside's additive cost."""
    waiting, found = [(plan, False)], []
    while waiting:
        node, sampled = waiting.pop()
        found.append((node, sampled))
        if not isinstance(node, IndividualFilter):
            sampled = sampled or isinstance(node, _WHOLE)
            waiting.extend((child, sampled) for child in children(node))
    return found


def _divides(node: Parallel, facts: TableFacts) -> bool:
    """Whether a person may be in two parts that are asked: by coins, and by positions of people,
    everybody is in one."""
    if facts.most_rows == 1 or node.certificate == "iid_per_record" or (
            node.certificate == "index" and facts.relation != "replace_label"):
        return False
    asked = [child for child in node.nodes
             if not all(isinstance(one, (*_FREE, Sequential, Repeat, OneOf, Parallel))
                        for one in below(child))]
    return len(asked) > 1


def _priced(node: Parallel) -> list[Node]:
    return [one for one in below(node) if not isinstance(one, _INNER)]


def _check_inside(node: Parallel) -> None:
    for one in _priced(node):
        if not isinstance(one, _ADDITIVE):
            raise UnsupportedNode(
                f"{type(one).__name__} in several parts that may divide one person's records: each "
                "part would see the person in full. Parts by coins, or a sample around the parts, "
                "hold; nothing was read")
