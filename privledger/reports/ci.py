"""A verdict in the formats that CI systems read: SARIF 2.1.0, JUnit XML, GitHub's commands.

Pure: text in, text out. Whatever comes from a ledger is made inert first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from attrs import frozen

from privledger.findings import Finding
from privledger.ledger.view_figures import clean

FORMATS = ("sarif", "junit", "github")
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_MORE = 4000


@frozen
class Outcome:
    """What a CI format tells.

    Attributes:
        subject: what was checked, as it may be printed.
        version: of this package.
        code: exit code; above 1 nothing is known about the budget.
        verdict: a few words.
        rules: every rule that was looked at, with its meaning.
        findings: those that do not hold.
        numbers: what was compared, for people.
        warnings: what fails nothing, and is annotated.
    """

    subject: str
    version: str
    code: int
    verdict: str
    rules: Mapping[str, str]
    findings: Sequence[Finding]
    numbers: Mapping[str, str] = {}
    warnings: Sequence[str] = ()

    @property
    def failed(self) -> Sequence[Finding]:
        """The findings; never empty if the check did not pass."""
        if self.findings or self.code == 0:
            return self.findings
        rule = "nothing-to-check" if self.code == 5 else "cannot-check"
        return (Finding(rule, -1, self.verdict),)


def ci_text(kind: str, outcome: Outcome) -> str:
    """The outcome in one of `FORMATS`, without a final line end."""
    return {"sarif": sarif, "junit": junit, "github": github}[kind](outcome)


def sarif(outcome: Outcome) -> str:
    """SARIF 2.1.0 (OASIS), one run. A check that could not finish says so in its invocation."""
    names = list(dict.fromkeys([*outcome.rules, *(f.rule for f in outcome.failed)]))
    rules = [{"id": name, "shortDescription": {"text": outcome.rules.get(name, name)},
              "defaultConfiguration": {"level": "error"}} for name in names]
    run: dict[str, Any] = {
        "tool": {"driver": {"name": "privledger", "version": outcome.version, "rules": rules}},
        "invocations": [{"executionSuccessful": outcome.code in (0, 1),
                         "exitCode": outcome.code, **_notes(outcome.warnings)}],
        "results": [_result(found, names.index(found.rule), outcome.subject)
                    for found in outcome.failed],
        "columnKind": "unicodeCodePoints",
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _notes(warnings: Sequence[str]) -> dict[str, object]:
    """Warnings are told by the tool: they are no result, and no baseline counts them."""
    if not warnings:
        return {}
    return {"toolExecutionNotifications": [
        {"level": "warning", "message": {"text": clean(warning, _MORE)}} for warning in warnings]}


def _result(found: Finding, index: int, subject: str) -> dict[str, Any]:
    place: dict[str, Any] = {"physicalLocation": {"artifactLocation": {
        "uri": quote(clean(subject), safe="/:?=&@")}}}
    if found.position >= 0:
        place["logicalLocations"] = [{"name": f"entry {found.position}", "kind": "member"}]
    return {"ruleId": found.rule, "ruleIndex": index, "level": "error", "kind": "fail",
            "message": {"text": clean(found.message, _MORE)}, "locations": [place]}


def junit(outcome: Outcome) -> str:
    """JUnit XML: one case per rule; what could not be checked is an error, not a failure."""
    from xml.etree import ElementTree  # needed here only

    names = list(dict.fromkeys([*outcome.rules, *(f.rule for f in outcome.failed)]))
    known = outcome.code in (0, 1)
    broken = {found.rule for found in outcome.failed}
    suite = ElementTree.Element("testsuite", {
        "name": "privledger check", "tests": str(len(names)),
        "failures": str(len(broken) if known else 0), "errors": str(0 if known else len(broken)),
        "skipped": str(0 if known else len(names) - len(broken))})
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in {"verdict": outcome.verdict, **outcome.numbers,
                        **({"warning": "; ".join(outcome.warnings)} if outcome.warnings else {}),
                        }.items():
        ElementTree.SubElement(properties, "property", {"name": name, "value": clean(value)})
    for name in names:
        case = ElementTree.SubElement(suite, "testcase", {
            "classname": f"privledger.{clean(outcome.subject)}", "name": name})
        lines = [clean(found.message, _MORE) for found in outcome.failed if found.rule == name]
        if lines:
            fault = ElementTree.SubElement(case, "failure" if known else "error", {
                "message": lines[0], "type": name})
            fault.text = "\n".join(lines)
        elif not known:  # a rule that was not checked has not held
            ElementTree.SubElement(case, "skipped", {"message": "not checked"})
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    text: str = ElementTree.tostring(root, encoding="unicode")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + text


def github(outcome: Outcome) -> str:
    """Workflow commands: an annotation per finding, or a notice."""
    subject = _property(outcome.subject)
    lines = [f"::error file={subject},title=privledger {_property(found.rule)}::"
             f"{_data(found.message)}" for found in outcome.failed]
    if not lines:
        lines = [f"::notice file={subject},title=privledger::{_data(outcome.verdict)}"]
    lines += [f"::warning file={subject},title=privledger::{_data(warning)}"
              for warning in outcome.warnings]
    return "\n".join(lines)


def summary(outcome: Outcome) -> str:
    """Markdown for the summary page of a job."""
    rows = [("verdict", outcome.verdict), ("subject", outcome.subject), *outcome.numbers.items(),
            *(("warning", warning) for warning in outcome.warnings)]
    lines = ["### privledger check", "", "| | |", "|---|---|"]
    lines += [f"| {_cell(name)} | {_cell(value)} |" for name, value in rows]
    if outcome.failed:
        lines += ["", "| rule | what was found |", "|---|---|"]
        lines += [f"| {_cell(found.rule)} | {_cell(found.message)} |" for found in outcome.failed]
    return "\n".join(lines) + "\n\n"


def _data(text: str) -> str:
    return clean(text, _MORE).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _cell(text: str) -> str:
    safe = clean(text, _MORE)
    for sign, instead in (("&", "&amp;"), ("<", "&lt;"), ("|", "&#124;"), ("`", "&#96;"),
                          ("[", "&#91;"), ("!", "&#33;"), ("*", "&#42;"), ("_", "&#95;")):
        safe = safe.replace(sign, instead)
    return safe
