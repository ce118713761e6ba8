"""Hostile files stop nobody: each is answered within 5 CPU seconds and 300 MB, and none frees
budget. All of them through every command: pytest -m slow tests/faults/test_files_from_anybody.py
"""

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main
from privledger.ledger import audit, limits
from privledger.storage import store_at
from tests.alone import verify_history
from tests.faults import anybody
from tests.standalone import histories
from tests.worlds import refused

SECONDS, MEGABYTES = 5, 300
POLICY = "[policy]\nmax_epsilon = 1.0\nmax_delta = 1e-6\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    path = tmp_path_factory.mktemp("honest") / "l.ledger"
    anybody.honest(path)
    return path, anybody.corpus(path)


def tampered(world, name, folder):
    copy = folder / "l.ledger"
    for end in ("", "-wal", "-shm"):
        copy.with_name(copy.name + end).unlink(missing_ok=True)
    shutil.copyfile(world[0], copy)
    world[1][name](copy)
    return copy


def audited(path):
    """Findings of both verifiers; an error that says what it is counts as one."""
    try:
        store = store_at(path, read_only=True)
        try:
            here = audit(store)
        finally:
            store.close()
    except pl.PrivledgerError as error:
        here = [error]
    return here, verify_history.read_history(str(path)).faults


def over_granted(path, most=60):
    """Whether requests were granted beyond what the history in the file leaves."""
    try:
        with pl.Ledger.open(path) as ledger:
            data = ledger.protect(histories.ROWS, schema=histories.SCHEMA, name="new")
            left = ledger._history.state.rule.cap_units - ledger._history.state.units
            price = limits_price(ledger)
            granted = 0
            for _ in range(most):
                ledger.request(anybody.NODE, data).close()
                granted += 1
            return granted > 0 and granted * price > left
    except pl.BudgetExceeded:
        return granted > 0 and granted * price > left
    except (pl.PrivledgerError, AttributeError):
        return False


def limits_price(ledger):
    rule = ledger._history.state.rule
    return rule.price(pl.graph.cost_of(anybody.NODE), 0.0)[0]


def test_there_are_enough_of_them(world):
    assert len(world[1]) >= 175  # and 26 more where the schema is compared


def test_none_takes_long_or_frees_budget_in_process(world, tmp_path):
    """Every 15th of the small ones, and the large ones that are made quickly."""
    names = [name for name in world[1] if name not in anybody.LARGE][::15]
    quick = [name for name in anybody.LARGE if "million" not in name and "5,000" not in name]
    for name in [*names, *quick]:
        copy = tampered(world, name, tmp_path)
        begun = time.process_time()
        here, there = audited(copy)
        assert time.process_time() - begun < SECONDS, name
        assert not over_granted(copy), name
        if name in anybody.LARGE:
            assert here and there, name


@pytest.mark.parametrize("name", ["a vector of 30 million", "a vector that lies",
                                  "a vector below zero"])
def test_a_vector_is_unpacked_no_further_than_it_may_be(world, tmp_path, name):
    here, there = audited(tampered(world, name, tmp_path))
    assert here and there


CALL = (sys.executable, "-c", "from privledger.cli import main; main()")
COMMANDS = (
    ("verify", "{path}"), ("check", "{path}", "--policy", "{policy}"), ("show", "{path}"),
    ("report", "{path}", "-o", "{out}"), ("record", "{path}", "0"), ("log", "{path}"),
    ("top", "{path}"), ("export", "{path}", "-o", "{out}", "--force"))


ASKED = [("record", "0"), ("report", "-o", "OUT", "--force"), ("explain",), ("diff", "SELF")]


@pytest.mark.parametrize(("words", "part"), [
    pytest.param(words, (place + more) % 4, marks=[pytest.mark.slow] * bool(more))
    for place, words in enumerate(ASKED) for more in range(4)])
def test_small_files_have_an_answer_that_is_not_a_fault_of_ours(world, tmp_path, words, part):
    """`record` knew no word for a scope that nobody opened, `report` none for a delta that is a
    list: the commands that price or show what others only verify."""
    for name in [name for name in world[1] if name not in anybody.LARGE][part::4]:
        path = str(tampered(world, name, tmp_path))
        places = {"OUT": str(tmp_path / "out"), "SELF": path}
        done = CliRunner().invoke(main, [words[0], path, *(
            places.get(word, word) for word in words[1:])])
        assert done.exit_code in (0, 1, 2, 3), (name, done.output[-200:])


def limited():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS + 1, SECONDS + 1))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_every_command_answers_every_file(world, tmp_path, part):
    policy, out = tmp_path / "policy.toml", tmp_path / "out"
    policy.write_text(POLICY, encoding="utf-8")
    for name in list(world[1])[part::10]:
        copy = tampered(world, name, tmp_path)
        asked = [[*CALL, *(word.format(
            path=copy, policy=policy, out=out) for word in command)] for command in COMMANDS]
        asked.append([sys.executable, "-I", verify_history.__file__, str(copy)])
        for command in asked:
            watched = [sys.executable, "-c", WATCH, *command]
            done = subprocess.run(watched, preexec_fn=limited, capture_output=True, check=False,
                                  text=True)
            code, seconds, megabytes = json.loads(done.stderr.splitlines()[-1])
            assert code in (0, 1, 2, 3, 5), (name, command, code)
            assert seconds < SECONDS and megabytes < MEGABYTES, (name, command, seconds, megabytes)
        assert not over_granted(copy), name


