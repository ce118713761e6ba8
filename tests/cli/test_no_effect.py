"""An option, or a key of a run or policy file, that nothing would look at is an error."""

import json

import pytest

import privledger as pl
from tests.cli.conftest import POLICY, RUN
from tests.worlds import schema_of

SCHEMA = schema_of("t", {"x": (0, 1)})


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "b.ledger"
    with pl.Ledger.create(path, budget=pl.Budget(2.0, 1e-6)) as ledger:
        ledger.request(pl.Gaussian(20.0), ledger.protect({"x": [.5] * 9}, SCHEMA, name="t")).close()
    return path


@pytest.fixture
def node(tmp_path):
    path = tmp_path / "node.json"
    path.write_text(json.dumps(pl.nodes.to_json(pl.Gaussian(20.0))), encoding="utf-8")
    return path


@pytest.mark.parametrize(("line", "option"), [
    ("check BOOK --policy POLICY --epsilon 1", "--epsilon"),
    ("check BOOK --policy POLICY --param a=1", "--param"),
    ("check BOOK --policy POLICY --relation add_remove", "--relation"),
    ("check BOOK --policy POLICY --isolation guarded", "--isolation"),
    ("check BOOK --policy POLICY --ledger BOOK", "--ledger"),
    ("check BOOK --policy POLICY --data-dir DIR", "--data-dir"),
    ("check RUN --policy POLICY --schema RUN", "--schema"),
    ("check RUN --policy POLICY --delta 1e-6", "--delta"),
    ("check --learner tiny --schema S --epsilon 1 --policy POLICY --ledger BOOK", "--ledger"),
    ("check --learner tiny --schema S --epsilon 1 --policy POLICY --data-dir DIR", "--data-dir"),
    ("check --learner tiny --schema S --epsilon 1 --policy POLICY --new-ledger", "--new-ledger"),
    ("whatif BOOK --plan NODE --epsilon 1", "--epsilon"),
    ("whatif BOOK --plan NODE --schema S", "--schema"),
    ("whatif BOOK --rows 3 --times 2", "--times"),
    ("whatif BOOK --rows 3 --table t", "--table"),
    ("whatif BOOK --relation replace_one --label a=b", "--label"),
    ("whatif BOOK --rows 3 --delta 1e-6", "--delta"),
    ("explain BOOK --relation replace_one", "--relation"),
    ("explain BOOK --data-dir DIR", "--data-dir"),
    ("explain NODE --delta 1e-6 --data-dir DIR", "--data-dir"),
    ("explain RUN --relation replace_one", "--relation"),
    ("risk BOOK --relation replace_one", "--relation"),
    ("risk BOOK --data-dir DIR", "--data-dir"),
    ("risk NODE --data-dir DIR", "--data-dir"),
    ("diff BOOK BOOK --delta 1e-6", "--delta"),
    ("diff NODE NODE --data-dir DIR", "--data-dir"),
    ("record BOOK 0 --people-key NODE", "--people-key"),
    ("record BOOK --person a --people-key NODE --data t", "--data"),
    ("audit joint-tree --schema S --epsilon 1 --lockstep --fits 30", "--fits"),
    ("run RUN --limit memory_mb=500", "--limit"),
    ("run RUN --no-isolate --isolate-timeout 3", "--isolate-timeout"),
    ("plan RUN --no-isolate --limit memory_mb=500", "--limit"),
    ("run RUN --ledger BOOK --new-ledger", "--new-ledger")])
def test_an_option_that_nothing_would_look_at_is_an_error(line, option, call, run_file, policy,
                                                          book, node):
    places = {"BOOK": book, "RUN": run_file, "POLICY": policy, "NODE": node,
              "DIR": run_file.parent, "S": run_file.parent / "schema.json"}
    if "--ledger BOOK --new" in line:  # made by the run itself
        assert call("run", run_file).exit_code == 0
        places["BOOK"] = run_file.parent / "run.ledger"
    result = call(*(places.get(word, word) for word in line.split()))
    assert result.exit_code == 2, result.output
    assert option in result.stderr


@pytest.mark.parametrize(("more", "key"), [
    ("[isolation]\nmemory_mb = 500\n", "[isolation]"),
    ('[ledger]\nfilter = "basic"\n', "failure")])
@pytest.mark.parametrize("command", ["plan", "run", "check"])
def test_a_key_of_a_run_file_that_nothing_would_look_at_is_an_error(more, key, command, call,
                                                                    run_file, policy):
    text = RUN.replace("delta = 1e-6", "delta = 1e-6\nfailure = 1e-7" if key == "failure" else
                       "delta = 1e-6")
    text = text.replace('path = "run.ledger"', 'path = "run.ledger"\nfilter = "basic"') if (
        key == "failure") else text + more
    run_file.write_text(text, encoding="utf-8")
    more = ("--policy", policy, "--new-ledger") if command == "check" else ()
    result = call(command, run_file, *more)
    assert result.exit_code == 2, result.output
    assert key in result.stderr


@pytest.mark.parametrize(("more", "key"), [
    ('isolation = ["guarded"]\nforeign = ["opacus"]\n', "foreign"),
    ("least_honest = 2\nforbid_shared_noise = true\n", "least_honest"),
    ('mechanisms = ["Gaussian", "Asserted"]\n', "mechanisms")])
def test_a_rule_that_another_one_leaves_nothing_to_say_is_an_error(more, key, call, book, tmp_path):
    policy = tmp_path / "p.toml"
    policy.write_text(POLICY + more, encoding="utf-8")
    result = call("check", book, "--policy", policy)
    assert result.exit_code == 2, result.output
    assert f"policy {key}" in result.stderr
    # Ledgers that were created with such a policy open as before.
    pl.gate.Policy.from_dict({"policy": {"max_epsilon": 1.0, "max_delta": 0.0, "foreign": [],
                                         "isolation": ["guarded"]}})
