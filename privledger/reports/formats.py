"""A ledger in formats of other tools. Pure: records in, text out."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Any

import attrs

from privledger.accounting import promise
from privledger.errors import InvalidPlan, UnsupportedNode
from privledger.graph import every_dp_event, from_json, label, to_dp_event
from privledger.graph.dp_events import Saying
from privledger.ledger import Entry, State
from privledger.ledger.codec import encode
from privledger.ledger.events import Released
from privledger.ledger.origins import asserted_kinds
from privledger.ledger.view import VOUCHED, View, readable, view_of
from privledger.ledger.view_charges import ChargeFigures, federated_of
from privledger.ledger.view_figures import Amount, clean, plain
from privledger.numerals import many
from privledger.reports.risk import ledger_risk
from privledger.rounding import from_units, upward

# A ledger as CSV (RFC 4180): a row for each grant and scope, and one for each release.
#
# The column `charge` adds up, exactly, to what the ledger has spent: whole numbers in its own
# currency. Grants and scopes carry it; a release carries zero: it was paid for with its grant, and
# a plan's price cannot be split between its releases. `share` is the charge over the cap of the
# filter, each rounded up, so that its sum is never below the total's. `alone` stands beside
# `epsilon` where a federation ran the plan: its price if every other party gives its noise away.
# `asserted` is 1 where an unverified claim is in it.

COLUMNS = ("kind", "grant", "time", "learner", "data", "status", "mechanism", "question", "cells",
           "charge", "charge_delta", "share", "epsilon", "releases", "asserted", "alone",
           "isolation", "library", "labels", "caps")
DECIMALS = 12
"""Of a share."""
# Where a semicolon separates cells, what follows one is a cell of its own.
_INNER = re.compile("(;[\\s\"']*)(?=[=+\\-@\uff1d\uff0b\uff0d\uff20])")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def inert(value: object) -> object:
    """A cell that no spreadsheet takes for a formula, and that holds no control character.

    >>> inert('=cmd()'), inert('-1+2'), inert(-1.5), inert(' @x'), inert('a;=1+2')
    ("'=cmd()", "'-1+2", -1.5, "' @x", "a;'=1+2")
    """
    if isinstance(value, int | float):
        return value
    text = str(value)
    safe = _INNER.sub(r"\1'", clean(text, limit=4000))
    return f"'{safe}" if text.lstrip(" \u00a0\ufeff").startswith(_FORMULA) else safe


def as_csv(view: View, entries: Iterable[Entry]) -> str:
    """The table as text, with a header line.

    Args:
        entries: those that `view` was made of.
    """
    out = io.StringIO()
    table = csv.writer(out, quoting=csv.QUOTE_MINIMAL, lineterminator="\r\n")
    table.writerow(COLUMNS)
    released: dict[str, list[Released]] = {}
    for event in readable(entries, Released):
        if isinstance(event, Released):
            released.setdefault(event.grant, []).append(event)
    for one in view.charges:
        table.writerow([inert(cell) for cell in _charge(view, one)])
        for event in released.get(one.name, ()):
            for row in _releases(one, event):
                table.writerow([inert(cell) for cell in row])
    return out.getvalue()


def share_text(amount: Amount) -> str:
    """The share of the filter's cap, rounded up; empty where there is no cap to share.

    >>> share_text(Amount(0, 0, None))
    ''
    """
    if amount.rule is None or not amount.rule.cap_units:
        return ""
    parts = ceil(Fraction(amount.units * 10**DECIMALS, amount.rule.cap_units))
    return f"{parts // 10**DECIMALS}.{parts % 10**DECIMALS:0{DECIMALS}d}"


def _charge(view: View, one: ChargeFigures) -> tuple[object, ...]:
    amount = one.amount
    kinds = "" if one.mechanisms is None else " + ".join(one.mechanisms)
    return ("granted" if one.kind == "grant" else one.kind, one.name,
            one.time or "", one.learner, one.table, one.status,
            kinds, "", "", amount.units, amount.delta_units, share_text(amount),
            amount.epsilon.value, one.releases, int(view.vouched(one)), _alone(view, one),
            *_from(one))


def _from(one: ChargeFigures) -> tuple[str, ...]:
    """Isolation, library, labels and caps."""
    return (one.isolation, one.library,
            "; ".join(f"{key}={text}" for key, text in sorted(one.labels)), "; ".join(one.caps))


def _alone(view: View, one: ChargeFigures) -> object:
    """Epsilon if every other party gives its noise away; empty where no federation ran it."""
    found = federated_of(one, view.relation)
    return "" if found is None else found.alone.epsilon.value


def _releases(one: ChargeFigures, event: Released) -> Iterator[tuple[object, ...]]:
    leaves = [from_json(node.leaf) for node in event.nodes]
    for place, question, cells in event.items:
        leaf, asked = leaves[place], str(event.questions[question])
        vouched = asked.startswith(VOUCHED) or bool(asserted_kinds([type(leaf).__name__]))
        yield ("released", one.name, "", one.learner, one.table, one.status, label(leaf), asked,
               cells, 0, 0, f"0.{0:0{DECIMALS}d}", 0.0, 1, int(vouched), "",
               *_from(one))


FORMATS = ("jsonl", "json", "csv", "dp-event")


def written_format(kind: str, entries: list[Entry], state: State, *,
            exact: bool = False) -> tuple[str, Saying | None]:
    """The ledger as `kind`, one of `FORMATS` but jsonl.

    Args:
        exact: for dp-event: refuse what no event says exactly.

    Returns:
        the text; and for dp-event what was said weakly or not at all.

    Raises:
        UnsupportedNode: a plan that no event says exactly, if only exact ones will do; or
            dp_accounting is not installed.
    """
    if kind == "json":
        return json.dumps([plain(one) for one in entries_as_json(entries)], indent=1,
                          allow_nan=False) + "\n", None
    view = view_of(state, entries)
    if kind == "csv":
        return as_csv(view, entries), None
    node = view.whole()
    event, said = every_dp_event(node, state.relation)  # type: ignore[arg-type]
    if exact:
        event = to_dp_event(node, state.relation)  # type: ignore[arg-type]
    return json.dumps(event_value(event) | _owed(said), indent=1) + "\n", said


def _owed(said: Saying) -> dict[str, Any]:
    """What the events do not say, for a reader of the file alone; nothing where all is said."""
    return {name: dict(found) for name, found in (("inexact", said.weaker),
                                                  ("unsaid", said.unsaid)) if found}


def entries_as_json(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """For JSON: position, kind, body and both hashes of each entry, as `export` writes them."""
    return [{"position": entry.position, "kind": entry.event.kind, "body": encode(entry.event),
             "previous": entry.previous, "hash": entry.hash} for entry in entries]


def event_value(event: Any) -> Any:
    """An event of dp_accounting as JSON values: its class, then its fields."""
    if attrs.has(type(event)):
        return {"event": type(event).__name__,
                **{field.name: event_value(getattr(event, field.name))
                   for field in attrs.fields(type(event))}}
    if isinstance(event, list | tuple):
        return [event_value(one) for one in event]
    return plain(event)


# A ledger as an entry of OpenDP's registry of deployments.
#
# The ledger fills in what it knows; a person fills in the rest, in a TOML file with the
# registry's own tables. A required field that is missing, an unknown one, or one that is the
# ledger's to say is refused. The rules are those of `schemas/deployments-schema.yaml` of July
# 2026.

PRODUCTS = ("Summary statistics", "Machine learning model", "Dataset", "Synthetic data",
            "Interactive API", "SQL queries")
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
TEXT, TEXTS, DATE = "a text", "a list of texts", "a date as YYYY-MM-DD"
Rule = str | tuple[str, ...]
HUMAN: dict[str, dict[str, Rule]] = {
    "basic": {"name": TEXT, "data_curators": TEXTS, "intended_use": TEXT,
              "data_product_type": PRODUCTS, "data_product_region": TEXT, "description": TEXT,
              "publication_date": DATE, "data_product_sector": SECTORS},
    "dp_variant": {"data_domain": TEXT},
    "deployment_model": {
        "actors": TEXT, "model_name_details": TEXT, "data_source_type": ("Static", "Dynamic"),
        "data_source_type_details": TEXT, "access_type": ("Interactive", "Non-interactive"),
        "access_type_details": TEXT},
    "accounting": {"post_processing": TEXT},
    "implementation": {"preprocessing_and_hyperparameter_tuning": TEXT, "justification": TEXT},
    "administrative": {"registry_authors": TEXTS, "sources": TEXT, "notes": TEXT},
}
"""What a person says, table by table, and how."""
REQUIRED = {"basic": tuple(key for key in HUMAN["basic"] if key != "data_product_sector"),
            "administrative": ("registry_authors",)}
_THIRD = {"dp_variant": ("data_domain",), "deployment_model": ("actors",),
          "accounting": ("post_processing",),
          "implementation": ("preprocessing_and_hyperparameter_tuning", "justification")}
_DAY = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")
_UNPROTECTED = {
    "add_remove": "None beside the public facts of the schema (bounds, categories, names).",
    "replace_one": "The number of rows (or people), and the public facts of the schema.",
    "replace_label": "Every column but the label, the number of rows, which rows have a label, "
                     "and the public facts of the schema.",
}
Said = dict[str, dict[str, object]]


def deployment(view: View, human: Mapping[str, object], receipt: Mapping[str, object]) -> str:
    """The entry, as JSON, which is YAML.

    Args:
        human: what a person wrote, as parsed TOML. receipt: the head it was made from.

    Raises:
        InvalidPlan: a required field is missing, or one is not the person's, or of another kind.
        UnsupportedNode: nothing is promised: simulated noise, or a correction that says so.
    """
    said = checked(human)
    risk = ledger_risk(view)
    if risk.why:
        raise UnsupportedNode(f"no deployment: {risk.why}")
    own = _own(view, risk.sentences, receipt)
    body: dict[str, object] = {
        table: {**own.get(table, {}), **said.get(table, {})}
        for table in ("basic", "dp_variant", "privacy_loss", "deployment_model", "accounting",
                      "implementation", "administrative")}
    whole = all(key in said.get(table, {}) for table, keys in _THIRD.items() for key in keys)
    slug = re.sub(r"[^a-z0-9]+", "_", str(said["basic"]["name"]).lower()).strip("_")
    value = {"url_slug": slug or "deployment", "status": "Draft", "tier": 3 if whole else 2,
             "deployment": {table: fields for table, fields in body.items() if fields}}
    # JSON is YAML, but for a number without a point such as 1e-06: YAML takes that for a text.
    return re.sub(r'^( *"\w+": \d+)e', r"\1.0e", json.dumps(_cleaned(value), indent=2),
                  flags=re.MULTILINE) + "\n"


def checked(human: Mapping[str, object]) -> Said:
    """What a person wrote, held against the registry's rules; all that is wrong is named."""
    wrong, said = [], Said()
    for table, fields in human.items():
        if table not in HUMAN or not isinstance(fields, Mapping):
            wrong.append(f"[{clean(table, 40)}] is none of {', '.join(HUMAN)}")
            continue
        said[table] = dict(fields)
        for key, value in fields.items():
            rule = HUMAN[table].get(key)
            if rule is None:
                wrong.append(f"{table}.{clean(key, 40)} is unknown, or the ledger's to say")
            elif not _is(rule, value):
                wrong.append(f"{table}.{key} must be "
                             f"{rule if isinstance(rule, str) else ' or '.join(rule)}")
    wrong += [f"{table}.{key} is missing" for table, keys in REQUIRED.items() for key in keys
              if key not in said.get(table, {})]
    if wrong:
        raise InvalidPlan("deployment", "incomplete", "required by the registry: "
                          + "; ".join(wrong[:30]))
    return said


