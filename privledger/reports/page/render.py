"""The page's record -> one HTML text: everything escaped, nothing loaded, one script."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from privledger.accounting import promise
from privledger.errors import LedgerCorrupt
from privledger.findings import Finding
from privledger.graph import canonical
from privledger.ledger import Entry
from privledger.ledger.entries import entry_of
from privledger.ledger.view_figures import clean
from privledger.ledger.view_timeline import timeline
from privledger.numerals import many
from privledger.reports.page.drawing import row_values, short
from privledger.reports.page.facts import Page, PageCharge
from privledger.reports.page.marks import (
    as_css,
    classes,
    delta_curve,
    histogram,
    hue_of,
    moment,
)
from privledger.reports.page.past import MOST_FINDINGS, PUBLIC, FindingText, Told, said_of
from privledger.reports.page.people import People
from privledger.reports.survey import LedgerVerdict
from privledger.rounding import downward, downward_percent, exact, upward, upward_percent
from privledger.storage import shown

if TYPE_CHECKING:
    from jinja2 import Environment


# The page of a history that cannot be added up: its faults, and its entries as they read.
#
# Hashes do not hold, or an entry is no entry. So there is no total to show, no promise and no
# spend: only what is wrong, where, and what stands there.

NEAR, ENDS, MOST_TOLD = 2, 20, 600
UNREADABLE = "this is no entry: it cannot be read"
Row = tuple[object, ...]


@frozen
class Distrusted:
    """What the page says.

    Attributes:
        name: of the ledger. verdict: NOT TRUSTED, in the line that `verify` says.
        said: findings and the entries shown. entries: how many rows there are.
        publishable: what entries say of fits was left out.
    """

    name: str
    verdict: LedgerVerdict
    said: FindingText
    entries: int
    publishable: bool

    @property
    def faulty(self) -> frozenset[int]:
        """Entries that a finding is about."""
        return frozenset(line.entry for line in self.said.lines)


def distrusted(rows: Sequence[Row], location: str, verdict: LedgerVerdict,
               findings: Sequence[Finding], *, publishable: bool = False) -> Distrusted:
    """Args: rows: of the store, as they are. verdict: about `findings`, of which there is one."""
    wanted = _wanted(len(rows), {one.position for one in findings[:MOST_FINDINGS]})
    told = tuple(one for place, one in enumerate(_told(rows, location))
                 if place in wanted or one.position in wanted)[:MOST_TOLD]
    if publishable:
        told = tuple(Told(one.position, one.kind, "",
                          one.text if one.kind in PUBLIC else "", "") for one in told)
    return Distrusted(clean(PurePath(shown(location)).name, 80) or "ledger in memory",
                      verdict, said_of(findings, told), len(rows), publishable)


def _wanted(rows: int, faults: Collection[int]) -> set[int]:
    """Both ends of the history, and whatever stands near a fault."""
    near = {at + step for at in faults if at >= 0 for step in range(-NEAR, NEAR + 1)}
    return near | set(range(min(ENDS, rows))) | set(range(max(0, rows - ENDS), rows))


def _told(rows: Iterable[Row], location: str) -> Iterator[Told]:
    """Every row in words. Nothing is verified; a row that is no entry says so."""
    entries: list[Entry | None] = []
    places: list[int] = []
    for place, row in enumerate(rows):
        try:
            entries.append(entry_of(row, location))
        except LedgerCorrupt:
            entries.append(None)
        first = row[0] if row else None
        places.append(first if type(first) is int else place)
    moments = timeline(one for one in entries if one is not None)
    for position, entry in zip(places, entries, strict=True):
        if entry is None:
            yield Told(position, "?", "", UNREADABLE, "")
        else:
            one = next(moments)
            yield Told(position, clean(one.kind, 40), clean(one.time, 40), clean(one.text), "")


PLAIN = 150_000
"""A longer tree goes into the page deflated, as base64."""
MOST_LINES = 50


def render_page(page: Page) -> str:
    """The whole page."""
    from markupsafe import Markup

    style, script = _style(), _asset("report.js")
    text = json.dumps(tree_values(page), separators=(",", ":"), ensure_ascii=True,
                      allow_nan=False)
    tree = text if len(text) <= PLAIN else json.dumps(
        {"deflated": base64.b64encode(zlib.compress(text.encode("ascii"), 9)).decode("ascii")})
    budget = page.report
    return _environment().get_template("report.html.j2").render(
        page=page, report=budget, policy=content_policy(style, script),
        style=Markup(style), script=Markup(script),
        tree=Markup(inert(tree)),
        people_json=Markup(inert(json.dumps(people_values(page), separators=(",", ":")))),
        curve=delta_curve(page.what_if.curve, budget.delta),
        promised=promise(budget.relation, page.report.about),
        verdict=evolve(budget.verdict, publishable=page.publishable),
        receipt=canonical(budget.receipt), version=version("privledger"),
    )


def render_distrusted(page: Distrusted) -> str:
    """The page of a history that cannot be added up. It has no script."""
    from markupsafe import Markup

    style = _style()
    return _environment().get_template("distrusted.html.j2").render(
        page=page, style=Markup(style), policy=content_policy(style), version=version("privledger"))


def page_policy() -> str:
    """What a page may do: nothing but its one style and its one script."""
    return content_policy(_style(), _asset("report.js"))


def content_policy(style: str, script: str = "") -> str:
    """Nothing may be loaded, run or sent but the one style and the one script, if any, of the page.
    """
    runs = f"'{_hash(script)}'" if script else "'none'"
    return ("default-src 'none'; base-uri 'none'; form-action 'none'; "
            f"style-src '{_hash(style)}'; script-src {runs}; "
            "require-trusted-types-for 'script'; trusted-types 'none'")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def inert(text: str) -> str:
    """JSON that cannot end the element it stands in."""
    return (text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


@lru_cache(maxsize=4)
def _asset(name: str) -> str:
    return (files("privledger.reports") / "templates" / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _style() -> str:
    """The sheet, with the learners' colours where it names them."""
    hues = {"/*day*/": as_css("light") + as_css("line"),
            "/*night*/": as_css("dark") + as_css("pale"), "/*classes*/": classes()}
    text = _asset("report.css")
    for mark, rules in hues.items():
        text = text.replace(mark, rules)
    return text


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(loader=PackageLoader("privledger.reports", "templates"), autoescape=True,
                       undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
                       finalize=_plain_text)
    made.filters |= {"number": number, "at_least": at_least, "exact": exact,
                     "percent": upward_percent, "percent_left": downward_percent,
                     "histogram": histogram, "moment": moment, "many": many, "hue": hue_of}
    return made


