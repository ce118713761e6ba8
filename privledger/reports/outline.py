"""A node tree as lines to read: equal members are merged, multiplicities are multiplied out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from attrs import evolve, frozen

from privledger.graph import (
    FixedSizeSample,
    Node,
    PoissonSample,
    PostProcess,
    Public,
    RandomAllocation,
    Repeat,
    TruncatedPoissonSample,
    children,
    label,
)
from privledger.graph.register import MECHANISMS
from privledger.ledger.view import ReleaseLine
from privledger.ledger.view_figures import clean
from privledger.numerals import many, upward
from privledger.rounding import exact
from privledger.tables.schema import Schema

MOST_NODES = 500


@frozen
class Outline:
    """One line of a composition tree.

    Attributes:
        kind: the node's type.
        label: the type and its own parameters.
        members: how many equal members of the parent this line stands for.
        times: how often it runs in the whole plan (every repeat above it multiplied).
    """

    kind: str
    label: str
    members: int
    times: int
    children: tuple[Outline, ...]


def outline(node: Node, *, members: int = 1, times: int = 1) -> Outline:
    """The tree below `node`, equal members merged in the order of their first one."""
    below = times * node.count if isinstance(node, Repeat) else times
    counts: dict[Node, int] = {}
    for child in children(node):
        counts[child] = counts.get(child, 0) + 1
    return Outline(
        type(node).__name__, label(node), members, times,
        tuple(outline(child, members=many, times=below * many)
              for child, many in counts.items()),
    )


def ends_of(line: Outline) -> Iterator[Outline]:
    """The lines with nothing below them."""
    if not line.children:
        yield line
    for child in line.children:
        yield from ends_of(child)


def leaves(node: Node) -> Iterator[Node]:
    """Every distinct position that spends: mechanisms, and filters without a described inside."""
    below = children(node)
    if not below and not isinstance(node, PostProcess | Public):
        yield node
    for child in dict.fromkeys(below):
        yield from leaves(child)


def release_count(node: Node) -> int | None:
    """How many releases a plan describes; None if a filter leaves its inside open."""
    found = [one for one in ends_of(outline(node)) if one.kind not in ("PostProcess", "Public")]
    open_ended = any(one.kind == "IndividualFilter" for one in found)
    return None if open_ended else sum(one.times for one in found)


def plan_list(line: Outline) -> str:
    """A plan as nested lists of HTML, up to `MOST_NODES` lines."""
    found: list[str] = []
    _nodes(line, found)
    return "".join(found)


def _nodes(line: Outline, out: list[str]) -> None:
    if len(out) >= 2 * MOST_NODES:
        return
    if len(out) >= 2 * MOST_NODES - 2:
        out.append("<p>... and more</p>")
        out.append("")
        return
    members = f"{line.members} x " if line.members > 1 else ""
    times = f" ({many(line.times, 'time')} in all)" if line.times > 1 and not line.children else ""
    mark = ' class="bad"' if line.kind.startswith("Asserted") else ""
    out.append(f"<ul><li{mark}>{members}{escape(clean(line.label))}{times}")
    for child in line.children:
        _nodes(child, out)
    out.append("</li></ul>")


# A plan in a few lines: without alternatives that did not run, and with what looks alike as one.
#
# Nothing is lost to a reader who asks for all of it: these are outlines like those of the whole
# plan.

ALIKE = 3
"""So many siblings that differ in their numbers only are one line; two are shown as they are."""
_UNDER = " under "
_MOST = 4


def gist(line: Outline, released: Iterable[ReleaseLine]) -> Outline:
    """A plan beside what was released under it.

    Of a `OneOf` only the member that ran is left: the one that explains most of the releases, or
    all that explain as many. Where nothing was released, nothing is left out but repetition.
    """
    ran = {one.mechanism.partition(_UNDER)[0] for one in released}
    return _alike(_chosen(line, ran))


def _chosen(line: Outline, ran: set[str]) -> Outline:
    below = line.children
    if line.kind == "OneOf" and ran and len(below) > 1:
        labels = [{one.label for one in ends_of(child)} for child in below]
        shares = [len(own & ran) / len(own) for own in labels]
        best = max(shares)
        if best > 0:
            below = tuple(child for child, share in zip(below, shares, strict=True)
                          if share == best)
            left = len(line.children) - len(below)
            line = evolve(line, label=f"{line.label}, {left} did not run" if left else line.label)
    return evolve(line, children=tuple(_chosen(child, ran) for child in below))


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


def height(line: Outline) -> int:
    """How many lines a tree takes."""
    return 1 + sum(map(height, line.children))


def screenful(line: Outline, most: int) -> Outline:
    """A plan in about `most` lines: alternatives are one line, siblings that look alike too, and
    what lies too deep is told by what spends there.

    >>> from privledger.reports.outline import outline
    >>> from privledger.graph import OneOf, Repeat
    >>> from privledger.graph import Laplace
    >>> ways = outline(OneOf([Repeat(Laplace(float(n)), n) for n in range(2, 13)]))
    >>> screenful(ways, 10).label
    'OneOf(11 members), the first: 2 x Laplace'
    """
    line = _alike(_ways_folded(line))
    deepest = _depth(line)
    while deepest and height(line) > most:
        deepest -= 1
        line = _cut(line, deepest)
    return line


def _ways_folded(line: Outline) -> Outline:
    if line.kind == "OneOf" and len(line.children) > 1:
        first = f"{line.label}, the first: {reserved_line(line.children[0])}"
        return evolve(line, label=first, children=())
    return evolve(line, children=tuple(map(_ways_folded, line.children)))


def _depth(line: Outline) -> int:
    return 1 + max(map(_depth, line.children)) if line.children else 0


def _cut(line: Outline, depth: int) -> Outline:
    """The tree down to so many lines below its root."""
    if depth or not line.children:
        return evolve(line, children=tuple(_cut(child, depth - 1) for child in line.children))
    return evolve(line, label=f"{line.label}: {reserved_line(line)}", children=())


def reserved_line(line: Outline) -> str:
    """A whole plan in one line: what spends, and how often, dearest kinds by number first.

    >>> from privledger.reports.outline import outline
    >>> from privledger.graph import Repeat, Sequential
    >>> from privledger.graph import Gaussian, Laplace
    >>> reserved_line(outline(Sequential([Laplace(2.0), Repeat(Gaussian(9.0), 20)])))
    '20 x Gaussian, Laplace'
    """
    return _listed(spending(line))


def spending(line: Outline) -> list[tuple[str, int]]:
    """What spends in a plan, and how often, most frequent first."""
    counts: Counter[str] = Counter()
    _count(line, counts)
    return counts.most_common()


def _count(line: Outline, counts: Counter[str]) -> None:
    if not line.children:
        counts[line.kind] += line.times
    elif line.kind == "OneOf" and len(line.children) > 1:
        counts[f"one of {many(len(line.children), 'way')}"] += 1
    elif line.kind == "Correlated":
        counts["run with correlated noise"] += line.times
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


# Whether a plan's answers can be told from noise, from public facts: how many people there are.

SHARE = 0.1
"""An answer whose noise is so large a part of the table says next to nothing."""


def quietest(node: Node) -> float:
    """Standard deviation of a plan's quietest answer, in records: what one record at the most
    moves it by is one. Infinity where nothing is released."""
    inside = [quietest(child) for child in children(node)]
    row = MECHANISMS.get(type(node))
    return min([math.inf if row is None else row.spread(node), *inside]) / _share(node)


def _share(node: Node) -> float:
    """The share of all records that a sample holds, with the same noise; 1 of what is no sample."""
    if isinstance(node, PoissonSample | TruncatedPoissonSample):
        return node.rate
    if isinstance(node, FixedSizeSample):
        return node.size / node.out_of
    return 1 / node.steps if isinstance(node, RandomAllocation) else 1.0


def too_few(node: Node, schema: Schema) -> str | None:
    """A sentence if what the schema says of the number of people is too little for a plan."""
    people = schema.declared_rows
    noise = quietest(node)
    if schema.unit != "person" or people is None or not SHARE * people < noise < math.inf:
        return None
    return (f"too few people to learn anything: {exact(people)} people, and the least noisy answer "
            f"has noise as large as {upward(noise, 3)} of them")