def _is(rule: Rule, value: object) -> bool:
    if rule == TEXTS:
        return isinstance(value, list) and bool(value) and all(_is(TEXT, one) for one in value)
    if not isinstance(value, str) or not value.strip():
        return False
    if rule == DATE:
        return _DAY.fullmatch(value) is not None
    return rule == TEXT or value in rule


def _own(view: View, risk: Sequence[str], receipt: Mapping[str, object]) -> Said:
    """What the ledger knows."""
    rule, budget = view.rule, view.budget
    parameters: dict[str, object] = {"epsilon": float(budget.epsilon), "delta": float(budget.delta)}
    details = [f"The budget of a ledger that refuses what does not fit; epsilon "
               f"{upward(view.spent.value)} of it is spent or reserved so far."]
    variant = "Approximate DP" if budget.delta else "Pure DP"
    if rule is not None and rule.kind == "zcdp":
        variant = "Zero-concentrated DP"
        parameters["rho"] = from_units(rule.cap_units)
    if rule is not None and rule.kind in ("gdp", "rdp"):
        details.append(f"Plans add up in {rule.unit}, to at most "
                       f"{upward(from_units(rule.cap_units))}.")
    details += [*risk, f"Receipt: {json.dumps(dict(receipt), sort_keys=True)}"]
    grants = [one for one in view.charges if one.paid]
    kinds = sorted({kind for one in grants for kind in one.mechanisms or ()})
    word = view.asserted.grants
    return {
        "dp_variant": {"variant_name": variant,
                       "unprotected_quantities": _UNPROTECTED[view.relation]},
        "privacy_loss": {
            "privacy_unit": "a person, with all rows in all tables" if view.about == "person"
                            else "a row of one table",
            "privacy_unit_details": f"Neighbouring relation: "
                                    f"{promise(view.relation, view.about)}.",
            "privacy_parameters": parameters, "privacy_parameters_details": " ".join(details)},
        "deployment_model": {
            "model_name": "Central",
            "release_type": "Many releases" if len(grants) > 1 else "One release",
            "release_type_details": f"{many(len(grants), 'plan')} paid for from one budget that is "
                                    "never renewed; more may follow until it is spent."},
        "accounting": {"composition": f"{view.filter}: {view.theorem}."},
        "implementation": {
            "mechanisms": f"{', '.join(kinds) or 'none yet'}. Noise: {'; '.join(view.noise)}. "
                          + (f"{many(word, 'grant')} {'rests' if word == 1 else 'rest'} on "
                             f"unverified claims: {'; '.join(view.asserted.words[:5])}. "
                             if word else "")
                          + "".join(f"{one.name}: {one.origin}. " for one in grants if one.origin)
                          + "Reserved and metered by privledger's ledger (hash-chained history)."},
    }


def _cleaned(value: object) -> object:
    """Without control signs, line by line."""
    if isinstance(value, Mapping):
        return {key: _cleaned(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_cleaned(one) for one in value]
    return value if isinstance(value, int | float) else (
        "\n".join(clean(line, 8000) for line in str(value).splitlines()))

