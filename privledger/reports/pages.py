"""HTML of `privledger serve`: a fixed set of small pages. Everything from a ledger is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from privledger.ledger import State
from privledger.ledger.view import view_of
from privledger.ledger.view_charges import charges_of
from privledger.ledger.view_figures import Figure
from privledger.ledger.view_plans import plan_of
from privledger.ledger.view_records import RecordSpend, data_names
from privledger.numerals import many
from privledger.reports.outline import Outline, outline
from privledger.reports.safe_text import clean
from privledger.reports.verdict import Verdict

PER_PAGE = 100
MOST_NODES = 500
STYLE = ("body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}"
         "table{border-collapse:collapse}td,th{border-bottom:1px solid #ccc;padding:.2rem .7rem;"
         "text-align:left;vertical-align:top}.bad{color:#b00020;font-weight:bold}"
         ".good{color:#1b6e2c}.open{color:#8a5a00}form{margin:1rem 0}")


def text(value: object) -> str:
    """Inert text."""
    return escape(clean(value), quote=True)


def page(title: str, body: str) -> str:
    """A whole document, without scripts."""
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{text(title)}'
            f"</title><style>{STYLE}</style></head><body><h1>{text(title)}</h1>{body}</body></html>")


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML already."""
    head = "".join(f"<th>{text(header)}</th>" for header in headers)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
                    for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def totals_page(state: State, location: str, verdict: Verdict | None, token: str) -> str:
    """The promise and what was spent; links to the grants, and a form for one record.

    Args:
        verdict: None if what is shown was not verified.
    """
    view = view_of(state)
    epsilon, delta = view.promised
    rows = [
        ("ledger", text(location)),
        ("budget", f"epsilon {epsilon.text()}, delta {delta.text()}, {text(view.promise)}"),
        ("spent", f"epsilon {view.spent.text()}, delta {view.spent_delta.text()}"),
        ("left", f"epsilon {view.left.text()}"),
        ("filter", text(f"{view.filter}: {view.theorem}" if view.rule else "not fixed yet")),
        ("mode", text(view.mode) if view.mode == "private"
         else '<span class="bad">simulation, NOT PRIVATE</span>'),
        ("grants", str(len(state.grants))), ("refused", str(view.refused)),
        ("history", f"{many(view.entries, 'entry', 'entries')}, head {text(view.head[:16])}"),
    ]
    line = ("<p>not verified here: run privledger verify</p>" if verdict is None else
            f'<p class="{verdict.level}">{text(verdict.text)}</p>')
    form = (f'<form action="/record" method="get"><input type="hidden" name="token" '
            f'value="{text(token)}"><label>record (CONFIDENTIAL) <input name="row" size="9" '
            f'inputmode="numeric"></label> <label>of table <select name="data">'
            + "".join(f'<option value="{number}">{text(name)}</option>'
                      for number, name in enumerate(data_names(state)))
            + "</select></label> <button>what it lost</button></form>")
    return page("privledger", line + table(("", ""), rows)
                + f'<p><a href="/grants?token={text(token)}&amp;page=0">grants</a></p>' + form)


def grants_page(state: State, number: int, token: str) -> str | None:
    """One page of grants, the last first; None if there is no such page."""
    grants = [one for one in charges_of(state) if one.kind == "grant"][::-1]
    first = number * PER_PAGE
    if number and first >= len(grants):
        return None
    shown = grants[first : first + PER_PAGE]
    here = f"/grant?token={text(token)}&amp;at="
    rows = [(f'<a href="{here}{one.position}">{text(one.name)}</a>', text(one.learner),
             text(one.table), one.amount.epsilon.text(), text(one.status), str(one.releases))
            for one in shown]
    links = [f'<a href="/grants?token={text(token)}&amp;page={to}">{word}</a>'
             for to, word, there in ((number - 1, "newer", number > 0),
                                     (number + 1, "older", first + PER_PAGE < len(grants)))
             if there]
    return page("grants", table(("grant", "learner", "table", "epsilon", "status", "releases"),
                                rows) + f"<p>{' '.join(links)}</p>" + _home(token))


def grant_page(state: State, position: int, token: str) -> str | None:
    """One grant and the nodes of its plan; None if no grant is at that entry."""
    one = next((one for one in charges_of(state)
                if one.position == position and one.kind == "grant"), None)
    if one is None or one.event is None:
        return None
    facts = table(("", ""), [
        ("learner", text(one.learner)), ("table", text(one.table)),
        ("epsilon", one.amount.epsilon.text()), ("status", text(one.status)),
        ("releases", str(one.releases)), ("time", text(one.event.time or "")),
        *([("from", text(one.origin))] if one.origin else []),
        *(("unverified claim", text(claim)) for claim in one.claims),
        *(("corrected", text(why)) for why in one.why)])
    if one.plan is None:
        plan = '<p class="bad">corrected: nothing is promised for it</p>'
    else:
        plan = plan_list(outline(plan_of(one.plan)))
    return page(one.name, facts + "<h2>plan</h2>" + plan + _home(token))


def plan_list(line: Outline) -> str:
    """A plan as nested lists, up to `MOST_NODES` lines."""
    found: list[str] = []
    _nodes(line, found)
    return "".join(found)


def record_page(spend: RecordSpend, unit: str, token: str, whose: str = "record") -> str:
    """What one record, or one person, lost. CONFIDENTIAL."""
    rows = [(text(line.time), text(line.grant), text(line.learner), Figure(line.amount).text(),
             Figure(line.cap).text(),
             "all" if line.rounds is None else str(line.rounds), text(line.basis),
             text(line.node), text(line.origin))
            for line in spend.lines]
    who = "record" if whose == "record" else "the person at place"
    return page(f"{who} {spend.row} of {spend.data}",
                f'<p class="bad">CONFIDENTIAL: what a {whose} spent depends on private data</p>'
                + ("" if spend.known else "<p>the table's records were never counted: every one "
                   "that is there was charged this</p>")
                + f"<p>{Figure(spend.total, unit).text()} {text(unit)} spent: epsilon "
                  f"{Figure(spend.epsilon).text()} of the ledger's {Figure(spend.bound).text()}</p>"
                + table(("time", "grant", "learner", "amount", "cap", "rounds", "basis", "plan",
                         "from"), rows)
                + _home(token))


def message_page(title: str) -> str:
    """A few words of our own."""
    return page(title, "")


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
    out.append(f"<ul><li{mark}>{members}{text(line.label)}{times}")
    for child in line.children:
        _nodes(child, out)
    out.append("</li></ul>")


def _home(token: str) -> str:
    return f'<p><a href="/?token={text(token)}">totals</a></p>'
