"""verify and check: every exit code, every rule, closed on anything unreadable."""

import json

import numpy as np
import pytest

import privledger as pl
from privledger import gate
from tests.bodies import body_of
from tests.doctored import doctor
from tests.worlds import schema_of


def rules(found):
    return [finding["rule"] for finding in found["findings"]]


def tamper(path, *statements):
    """Change a file as somebody with a SQLite shell would."""
    doctor(path, *statements)


def write_receipt(path, ledger, **changes):
    with pl.Ledger.open(ledger, read_only=True) as opened:
        path.write_text(json.dumps(opened.receipt.as_dict() | changes), encoding="utf-8")
    return path


def test_verify_a_clean_ledger(call, as_json, ledger_file):
    page = call("verify", ledger_file)
    assert page.exit_code == 0
    assert "clean" in page.stdout
    assert as_json("verify", ledger_file)["trusted"] is True


def test_verify_lists_every_fault(call, as_json, ledger_file):
    tamper(ledger_file, "UPDATE entries SET body = replace(body, '1.0', '9.0') WHERE position = 0",
           "UPDATE entries SET kind = 'granted' WHERE position = 2")
    page = call("verify", ledger_file)
    assert page.exit_code == 3
    assert "NOT TRUSTED" in page.stdout
    assert len([r for r in rules(as_json("verify", ledger_file)) if r == "chain-is-unbroken"]) == 2


def test_a_cut_tail_is_found_by_the_receipt(call, as_json, ledger_file, tmp_path):
    receipt = write_receipt(tmp_path / "receipt.json", ledger_file)
    assert call("verify", ledger_file, "--receipt", receipt).exit_code == 0
    tamper(ledger_file, "DELETE FROM entries WHERE position >= 3")
    assert call("verify", ledger_file).exit_code == 0  # a shorter history is a clean one
    assert call("verify", ledger_file, "--receipt", receipt).exit_code == 3
    found = as_json("verify", ledger_file, "--receipt", receipt)
    assert rules(found) == ["receipt-is-in-history"]
    assert "last entries were deleted" in found["findings"][0]["message"]


@pytest.mark.parametrize("changes", [{"uuid": "another"}, {"head": "0" * 64}])
def test_another_ledger_or_history_is_found(as_json, ledger_file, tmp_path, changes):
    receipt = write_receipt(tmp_path / "receipt.json", ledger_file, **changes)
    assert rules(as_json("verify", ledger_file, "--receipt", receipt)) == ["receipt-is-in-history"]


def test_an_old_copy_that_went_another_way_is_found(call, make_ledger, spend, tmp_path):
    path = make_ledger(tmp_path / "book.ledger", epsilon=4.0)
    copy = tmp_path / "copy.ledger"
    copy.write_bytes(path.read_bytes())
    for place in (path, copy):
        with pl.Ledger.open(place) as ledger:
            spend(ledger)
    receipt = write_receipt(tmp_path / "receipt.json", path)
    assert call("verify", path, "--receipt", receipt).exit_code == 0
    assert call("verify", copy, "--receipt", receipt).exit_code == 3


@pytest.mark.parametrize("content", ["{", "[]", '{"uuid": 3}', '{"uuid": "a", "entries": true}',
                                     '{"uuid": "a", "entries": 0, "head": "b"}', "\xff"])
def test_a_receipt_that_is_none_is_a_usage_error(call, ledger_file, tmp_path, content):
    place = tmp_path / "receipt.json"
    place.write_text(content, encoding="latin-1")
    assert call("verify", ledger_file, "--receipt", place).exit_code == 2


def test_within_is_0(call, as_json, ledger_file, policy):
    assert call("check", ledger_file, "--policy", policy).exit_code == 0
    assert as_json("check", ledger_file, "--policy", policy)["verdict"] == "within the policy"


CASES = [
    ("max_epsilon = 1.0", "max_epsilon = 0.25", "over-epsilon"),
    ("max_delta = 1e-6", "max_delta = 1e-9", "over-delta"),
    ("max_delta = 1e-6", 'max_delta = 1e-6\nrelation = "replace_one"', "wrong-relation"),
    ("max_delta = 1e-6", 'max_delta = 1e-6\nlearners = ["other"]', "learner-not-allowed"),
    ("max_delta = 1e-6", 'max_delta = 1e-6\nmechanisms = ["Laplace"]', "mechanism-not-allowed")]


@pytest.mark.parametrize("subject", ["ledger", "run"])
@pytest.mark.parametrize(("old", "new", "rule"), CASES)
def test_refused_is_1(call, as_json, ledger_file, run_file, policy, subject, old, new, rule):
    policy.write_text(policy.read_text().replace(old, new), encoding="utf-8")
    place = ledger_file if subject == "ledger" else run_file
    page = call("check", place, "--policy", policy, "--new-ledger")
    assert page.exit_code == 1
    assert rule in page.stdout
    found = as_json("check", place, "--policy", policy, "--new-ledger")
    assert rules(found) == [rule]
    assert found["exit"] == 1


