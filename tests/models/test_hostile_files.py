"""A model file is data: whatever it says, nothing runs, and every answer is typed and quick."""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.plugins.model_file import (
    MAGIC,
    MIB,
    ModelFile,
    model_bytes,
    model_file,
    read_model,
    revived,
)
from privledger.plugins.model_tree import MOST_NESTED, Records, TreeReader, Writer

sys.path.insert(0, str(Path(__file__).parent))
from kept_learners import NUMBER, table

from tests.all_cases import all_cases

sys.path.pop(0)
NAME = "sgbdt-regressor"
HELD = []


def honest():
    """A small kept model, made once: (file, class)."""
    if not HELD:
        kind = pl.load_learner(NAME)
        learner = kind(epsilon=5.0, delta=1e-6, schema=NUMBER, n_trees=2).fit(*table(NUMBER))
        path = Path(os.environ.get("TMPDIR", "/tmp")) / f"kept-{os.getpid()}.model"
        pl.save_model(learner, path)
        HELD.append((path.read_bytes(), kind))
        path.unlink()
    return HELD[0]


def doctored(change, arrays=None):
    data, _ = honest()
    found = model_file(data)
    header = json.loads(json.dumps(found.header))
    change(header)
    return sealed(header, b"".join(one.tobytes() for one in found.arrays)
                  if arrays is None else arrays)


