"""P1: with equal answers, the runs of a lock are the same run, to everybody outside the guard."""

from __future__ import annotations

from collections.abc import Iterator

from privledger.testing.lockstep.kept import Broken, Grant, RecordedRun


def parted(
    first: RecordedRun, other: RecordedRun, other_name: str, steady: frozenset[str]
) -> Iterator[Broken]:
    """Where two runs with equal answers part.

    Args:
        steady: what repeats between two fits on one table, of `RecordedRun.model`.
    """
    for place, (one, two) in enumerate(zip(first.releases, other.releases, strict=False)):
        if one.digest[:16] != two.digest[:16]:
            yield Broken("P1", place, f"{other_name}, another question was asked")
            return
        if one.failed != two.failed:
            yield Broken("P1", place, f"{other_name}, a release fails otherwise")
            return
        if one.digest != two.digest:
            yield Broken("P1", place, f"{other_name}, another charge was itemised")
            return
    if len(first.releases) != len(other.releases):
        yield Broken("P1", min(len(first.releases), len(other.releases)),
                     f"{other_name}, another number of questions was asked")
        return
    if first.failed != other.failed:
        yield Broken("P1", -1, f"{other_name}, the fit ends otherwise")
        return
    yield from _grants(first, other, other_name)
    for path in sorted(steady):
        if first.model.get(path) != other.model.get(path):
            yield Broken("P1", -1, f"{other_name}, {path} is another: it came from the records "
                                   "past the ledger")
            return


def _grants(first: RecordedRun, other: RecordedRun, other_name: str) -> Iterator[Broken]:
    mine, theirs = ([*run.grants, *run.idle] for run in (first, other))
    if [_said(grant) for grant in mine] != [_said(grant) for grant in theirs]:
        yield Broken("P1", -1, f"{other_name}, plans, charges or ends of the grants are others")
    if first.histories != other.histories:
        yield Broken("P1", -1, f"{other_name}, the ledger's history says something else")
    if first.spent != other.spent:
        yield Broken("P1", -1, f"{other_name}, the ledger's total is another")
    if first.model.keys() != other.model.keys():
        yield Broken("P1", -1, f"{other_name}, the model holds other things")


def _said(grant: Grant) -> tuple[object, ...]:
    return grant.plan, grant.charge, grant.status, len(grant.vectors), grant.trial
