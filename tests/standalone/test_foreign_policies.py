"""Which libraries' runs a policy allows: at the request, in `check`, and by both verifiers."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import privledger as pl
from privledger.cli.app import main
from privledger.errors import InvalidPlan, PolicyViolation
from privledger.ledger import audit
from privledger.ledger.policy import admits, check_rule
from tests.all_cases import all_cases
from tests.bodies import body_of, lines_of, stored

PLAN = pl.Gaussian(9.0)
CASES = [  # rules, library, version, allowed
    (None, "opacus", "1.5.2", True), ([], "opacus", "1.5.2", False),
    (["opacus"], "opacus", "whatever", True), (["opacus"], "Opacus", "1.5", False),
    (["opacus"], "opacus2", "1.5", False), (["opacus>=1.5"], "opacus", "1.5", True),
    (["opacus>=1.5"], "opacus", "1.5.0+cu121", True), (["opacus>=1.5"], "opacus", "1.10", True),
    (["opacus>=1.5"], "opacus", "1.4.9", False), (["opacus>=1.5"], "opacus", "1.5rc1", False),
    (["opacus>=1.5"], "opacus", "1.5.dev0", False), (["opacus>=1.5"], "opacus", "", False),
    (["opacus>=1.5"], "opacus", "1.5.post1", True), (["opacus==1.5"], "opacus", "1.5.0", True),
    (["opacus==1.5"], "opacus", "1.5.1", False),
    (["opacus==1.5", "opacus>=2"], "opacus", "3", True),
    (["diffprivlib"], "opacus", "1.5", False)]


def granted(place, library="opacus", version="1.5.2", **rules):
    policy = pl.Policy(3.0, 1e-6, **{name: tuple(rule) for name, rule in rules.items()
                                     if rule is not None})
    ledger = pl.Ledger.create(place, budget=pl.Budget(3.0, 1e-6), policy=policy)
    with ledger.foreign(PLAN, table="t", library=library, version=version, hook="step"):
        return ledger


@pytest.mark.parametrize(("rules", "library", "version", "allowed"), CASES)
def test_everybody_decides_alike(tools, verifier, tmp_path, rules, library, version, allowed):
    if version:
        if allowed:
            assert granted(None, library, version, foreign=rules).verify() == []
        else:
            with pytest.raises(PolicyViolation, match="is not among"):
                granted(None, library, version, foreign=rules)
    if rules is None:
        return
    assert admits(tuple(rules), library, version) is allowed
    lines = lines_of(granted(None, library, version or "0",
                             foreign=["opacus", "Opacus", "opacus2"]))
    lines[0][1]["policy"]["foreign"] = rules
    for kind, body in lines:
        if kind == "granted":
            body["labels"]["version"] = version
    store = stored(*lines)
    said = [{"kind": entry.event.kind, "body": body_of(entry)} for entry in store.read()]
    found = [one.rule for one in audit(store)]
    assert found == ([] if allowed else ["policy-is-kept"])
    (tmp_path / "history.jsonl").write_bytes(tools.text_of(tools.chained(said)))
    book = verifier.read_history(str(tmp_path / "history.jsonl"))
    assert [text for _, text in book.faults] == (
        [] if allowed else ["against the ledger's policy, foreign"])


def test_two_grants_of_one_form_are_each_looked_at():
    ledger = granted(None, version="2.0", foreign=["opacus>=1.5"])
    with pytest.raises(PolicyViolation):
        ledger.foreign(PLAN, table="t", library="opacus", version="1.0", hook="step")


def test_check_names_the_rule(tmp_path):
    granted(tmp_path / "ledger.db").close()
    for code, rules in ((0, ["opacus"]), (1, ["opacus>=2"]), (1, [])):
        (tmp_path / "policy.toml").write_text(
            f"[policy]\nmax_epsilon = 3.0\nmax_delta = 1e-6\nforeign = {json.dumps(rules)}\n")
        found = CliRunner().invoke(main, ["check", str(tmp_path / "ledger.db"), "--policy",
                                          str(tmp_path / "policy.toml")])
        assert found.exit_code == code, found.output
        assert ("library-not-allowed" in found.output) is bool(code)


def test_a_policy_without_the_rule_is_written_as_before():
    (first, *_) = granted(None)._history.store.read()
    assert "foreign" not in body_of(first)["policy"]


@all_cases("wrong", ["", ">=1", "opacus>1", "opacus>=", "opacus>=1.5rc1",
                     "opacus >= 1", "opacus>=1.", "opacus==v1",
                     3, None, True, ["opacus"]])
def test_rules_that_are_none_are_refused(wrong):
    with pytest.raises(InvalidPlan):
        pl.Policy.from_dict({"policy": {"max_epsilon": 1.0, "max_delta": 0.0, "foreign": [wrong]}})


@given(st.lists(st.integers(0, 99), min_size=1, max_size=6),
       st.lists(st.integers(0, 99), min_size=1, max_size=6))
def test_versions_are_compared_as_numbers(have, want):
    told = [".".join(map(str, part)) for part in (have, want)]
    pad = [part + [0] * (6 - len(part)) for part in (have, want)]
    rule = check_rule(f"a>={told[1]}")
    assert admits((rule,), "a", told[0]) is (pad[0] >= pad[1])
    assert admits((check_rule(f"a=={told[1]}"),), "a", told[0]) is (pad[0] == pad[1])
