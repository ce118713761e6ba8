"""The stand-alone verifier: honest histories pass, doctored ones do not, and it agrees with us."""

from __future__ import annotations

import ast
import copy
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.accounting import epsilon_from_mu
from privledger.standalone import build
from privledger.standalone.build import one_file
from tests.all_cases import all_cases
from tests.alone import verify_history
from tests.bodies import said

KINDS = ("gdp", "zcdp", "rdp", "basic")
UNIT = 2**192


def faults(book):
    return [text for _, text in book.faults]


def place_of(lines, kind, nth=0):
    return [place for place, line in enumerate(lines) if line["kind"] == kind][nth]


# --- the file itself --------------------------------------------------------------------------


def test_it_imports_the_standard_library_only(tools):
    tree = ast.parse(tools.path.read_text(encoding="utf-8"))
    names = {alias.name.split(".")[0] for node in ast.walk(tree)
             if isinstance(node, ast.Import) for alias in node.names}
    names |= {(node.module or "").split(".")[0] for node in ast.walk(tree)
              if isinstance(node, ast.ImportFrom)}
    assert all(node.level == 0 for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    assert names <= set(sys.stdlib_module_names)
    assert "__import__" not in tools.path.read_text(encoding="utf-8")


FOLDER = Path(pl.__file__).parent / "standalone"
PARTS = sorted(FOLDER.glob("*.py"))


@all_cases("path", PARTS, ids=lambda path: path.name)
def test_its_parts_stay_short_enough_to_be_read(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 50, node.name


def test_the_one_file_is_made_of_the_parts(tools, tmp_path):
    done = subprocess.run([sys.executable, "-m", "privledger.standalone.build"], cwd=tmp_path,
                          capture_output=True, text=True, check=True)
    assert done.stdout == one_file() == tools.path.read_text(encoding="utf-8")
    # A proof of one entry is checked by a file of its own, which shares nothing with these parts.
    alone = {"__init__", "__main__", "build", "verify_proof"}
    assert {path.stem for path in PARTS} == {*build.PARTS, *alone}


def test_as_a_folder_and_as_a_module(tools, honest, tmp_path):
    shutil.copytree(FOLDER, tmp_path / "a-folder")
    (tmp_path / "history.jsonl").write_bytes(honest["gdp"][0])
    for command in (["-I", "-S", "a-folder"], ["-m", "privledger.standalone"]):
        done = subprocess.run([sys.executable, *command, "history.jsonl"], cwd=tmp_path,
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "\nclean: " in done.stdout, done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_it_runs_alone_in_an_empty_folder(tools, honest, tmp_path, kind):
    raw, receipt = honest[kind]
    shutil.copy(tools.path, tmp_path / "verify_history.py")
    (tmp_path / "history.jsonl").write_bytes(raw)
    (tmp_path / "receipt.json").write_text(json.dumps(receipt), encoding="utf-8")

    def run(*arguments):
        return subprocess.run([sys.executable, "-I", "-S", "verify_history.py", *arguments],
                              cwd=tmp_path, env={}, capture_output=True, text=True, check=False)

    done = run("history.jsonl", "--receipt", "receipt.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Compared with a receipt without a date (")
    assert "\nclean: " in done.stdout
    assert receipt["head"] in done.stdout and receipt["uuid"] in done.stdout
    (tmp_path / "history.jsonl").write_bytes(raw[:-1] + b"x")
    assert run("history.jsonl").returncode == 3
    assert run().returncode == run("nowhere.jsonl").returncode == 2
    for text in ("", "[]", "{}", '{"uuid": 1}', '{"entries": 0, "uuid": "", "head": ""}', "{"):
        (tmp_path / "receipt.json").write_text(text, encoding="utf-8")
        done = run("history.jsonl", "--receipt", "receipt.json")
        assert done.returncode == 2 and "Traceback" not in done.stderr


# --- honest histories ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_an_honest_history_is_ok(book_of, honest, kind):
    raw, receipt = honest[kind]
    book = book_of(raw, receipt)
    assert book.faults == []
    assert not [note for note in book.notes if "recomputed" in note]
    assert book.hashes[-1] == receipt["head"] and len(book.hashes) == receipt["entries"]


@pytest.mark.parametrize(("kind", "close"), [("gdp", 1e-9), ("rdp", 1e-9), ("basic", 1e-9),
                                             ("zcdp", 1e-3)])
def test_the_spent_epsilon_is_ours(verifier, book_of, honest, capsys, kind, close):
    """For zcdp it takes more orders than we do, so its answer may be a little smaller."""
    raw, receipt = honest[kind]
    verifier.report(book_of(raw, receipt))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("spent")]
    assert float(line.split()[2].rstrip(",")) == pytest.approx(receipt["epsilon"], rel=close)


LABELS = pl.Schema("one", (
    pl.Column("x", "numeric", "feature", -1.0, 1.0),
    pl.Column("y", "categorical", "target", categories=("no", "yes")),
))
RESPONSE = pl.RandomizedResponse(0.9, 2)


def labels_ledger(tools, plan=None):
    """A label-only ledger in which two halves of the rows answered."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(5.0), relation="replace_label")
    data = ledger.protect(tools.rows, ["no", "yes", "no", "no", "yes"], LABELS,
                          public_features=True)
    halves = data.partition(pl.questions.IndexCells([0, 1, 0, 1, 0], 2))
    noise = pl.Laplace(20.0)
    with ledger.request(pl.nodes.LabelOnly(pl.Sequential([
            noise, pl.Parallel([RESPONSE, RESPONSE], "index")])), data) as session:
        session.release(noise, data.query((pl.questions.ClassIs(1),)))
        for half in halves[0], halves[1]:
            session.release(RESPONSE, half.labels())
    assert ledger.verify() == []
    return ledger


def test_a_label_only_history_is_priced_and_said_to_be_one(book_of, tools, verifier, capsys):
    ledger = labels_ledger(tools)
    book = book_of(tools.exported(ledger._history.store.read()))
    assert book.faults == []
    assert not [note for note in book.notes if "recomputed" in note]
    verifier.report(book)
    out = capsys.readouterr().out
    assert "LABELS ONLY" in out and "nothing is promised about whole records" in out
    (line,) = [line for line in out.splitlines() if line.startswith("spent")]
    assert float(line.split()[2].rstrip(",")) == pytest.approx(ledger.spent, rel=1e-9)


@pytest.mark.parametrize(("relation", "change"), [
    ("replace_one", lambda plan: plan), ("add_remove", lambda plan: plan),
    ("replace_label", lambda plan: plan["inner"]),
    ("replace_label", lambda plan: {"node": "Parallel", "nodes": [plan, plan],
                                    "certificate": "public_predicate"}),
    ("replace_label", lambda plan: {"node": "LabelOnly", "inner": plan}),
])
def test_label_only_and_whole_records_never_mix(book_of, tools, relation, change):
    lines = tools.parsed(tools.exported(labels_ledger(tools)._history.store.read()))
    for line in lines:
        if line["kind"] == "created":
            line["body"]["relation"] = relation
        if line["kind"] == "granted":
            line["body"]["plan"] = change(line["body"]["plan"])
            line["body"]["units"] *= 4
    faults = " ".join(text for _, text in book_of(tools.text_of(tools.chained(lines))).faults)
    assert "LabelOnly" in faults or "not disjoint" in faults


@pytest.mark.parametrize("noise", [0.9, 0.5])
def test_a_label_only_history_that_charged_too_little_is_noticed(book_of, tools, noise):
    lines = tools.parsed(tools.exported(labels_ledger(tools)._history.store.read()))
    for line in lines:
        if line["kind"] == "granted":
            parts = line["body"]["plan"]["inner"]["nodes"][1]
            parts["nodes"][0]["noise_parameter"] = noise
    faults = " ".join(text for _, text in book_of(tools.text_of(tools.chained(lines))).faults)
    assert ("charged less" in faults) == (noise < 0.9)


@pytest.mark.parametrize("plan", [
    pl.PoissonSample(0.1, pl.Laplace(20.0)), pl.nodes.Tuning(pl.Gaussian(40.0), success=0.5),
    pl.DiscreteLaplace(0.01),
])
def test_what_is_not_recomputed_is_said(book_of, tools, verifier, capsys, plan):
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="rdp")
    ledger.request(plan, ledger.protect(tools.rows, tools.schema)).close()
    book = book_of(tools.exported(ledger._history.store.read()))
    assert book.faults == []
    verifier.report(book)
    shown = capsys.readouterr().out
    assert f"no right price is below: {type(plan).__name__}" in shown and "not checked: " in shown


@pytest.mark.parametrize("plan", [
    pl.Gaussian(60.0), pl.Sequential([pl.Gaussian(80.0), pl.Repeat(pl.Gaussian(90.0), 2)]),
    pl.Laplace(30.0, 2.0), pl.DiscreteLaplace(0.05, 3), pl.PermuteAndFlip(0.1),
    pl.Asserted(0.1, "somebody said so"), pl.Parallel([pl.Laplace(30.0), pl.Laplace(20.0)]),
    pl.TopK(2, 0.1), pl.Sequential([pl.nodes.Public("a fact"), pl.Laplace(30.0)]),
])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_prices_of_a_basic_ledger_are_recomputed(book_of, tools, plan, relation):
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="basic",
                              relation=relation)
    ledger.request(plan, ledger.protect(tools.rows, tools.schema), delta=1e-7).close()
    raw = tools.exported(ledger._history.store.read())
    book = book_of(raw)
    assert (book.faults, book.notes) == ([], {})
    lines = tools.parsed(raw)
    body = lines[place_of(lines, "granted")]["body"]
    body["units"] = int(body["units"] * (1 - 1e-6))
    assert faults(book_of(tools.text_of(tools.chained(lines)))) == [
        "charged less than the plan costs"]


@pytest.mark.parametrize(("kind", "epsilon", "delta"), [
    (kind, epsilon, delta) for kind in ("gdp", "zcdp", "rdp", "basic")
    for epsilon in (1e-3, 0.1, 1.0, 8.0, 50.0) for delta in (1e-12, 1e-6, 1e-2)])
def test_caps_of_honest_budgets_are_accepted_and_larger_ones_are_not(book_of, tools, kind,
                                                                     epsilon, delta):
    budget = pl.Budget(epsilon, delta)
    ledger = pl.Ledger.create(None, budget=budget, filter=kind)
    lines = tools.parsed(tools.exported(ledger._history.store.read()))
    book = book_of(tools.text_of(lines))
    assert (book.faults, book.notes) == ([], {})
    body = lines[1]["body"]
    distance_says_nothing = (body["cap_units"] / UNIT / 2) ** 0.5 > delta * 1.1
    if kind in ("gdp", "basic") or distance_says_nothing:
        body["cap_units"] = int(body["cap_units"] * 1.001)
        assert "the cap is larger than the budget allows" in faults(
            book_of(tools.text_of(tools.chained(lines))))


def test_caps_beside_the_budget(book_of, tools):
    node = pl.Gaussian(20.0)
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter="gdp", caps=[
        pl.Cap(pl.Budget(1.0, 1e-6), data="people"),
        pl.Cap(pl.Budget(0.5, 1e-6), labels={"team": "a"})])
    data = ledger.protect(tools.rows, tools.schema, name="people")
    for labels in ({"team": "a"}, {"team": "b"}, {}):
        ledger.request(node, data, labels=labels).close()
    tools.abandon(ledger, node, data, touched=False)
    raw = tools.exported(ledger._history.store.read())
    assert book_of(raw).faults == [] == ledger.verify()
    lines = tools.parsed(raw)
    lines[0]["body"]["caps"][1]["epsilon"] = 0.05
    assert any("over the cap for data None, labels {'team': 'a'}" in text for text in faults(
        book_of(tools.text_of(tools.chained(lines)))))


def test_windows(book_of, tools):
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter="gdp", caps=[
        pl.Cap(pl.Budget(0.5, 1e-6), per_window=True), pl.Cap(pl.Budget(0.4, 1e-6), window="b")])
    data = ledger.protect(tools.rows, tools.schema, name="people")
    for name in ("a", "b", "c"):
        ledger.open_window(name)
        for _ in range(2):
            ledger.request(pl.Gaussian(20.0), data).close()
    raw = tools.exported(ledger._history.store.read())
    assert book_of(raw).faults == [] == ledger.verify()

    def faults_of(change):
        lines = tools.parsed(raw)
        return faults(book_of(tools.text_of(tools.chained(change(lines) or lines))))

    def renamed(lines):  # two windows spend as one
        for line in lines:
            line["body"].pop("window", None)
        return [line for line in lines if line["kind"] != "window"]

    def again(lines):
        lines[[line["kind"] for line in lines].index("window")]["body"]["window"] = "c"

    def moved(lines):
        next(line for line in lines if line["kind"] == "granted")["body"]["window"] = "b"

    def smaller(place):
        return lambda lines: lines[0]["body"]["caps"][place].update(epsilon=0.05)

    assert "over the cap for data None, labels {}, window None from here on" in faults_of(renamed)
    assert "a window is opened once, and never again" in faults_of(again)
    assert "charged to another window than the open one" in faults_of(moved)
    assert len(faults_of(smaller(0))) == 6 and len(faults_of(smaller(1))) == 2


def test_corrections(book_of, tools):
    ledger = tools.lived("gdp")
    grant = next(iter(ledger.state.grants))
    ledger.correct(grant, pl.Gaussian(12.0), "the noise was less")
    raw = tools.exported(ledger._history.store.read())
    assert book_of(raw).faults == [] == ledger.verify()
    lines = tools.parsed(raw)
    lines[-1]["body"]["units"] //= 2
    assert faults(book_of(tools.text_of(tools.chained(lines)))) == [
        "charged less than the plan costs"]
    ledger.correct(grant, None, "nobody knows")
    found = faults(book_of(tools.exported(ledger._history.store.read())))
    assert "a correction: nothing is promised any more" in found


# --- doctored histories -------------------------------------------------------------------------


def test_an_edited_body_is_found(book_of, honest, tools):
    lines = tools.parsed(honest["gdp"][0])
    lines[place_of(lines, "granted")]["body"]["learner"] = "somebody else"
    assert faults(book_of(tools.text_of(lines))) == ["the text does not match its hash"]


def test_a_rehashed_tail_is_found_by_the_receipt(book_of, honest, tools):
    raw, receipt = honest["gdp"]
    lines = tools.parsed(raw)
    lines[place_of(lines, "granted")]["body"]["time"] = "yesterday"
    again = tools.text_of(tools.chained(lines))
    assert book_of(again).faults == []
    assert "rewritten" in faults(book_of(again, receipt))[0]


def test_a_cut_tail_is_found_by_the_receipt(book_of, honest):
    raw, receipt = honest["gdp"]
    cut = b"".join(raw.splitlines(keepends=True)[:-2])
    assert book_of(cut).faults == []
    assert "a tail was cut" in faults(book_of(cut, receipt))[0]
    assert "another ledger" in faults(book_of(raw, {**receipt, "uuid": "x"}))[0]


def swap(lines):
    place = place_of(lines, "granted")
    lines[place], lines[place + 1] = lines[place + 1], lines[place]


def release_after_settle(lines):
    place = place_of(lines, "settled")
    lines[place - 1], lines[place] = lines[place], lines[place - 1]


def double_grant(lines):
    lines.append(copy.deepcopy(lines[place_of(lines, "granted")]))


def settle_twice(lines):
    lines.append(copy.deepcopy(lines[place_of(lines, "settled")]))


def over_the_cap(lines):
    line = copy.deepcopy(lines[place_of(lines, "granted")])
    line["body"].update(grant="more", units=UNIT)
    lines.append(line)


def refund_of_a_touched_grant(lines):
    lines[place_of(lines, "settled")]["kind"] = "aborted"


def hidden_refund(lines):
    line = lines[place_of(lines, "settled")]
    line["kind"] = "aborted"
    line["body"].update(touched=False, releases=0)


def too_cheap(lines):
    lines[place_of(lines, "granted")]["body"]["units"] -= 2**170


def negative(lines):
    lines[place_of(lines, "granted")]["body"]["units"] *= -1


def noisier_plan(lines):
    lines[place_of(lines, "granted")]["body"]["plan"]["inner"]["noise_multiplier"] = 30.0


def quieter_release(lines):
    leaf = lines[place_of(lines, "released")]["body"]["nodes"][0]["leaf"]
    leaf["noise_multiplier"] = 2.0


def more_releases(lines):
    body = lines[place_of(lines, "released")]["body"]
    body["items"].append(body["items"][0])
    lines[place_of(lines, "settled")]["body"]["releases"] += 1


def hidden_release(lines):
    del lines[place_of(lines, "released")]


def no_filter(lines):
    del lines[place_of(lines, "filter")]


def two_filters(lines):
    lines.insert(2, copy.deepcopy(lines[1]))


def wide_cap(lines):
    lines[place_of(lines, "filter")]["body"]["cap_units"] *= 2


def larger_budget_only_in_the_filter(lines):
    lines[0]["body"]["budget"]["epsilon"] = 0.9


def other_filter(lines):
    lines[0]["body"]["filter"] = "basic"


def scope_unpaid(lines):
    del lines[place_of(lines, "scope")]


def scope_paid_twice(lines):
    lines.append(copy.deepcopy(lines[place_of(lines, "scope")]))


def scope_of_two_tables(lines):
    lines[place_of(lines, "granted", 4)]["body"]["data"] = "other"


def scope_with_a_wider_cap(lines):
    lines[place_of(lines, "granted", 3)]["body"]["plan"]["cap"] = 1.0


def created_twice(lines):
    lines.append(copy.deepcopy(lines[0]))


def not_created(lines):
    del lines[0]


def unknown_kind(lines):
    lines[-1]["kind"] = "forgiven"


def a_method_for_a_kind(lines):
    lines[-1]["kind"] = "vector"


def later_format(lines):
    lines[0]["body"]["format"] = 99


def huge_budget(lines):
    lines[0]["body"]["budget"]["epsilon"] = 10**999


DOCTORED = (
    swap, release_after_settle, double_grant, settle_twice, over_the_cap,
    refund_of_a_touched_grant, hidden_refund, too_cheap, negative, noisier_plan, quieter_release,
    more_releases, hidden_release, no_filter, two_filters, wide_cap,
    larger_budget_only_in_the_filter, other_filter, scope_unpaid, scope_paid_twice,
    scope_of_two_tables, scope_with_a_wider_cap, created_twice, not_created, unknown_kind,
    a_method_for_a_kind, later_format, huge_budget,
)


@pytest.mark.parametrize("forge", DOCTORED, ids=lambda forge: forge.__name__)
def test_a_doctored_history_is_found_although_it_was_hashed_again(book_of, honest, tools,
                                                                 verifier, capsys, forge):
    lines = tools.parsed(honest["gdp"][0])
    forge(lines)
    book = book_of(tools.text_of(tools.chained(lines)))
    assert book.faults
    assert "the text does not match its hash" not in faults(book)
    verifier.report(book)
    assert "\nNOT TRUSTED: " in capsys.readouterr().out


@pytest.mark.parametrize("tail", [b"x", b"\n", b"{}\n", b"null\n", b"[]\n", b'"x"\n', b"1\n", b"\0",
                                  b"[" * 100000 + b"\n", b'["position"]\n', b"\xff\n",
                                  b'{"a": ' * 5000 + b"\n"])
def test_trailing_garbage_is_found(book_of, honest, tail):
    assert book_of(honest["gdp"][0] + tail).faults


def test_each_line_that_cannot_be_read_keeps_its_place(book_of, honest):
    """Two in a row are two entries: what follows is not taken for another entry than it is."""
    lines = honest["gdp"][0].splitlines(keepends=True)
    book = book_of(b"".join([*lines[:3], b"{\n", b"hello\n", *lines[3:]]))
    assert [place for place, _ in book.faults][:2] == [3, 4]
    assert len(book.hashes) == len(lines) + 2
    vector = b'{"data": 1, "vector": ""}\n'
    assert len(book_of(b"".join([*lines, vector])).hashes) == len(lines)


@pytest.mark.parametrize("raw", [b"", b"\n", b"hello", b"\x00\xff", b"SQLite format 3\x00", b"{",
                                 b"\xef\xbb\xbf{}\n"])
def test_what_is_no_history_is_found(book_of, verifier, capsys, raw):
    book = book_of(raw)
    assert book.faults
    verifier.report(book)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 1001,
                                    "9" * 5000])
def test_numbers_that_are_none_are_found(book_of, honest, number):
    raw = honest["gdp"][0].replace(b'"delta":1e-06', b'"delta":' + number.encode(), 1)
    assert "malformed" not in faults(book_of(raw))[0]


@pytest.mark.parametrize("value", [True, None, "1", -1, 1.5, [], {}, 1e300, 10**600])
@pytest.mark.parametrize(("kind", "field"), [
    ("granted", "units"), ("granted", "delta_units"), ("filter", "cap_units"),
    ("created", "format"), ("settled", "releases"), ("released", "first"),
    ("released", "items"), ("granted", "plan"), ("scope", "plan")])
def test_wrong_types_are_found(book_of, honest, tools, kind, field, value):
    lines = tools.parsed(honest["gdp"][0])
    lines[place_of(lines, kind)]["body"][field] = value
    assert book_of(tools.text_of(tools.chained(lines))).faults


def test_a_key_given_twice_is_found(book_of, honest):
    raw = honest["gdp"][0].replace(b'"units":', b'"units":0,"units":', 1)
    assert "the same key twice in one object" in faults(book_of(raw))


HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202eevil\r\nOK\x9b31m\ud800"


def test_hostile_labels_are_inert(verifier, book_of, honest, tools, capsys):
    lines = tools.parsed(honest["gdp"][0])
    lines[0]["body"].update(uuid=HOSTILE, relation=HOSTILE, mode=HOSTILE)
    place = place_of(lines, "granted")
    lines[place]["body"]["plan"] = {"node": HOSTILE}
    lines[place]["body"]["learner"] = lines[-1]["kind"] = HOSTILE
    book = book_of(tools.text_of(tools.chained(lines)))
    book.hashes[-1] = HOSTILE
    verifier.report(book)
    shown = capsys.readouterr().out
    assert set(shown) <= {*map(chr, range(32, 127)), "\n"}
    assert "\nOK" not in shown and "\nNOT TRUSTED" in shown
    assert "no node that is known: \\x1b[2J" in shown


# --- properties ---------------------------------------------------------------------------------


@settings(max_examples=400, deadline=None)
@given(kind=st.sampled_from(KINDS), share=st.floats(0, 1, exclude_max=True),
       byte=st.integers(0, 255))
def test_a_changed_byte_is_found_or_changes_nothing(book_of, honest, kind, share, byte):
    raw = bytearray(honest[kind][0])
    raw[int(share * len(raw))] = byte
    book = book_of(bytes(raw))
    if not book.faults:
        same = [json.loads(line) for line in bytes(raw).split(b"\n")[:-1]]
        before = [json.loads(line) for line in honest[kind][0].split(b"\n")[:-1]]
        assert repr(same) == repr(before)


WORDS = st.text(st.characters(), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3))


def written(value):
    """Canonical JSON from the words of docs/ledger-format.md, by hand."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{','.join(map(written, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{written(k)}:{written(value[k])}' for k in sorted(value))}}}"
    if isinstance(value, int | float):
        return repr(value)
    parts = []
    short = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r",
             "\t": "\\t"}
    for sign in value:
        code = sign.encode("utf-16-be", "surrogatepass").hex()
        units = "".join(f"\\u{code[i:i + 4]}" for i in range(0, len(code), 4))
        parts.append(short.get(sign) or (sign if 32 <= ord(sign) < 127 else units))
    return f'"{"".join(parts)}"'


@given(VALUES)
def test_the_description_of_canonical_json_is_sufficient(verifier, value):
    from privledger.graph import canonical

    assert written(value) == canonical(value) == verifier.canonical(value)


STEPS = st.lists(st.tuples(
    st.sampled_from(["settle", "unused", "abort", "fail", "crash", "scope", "correct", "refuse"]),
    st.floats(15, 60), st.integers(1, 3)), max_size=6)


def random_ledger(tools, kind, steps):
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter=kind)
    data = ledger.protect(tools.rows, tools.schema, name="people")
    for act, noise, count in steps:
        leaf = pl.Laplace(noise) if kind == "basic" else pl.Gaussian(noise)
        try:
            if act in ("abort", "fail"):
                tools.abandon(ledger, leaf, data, touched=act == "fail")
            elif act == "scope" and kind != "basic":
                scope = ledger.open_scope(pl.IndividualFilter("gdp", 1e-4))
                with ledger.request(scope.node, data, scope=scope) as session:
                    session.release(pl.Gaussian(300.0), session.filtered().sum("x"))
            elif act == "refuse":
                ledger.request(pl.Repeat(leaf, 10**7), data)
            else:
                session = ledger.request(pl.Repeat(leaf, count), data)
                for _ in range(count if act == "settle" else 0):
                    session.release(leaf, data.count())
                if act == "crash":
                    crash = said(("crashed", {"grant": session.grant, "time": ""}))
                    ledger._history.commit(lambda state, crash=crash: crash)
                else:
                    session.close()
                if act == "correct":
                    ledger.correct(session.grant, pl.Repeat(leaf, count + 1), "one more")
        except pl.BudgetExceeded:
            pass
    ledger._history.flush()
    return ledger


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(kind=st.sampled_from(KINDS), steps=STEPS)
def test_both_say_the_same_of_random_ledgers(book_of, tools, kind, steps):
    ledger = random_ledger(tools, kind, steps)
    book = book_of(tools.exported(ledger._history.store.read()), ledger.receipt.as_dict())
    assert (book.faults == []) == (ledger.verify() == [])
    assert book.units == ledger.state.units
    assert book.delta_units == ledger.state.delta_units


def test_a_total_without_a_formula_is_said_to_be_none():
    """A mu so large that Gaussian DP has no epsilon here."""
    book = verify_history.Book()
    book.filter, book.delta, book.units = "gdp", 1e-6, 2**192 * 10**12
    assert verify_history.spent(book) == "not recomputed"
    book.units = 2**192
    assert float(verify_history.spent(book)) == pytest.approx(epsilon_from_mu(1.0, 1e-6), rel=1e-9)
