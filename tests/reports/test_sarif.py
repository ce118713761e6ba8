"""What `check --format sarif` prints, against models that were generated from the OASIS schema.

No package on PyPI ships the schema file of SARIF 2.1.0 itself, tests download nothing, and no
third-party file is kept here. `pydantic-sarif` is that schema as code: every object closed, every
enumeration, minimum and pattern in it.
"""

import json

import pytest

from privledger.findings import Finding
from privledger.reports.ci import Outcome, ci_text

model = pytest.importorskip("pydantic_sarif.model", reason="pydantic-sarif is not installed")
FINDINGS = [(), (Finding("over-epsilon", -1, "epsilon 2 is over"),),
            (Finding("hash-chain", 7, "an entry was edited"),
             Finding("over-delta", 0, "x" * 5000 + "\x00\u202e<b>"))]


def report(code, findings, subject="ledgers/a b.ledger"):
    return ci_text("sarif", Outcome(subject, "1.0", code, "words", {"over-epsilon": "meaning"},
                                    findings, {"epsilon": "1 of 2"}))


@pytest.mark.parametrize("subject", ["a.ledger", "a b/ü.ledger",
                                     "postgresql://host/base?ledger=main"])
@pytest.mark.parametrize("code", range(6))
@pytest.mark.parametrize("findings", FINDINGS, ids=["none", "one", "two"])
def test_every_verdict_is_valid_sarif(code, findings, subject):
    text = report(code, findings, subject)
    model.StaticAnalysisResultsFormatSarifVersion210JsonSchema.model_validate_json(text)


def test_the_models_refuse_what_the_schema_refuses():
    """Otherwise the test above shows nothing."""
    kind = model.StaticAnalysisResultsFormatSarifVersion210JsonSchema
    good = json.loads(report(1, FINDINGS[1]))
    for change in (
        lambda value: value.pop("runs"),
        lambda value: value.update(version="2.0.0"),
        lambda value: value["runs"][0].update(columnKind="bytes"),
        lambda value: value["runs"][0]["results"][0].update(level="fatal"),
        lambda value: value["runs"][0]["results"][0].pop("message"),
        lambda value: value["runs"][0]["results"][0].update(ruleIndex=-2),
        lambda value: value["runs"][0]["tool"]["driver"].update(surprise=1)):
        bad = json.loads(json.dumps(good))
        change(bad)
        with pytest.raises(ValueError, match=r"validation error"):
            kind.model_validate_json(json.dumps(bad))