def test_simulation_is_refused_unless_allowed(call, as_json, make_ledger, tmp_path, policy):
    path = make_ledger(tmp_path / "sim.ledger", mode="simulation")
    assert rules(as_json("check", path, "--policy", policy)) == ["simulation-noise"]
    policy.write_text(policy.read_text() + "allow_simulation = true\n", encoding="utf-8")
    assert call("check", path, "--policy", policy).exit_code == 0


def test_asserted_queries_and_nodes_are_refused_unless_allowed(call, as_json, tmp_path, policy):
    path = tmp_path / "asserted.ledger"
    schema = schema_of("t", {"x": (0.0, 1.0)})
    with pl.Ledger.create(path, budget=pl.Budget(1.0, 1e-6), filter="basic") as ledger:
        data = ledger.protect({"x": np.linspace(0, 1, 9)}, schema=schema)
        noise = pl.Laplace(scale=10.0, l1_sensitivity=1.0)
        with ledger.request(noise, data) as session:
            session.release(noise, data.custom(lambda t: t["x"], 1.0, "trust me"))
        ledger.request(pl.Asserted(0.1, "somebody said so"), data).close()
    assert rules(as_json("check", path, "--policy", policy)) == ["asserted-node"] * 2
    policy.write_text(policy.read_text() + "allow_asserted = true\n", encoding="utf-8")
    assert call("check", path, "--policy", policy).exit_code == 0


@pytest.mark.parametrize("text", [
    "", "[policy]\n", "[policy]\nmax_epsilon = 1.0\n", "[policy", "\xff",
    "[policy]\nmax_epsilon = nan\nmax_delta = 0\n",
    "[policy]\nmax_epsilon = true\nmax_delta = 0\n",
    "[policy]\nmax_epsilon = 1\nmax_delta = -1\n",
    "[policy]\nmax_epsilon = 1\nmax_delta = 0\nmax_epsilom = 1\n",
    "[policy]\nmax_epsilon = 1\nmax_delta = 0\nallow_simulation = 'no'\n",
    "[policy]\nmax_epsilon = 1\nmax_delta = 0\nlearners = 'tiny'\n",
    "[policy]\nmax_epsilon = 1\nmax_delta = 0\nmechanisms = ['Gausian']\n",
    "[policy]\nmax_epsilon = 1\nmax_delta = 0\nrelation = 'any'\n",
    "[policy]\nmax_epsilon = 1\nmax_delta = 0\n[more]\n"])
def test_a_policy_that_cannot_be_understood_is_2(call, ledger_file, tmp_path, text):
    place = tmp_path / "policy.toml"
    place.write_text(text, encoding="latin-1")
    page = call("check", ledger_file, "--policy", place)
    assert page.exit_code == 2, page.output
    assert page.stdout == ""


def test_missing_arguments_are_2(call, ledger_file, policy, tmp_path):
    assert call("check", ledger_file).exit_code == 2
    assert call("check", tmp_path / "none.ledger", "--policy", policy).exit_code == 2


@pytest.mark.parametrize("content", [b"", b"hello", b"SQLite format 3\x00" + b"\x00" * 200])
def test_what_is_no_ledger_is_3(call, as_json, tmp_path, policy, content):
    place = tmp_path / "broken.ledger"
    place.write_bytes(content)
    assert call("check", place, "--policy", policy).exit_code == 3
    assert rules(as_json("check", place, "--policy", policy)) == ["ledger-not-trusted"]


@pytest.mark.parametrize("statement", [
    "UPDATE entries SET body = replace(body, '1.0', '9.0') WHERE position = 0",
    "UPDATE entries SET body = '[]' WHERE position = 3",
    "UPDATE entries SET body = 'no json' WHERE position = 3",
    "DELETE FROM entries WHERE position = 0",
    "DELETE FROM entries"])
def test_an_edited_ledger_is_3(call, ledger_file, policy, statement):
    tamper(ledger_file, statement)
    assert call("check", ledger_file, "--policy", policy).exit_code == 3
    assert call("verify", ledger_file).exit_code == 3


def test_an_unexpected_exception_is_4(call, ledger_file, policy, monkeypatch):
    from privledger.cli import ledger_gate

    def broken(facts, policy):
        raise RuntimeError("the value is 4711")

    monkeypatch.setattr(ledger_gate, "compare", broken)
    page = call("check", ledger_file, "--policy", policy)
    assert page.exit_code == 4
    assert "RuntimeError" in page.stderr
    assert "4711" not in page.output