def sealed(header, tail=b""):
    """Bytes with a right hash, whatever the header says."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = len(text).to_bytes(8, "big") + text + tail
    return MAGIC + hashlib.sha256(body).digest() + body


def refused(data):
    begun = time.process_time()
    with pytest.raises(pl.errors.ModelError):
        revived(model_file(data), honest()[1])
    assert time.process_time() - begun < 5


def put(*path, value):
    def change(header):
        at = header
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
    return change


DEEP = 0.0
for _ in range(MOST_NESTED + 5):
    DEEP = {"list": [DEEP]}
TREES = {
    "unknown kind": {"pickle": "gASV"}, "two kinds": {"list": [], "tuple": []}, "bare list": [1],
    "empty": {}, "unknown record": {"record": "Popen", "fields": {}},
    "class of a module": {"record": "os.system", "fields": {}},
    "dunder": {"record": "__class__", "fields": {}},
    "record of another learner": {"record": "Forest", "fields": {"trees": {"tuple": []}}},
    "other fields": {"record": "Start", "fields": {"score": 1.0}},
    "fields not a table": {"record": "Start", "fields": [1]},
    "no such array": {"array": 10**9}, "array before": {"array": -1}, "true array": {"array": True},
    "array of arrays": {"array": {"array": 0}}, "no such record": {"same": 10**6},
    "later record": {"list": [{"same": 0}]}, "unknown float": {"float": "1e5000"},
    "huge number": 1 << 70, "too deep": DEEP, "key twice": {"dict": [["a", 1], ["a", 2]]},
    "key of a list": {"dict": [[["a"], 1]]}, "texts of another shape": {
        "texts": {"shape": [2**40], "kind": "O", "items": ["a"]}},
    "texts of objects": {"texts": {"shape": [1], "kind": "O", "items": [{}]}},
    "texts of another kind": {"texts": {"shape": [1], "kind": "V", "items": ["a"]}},
    "wide texts": {"texts": {"shape": [4096], "kind": "U", "items": ["a" * 5000] + ["b"] * 4095}},
    "schema of rubbish": {"record": "Schema", "fields": {"json": "[" * 100_000}},
    "bins without end": {"record": "Bins", "fields": {"schema": 5, "numeric_bins": 10**30}},
    "tree of nothing": {"record": "TreeCells", "fields": {"bins": None, "tests": None,
                                                          "count": 3}}}


@all_cases("name", TREES)
def test_a_hostile_value_is_refused(name):
    refused(doctored(put("fitted", "model_", value=TREES[name])))


@all_cases("name", [
    "fit", "predict", "__class__", "__init__", "_scores", "ledger_", "data_", "model_records",
    "epsilon", "info", "__dict__", "plan", "x"])
def test_only_fitted_attributes_are_set(name):
    refused(doctored(put("fitted", name, value=1.0)))


@all_cases("change", [
    put("format", value=2), put("format", value="1"), put("learner", value=5),
    put("learner", value="a" * 300), put("private", value="no"), put("schema", value=[]),
    put("schema", value={"columns": "x"}), put("arrays", value={}), put("fitted", value=[]),
    put("params", value=None), put("params", "n_trees", value=-5),
    put("params", "no_such_parameter", value=1), put("extra", value=1),
    lambda header: header.pop("receipt"), lambda header: header["arrays"].pop(),
    lambda header: header["arrays"].append({"dtype": "f8", "shape": [1]}),
    put("arrays", 0, value={"dtype": "O", "shape": [1]}),
    put("arrays", 0, value={"dtype": "O8", "shape": [1]}),
    put("arrays", 0, value={"dtype": "V1000000000", "shape": [1]}),
    put("arrays", 0, value={"dtype": "f8", "shape": [2**40]}),
    put("arrays", 0, value={"dtype": "f8", "shape": [0, 2**60]}),
    put("arrays", 0, value={"dtype": "f8", "shape": [-1]}),
    put("arrays", 0, value={"dtype": "f8", "shape": [True]}),
    put("arrays", 0, value={"dtype": "f8", "shape": [1] * 40}),
    put("arrays", 0, value={"dtype": "f8", "shape": [1], "path": "../../etc/passwd"}),
], ids=range(25))
def test_a_hostile_header_is_refused(change):
    if change is not None:
        try:
            found = revived(model_file(doctored(change)), honest()[1])
        except pl.errors.ModelError:
            return
        with pytest.raises((pl.PrivledgerError, ValueError)):  # the learner's own word about it
            found.plan()


@all_cases("data", [
    b"", MAGIC, MAGIC + b"\0" * 40, b"\x80\x04\x95pickle", MAGIC + b"\0" * 32 + b"\xff" * 8,
    sealed(b"[" * 500_000), sealed(b"null"), sealed(b"{}"), sealed(b'{"a": NaN}'),
    sealed(b'{"format": 1, "format": 1}'), sealed(b"[" + b"[]," * 1_500_000 + b"[]]"),
    sealed(b"\xff\xfe"), sealed(b"1" * 5000),
], ids=range(13))
def test_what_is_no_model_file_is_refused(data):
    refused(data)


def test_any_cut_or_changed_byte_is_noticed():
    data, _ = honest()
    step = max(1, len(data) // 60)
    for place in range(0, len(data), step):
        with pytest.raises(pl.errors.ModelError):
            model_file(data[:place])
        changed = bytearray(data)
        changed[place] ^= 1
        with pytest.raises(pl.errors.ModelError):
            model_file(bytes(changed))
    with pytest.raises(pl.errors.ModelError):
        model_file(data + b"\0")


def test_trees_that_would_fill_the_memory_are_refused(monkeypatch):
    """A few kilobytes that name one level after another of a tree on many features."""
    monkeypatch.setattr("privledger.plugins.model_tree.MOST_CELL_BYTES", 1 << 20)
    columns = tuple(pl.Column(f"x{n}", "numeric", "feature", 0.0, 1.0) for n in range(200))
    schema = pl.Schema("wide", (*columns, pl.Column("y", "numeric", "target", 0.0, 1.0)))
    writer = Writer(Records.of(object))
    tree = writer.tree(pl.questions.Bins(schema, 4), "bins")
    made, level = {"record": "GrownCells", "fields": {"bins": tree, "parent": None, "feature": {
        "array": 0}, "cut": {"array": 0}}}, [np.zeros(0, dtype=np.int32)]
    for depth in range(15):
        level.append(np.full(2**depth, -1, dtype=np.int32))
        made = {"record": "GrownCells", "fields": {
            "parent": made, "bins": {"same": 1}, "feature": {"array": depth + 1},
            "cut": {"array": depth + 1}}}
    with pytest.raises(pl.errors.ModelError, match="too much memory"):
        TreeReader(Records.of(object), level).value(made)


def test_files_that_are_none_or_too_large(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(3 * MIB)
    for path in (fifo, tmp_path, tmp_path / "missing"):
        with pytest.raises(pl.errors.ModelError):
            read_model(path)
    with pytest.raises(pl.errors.ModelError, match="more than 2 MiB"):
        read_model(large, most_mb=2)


def test_a_learner_that_is_not_installed_is_named(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(doctored(put("learner", value="nobody")))
    with pytest.raises(pl.errors.LearnerError, match="nobody"):
        pl.load_model(path)


class Odd:
    """Holds whatever it is given."""

    info = pl.LearnerInfo("odd", "holds")

    def __init__(self, schema=NUMBER):
        self.schema = schema


@pytest.mark.parametrize(("value", "said"), [
    (os.system, "model_"), ([1, {"a": object()}], "model_[1]['a']"), ({1.5: 2}, "model_"),
    (np.array([object()]), "model_"), (np.array([b"a"]), "model_"), (1j, "model_"),
    (np.array(["2020-01-01"], dtype="datetime64[D]"), "model_"), (1 << 80, "model_"),
    (pl.Gaussian(1.0), "Gaussian"), (np.random.default_rng(0), "Generator"), ({1, 2}, "model_"),
], ids=range(11))
def test_what_has_no_word_is_refused_by_its_place(value, said, tmp_path):
    learner = Odd()
    learner.model_ = value
    with pytest.raises(pl.errors.ModelError) as caught:
        pl.save_model(learner, tmp_path / "m")
    assert said in str(caught.value)
    assert not (tmp_path / "m").exists() and os.listdir(tmp_path) == []


def test_a_value_that_holds_itself_is_refused(tmp_path):
    learner = Odd()
    learner.model_ = []
    learner.model_.append(learner.model_)
    with pytest.raises(pl.errors.ModelError, match="nested too deeply"):
        pl.save_model(learner, tmp_path / "m")


def test_what_would_be_lost_is_refused_by_name(tmp_path):
    learner = Odd()
    learner.weights = [1.0]
    with pytest.raises(pl.errors.ModelError, match="'weights'"):
        pl.save_model(learner, tmp_path / "m")


LEAVES = (st.none() | st.booleans() | st.integers(-2**62, 2**62) | st.floats() | st.text(max_size=5)
          | st.sampled_from([np.float64(0.5), np.int32(3), np.array([1.5, 2.5]), np.zeros((0, 3)),
                             np.array(["a", "bcd"]), np.array([1, "x", True], dtype=object),
                             np.array([[True, False]]), np.array(7)]))
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
    st.text(max_size=3) | st.integers(-5, 5), inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=12)


@settings(max_examples=100, deadline=None)
@given(VALUES)
def test_a_value_comes_back_as_it_was(value):
    writer = Writer(Records.of(object))
    tree = writer.tree(value, "x")
    made = model_file(model_bytes(ModelFile(
        {"privledger": "", "learner": "", "schema": {}, "relation": "", "isolation": "",
         "private": True, "receipt": None, "params": {}, "fitted": {"x": tree}},
        tuple(writer.arrays))))
    found = TreeReader(Records.of(object), list(made.arrays)).value(made.header["fitted"]["x"])
    assert repr(found) == repr(value)
    assert type(found) is type(value)


@settings(max_examples=200, deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
                    | st.sampled_from(["a", "Schema", "Bins", "nan", "O", "U"]),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                        st.sampled_from(["list", "tuple", "dict", "array", "number", "texts",
                                         "record", "fields", "same", "float", "shape", "kind",
                                         "items", "schema", "numeric_bins"]), inner, max_size=3),
                    max_leaves=15))
def test_rubbish_is_a_value_or_a_typed_refusal(tree):
    try:
        TreeReader(Records.of(object), [np.zeros(3), np.array(1.0)]).value(tree)
    except pl.PrivledgerError:
        return
