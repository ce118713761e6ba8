"""A ledger as an entry of OpenDP's registry of deployments, in YAML.

The ledger fills in what it knows; a person fills in the rest, in a TOML file with the registry's
own tables. A required field that is missing, an unknown one, or one that is the ledger's to say is
refused. The rules are those of `schemas/deployments-schema.yaml` of July 2026.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from privledger.accounting import promise
from privledger.errors import InvalidPlan, UnsupportedNode
from privledger.ledger.view import View
from privledger.numerals import many
from privledger.reports.risk import ledger_risk
from privledger.reports.safe_text import clean
from privledger.rounding import exact, from_units, upward

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
    """The entry, as YAML.

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
    return "\n".join(_yaml({"url_slug": slug or "deployment", "status": "Draft",
                            "tier": 3 if whole else 2, "deployment": body})) + "\n"


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
        raise InvalidPlan("deployment", "incomplete", "what the registry asks for: "
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
    parameters: dict[str, object] = {"epsilon": float(budget.epsilon),
                                     "delta": float(budget.delta)}
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
            "release_type_details": f"{many(len(grants), 'plan')} paid for from one budget that "
                                    "never starts afresh; more may follow until it is spent."},
        "accounting": {"composition": f"{view.filter}: {view.theorem}."},
        "implementation": {
            "mechanisms": f"{', '.join(kinds) or 'none yet'}. Noise: {'; '.join(view.noise)}. "
                          + (f"{many(word, 'grant')} {'rests' if word == 1 else 'rest'} on "
                             f"unverified claims: {'; '.join(view.asserted.words[:5])}. "
                             if word else "")
                          + "".join(f"{one.name}: {one.origin}. " for one in grants if one.origin)
                          + "Reserved and metered by privledger's ledger (hash-chained history)."},
    }


def _yaml(value: Mapping[str, object], indent: str = "") -> list[str]:
    """Blocks of keys; texts as JSON writes them, which YAML reads alike."""
    lines = []
    for key, one in value.items():
        if isinstance(one, Mapping):
            if one:
                lines += [f"{indent}{key}:", *_yaml(one, indent + "  ")]
        elif isinstance(one, list):
            lines += [f"{indent}{key}:", *(f"{indent}  - {_scalar(part)}" for part in one)]
        else:
            lines.append(f"{indent}{key}: {_scalar(one)}")
    return lines


def _scalar(value: object) -> str:
    """A number with a point, without which YAML takes 1e-06 for a text; a text in quotes."""
    if isinstance(value, float):
        digits, _, power = exact(value).partition("e")
        point = digits if "." in digits else f"{digits}.0"
        return f"{point}e{power}" if power else point
    if isinstance(value, int):
        return str(value)
    return json.dumps("\n".join(clean(line, 8000) for line in str(value).splitlines()))
