"""Files that people write: strict, and told where they are wrong. Exit 2, never 4."""

import io
import json
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main
from privledger.cli.ledger_gate import find_policy
from privledger.ledger import Policy
from privledger.reading import load_json, load_toml, parse_json, parse_toml
from privledger.runs import RunFile
from tests.worlds import protected, refused, schema_of

SCHEMA = {"name": "t", "columns": [
    {"name": "x", "kind": "numeric", "lower": 0, "upper": 1},
    {"name": "label", "kind": "categorical", "categories": ["no", "yes"], "role": "target"}]}
RUN = ('[run]\nlearner = "sgbdt-classifier"\n[data]\nschema = "schema.json"\ntable = "t.csv"\n'
       "[budget]\nepsilon = 1.0\ndelta = 1e-6\n")
POLICY = "[policy]\nmax_epsilon = 1.0\nmax_delta = 1e-6\n"
DEEP = "[" * 100_000 + "]" * 100_000


def run(*arguments):
    return CliRunner().invoke(main, [str(one) for one in arguments])


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "t.csv").write_text("x,label\n0.1,no\n0.2,yes\n")
    (tmp_path / "run.toml").write_text(RUN)
    (tmp_path / "privledger.toml").write_text(POLICY)
    (tmp_path / ".git").mkdir()
    return tmp_path


def test_syntax_errors_name_line_and_column():
    with pytest.raises(pl.errors.InvalidPlan, match="line 2, column 5"):
        parse_toml("a = 1\nb = [\n".replace("[", "="), "f.toml", "policy")
    with pytest.raises(pl.errors.InvalidPlan, match="line 2, column 7"):
        parse_json('{"a": 1,\n "b":  oops}'.replace("  oops", " ?"), "f.json", "receipt")


@pytest.mark.parametrize(("load", "wrong"), [(RunFile.load, "[run]\nlearner = \n"),
                                             (Policy.load, "[policy]\nmax_epsilon = 1 1\n")])
def test_run_files_and_policies_name_the_place(load, wrong, tmp_path):
    (tmp_path / "f.toml").write_text(wrong)
    refused(pl.errors.InvalidPlan, lambda: load(tmp_path / "f.toml"), match=r"line 2, column \d+")


@pytest.mark.parametrize(("load", "text", "words"), [
    (load_json, '{"a": 1, "a": 2}', "'a' is given twice"),
    (load_json, '[{"b": {"a": 1, "a": 1}}]', "'a' is given twice"),
    (load_toml, "a = 1\na = 2\n", "line 2")])
def test_a_key_twice_is_refused(load, text, words, tmp_path):
    (tmp_path / "f").write_text(text)
    refused(pl.errors.InvalidPlan, lambda: load(tmp_path / "f", "receipt"), match=words)


@pytest.mark.parametrize("text", [DEEP, '{"a":' * 100_000 + "1" + "}" * 100_000, "NaN",
                                  '{"x": Infinity}', ""])
def test_deep_and_numberless_json_is_a_usage_error(text):
    refused(pl.errors.InvalidPlan, lambda: parse_json(text, "f.json", "receipt"))


@pytest.mark.parametrize("name", ["schema.json", "run.toml", "privledger.toml"])
@pytest.mark.parametrize("junk", [b"\xff\xfe junk", b"\n\n  \x80", DEEP.encode(),
                                  b"x = " + DEEP.encode(), b"", b"\x00" * 50],
                         ids=["bom", "byte", "deep", "deeper", "empty", "zeros"])
def test_junk_files_are_usage_errors(place, name, junk):
    (place / name).write_bytes(junk)
    command = ["plan", "run.toml"] if name != "privledger.toml" else [
        "check", "run.toml", "--new-ledger"]
    done = run(*command)
    assert done.exit_code == 2, done.output
    assert "internal" not in done.output


def test_a_schema_that_is_not_utf8_names_the_place(place):
    (place / "schema.json").write_bytes(b'{"name":\n "caf\xe9"}')
    refused(pl.SchemaError, lambda: pl.Schema.load("schema.json"), match="line 2, column 6")
    (place / "schema.json").unlink()
    assert run("plan", "run.toml").exit_code == 2


@pytest.mark.parametrize("command", [["explain"], ["diff", "run.toml"]])
@pytest.mark.parametrize("junk", [b"\xff", DEEP.encode(), b"{", b'{"a":1,"a":1}'])
def test_node_trees_and_receipts_too(place, command, junk):
    (place / "n.json").write_bytes(junk)
    done = run(*command, "n.json", "--delta", "1e-6")
    assert done.exit_code == 2, done.output


def archive(**arrays):
    held = io.BytesIO()
    np.savez(held, **arrays)
    return held.getvalue()