WATCH = """
import json, resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]), file=sys.stderr)
"""


# --- what is no file ------------------------------------------------------------------------------


@pytest.fixture(params=["FIFO", "socket", "device", "directory"])
def odd(request, tmp_path):
    place = tmp_path / "odd.toml"
    if request.param == "FIFO":
        os.mkfifo(place)
    elif request.param == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(place))
    elif request.param == "device":
        place.symlink_to("/dev/zero")
    else:
        place.mkdir()
    return request.param, str(place)


@pytest.mark.parametrize("arguments", [
    ("verify", "{odd}"), ("show", "{odd}"), ("check", "{odd}"), ("export", "{odd}", "-o", "-"),
    ("plan", "{odd}"), ("run", "{odd}"), ("verify", "{ledger}", "--receipt", "{odd}"),
    ("check", "{ledger}", "--policy", "{odd}"), ("report", "{odd}", "-o", "x")])
def test_a_command_says_what_is_there_and_does_not_wait(world, odd, arguments):
    kind, place = odd
    done = CliRunner().invoke(main, [word.format(odd=place, ledger=world[0]) for word in arguments])
    assert done.exit_code == 2 and kind.lower() in done.output.lower(), done.output


def test_the_library_and_the_stand_alone_verifier_say_so_too(odd, capsys, monkeypatch):
    kind, place = odd
    for read in (pl.Ledger.open, pl.Policy.load, pl.Schema.load,
                 lambda path: pl.read_table(path, histories.SCHEMA)):
        with pytest.raises(pl.PrivledgerError) as caught:
            read(place)
        assert "does not exist" not in str(caught.value)
    monkeypatch.setattr(sys, "argv", ["verify_history.py", place])
    with pytest.raises(SystemExit) as ended:
        verify_history.main()
    assert ended.value.code == 2 and kind.lower() in capsys.readouterr().err.lower()


# --- writers keep to the limits -------------------------------------------------------------------


@pytest.fixture
def book():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="rdp")
    return ledger, ledger.protect(histories.ROWS, schema=histories.SCHEMA, name="t")


def test_a_plan_that_takes_too_long_to_price_again_is_refused(book):
    ledger, data = book
    plan = pl.nodes.from_json(anybody.sampled(900))
    with pytest.raises(pl.errors.InvalidPlan, match="priced in at most about 1250 ms"):
        ledger.request(plan, data)
    refused(pl.errors.InvalidPlan, lambda: ledger.correct("any", plan, "an audit"))
    assert ledger.state.grants == {}


def test_small_plans_that_differ_add_up_and_repeats_do_not(book, monkeypatch):
    ledger, data = book
    monkeypatch.setattr(limits, "MOST_EFFORT", 10.0)
    plans = [pl.PoissonSample(0.001, pl.Gaussian(50.0 + place)) for place in range(9)]

    def ask_for_all():
        for plan in plans:
            for _ in range(3):
                ledger.request(plan, data).close()

    refused(pl.errors.InvalidPlan, ask_for_all, match="Begin another ledger")
    assert len(ledger.state.grants) == 12
    ledger.request(plans[0], data).close()
    ledger.request(pl.Gaussian(100.0), data).close()
    assert ledger.verify() == []


def test_what_a_writer_may_write_a_reader_accepts(book, monkeypatch):
    """With every limit as low as a writer can still work under: nothing honest is refused."""
    ledger, data = book
    monkeypatch.setattr("privledger.ledger.log.MOST_BODY", 4000)
    monkeypatch.setattr(limits, "MOST_BODY", 4000)
    leaf = pl.Gaussian(100.0)
    with ledger.request(pl.Repeat(pl.PoissonSample(0.01, leaf), 60), data) as session:
        for _ in range(60):
            session.release(leaf, data.poisson(0.01).count())
    kinds = [entry.event.kind for entry in ledger._history.store.read()]
    assert kinds.count("released") > 3 and ledger.verify() == []


def test_a_vector_over_more_rows_than_one_may_have_is_refused(monkeypatch):
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="gdp")
    data = ledger.protect(histories.ROWS, schema=histories.SCHEMA, name="t")
    node = pl.IndividualFilter("gdp", 1e-3)
    for name, most in (("MOST_RECORDS", 4), ("MOST_TOTAL_RECORDS", 4)):
        with monkeypatch.context() as patch:
            patch.setattr(f"privledger.ledger.vectors.{name}", most)
            session = ledger.request(node, data)
            with pytest.raises(pl.errors.InvalidPlan) as caught:
                session.release(pl.Gaussian(300.0), session.filtered(node).sum("x"))
            assert "5" not in str(caught.value)
            session.close()
    assert ledger.verify() == []
