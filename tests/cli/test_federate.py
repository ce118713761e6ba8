"""`privledger federate`: the commands of the tour, in real processes, and what they refuse."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from privledger.cli import main, owners

PAGE = Path(__file__).parents[2] / "docs" / "federated.md"
CALL = "from privledger.cli import main; main()"
FENCED = re.compile(r"```(python|bash)\n(.*?)```", re.DOTALL)


def blocks(kind):
    return [text for name, text in FENCED.findall(PAGE.read_text(encoding="utf-8")) if name == kind]


def commands():
    """The page's commands, in order."""
    return [shlex.split(line) for text in blocks("bash") for line in text.splitlines()]


def run(folder, *given):
    here = Path.cwd()
    os.chdir(folder)
    try:
        return CliRunner().invoke(main, list(given))
    finally:
        os.chdir(here)


def start(folder, *given):
    return subprocess.Popen([sys.executable, "-c", CALL, *given], cwd=folder, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hospitals")
    here = Path.cwd()
    os.chdir(folder)
    try:
        exec(blocks("python")[0], {})
    finally:
        os.chdir(here)
    for name in ("north", "south", "stranger"):
        assert run(folder, "federate", "keygen", name).exit_code == 0
    return folder


@pytest.fixture
def folder(prepared):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = (prepared / "run.toml").read_text()
    (prepared / "run.toml").write_text(re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{port}", text))
    for old in [*prepared.glob("*.ledger*"), *prepared.glob("*.json")]:
        old.unlink()
    return prepared


def test_the_tour_from_its_first_command_to_its_last(folder):
    told = [words[1:] for words in commands()]
    assert [words[:2] for words in told[:2]] == [["federate", "keygen"]] * 2
    plan, serve, join, *after = told[2:]
    assert run(folder, *plan).exit_code == 0
    with start(folder, *serve) as first, start(folder, *join) as second:
        outs = [*first.communicate(timeout=120), *second.communicate(timeout=120)]
    assert (first.returncode, second.returncode) == (0, 0), outs
    assert "2 owners" in outs[0] and "done" in outs[2] and "round 50" in outs[1]
    for words in after:
        done = run(folder, *words)
        assert done.exit_code == 0, done.output
    for name in ("north", "south"):
        shown = json.loads(run(folder, "show", f"{name}.ledger", "--format", "json").output)
        assert shown["spent"] == pytest.approx(1, abs=1e-6)
        told = run(folder, "export", f"{name}.ledger", "-o", "-").output
        assert re.search(r'"labels":{"federated":"[0-9a-f]{16}"}', told)
    edited = json.loads((folder / "all.json").read_text())
    for change in ("rounds", "transcript", "receipt", "owner", "run"):
        copy = json.loads(json.dumps(edited))
        copy["statements"][0][change] = 7 if change == "rounds" else "0" * 64
        (folder / "edited.json").write_text(json.dumps(copy))
        assert run(folder, "federate", "verify", "edited.json").exit_code == 3
    copy = json.loads(json.dumps(edited))
    copy["run"]["delta"] = (1e-5).hex()
    (folder / "edited.json").write_text(json.dumps(copy))
    assert run(folder, "federate", "verify", "edited.json").exit_code == 3
    assert run(folder, "federate", "verify", "south.json").exit_code == 3


def test_a_ledger_that_cannot_pay_stops_everybody(folder):
    assert run(folder, "run", "nothing.toml").exit_code == 2
    (folder / "full.toml").write_text(re.sub(
        r"\[federation\][\s\S]*", "", (folder / "run.toml").read_text()).replace(
        "[data]", '[data]\ntable = "south.csv"'))
    done = run(folder, "run", "full.toml", "--ledger", "south.ledger")
    assert done.exit_code == 0, done.output
    before = json.loads(run(folder, "show", "south.ledger", "--format", "json").output)["spent"]
    done = run(folder, "federate", "join", "run.toml", "--secret", "south.secret", "--data",
               "south.csv", "--ledger", "south.ledger", "--wait", "1")
    assert done.exit_code == 1, done.output  # before anybody is called
    after = json.loads(run(folder, "show", "south.ledger", "--format", "json").output)["spent"]
    assert after == before


def test_nobody_there_and_nobody_of_the_roster(folder):
    given = ["--data", "south.csv", "--ledger", "south.ledger", "--wait", "1"]
    done = run(folder, "federate", "join", "run.toml", "--secret", "south.secret", *given)
    assert done.exit_code == 4 and "does not answer" in done.output
    done = run(folder, "federate", "join", "run.toml", "--secret", "stranger.secret", *given)
    assert done.exit_code == 2 and "owner of this run" in done.output
    done = run(folder, "federate", "serve", "run.toml", "--secret", "south.secret")
    assert done.exit_code == 2 and "coordinator" in done.output
    done = run(folder, "federate", "serve", "run.toml", "--secret", "north.secret", "--data",
               "north.csv", "--ledger", "north.ledger", "--wait", "0.3")
    assert done.exit_code == 4 and "did not call" in done.output
    for name in ("north", "south"):
        shown = json.loads(run(folder, "show", f"{name}.ledger", "--format", "json").output)
        assert shown["spent"] == 0


@pytest.mark.parametrize(("old", "new"), [
    ('name = "two', 'names = "two'), ('address = "127', 'addresses = "127'),
    ("[federation]", "[federations]"), ('["north.card", "south.card"]', "[]"),
    ('["north.card", "south.card"]', '["north.card", "north.card"]'),
    ('["north.card", "south.card"]', '["north.card", 3]'),
    ('["north.card", "south.card"]', '["north.card", "nobody.card"]'),
    ("[federation]", "[federation]\npatience = -1"),
    ("[federation]", "[federation]\nattempts = true"),
    ("[federation]", "[federation]\npatience = nan"),
    ("[data]", '[data]\ntable = "south.csv"'), ("[data]", '[engine]\nname = "dask"\n[data]')])
def test_a_wrong_run_file_is_refused(folder, old, new):
    (folder / "wrong.toml").write_text((folder / "run.toml").read_text().replace(old, new))
    done = run(folder, "federate", "plan", "wrong.toml")
    assert done.exit_code in (1, 2), done.output
    assert "Traceback" not in done.output and "internal" not in done.output


def test_a_plan_that_owners_do_not_answer_does_not_fit(prepared):
    text = (prepared / "run.toml").read_text().replace("sgbdt-classifier", "summary")
    told = text.replace("n_trees = 50", 'statistics = ["count"]\nepsilon = 1.0')
    for more, code in (("", 1), ('\nnoise = "gaussian"', 0)):
        (prepared / "sums.toml").write_text(told.replace("= 1.0", f"= 1.0{more}", 1))
        done = run(prepared, "federate", "plan", "sums.toml")
        assert done.exit_code == code, done.output
        assert ("The run fits" in done.output) == (code == 0)


def test_secrets_and_cards_are_checked(folder):
    secret = folder / "south.secret"
    assert secret.stat().st_mode & 0o077 == 0
    assert run(folder, "federate", "keygen", "south").exit_code == 2  # never written over
    assert run(folder, "federate", "keygen", "../x").exit_code == 2
    given = ["--data", "south.csv", "--ledger", "south.ledger", "--wait", "1"]
    secret.chmod(0o644)
    done = run(folder, "federate", "join", "run.toml", "--secret", "south.secret", *given)
    secret.chmod(0o600)
    assert done.exit_code == 2 and "0600" in done.output
    card = json.loads((folder / "south.card").read_text())
    other = json.loads((folder / "stranger.card").read_text())
    for change in ({"certificate": other["certificate"]}, {"name": "west"}, {"key": other["key"]},
                   {"signature": other["signature"]}, {"more": 1}, {"kind": "another"}):
        (folder / "swapped.card").write_text(json.dumps(card | change))
        (folder / "swapped.toml").write_text((folder / "run.toml").read_text().replace(
            '"south.card"', '"swapped.card"'))
        done = run(folder, "federate", "plan", "swapped.toml")
        assert done.exit_code == 2 and "as it was written" in done.output, done.output


def test_without_the_packages_it_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    done = run(folder, "federate", "plan", "run.toml")
    assert done.exit_code == 2 and "privledger[federated]" in done.output


def test_the_package_itself_says_what_to_install():
    code = ("import sys; sys.modules['cryptography'] = None\n"
            "try:\n    import privledger.federation\n"
            "except ImportError as error:\n    print(error)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "privledger[federated]" in done.stdout and not done.stderr


def test_shared_noise_is_planned_with_both_prices(prepared):
    text = (prepared / "run.toml").read_text()
    three = text.replace('"south.card"]', '"south.card", "stranger.card"]')
    assert run(prepared, "federate", "keygen", "fourth").exit_code == 0
    for more, code in (('noise = "shared"\ncolluding = 1\nleast_honest = 2\n', 0),
                       ('noise = "shared"\n', 1), ("colluding = 1\n", 1),
                       ('noise = "shared"\ncolluding = 2\nleast_honest = 2\n', 1),
                       ('noise = "shared"\ncolluding = "1"\n', 1)):
        (prepared / "shared.toml").write_text(three + more)
        done = run(prepared, "federate", "plan", "shared.toml", "--format", "json")
        assert (done.exit_code > 0) == code, done.output
    (prepared / "shared.toml").write_text(three + 'noise = "shared"\ncolluding = 1\n')
    value = json.loads(run(prepared, "federate", "plan", "shared.toml", "--format", "json").output)
    assert value["alone"] > 1.3 * value["declared"]
    shown = " ".join(run(prepared, "federate", "plan", "shared.toml").output.split())
    assert "SHARED: each owner adds a part; 2 of 3 owners" in shown and "alone epsilon" in shown
    whole = json.loads(run(prepared, "federate", "plan", "run.toml", "--format", "json").output)
    assert whole["alone"] == whole["declared"]


def test_the_price_of_somebody_at_several_owners_is_planned(prepared):
    text = (prepared / "run.toml").read_text()
    (prepared / "people.toml").write_text(text + "owners_per_person = 2\n")
    value = json.loads(run(prepared, "federate", "plan", "people.toml", "--format", "json").output)
    assert value["of_person"] > 1.4 * value["declared"] and value["owners_per_person"] == 2
    shown = " ".join(run(prepared, "federate", "plan", "people.toml").output.split())
    assert "for a person with rows at 2 owners" in shown
    whole = json.loads(run(prepared, "federate", "plan", "run.toml", "--format", "json").output)
    assert whole["of_person"] is None and whole["owners_per_person"] is None
    assert whole["digest"] != value["digest"]
    for bad in ("0", "3", "true", '"1"', "1.0"):
        (prepared / "people.toml").write_text(text + f"owners_per_person = {bad}\n")
        assert run(prepared, "federate", "plan", "people.toml").exit_code > 0


@pytest.mark.parametrize(("total", "said"), [
    (3, ["round 1 of about 3", "round 2 of about 3", "round 3 of about 3"]),
    (40, [f"round {done} of about 40" for done in range(4, 41, 4)]),
    (None, [f"round {done}" for done in range(10, 41, 10)])])
def test_a_tenth_of_the_rounds_at_a_time_is_told(monkeypatch, total, said):
    found = []
    monkeypatch.setattr(owners, "note", found.append)
    tell = owners._told(total)
    for done in range(1, (total or 40) + 1):
        tell(done)
    assert found == said