def twice():
    held = io.BytesIO()
    one = io.BytesIO()
    np.save(one, np.zeros((2, 1)))
    with zipfile.ZipFile(held, "w") as file:
        file.writestr("X.npy", one.getvalue())
        with pytest.warns(UserWarning, match="Duplicate"):
            file.writestr("X.npy", one.getvalue())
    return held.getvalue()


GOOD = archive(X=np.zeros((2, 1)), y=np.zeros(2, int))


@pytest.mark.parametrize("junk", [
    b"", b"PK", b"junk" * 50, b"\x93NUMPY" + b"\x01\x00" * 9, GOOD[:-30], GOOD[:200],
    GOOD.replace(b"NUMPY", b"NUMPX"), GOOD.replace(b"descr", b"descs"),
    GOOD.replace(b"'<f8'", b"'|O8'"), archive(X=np.zeros((2, 1))),
    archive(X=np.array([["a"], ["b"]]), y=np.zeros(2, int)),
    archive(X=np.zeros((2, 1)), y=np.zeros((2, 2), int)),
    archive(X=np.zeros((2, 1)), y=np.array(["a", "b"])),
    archive(X=np.array(3.0), y=np.array(1)), archive(X=np.zeros((2, 1)), y=np.zeros(2)), twice()],
    ids=range(16))
def test_a_junk_npz_is_a_usage_error(tmp_path, junk):
    (tmp_path / "t.npz").write_bytes(junk)
    with pytest.raises(pl.errors.DataError):
        pl.read_table(tmp_path / "t.npz", pl.Schema.from_dict(SCHEMA))


def test_a_column_twice_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("x,label, x\n0.1,no,0.9\n")
    with pytest.raises(pl.errors.DataError, match="column x is given twice"):
        pl.read_table(tmp_path / "t.csv", pl.Schema.from_dict(SCHEMA))
    with pytest.raises(pl.SchemaError):
        pl.Schema.from_dict(SCHEMA | {"columns": SCHEMA["columns"][:1] * 2 + SCHEMA["columns"][1:]})


def test_a_policy_is_found_from_a_subfolder(place, monkeypatch):
    below = place / "src" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert find_policy(None).max_epsilon == 1.0
    (place / "src" / "pyproject.toml").write_text("[tool.other]\nx = 1\n")
    assert find_policy(None).max_epsilon == 1.0  # it says nothing of privledger
    (place / "src" / "pyproject.toml").write_text(
        "[tool.privledger.policy]\nmax_epsilon = 0.5\nmax_delta = 1e-6\n")
    assert find_policy(None).max_epsilon == 0.5  # the nearest one


def test_no_policy_beyond_the_root_of_the_project(place, monkeypatch):
    inner = place / "other"
    (inner / ".git").mkdir(parents=True)
    monkeypatch.chdir(inner)
    refused(pl.errors.InvalidPlan, lambda: find_policy(None), match="root of the project")


def test_a_policy_nearby_that_cannot_be_read_stops_the_search(place, monkeypatch):
    below = place / "src"
    below.mkdir()
    (below / "pyproject.toml").write_text("[tool.privledger\n")
    monkeypatch.chdir(below)
    refused(pl.errors.InvalidPlan, lambda: find_policy(None), match="line 1")


def test_no_noise_is_advised_where_none_helps(place):
    """As filed: `would fit: 1 times the noise`."""
    from privledger.reports.pricing import what_fits

    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="gdp")
    data = ledger.protect({"x": [0.5]}, schema_of("s", {"x": (0.0, 1.0)}))
    with ledger.request(pl.Gaussian(50.0), data) as session:
        session.release(pl.Gaussian(50.0), data.count())
    state = ledger.state
    for noise in (50.0, 20.0, 3.0, 1.0):
        found = what_fits(pl.Repeat(pl.Gaussian(noise), 2), "add_remove", state.rule,
                          state.rule.cap_units, state)
        assert found.noise is None or found.noise > 1
        assert " 1 times" not in found.text
        assert (found.noise is None) == (noise >= 20)


def test_counts_per_class_are_sent_to_cross_cells():
    ledger, data = protected(pl.Budget(9.0, 1e-6), {"x": [0.1, 0.7, 0.9]},
                             np.array(["no", "yes", "no"]), pl.Schema.from_dict(SCHEMA))
    noise = pl.Gaussian(3.0)
    cells = data.cells("x", (0.5,))
    with ledger.request(pl.Repeat(noise, 2), data) as session:
        blocks = [pl.questions.ClassIs(0), pl.questions.ClassIs(1)]
        with pytest.raises(pl.errors.UnsupportedNode, match="CrossCells"):
            session.release(noise, data.query(blocks, cells))
        with pytest.raises(pl.NotGranted, match="CrossCells"):
            session.release(noise, data.partition(cells)[0].partition(
                data.cells("label"))[0].count())
        found = session.release(noise, data.partition(
            pl.questions.CrossCells(cells, data.cells("label"))).counts())
    assert found.shape == (6,)
