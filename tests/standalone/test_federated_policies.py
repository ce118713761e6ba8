"""Policies about federations: at a request, in `check`, and by both verifiers."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli.app import main
from privledger.ledger import audit
from privledger.nodes import Federated
from tests.bodies import body_of, lines_of, stored

SCHEMA = pl.Schema("one", (pl.Column("x", "numeric", "feature", -1.0, 1.0),))
WHOLE = Federated(pl.Gaussian(9.0), 5, 4)
SHARED = Federated(pl.Gaussian(9.0), 5, 1, 2, noise="shared")
RULES = [("shared-noise", SHARED, {"forbid_shared_noise": True}, {}),
         ("too-few-honest", SHARED, {"least_honest": 3}, {"least_honest": 2}),
         ("over-alone-epsilon", SHARED, {"max_alone_epsilon": 0.9}, {"max_alone_epsilon": 1.2}),
         ("over-alone-epsilon", WHOLE, {"max_alone_epsilon": 0.4}, {"max_alone_epsilon": 0.6})]


def granted(place, plan, **rules):
    policy = pl.Policy(3.0, 1e-6, **rules)
    ledger = pl.Ledger.create(place, budget=pl.Budget(3.0, 1e-6), filter="basic", policy=policy)
    data = ledger.protect({"x": np.linspace(-1, 1, 50)}, schema=SCHEMA, name="table")
    ledger.request(plan, data, delta=1e-7).close()
    return ledger


@pytest.mark.parametrize(("rule", "plan", "tight", "wide"), RULES)
def test_a_ledger_keeps_its_own(rule, plan, tight, wide):
    assert granted(None, plan, **wide).verify() == []
    with pytest.raises(pl.errors.PolicyViolation, match="noise|honest"):
        granted(None, plan, **tight)


@pytest.mark.parametrize(("rule", "plan", "tight", "wide"), RULES)
def test_check_compares_and_tells_both_prices(tmp_path, rule, plan, tight, wide):
    place, policy = tmp_path / "ledger.db", tmp_path / "policy.toml"
    granted(place, plan).close()
    for code, rules in ((0, wide), (1, tight)):
        text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in rules.items())
        policy.write_text(f"[policy]\nmax_epsilon = 3.0\nmax_delta = 1e-6\n{text}")
        found = CliRunner().invoke(main, ["check", str(place), "--policy", str(policy)])
        assert found.exit_code == code, found.output
        said = " ".join(found.output.split())
        assert "5 parties" in said and "reveals its noise" in said
        assert (rule in said) is bool(code)


@pytest.mark.parametrize(("rule", "plan", "tight", "wide"), RULES)
def test_both_verifiers_find_what_should_have_been_refused(tools, verifier, tmp_path, rule, plan,
                                                           tight, wide):
    """The same history under a policy that forbids it, with hashes made anew."""
    ledger = granted(None, plan, **wide)
    lines = lines_of(ledger)
    assert "forbid_shared_noise" not in lines[0][1]["policy"]  # older readers know it not
    lines[0][1]["policy"].update(tight)
    store = stored(*lines)
    said = [{"kind": entry.event.kind, "body": body_of(entry)} for entry in store.read()]
    found = audit(store)
    assert [one.rule for one in found] == ["policy-is-kept"] and rule in found[0].message
    (tmp_path / "history.jsonl").write_bytes(tools.text_of(tools.chained(said)))
    book = verifier.read_history(str(tmp_path / "history.jsonl"))
    assert ["against the ledger's policy" in text for _, text in book.faults] == [True]
