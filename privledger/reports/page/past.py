"""How the budget went down, entry by entry, and where it went."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from privledger.errors import PrivledgerError
from privledger.ledger import Entry, FilterRule, State
from privledger.ledger.view_plans import plan_of
from privledger.numerals import many
from privledger.reports.outline import leaves
from privledger.reports.plain import clean

MOST_POINTS = 400
MOST_BARS = 12
SCOPES = "(filter scopes nobody drew on)"


@frozen
class Move:
    """The total after one entry that moved it.

    Attributes:
        position: of the entry. time: as the entry has it.
        left: share of the filter's cap that is left, 0 to 1; below 0 if it is overspent.
        spent: epsilon, at the budget's delta, that everything so far certifies.
        what: which grant, scope or correction.
    """

    position: int
    time: str
    left: float
    spent: float
    what: str


@frozen
class Bar:
    """What one learner, mechanism or data set took.

    Attributes:
        share: of the whole budget, in the filter's unit; shares of one kind add up to the total.
        epsilon: what this part alone certifies. Epsilons do not add up.
        grants: how many charges.
    """

    name: str
    share: float
    epsilon: float
    grants: int


def moves(entries: Sequence[Entry], state: State) -> tuple[Move, ...]:
    """Every change of the total, thinned out evenly to at most `MOST_POINTS`."""
    rule = state.rule
    if rule is None:
        return ()
    units, found = 0, []
    for entry in entries:
        change, what = _change(entry, state)
        if change:
            units += change
            found.append((entry, units, what))
    step = -(-len(found) // MOST_POINTS) if found else 1
    kept = found[::-1][::step][::-1]  # the last one always stays
    return tuple(
        Move(entry.position, clean(entry.body.get("time", "")), 1 - _share(total, rule),
             rule.epsilon_of(total), what) for entry, total, what in kept)


def _change(entry: Entry, state: State) -> tuple[int, str]:
    body = entry.body
    if entry.kind in ("granted", "scope"):
        return int(body["units"]), clean(body[entry.kind.replace("granted", "grant")])
    if entry.kind == "corrected":
        return int(body["units"]), clean(f"correction of {body['grant']}")
    if entry.kind == "aborted":
        grant = state.grants[body["grant"]]
        if not grant.touched and not grant.releases:
            return -int(grant.body["units"]), clean(f"{grant.grant} handed back")
    return 0, ""


def _share(units: int, rule: FilterRule) -> float:
    return units / max(1, rule.cap_units)


def bars(state: State) -> dict[str, tuple[Bar, ...]]:
    """Charges by learner, mechanism and data set, dearest first, the rest in one bar."""
    if state.rule is None:
        return {}
    totals: dict[str, dict[str, list[int]]] = {"learner": {}, "mechanism": {}, "data set": {}}
    for keys, units in _charges(state):
        for kind, key in keys.items():
            total = totals[kind].setdefault(key, [0, 0])
            total[0] += units
            total[1] += 1
    return {kind: _ranked(found, state.rule) for kind, found in totals.items()}


def _charges(state: State) -> list[tuple[dict[str, str], int]]:
    """Names and units of every grant and scope that was paid for."""
    found = []
    for scope in state.scopes.values():
        users = [grant.body for grant in state.grants.values()
                 if grant.body.get("scope") == scope.scope]
        found.append(({
            "learner": _names([body["learner"] for body in users]),
            "mechanism": mechanism_names(scope.body["plan"]),
            "data set": _names([body["data"] for body in users]),
        }, int(scope.body["units"])))
    for grant in state.grants.values():
        back = grant.status == "aborted" and not grant.touched and not grant.releases
        units = grant.charged[0] - (int(grant.body["units"]) if back else 0)
        if grant.body.get("scope") or not units:
            continue
        found.append(({"learner": _names([grant.body["learner"]]),
                       "mechanism": mechanism_names(grant.plan),
                       "data set": _names([grant.body["data"]])}, units))
    return found


def _names(names: Sequence[str]) -> str:
    distinct = [clean(name, 60) or "(no name)" for name in dict.fromkeys(names)]
    return " + ".join(distinct[:3]) + (" + others" if len(distinct) > 3 else "") or SCOPES


def mechanism_names(plan: object) -> str:
    """Kinds of mechanism in a plan, as one name: a plan's price cannot be split between them."""
    if not isinstance(plan, dict):
        return "(nothing is promised any more)"
    try:
        kinds = sorted({type(leaf).__name__ for leaf in leaves(plan_of(plan))})
    except (PrivledgerError, KeyError, TypeError):
        return "(a plan that cannot be read)"  # the audit has a finding for it
    return " + ".join(kinds) or "(nothing)"


def _ranked(found: dict[str, list[int]], rule: FilterRule) -> tuple[Bar, ...]:
    ranked = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))
    kept, rest = ranked[:MOST_BARS], ranked[MOST_BARS:]
    if rest:
        kept.append((f"({many(len(rest), 'other')})",
                     [sum(total[0] for _, total in rest), sum(total[1] for _, total in rest)]))
    return tuple(Bar(name, _share(units, rule), rule.epsilon_of(units), many)
                 for name, (units, many) in kept)