def test_nothing_to_check_is_5(call, make_ledger, tmp_path, policy):
    path = make_ledger(tmp_path / "empty.ledger", releases=0)
    assert call("check", path, "--policy", policy).exit_code == 5


def test_a_run_is_checked_before_data_exist(call, run_file, policy):
    (run_file.parent / "table.csv").unlink()
    assert call("check", run_file, "--policy", policy, "--new-ledger").exit_code == 0


def test_a_ledger_that_is_not_there_is_not_an_empty_one(call, as_json, run_file, policy):
    found = as_json("check", run_file, "--policy", policy)
    assert found["exit"] == 2 and rules(found) == ["ledger-is-there"]  # a first run, perhaps
    assert call("check", run_file, "--policy", policy).exit_code == 2
    receipt = run_file.with_name("receipt.json")
    receipt.write_text(json.dumps({"ledger": "run.ledger", "uuid": "u", "entries": 3,
                                   "head": "0" * 64}))
    found = as_json("check", run_file, "--policy", policy)  # one that was lost
    assert found["exit"] == 3 and rules(found) == ["ledger-is-there"]
    receipt.unlink()
    policy.write_text(policy.read_text() + "new_ledger = true\n")
    assert call("check", run_file, "--policy", policy).exit_code == 0
    call("run", run_file)
    found = as_json("check", run_file, "--policy", policy)  # one that is there still counts
    assert set(rules(found)) == {"over-epsilon"}


def test_no_ledger_keeps_what_a_policy_says_about_missing_ones(policy, tmp_path):
    policy.write_text(policy.read_text() + "new_ledger = true\n")
    rules_ = pl.Policy.load(policy)
    assert rules_.new_ledger
    with pl.Ledger.create(tmp_path / "own.ledger", budget=pl.Budget(1.0, 1e-6),
                          policy=rules_) as ledger:
        assert "new_ledger" not in body_of(ledger.state.creation)["policy"]
        assert not ledger.state.policy.new_ledger


@pytest.mark.parametrize("name", ["run.receipt.json", "run.ledger.json", "receipt.json", "r.json"])
def test_run_does_not_begin_anew_beside_a_receipt(call, run_file, name):
    kept = run_file.parent / name
    assert call("run", run_file, "--receipt", kept).exit_code == 0
    ledger = run_file.parent / "run.ledger"
    for path in run_file.parent.glob("run.ledger*"):
        if path != kept:
            path.unlink()
    refused = call("run", run_file)
    assert refused.exit_code == 3 and name in refused.stderr and not ledger.exists()
    refused = call("run", run_file, "--receipt", kept)
    assert refused.exit_code == 3 and not ledger.exists()
    assert call("run", run_file, "--new-ledger").exit_code == 0


def test_a_receipt_of_another_ledger_stops_nothing(call, run_file):
    assert call("run", run_file, "--receipt", run_file.parent / "receipt.json").exit_code == 0
    other = run_file.parent / "other.ledger"
    assert call("run", run_file, "--ledger", other).exit_code == 0
    for text in ("{", "[]", "{\"uuid\": 1}", "[" * 100_000):
        (run_file.parent / "third.receipt.json").write_text(text)
    assert call("run", run_file, "--ledger", run_file.parent / "third.ledger").exit_code == 0


def test_a_run_is_checked_on_top_of_its_ledger(call, as_json, run_file, policy):
    call("run", run_file)
    found = as_json("check", run_file, "--policy", policy)
    assert found["exit"] == 1
    assert set(rules(found)) == {"over-epsilon"}
    tamper(run_file.parent / "run.ledger", "UPDATE entries SET hash = 'x' WHERE position = 1")
    assert call("check", run_file, "--policy", policy).exit_code == 3


def test_a_run_that_cannot_be_priced_is_refused(call, run_file, policy, monkeypatch):
    from privledger.cli import plan

    def unpriced(node, *rest, **more):
        raise pl.errors.UnsupportedNode("no proof")

    monkeypatch.setattr(plan, "price_plan", unpriced)
    page = call("check", run_file, "--policy", policy, "--new-ledger")
    assert page.exit_code == 1
    assert "no finite epsilon is proved" in page.stdout


def test_findings_name_the_limit_and_what_to_do():
    facts = gate.Facts(float("nan"), 0.5, "add_remove", ("a",), ("Gaussian",))
    found = gate.compare(facts, gate.Policy(1.0, 1e-6))
    assert [finding.rule for finding in found] == ["over-epsilon", "over-delta"]
    assert found[0].message.endswith("over the policy's limit of 1 in all")
    assert found[1].message.endswith("limit of 1e-06: create the ledger with that delta, or a "
                                     "smaller one")
