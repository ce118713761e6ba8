"""A plan in a few lines: without alternatives that did not run, and with what looks alike as one.

Nothing is lost to a reader who asks for all of it: these are outlines like those of the whole plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from attrs import evolve

from privledger.ledger.view_releases import ReleaseLine
from privledger.numerals import many
from privledger.reports.outline import Outline

ALIKE = 3
"""So many siblings that differ in their numbers only are one line; two are shown as they are."""
_UNDER = " under "
_MOST = 4


def gist(line: Outline, released: Iterable[ReleaseLine]) -> Outline:
    """A plan as somebody reads it who saw what was released under it.

    Of a `OneOf` only the member that ran is left: the one that explains most of the releases, or
    all that explain as many. Where nothing was released, nothing is left out but repetition.
    """
    ran = {one.mechanism.partition(_UNDER)[0] for one in released}
    return _alike(_chosen(line, ran))


def _chosen(line: Outline, ran: set[str]) -> Outline:
    below = line.children
    if line.kind == "OneOf" and ran and len(below) > 1:
        known = [_labels(child) & ran for child in below]
        shares = [len(found) / len(_labels(child)) for found, child in zip(known, below,
                                                                           strict=True)]
        best = max(shares)
        if best > 0:
            below = tuple(child for child, share in zip(below, shares, strict=True)
                          if share == best)
            left = len(line.children) - len(below)
            line = evolve(line, label=f"{line.label}, {left} did not run" if left else line.label)
    return evolve(line, children=tuple(_chosen(child, ran) for child in below))


def _labels(line: Outline) -> set[str]:
    """Of everything below that releases."""
    if not line.children:
        return {line.label}
    return set().union(*(_labels(child) for child in line.children))


def _alike(line: Outline) -> Outline:
    """Siblings of one shape as a single line, where they are many; in the order of the first."""
    groups: dict[object, list[Outline]] = {}
    for child in line.children:
        groups.setdefault(_shape(child), []).append(child)
    found: list[Outline] = []
    for group in groups.values():
        found += [_merged(group)] if len(group) >= ALIKE else group
    return evolve(line, children=tuple(_alike(child) for child in found))


def _shape(line: Outline) -> object:
    """What is left of a tree without its numbers."""
    return line.kind, tuple(_shape(child) for child in line.children)


def _merged(group: Sequence[Outline]) -> Outline:
    first = group[0]
    labels = list(dict.fromkeys(one.label for one in group))
    label = labels[0] if len(labels) == 1 else f"{labels[0]} .. {labels[-1]}"
    return Outline(first.kind, label, sum(one.members for one in group),
                   sum(one.times for one in group),
                   tuple(_merged(rows) for rows in zip(*(one.children for one in group),
                                                       strict=True)))


def reserved_line(line: Outline) -> str:
    """A whole plan in one line: what spends, and how often, dearest kinds by number first.

    >>> from privledger.reports.outline import outline
    >>> from privledger.graph import Repeat, Sequential
    >>> from privledger.mechanisms import Gaussian, Laplace
    >>> reserved_line(outline(Sequential([Laplace(2.0), Repeat(Gaussian(9.0), 20)])))
    '20 x Gaussian, Laplace'
    """
    counts: Counter[str] = Counter()
    _count(line, counts)
    return _listed([(kind, many_) for kind, many_ in counts.most_common()])


def _count(line: Outline, counts: Counter[str]) -> None:
    if not line.children:
        counts[line.kind] += line.times
    elif line.kind == "OneOf" and len(line.children) > 1:
        counts[f"one of {many(len(line.children), 'way')}"] += 1
    else:
        for child in line.children:
            _count(child, counts)


def released_line(lines: Sequence[ReleaseLine]) -> str:
    """What was released in one line: equal questions together, most frequent first."""
    counts: Counter[str] = Counter()
    for one in lines:
        counts[one.question] += one.count
    return _listed(counts.most_common())


def _listed(found: Sequence[tuple[str, int]]) -> str:
    parts = [f"{number} x {name}" if number > 1 else name for name, number in found[:_MOST]]
    return ", ".join(parts) + (f", and {len(found) - _MOST} more" if len(found) > _MOST else "")
