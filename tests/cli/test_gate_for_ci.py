"""check for CI: plans without data, receipts, heads, policies found, and what CI systems read."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

import privledger as pl
from privledger.findings import Finding
from privledger.gate import RULES
from privledger.reports.ci import FORMATS, Outcome, ci_text, summary
from tests.all_cases import all_cases
from tests.doctored import doctor
from tests.worlds import protected, schema_of

ROOT = Path(__file__).resolve().parents[2]


def rules(found):
    """Which do not hold; those of a policy are of no entry."""
    assert {finding["position"] for finding in found["findings"]
            if not finding["rule"].startswith(("receipt", "integrity"))} <= {-1}
    return sorted({finding["rule"] for finding in found["findings"]})


def receipt_of(call, ledger, place, *more):
    place.write_text(call("receipt", ledger, "--format", "json", *more).stdout, encoding="utf-8")
    return place


def cut(path, last):
    doctor(path, ("DELETE FROM entries WHERE position > ?", (last,)))


# --- a learner, before there is anything ----------------------------------------------------------


def sketch(run_file, epsilon, *more):
    return ("check", "--learner", "tiny", "--schema", run_file.parent / "schema.json",
            "--epsilon", epsilon, "--delta", "1e-6", *more)


def test_a_learner_is_priced_before_any_data_exist(call, as_json, run_file, policy):
    (run_file.parent / "table.csv").unlink()
    run_file.unlink()
    assert call(*sketch(run_file, 0.5, "--policy", policy)).exit_code == 0
    found = as_json(*sketch(run_file, 1.5, "--policy", policy))
    assert found["exit"] == 1 and rules(found) == ["over-epsilon"]
    assert found["facts"]["learners"] == ["tiny"]
    assert list(run_file.parent.glob("*.ledger")) == []


def test_parameters_are_checked(call, run_file, policy):
    assert call(*sketch(run_file, 0.5, "--policy", policy, "--param", "rounds=5")).exit_code == 0
    for wrong in ("depth=5", "rounds", "seed=3", "rounds='5", "run.learner=2"):
        assert call(*sketch(run_file, 0.5, "--policy", policy, "--param", wrong)).exit_code == 2


@pytest.mark.parametrize("wrong", [
    ("check",), ("check", "--learner", "tiny"), ("check", "--learner", "tiny", "--epsilon", "1")])
def test_half_a_learner_is_2(call, wrong, policy):
    assert call(*wrong, "--policy", policy).exit_code == 2


@pytest.mark.parametrize("epsilon", ["nan", "inf", "-1", "0"])
def test_an_impossible_epsilon_is_2(call, run_file, policy, epsilon):
    assert call(*sketch(run_file, epsilon, "--policy", policy)).exit_code == 2


def test_what_would_fit_does_fit(as_json, run_file, policy):
    policy.write_text("[policy]\nmax_epsilon = 0.3\nmax_delta = 1e-6\n", encoding="utf-8")
    found = as_json(*sketch(run_file, 1.0, "--policy", policy, "--param", "rounds=100"))
    words = found["fits"].split()
    rounds, factor = int(words[words.index("rounds") - 1]), float(words[words.index("times") - 1])
    noise = pl.calibrate(lambda z: pl.Repeat(pl.Gaussian(z), 100), 1.0, 1e-6)
    for plan in (pl.Repeat(pl.Gaussian(noise), rounds),
                 pl.Repeat(pl.Gaussian(noise * factor * 1.001), 100)):
        assert pl.epsilon(plan, 1e-6) <= 0.3
    assert pl.epsilon(pl.Repeat(pl.Gaussian(noise), rounds + 1), 1e-6) > 0.3


# --- rules ----------------------------------------------------------------------------------------

MORE = [
    ('isolation = ["brokered"]', "isolation-not-allowed"), ("min_rows = 10", "too-few-rows"),
    ("require_receipt = true", "receipt-missing"),
    ("[policy.data.people]\nmax_epsilon = 0.1\nmax_delta = 1e-6", "data-over-epsilon"),
    ("[policy.data.people]\nmax_epsilon = 1.0\nmax_delta = 1e-9", "data-over-delta"),
    ('relation = ["replace_one"]', "wrong-relation"), ("min_delta = 1e-6", None),
    ('isolation = ["guarded"]', None),
    ("[policy.data.others]\nmax_epsilon = 0.1\nmax_delta = 0", None)]


@pytest.mark.parametrize("subject", ["ledger", "run"])
@pytest.mark.parametrize(("line", "rule"), MORE)
def test_every_rule_refuses(as_json, ledger_file, run_file, policy, subject, line, rule):
    policy.write_text(policy.read_text() + line + "\n", encoding="utf-8")
    found = as_json("check", ledger_file if subject == "ledger" else run_file, "--policy", policy,
                    "--new-ledger")
    if rule == "receipt-missing" and subject == "run":
        rule = None  # no ledger yet, so there is nothing a receipt could be of
    assert rules(found) == ([] if rule is None else [rule])
    assert found["exit"] == (0 if rule is None else 1)


def test_a_promised_delta_under_the_least(as_json, ledger_file, policy):
    policy.write_text("[policy]\nmax_epsilon = 1\nmax_delta = 1e-3\nmin_delta = 1e-5\n")
    assert rules(as_json("check", ledger_file, "--policy", policy)) == ["under-delta"]


def test_declared_rows_are_enough(as_json, run_file, policy):
    place = run_file.parent / "schema.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {
        "expected_rows": 40, "expected_rows_provenance": "declared: the study has forty places"}))
    policy.write_text(policy.read_text() + "min_rows = 40\n")
    assert as_json("check", run_file, "--policy", policy, "--new-ledger")["exit"] == 0
    policy.write_text(policy.read_text().replace("40", "41"))
    assert rules(as_json("check", run_file, "--policy", policy, "--new-ledger")) == ["too-few-rows"]


@pytest.mark.parametrize("command", ["plan", "run", "check"])
def test_a_true_number_of_rows_has_no_price(call, run_file, policy, command):
    """One row more would be another plan: 133 and 134 rows were told apart."""
    place = run_file.parent / "schema.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"public_rows": 40}))
    more = ["--policy", policy] if command == "check" else []
    page = call(command, run_file, *more)
    assert page.exit_code not in (0, 4)
    assert "expected_rows" in page.output


def test_windows_that_were_opened(call, as_json, make_ledger, tmp_path, policy):
    path = make_ledger(tmp_path / "book.ledger")
    opened = call("window", path, "2026-Q4")
    assert opened.exit_code == 0 and "window 2026-Q4 is open" in opened.stdout
    assert as_json("window", path, "2026-Q4")["opened"] is False
    assert as_json("window", path, "2027-Q1")["before"] == "2026-Q4"
    assert call("window", path, "2026-Q4").exit_code == 2
    policy.write_text(policy.read_text() + 'windows = ["2026-Q4"]\n')
    assert rules(as_json("check", path, "--policy", policy)) == ["window-not-allowed"]
    assert "2027-Q1" in call("show", path).stdout


def test_asserted_zcdp_is_asserted(as_json, tmp_path, policy, spend):
    path = tmp_path / "z.ledger"
    schema = schema_of("t", {"x": (0.0, 1.0)})
    with pl.Ledger.create(path, budget=pl.Budget(1.0, 1e-6), filter="zcdp") as ledger:
        ledger.request(pl.AssertedZCDP(0.001, "so"), ledger.protect({"x": [0.5]}, schema)).close()
    assert rules(as_json("check", path, "--policy", policy)) == ["asserted-node"]


def test_the_ledger_s_own_policy_counts(as_json, tmp_path, run_file, policy, call):
    own = pl.Policy(1.0, 1e-6, learners=("another",))
    pl.Ledger.create(run_file.parent / "run.ledger", budget=pl.Budget(1.0, 1e-6),
                     policy=own).close()
    found = as_json("check", run_file, "--policy", policy)
    assert rules(found) == ["learner-not-allowed"]
    assert "own policy" in found["findings"][0]["message"]
    ran = call("run", run_file)
    assert ran.exit_code == 1 and "policy" in ran.stderr


@pytest.mark.parametrize("line", [
    "isolation = ['locked']", "min_rows = 0", "min_rows = true", "min_delta = 0.1",
    "windows = 'a'", "windows = ['']", "require_receipt = 1", "data = 3", "data.a = 3",
    "[policy.data.a]\nmax_epsilon = 1", "[policy.data.a]\nmax_epsilon = 0\nmax_delta = 0",
    "[policy.data.a]\nmax_epsilon = 1\nmax_delta = 0\nmore = 1", "relation = []\nx = 1",
    "relation = ['any']", "relation = 3", "[other]\nmax_epsilon = 1"])
def test_a_policy_that_cannot_be_understood_is_2(call, ledger_file, policy, line):
    policy.write_text(policy.read_text() + line + "\n", encoding="utf-8")
    page = call("check", ledger_file, "--policy", policy)
    assert page.exit_code == 2, page.output


# --- where the policy is found --------------------------------------------------------------------


def test_the_policy_of_the_working_directory(call, ledger_file, policy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("check", ledger_file).exit_code == 2  # none: not a pass
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_text("[project]\nname = 'x'\n")
    assert call("check", ledger_file).exit_code == 2
    pyproject.write_text("[tool.privledger.policy]\nmax_epsilon = 0.1\nmax_delta = 1e-6\n")
    assert call("check", ledger_file).exit_code == 1
    assert call("check", ledger_file, "--policy", pyproject).exit_code == 1
    for wrong in ("[tool.privledger]\npolicies = 1\n", "[tool.privledger]\n",
                  "[tool.privledger.policy]\nmax_epsilon = 1\nmax_delta = 1e-6\nmore = 1\n"):
        pyproject.write_text(wrong)
        assert call("check", ledger_file).exit_code == 2
    (tmp_path / "privledger.toml").write_text(policy.read_text())
    assert call("check", ledger_file).exit_code == 0


# --- receipts and heads ---------------------------------------------------------------------------


def test_a_receipt_that_was_kept_elsewhere(call, as_json, ledger_file, policy, tmp_path):
    kept = receipt_of(call, ledger_file, tmp_path / "r.json")
    head = json.loads(kept.read_text())["head"]
    policy.write_text(policy.read_text() + "require_receipt = true\n")
    known = [("--receipt", kept), ("--expect-head", head)]
    for option in known:
        assert call("check", ledger_file, "--policy", policy, *option).exit_code == 0
    cut(ledger_file, 3)
    for option in known:
        found = as_json("check", ledger_file, "--policy", policy, *option)
        assert found["exit"] == 3 and rules(found) == ["receipt-is-in-history"]


def test_a_ledger_that_is_gone_is_3(call, as_json, run_file, policy, tmp_path):
    call("run", run_file)
    ledger = run_file.parent / "run.ledger"
    kept = receipt_of(call, ledger, tmp_path / "r.json")
    ledger.unlink()
    assert rules(as_json("check", run_file, "--policy", policy)) == ["ledger-is-there"]
    assert call("check", run_file, "--policy", policy, "--new-ledger").exit_code == 0
    found = as_json("check", run_file, "--policy", policy, "--receipt", kept)
    assert found["exit"] == 3 and rules(found) == ["receipt-is-in-history"]


@pytest.mark.parametrize("head", ["", "abc", "A" * 64, "0" * 63])
def test_a_head_that_is_none_is_2(call, ledger_file, policy, head):
    assert call("check", ledger_file, "--policy", policy, "--expect-head", head).exit_code == 2


def test_an_edited_counter_is_found(call, as_json, ledger_file, tmp_path):
    kept = receipt_of(call, ledger_file, tmp_path / "r.json")
    assert json.loads(kept.read_text())["counter"] == 1
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"counter": 0}))
    assert rules(as_json("verify", ledger_file, "--receipt", kept)) == ["receipt-is-in-history"]


def test_the_counter_counts_what_moved():
    schema = schema_of("t", {"x": (0.0, 1.0)})
    ledger, data = protected(pl.Budget(1.0, 1e-6), {"x": [0.5]}, schema)
    counts = [ledger.receipt.counter]
    ledger.request(pl.Gaussian(20.0), data).close()
    counts.append(ledger.receipt.counter)
    with pytest.raises(KeyError), ledger.request(pl.Gaussian(20.0), data):
        raise KeyError
    counts.append(ledger.receipt.counter)
    ledger.correct(next(iter(ledger.state.grants)), pl.Gaussian(10.0), "louder")
    assert [*counts, ledger.receipt.counter] == [0, 1, 3, 4]


def test_every_answer_about_a_ledger_has_its_receipt(as_json, call, run_file, policy, tmp_path):
    call("run", run_file)
    path = run_file.parent / "run.ledger"
    with pl.Ledger.open(path, read_only=True) as opened:
        wanted = opened.receipt.as_dict()
    for line in (("show", path), ("record", path, 3), ("verify", path), ("plan", run_file),
                 ("check", path, "--policy", policy), ("check", run_file, "--policy", policy),
                 ("export", path, "-o", tmp_path / "h.jsonl")):
        answer = as_json(*line)
        assert answer["receipt"] == wanted, line
        kept = tmp_path / "kept.json"
        kept.write_text(json.dumps(answer))
        assert call("verify", path, "--receipt", kept).exit_code == 0
    assert list(as_json("overlap", path)["receipts"].values()) == [wanted]


# --- Ed25519 --------------------------------------------------------------------------------------


@pytest.fixture
def keys(tmp_path):
    pytest.importorskip("cryptography", reason="the extra signing is not installed")
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    made = []
    for name in ("a", "b"):
        key = Ed25519PrivateKey.generate()
        secret, public = tmp_path / f"{name}.pem", tmp_path / f"{name}.pub"
        secret.write_bytes(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8,
                                             s.NoEncryption()))
        public.write_bytes(key.public_key().public_bytes(
            s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo))
        made.append((secret, public))
    return made


def test_whoever_has_the_public_key_can_check(call, as_json, keys, ledger_file, policy, tmp_path):
    (secret, public), (_, other) = keys
    kept = receipt_of(call, ledger_file, tmp_path / "r.json", "--sign-key", secret)
    for command in (("verify", ledger_file), ("check", ledger_file, "--policy", policy)):
        known = (*command, "--receipt", kept, "--public-key")
        assert call(*known, public).exit_code == 0
        assert rules(as_json(*known, other)) == ["receipt-is-signed"]
        assert call(*known, secret).exit_code == 2  # not a public key
    value = json.loads(kept.read_text())
    for change in ({"counter": 0}, {"epsilon": 0.0}, {"algorithm": "hmac-sha256"},
                   {"signature": "zz"}, {"signature": None}, {"more": 1}):
        kept.write_text(json.dumps(value | change))
        assert "receipt-is-signed" in rules(as_json("verify", ledger_file, "--receipt", kept,
                                                    "--public-key", public))


def test_one_signature_and_only_with_a_receipt(call, keys, ledger_file, policy, tmp_path):
    (secret, public), _ = keys
    hmac_key = tmp_path / "hmac"
    hmac_key.write_bytes(b"0123456789abcdef")
    both = call("receipt", ledger_file, "--sign-key", secret, "--key-file", hmac_key)
    assert both.exit_code == 2
    assert call("receipt", ledger_file, "--sign-key", hmac_key).exit_code == 2
    assert call("verify", ledger_file, "--public-key", public).exit_code == 2
    assert "PRIVATE" not in both.output


def test_without_the_package_it_says_what_to_install(call, ledger_file, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    key = tmp_path / "k.pem"
    key.write_text("x")
    page = call("receipt", ledger_file, "--sign-key", key)
    assert page.exit_code == 2 and "privledger[signing]" in page.stderr


# --- what CI systems read -------------------------------------------------------------------------


def check_sarif(text):
    """What SARIF 2.1.0 (OASIS, sections 3.13 to 3.27) requires of the parts we write."""
    log = json.loads(text)
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    assert set(log) == {"$schema", "version", "runs"} and len(log["runs"]) == 1
    (run,) = log["runs"]
    assert set(run) == {"tool", "invocations", "results", "columnKind"}
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    driver = run["tool"]["driver"]
    assert isinstance(driver["name"], str) and isinstance(driver["version"], str)
    names = [rule["id"] for rule in driver["rules"]]
    assert len(set(names)) == len(names)
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"]
        assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")
    for called in run["invocations"]:
        assert isinstance(called["executionSuccessful"], bool)
        assert isinstance(called["exitCode"], int)
    for result in run["results"]:
        assert result["message"]["text"] and names[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] == "error" and result["kind"] == "fail"
        for place in result["locations"]:
            uri = place["physicalLocation"]["artifactLocation"]["uri"]
            assert uri and " " not in uri and uri.isascii()
            assert all(set(named) <= {"name", "kind"} for named in
                       place.get("logicalLocations", []))
    return run


def outcomes(subject, kind, call, *more):
    page = call("check", subject, *more, "--format", kind)
    return page.exit_code, page.stdout


@pytest.mark.parametrize(("code", "make"), [
    (0, lambda f: f["ledger"]), (1, lambda f: f["ledger"]), (3, lambda f: f["broken"]),
    (5, lambda f: f["empty"]), (2, lambda f: f["ledger"])])
@pytest.mark.parametrize("kind", FORMATS)
def test_ci_formats_tell_every_outcome(call, code, make, kind, ledger_file, make_ledger, policy,
                                       tmp_path, monkeypatch):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    broken = tmp_path / "broken.ledger"
    broken.write_bytes(b"hello")
    places = {"ledger": ledger_file, "broken": broken,
              "empty": make_ledger(tmp_path / "empty.ledger", releases=0)}
    if code == 1:
        policy.write_text(policy.read_text().replace("max_epsilon = 1.0", "max_epsilon = 0.1"))
    if code == 2:
        policy.write_text("[policy]\nmisspelt = 1\n")
    found, text = outcomes(make(places), kind, call, "--policy", policy)
    assert found == code
    if kind == "sarif":
        run = check_sarif(text)
        assert bool(run["results"]) is (code != 0)
        assert run["invocations"] == [{"executionSuccessful": code in (0, 1), "exitCode": code}]
    elif kind == "junit":
        suite = ElementTree.fromstring(text.encode()).find("testsuite")
        cases = suite.findall("testcase")
        assert len(cases) == int(suite.get("tests")) > 0
        assert len(suite.findall("testcase/failure")) == int(suite.get("failures")) == (code == 1)
        assert len(suite.findall("testcase/error")) == int(suite.get("errors")) == (code > 1)
        if code > 1:  # nothing passes that nobody looked at
            assert len(suite.findall("testcase/skipped")) == len(cases) - 1
    else:
        assert text.startswith("::notice " if code == 0 else "::error ")


@all_cases("kind", FORMATS)
@all_cases("text", ["a\n::error::b", "\x1b[31m", "]]>&<>\"'", "%0A::x", "\ud800",
                    "\u202e", "x" * 9000, ""])
def test_no_label_escapes_its_place(kind, text):
    outcome = Outcome(f"s {text}", "1", 1, "refused", RULES,
                      (Finding("over-epsilon", 3, f"m {text}"),), {"n": text})
    shown = ci_text(kind, outcome)
    shown.encode()
    if kind == "sarif":
        check_sarif(shown)
    elif kind == "junit":
        ElementTree.fromstring(shown.encode())
    else:
        assert "\n" not in shown and "%0A" not in shown
    assert "\x1b" not in shown and "\u202e" not in shown
    page = summary(outcome)
    assert "<" not in page and page.count("\n| ") == page.count("\n|") - 2


def test_a_job_gets_a_page(call, ledger_file, policy, tmp_path, monkeypatch):
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    call("check", ledger_file, "--policy", policy, "--format", "github")
    text = page.read_text()
    assert text.startswith("before\n### privledger check") and "within the policy" in text


def test_every_rule_is_in_the_table():
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for name, meaning in RULES.items():
        assert f"| `{name}` | {meaning} |" in page


# --- run files with a URL -------------------------------------------------------------------------


def test_no_answer_quotes_a_password(call, run_file, policy):
    url = "postgresql://user:s3cr%40t@127.0.0.1:1/db?ledger=x"
    for old, new in (('path = "run.ledger"', f'path = "{url}"'),
                     ('[ledger]\npath = "run.ledger"', "")):
        text = run_file.read_text().replace(old, new)
        if not new:
            text = f'ledger = "{url}"\n' + text
        place = run_file.parent / "url.toml"
        place.write_text(text, encoding="utf-8")
        from privledger.runs import RunFile

        assert "s3cr" not in repr(RunFile.load(place))
        for line in (("plan", place), ("run", place), ("check", place, "--policy", policy),
                     ("plan", run_file, "--ledger", url), ("run", run_file, "--ledger", url)):
            for form in ("text", "json"):
                page = call(*line, "--format", form)
                assert page.exit_code in (3, 4), page.output
                assert "s3cr" not in page.output + page.stderr


def test_a_run_on_a_ledger_in_a_database(call, as_json, run_file, policy, postgres):
    url = postgres.url(database=postgres.empty())
    run_file.write_text(run_file.read_text().replace('path = "run.ledger"', f'path = "{url}"'))
    assert as_json("plan", run_file)["ledger_exists"] is False
    assert call("check", run_file, "--policy", policy).exit_code == 2
    assert call("check", run_file, "--policy", policy, "--new-ledger").exit_code == 0
    assert call("run", run_file).exit_code == 0
    assert call("check", url, "--policy", policy).exit_code == 0
    found = as_json("check", run_file, "--policy", policy)
    assert rules(found) == ["over-epsilon"]
    assert list(run_file.parent.glob("*ledger*")) == []


# --- what is shipped for CI systems -----------------------------------------------------------


def test_the_action_puts_no_input_into_a_script():
    text = (ROOT / ".github/actions/privledger-check/action.yml").read_text(encoding="utf-8")
    script = text.split("      run: |\n")[1]
    assert "${{" not in script and 'exit "$code"' in script
    hook = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    assert "entry: privledger check\n" in hook


@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_action_s_script_ends_with_the_code_of_the_check(tmp_path, code):
    import os
    import shutil
    import subprocess
    import textwrap

    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    text = (ROOT / ".github/actions/privledger-check/action.yml").read_text(encoding="utf-8")
    script = textwrap.dedent(text.split("      run: |\n")[1])
    fake = tmp_path / "privledger"
    fake.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> args\nexit {code}\n')
    fake.chmod(0o755)
    names = ("POLICY", "RECEIPT", "EXPECT_HEAD", "PUBLIC_KEY", "DATA_DIR")
    done = subprocess.run(
        [bash, "--noprofile", "--norc", "-eo", "pipefail", "-c", script], cwd=tmp_path,
        check=False, env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **dict.fromkeys(names, ""),
                          "SUBJECT": "$(touch evil) a.toml", "SARIF": "out.sarif",
                          "GITHUB_OUTPUT": str(tmp_path / "output")})
    assert done.returncode == code
    assert (tmp_path / "output").read_text() == f"exit-code={code}\n"
    assert "$(touch evil) a.toml" in (tmp_path / "args").read_text().splitlines()
    assert not (tmp_path / "evil").exists()