def _plain_text(value: Any) -> Any:
    """What a template prints is a text and nothing more: no control and no reordering signs."""
    return clean(value, 4000) if type(value) is str else value


def number(value: float | None) -> str:
    """Four digits, rounded up; infinity as a word."""
    return "–" if value is None else upward(value, 4)


def at_least(value: float) -> str:
    """Four digits, rounded down: what is left is never shown as more.

    >>> at_least(1.78599), at_least(2.0), at_least(0.0)
    ('1.785', '2', '0')
    """
    return downward(value, 4)


class _Words:
    """Texts once each, by place."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.places.setdefault(clean(text, 300), len(self.places))


def tree_values(page: Page) -> dict[str, Any]:
    """Nodes and charges, in columns of small numbers; texts are in `words`."""
    words = _Words()
    nodes = [[words(row.kind), words(row.parameters), *row_values(row)] for row in page.rows]
    charges = [_charge_values(charge, words) for charge in page.charges]
    return {"unit": page.unit, "at": exact(page.report.delta), "relation": page.report.relation,
            "nodes": nodes, "charges": charges, "words": list(words.places)}


def _charge_values(charge: PageCharge, words: _Words) -> list[Any]:
    report = charge.report
    lines = [[words(line.mechanism), words(line.question), line.count, line.cells,
              int(line.asserted)] for line in report.lines[:MOST_LINES]]
    return [clean(report.name, 60), charge.position, words(report.learner), words(report.data),
            moment(report.time), words(report.status), words(report.note),
            words(report.isolation), short(charge.share), short(report.epsilon), charge.row,
            report.releases, words(charge.asked), charge.drew_on, lines]


def people_values(page: Page) -> list[dict[str, Any]]:
    """What the script needs to answer for one record."""
    places = {charge.report.name: place for place, charge in enumerate(page.charges)}
    who = "person" if page.report.about == "person" else "record"
    return [{"who": who} | _people_values(one, places) for one in page.people]


def _people_values(one: People, places: dict[str, int]) -> dict[str, Any]:
    def largest(lines: tuple[tuple[float, int], ...]) -> list[list[Any]]:
        kept = sorted(range(len(lines)), key=lambda place: (-lines[place][0], place))[:MOST_LINES]
        return [[place, short(lines[place][0]), lines[place][1]] for place in sorted(kept)]

    return {
        "data": clean(one.data, 80), "records": one.records, "cap": one.cap, "alike": one.alike,
        "alikeGrants": one.alike_grants, "levels": one.levels, "total": one.total,
        "sources": [[places[source.grant], source.cap, source.rounds, source.length, source.spent,
                     source.took] for source in one.sources],
        "top": [[top.row, short(top.total), largest(top.lines)] for top in one.top],
    } | ({"digests": one.digests} if one.digests else {})
