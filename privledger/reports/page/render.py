"""The page's record -> one HTML text: everything escaped, nothing loaded, one script."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from privledger.accounting import promise
from privledger.ledger.view_figures import clean
from privledger.numerals import many
from privledger.reports.page.charts import day_text, spread_bars
from privledger.reports.page.facts import Body, GrantRow, Page
from privledger.reports.page.people import People
from privledger.reports.survey import sentence
from privledger.rounding import downward, exact, upward, upward_percent

if TYPE_CHECKING:
    from jinja2 import Environment

PLAIN = 150_000
"""Longer JSON goes into the page deflated, as base64."""
MOST_LINES = 50


def render_page(page: Page) -> str:
    """The whole page."""
    from markupsafe import Markup

    style, body = _asset("report.css"), page.content
    script = "" if body is None else _asset("report.js")
    return _environment().get_template("report.html.j2").render(
        page=page, head=page.head, body=body, policy=content_policy(style, script),
        style=Markup(style), script=Markup(script), version=version("privledger"),
        data=Markup(_block({} if body is None else grant_values(body))),
        people=Markup(_block([] if body is None else people_values(body))),
        promised="" if body is None else promise(body.report.relation, body.report.about),
        receipt="" if body is None else json.dumps(body.report.receipt, indent=1, sort_keys=True))


def _block(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return inert_json(text if len(text) <= PLAIN else json.dumps(
        {"deflated": base64.b64encode(zlib.compress(text.encode("ascii"), 9)).decode("ascii")}))


def page_policy() -> str:
    """What a page may do: nothing but its one style and its one script."""
    return content_policy(_asset("report.css"), _asset("report.js"))


def content_policy(style: str, script: str) -> str:
    """Nothing may be loaded, run or sent but the one style and the one script, if there is one."""
    return ("default-src 'none'; base-uri 'none'; form-action 'none'; "
            f"style-src '{_hash(style)}'; "
            f"script-src '{_hash(script) if script else 'none'}'; "
            "require-trusted-types-for 'script'; trusted-types 'none'")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def inert_json(text: str) -> str:
    """JSON that cannot end the element it stands in."""
    return (text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


@lru_cache(maxsize=4)
def _asset(name: str) -> str:
    return (files("privledger.reports") / "templates" / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(loader=PackageLoader("privledger.reports", "templates"), autoescape=True,
                       undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
                       finalize=_plain_text)
    made.filters |= {"number": shown_number, "at_least": at_least, "exact": exact,
                     "percent": upward_percent, "histogram": spread_bars, "day": day_text,
                     "many": many, "sentence": sentence}
    return made


def _plain_text(value: Any) -> Any:
    """What a template prints is a text and nothing more: no control and no reordering signs.

    Line breaks stay: plans and the receipt have them, and stand in elements that keep them.
    """
    return "\n".join(clean(line, 40_000) for line in value.split("\n")) if (
        type(value) is str) else value


def shown_number(value: float | None) -> str:
    """Four digits, rounded up; infinity as a word."""
    return "–" if value is None else upward(value, 4)


def at_least(value: float) -> str:
    """Four digits, rounded down: what is left is never shown as more.

    >>> at_least(1.78599), at_least(2.0), at_least(0.0)
    ('1.785', '2', '0')
    """
    return downward(value, 4)


def short(value: float, digits: int = 4) -> float | str:
    """Rounded up to `digits` significant digits, so that the page never says too little."""
    shown = upward(value, digits)
    return float(shown) if shown[-1].isdigit() else shown


def grant_values(body: Body) -> dict[str, Any]:
    """What the script sorts, filters and opens: grants, and the plans that they share."""
    return {"unit": body.report.unit, "plans": [plan.text for plan in body.plans],
            "grants": [_grant_values(row) for row in body.rows]}


def _grant_values(row: GrantRow) -> list[Any]:
    epsilon, share = short(row.keys[1], 6), short(row.keys[2], 12)
    return [row.name, row.cells, [row.keys[0], epsilon, share], row.hue, row.flag,
            int(row.unverified), row.plan, row.path, row.spot, row.facts, row.answers]


def people_values(body: Body) -> list[dict[str, Any]]:
    """What the script needs to answer for one record."""
    places = {row.name: place for place, row in enumerate(body.rows)}
    return [{"who": body.who} | _people_values(one, places) for one in body.people]


def _people_values(one: People, places: dict[str, int]) -> dict[str, Any]:
    def largest(lines: tuple[tuple[float, int], ...]) -> list[list[Any]]:
        kept = sorted(range(len(lines)), key=lambda place: (-lines[place][0], place))[:MOST_LINES]
        return [[place, short(lines[place][0]), lines[place][1]] for place in sorted(kept)]

    return {
        "data": clean(one.data, 80), "records": one.records, "cap": one.cap, "alike": one.alike,
        "alikeGrants": one.alike_grants, "levels": one.levels, "total": one.total,
        "sources": [[places.get(source.grant, -1), source.cap, source.rounds, source.length,
                     source.spent, source.took] for source in one.sources],
        "top": [[top.row, short(top.total), largest(top.lines)] for top in one.top],
    } | ({"digests": one.digests} if one.digests else {})
