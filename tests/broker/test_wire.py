"""Messages: every kind has an entry, what is read is what was written, nonsense is refused."""

import json
import os
import re

import numpy as np
import pytest
from attrs import fields
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

import privledger as pl
from privledger.broker import seccomp
from privledger.broker.channel import MIB, Channel
from privledger.broker.child import Elsewhere
from privledger.broker.failures import PUBLIC, error_in, error_out, number_in, number_out
from privledger.broker.server import Server
from privledger.broker.wire import WireDescriber, WireReader
from privledger.questions import CustomScores, Query, Votes, closed_set
from privledger.questions.closed_set import parts_of
from privledger.tables.values import array_in, array_out
from tests.worlds import protected, refused, schema_of

KINDS = {kind.__name__: kind for kind in (
    *closed_set.QUESTIONS, *closed_set.BLOCKS, *closed_set.NUMBERED)}


def test_every_kind_has_a_name_of_its_own():
    """Messages carry names: two kinds of one name would be read as each other."""
    assert len(KINDS) == len({*closed_set.QUESTIONS, *closed_set.BLOCKS, *closed_set.NUMBERED})


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_kind_is_known_by_its_fields(name):
    """A field that nobody carries would be lost; what is inherited would speak for another kind."""
    kind = KINDS[name]
    assert [part.name for part in parts_of(kind)] == [one.name for one in fields(kind) if one.init]
    assert not {"own", "to_wire", "from_wire"} & set(dir(kind))
    said = "fits" if kind in closed_set.QUESTIONS else "check"
    assert kind in (Votes, CustomScores, Query) or said in vars(kind)


@given(stn.arrays(np.float64, stn.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=5),
                  elements=st.floats(allow_nan=True, allow_infinity=True)))
def test_an_array_arrives_bit_by_bit(array):
    sent = json.loads(json.dumps(array_out(array), allow_nan=False))
    found = array_in(sent)
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()
    assert found.flags.writeable


@given(st.floats(allow_nan=False))
def test_a_number_arrives_exactly(value):
    assert number_in({"x": number_out(value)}, "x") == value


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_an_error_arrives_with_its_class_and_text(name):
    kind = PUBLIC[name]
    if issubclass(kind, pl.BudgetExceeded):
        error = kind(asked=1.0, spent=2.0, left=float("inf"), fits="nothing")
    elif issubclass(kind, pl.InvalidValue):
        error = kind("a", 3, "b")
    elif issubclass(kind, pl.errors.PolicyViolation):
        error = kind((("rule", "what it says"),))
    else:
        error = kind("what happened")
    found = error_in(json.loads(json.dumps(error_out(error))))
    assert type(found) is kind
    assert str(found) == str(error)


def test_a_strange_error_loses_its_text():
    sent = error_out(RuntimeError("the value is 4711"))
    assert "4711" not in json.dumps(sent)
    assert "4711" not in json.dumps(error_out(pl.LedgerError("/home/4711")))


LEAVES = st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats(
    allow_nan=False, allow_infinity=False) | st.text(max_size=4) | st.sampled_from(
    ["Ones", "Gradient", "TreeCells", "Bins", "Score", "sample", "parts", "part", "update",
     "Gaussian", "release", "request", "filtered", "close", "totals", "open_scope", "f8", "AAAA"])
KEYS = st.sampled_from(
    ["ask", "define", "session", "query", "mechanism", "rollover", "is", "id", "of", "data",
     "blocks", "cells", "what", "score", "values", "plan", "labels", "delta", "scope", "node",
     "shape", "dtype", "parts", "part", "rate", "count", "bins", "tests", "failed", "name",
     "noise_multiplier", "lease"])
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
    KEYS, inner, max_size=6), max_leaves=20)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=8), max_size=4))
def test_no_message_reads_a_row_or_raises(messages):
    """Whatever is said before a grant: an answer in JSON, and the vault stays shut."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e-9, 0.0))
    data = ledger.protect({"x": [0.5]}, [0.5], schema_of("s", {"x": (0.0, 1.0)}, y=(0.0, 1.0)))
    server = Server(data, "anybody")
    for message in messages:
        json.dumps(server.answer(message), allow_nan=False)
    assert data._vault.opened == 0
    assert ledger.spent == 0


def test_a_handle_behind_another_grants_filter_is_refused(guarded):
    """Same caps, same data, same learner: still another grant's filter."""
    ledger, data = guarded
    server, leaf = Server(data, "anybody"), pl.Gaussian(50.0)
    plan = pl.nodes.to_json(pl.IndividualFilter("gdp", 0.01, node=leaf))
    ask = {"define": [], "plan": plan, "data": 0, "delta": 0.0, "scope": None, "labels": {}}
    for _ in range(2):
        assert "grant" in server.answer({"ask": "request"} | ask)
    node = pl.nodes.to_json(pl.IndividualFilter("gdp", 0.01))
    assert server.answer({"ask": "filtered", "define": [], "session": 0, "id": 5,
                          "node": node}) == {}
    release = {"ask": "release", "define": [], "mechanism": pl.nodes.to_json(leaf), "rollover": 0,
               "query": {"is": "Query", "data": 5, "blocks": [{"is": "Ones"}], "what": "x",
                         "cells": None}}
    assert server.answer(release | {"session": 1})["error"] == "NotGranted"
    assert data._vault.opened == 0
    assert "answers" in server.answer(release | {"session": 0})
    server.end(failed=False)
    assert ledger.verify() == []


@pytest.fixture
def pair():
    """Two channels that speak to each other."""
    a, b = os.pipe(), os.pipe()
    ends = Channel(a[0], b[1], 0.5), Channel(b[0], a[1], 0.2)
    os.set_blocking(a[0], False)
    os.set_blocking(b[1], False)
    yield ends
    for end in ends:
        end.close()


def test_messages_of_any_size_arrive(pair):
    import threading

    message = {"text": "x" * 300_000}
    sender = threading.Thread(target=pair[0].send, args=(message,))
    sender.start()
    assert pair[1].receive() == message
    sender.join()


def test_who_does_not_read_is_given_up(pair):
    with pytest.raises(pl.errors.IsolationError, match="said nothing"):
        pair[0].send({"text": "x" * 3_000_000})


@pytest.mark.parametrize("data", [
    b"\xff\xff\xff\xff", (64 * MIB + 1).to_bytes(4, "big"), b"\0\0\0\0", b"\0\0\0\x02[]",
    b"\0\0\0\x08{\"a\":NaN", b"\0\0\0\x02\x80\x04", b"\0\0\0\x09{\"a\":1}"])
def test_a_message_that_breaks_the_rules_ends_the_conversation(pair, data):
    os.write(pair[1].output, data)
    refused(pl.errors.IsolationError, lambda: pair[0].receive())


def run(program, arch, number, arguments=()):
    """What a BPF program says to a system call."""
    words = {0: number, 4: arch} | {16 + 8 * i: value & 0xFFFFFFFF
                                    for i, value in enumerate(arguments)}
    place = held = 0
    while True:
        code, yes, no, value = program[place]
        place += 1
        if code == seccomp.LOAD:
            held = words.get(value, 0)
        elif code == seccomp.EQUAL:
            place += yes if held == value else no
        elif code == seccomp.ANY_BIT:
            place += yes if held & value else no
        else:
            return value


@pytest.mark.parametrize("machine", sorted(seccomp.ARCHITECTURES))
def test_the_filter_allows_what_its_tables_say_and_nothing_else(machine):
    """All calls of the kernel's table, by a small interpreter of the filter's own."""
    arch, which = seccomp.ARCHITECTURES[machine]
    made = seccomp.program(machine, 77)
    assert len(made) < 4096
    plain = {numbers[which] for numbers in seccomp.PLAIN.values()} - {None}
    asked = {entry[which]: entry for entry in seccomp.BY_VALUE.values()}
    special = {pair[which] for pair, _ in seccomp.OPEN.values()} | {
        seccomp.CLONE[which], seccomp.CLONE3[which]}
    for number in range(1024):
        said = run(made, arch, number)
        if number in plain:
            assert said == seccomp.ALLOW
        elif number not in asked and number not in special:
            assert said & 0xFFFF0000 == seccomp.FAIL, number
    assert run(made, arch ^ 1, 0) == seccomp.KILL
    kill, clone = seccomp.BY_VALUE["kill"][which], seccomp.CLONE[which]
    assert run(made, arch, kill, (77, 9)) == seccomp.ALLOW
    assert run(made, arch, kill, (78, 9)) != seccomp.ALLOW
    assert run(made, arch, kill, (-1, 9)) != seccomp.ALLOW
    assert run(made, arch, clone, (0x3D0F00,)) == seccomp.ALLOW  # a thread
    assert run(made, arch, clone, (17,)) != seccomp.ALLOW  # a fork
    assert run(made, arch, clone, (0x3D0F00 | 0x10000000,)) != seccomp.ALLOW
    number = seccomp.OPEN["openat"][0][which]
    for flags, fine in ((0o2000000, True), (1, False), (2, False), (0o100, False),
                        (0o10000000, False), (0o20200000, False), (0o1000, False)):
        assert (run(made, arch, number, (0, 0, flags)) == seccomp.ALLOW) is fine


# name: (x86_64, aarch64)
DANGEROUS = {
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "socketpair": (53, 199),
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "open_by_handle_at": (304, 265), "io_uring_setup": (425, 425), "mount": (165, 40),
    "unshare": (272, 97), "setns": (308, 268), "memfd_create": (319, 279),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    "creat": (85, None), "truncate": (76, 45), "ftruncate": (77, 46), "unlink": (87, None),
    "unlinkat": (263, 35), "rename": (82, None), "renameat": (264, 38), "link": (86, None),
    "linkat": (265, 37), "symlink": (88, None), "symlinkat": (266, 36), "chmod": (90, None),
    "fchmod": (91, 52), "fchmodat": (268, 53), "prctl": (157, 167), "openat2": (437, 437),
    "rt_sigqueueinfo": (129, 138), "bpf": (321, 280), "keyctl": (250, 219),
    "sendmsg": (46, 211), "mknodat": (259, 33), "sysinfo": (99, 179), "shmget": (29, 194)}
HEADERS = {"x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", r"__NR_(\w+)\s+(\d+)"),
           "aarch64": ("/usr/include/asm-generic/unistd.h", r"__NR(?:3264)?_(\w+)\s+(\d+)")}


@pytest.mark.parametrize("name", sorted(DANGEROUS))
def test_a_dangerous_call_fails(name):
    for machine, (arch, which) in seccomp.ARCHITECTURES.items():
        number = DANGEROUS[name][which]
        assert number is None or run(seccomp.program(machine, 77), arch,
                                     number) & 0xFFFF0000 == seccomp.FAIL


@pytest.mark.parametrize("machine", sorted(HEADERS))
def test_the_numbers_are_those_of_the_kernels_headers(machine):
    path, pattern = HEADERS[machine]
    if not os.path.exists(path):
        pytest.skip("the kernel's headers are not installed")
    with open(path, encoding="utf-8") as file:
        known = {name: int(number) for name, number in re.findall(pattern, file.read())}
    _, which = seccomp.ARCHITECTURES[machine]
    rows = {name: entry[which] for table in (seccomp.PLAIN, seccomp.BY_VALUE, DANGEROUS)
            for name, entry in table.items()}
    rows |= {name: pair[which] for name, (pair, _) in seccomp.OPEN.items()}
    rows |= {"clone": seccomp.CLONE[which], "clone3": seccomp.CLONE3[which]}
    other = {"newfstatat": "fstatat"} if machine == "aarch64" else {}
    for name, number in rows.items():
        assert number is None or known[other.get(name, name)] == number, name


def test_choices_arrive_as_they_were_described():
    schema = schema_of("s", {"x": (0.0, 1.0), "c": ["a", "b"]}, t=["n", "p"])
    ledger = pl.Ledger.create(None, budget=pl.Budget(10.0, 0.0))
    owner = ledger.protect({"x": [0.1, 0.9], "c": ["a", "b"]}, ["n", "p"], schema)
    vault = Elsewhere("s", schema)
    child = pl.Dataset(schema, vault)
    describer, reader = WireDescriber(vault, schema), WireReader(owner)
    tree = child.root(child.bins(8)).grow([0], [3])
    running = child.score("logistic", [0.0])
    for asked in (
        child.choose(tree, "squared_error", among="both", labels=pl.questions.CategoryCells("", 2)),
        child.choose(tree, "rank", features=[0, -1], what="a median"),
        child.choose(tree, "squared_error", among="features",
                     labels=pl.questions.CategoryCells("", 2),
                     allowed=np.array([[True, False], [True, True]])),
        child.choose(tree, "gain", among="features", gradient=running.gradient(0.5), penalty=2.0)):
        sent = json.loads(json.dumps(describer.query(asked)))
        reader.learn(json.loads(json.dumps(describer.new())))
        found = reader.query(sent)
        assert type(found) is pl.questions.Choice
        assert (found.score, found.among, found.penalty, found.what) == (
            asked.score, asked.among, asked.penalty, asked.what)
        assert found.data.seal is owner._vault
        np.testing.assert_array_equal(found.cells.low, tree.low)
        assert (found.features is None) == (asked.features is None)
        np.testing.assert_array_equal(found.allowed, asked.allowed)
        mechanism = pl.Exponential(1.0)
        with ledger.request(mechanism, owner) as session:
            session.release(mechanism, found)


def test_every_field_of_a_block_arrives():
    """A field that is lost on the way could make a release quieter than it was described."""
    schema = schema_of("s", {"x": (0.0, 1.0)}, t=["n", "p", "q"])
    vault = Elsewhere("s", schema)
    child = pl.Dataset(schema, vault)
    describer, reader = WireDescriber(vault, schema), WireReader(pl.Dataset(schema, vault))
    running = child.score("softmax", [0.1, 0.2, 0.3])
    encoding = pl.questions.RowEncoding(["x"], [0], [0.25], [0.5], [True], "square", 1.5, 3.0,
                                        [[0.5, 0.25], [3.0, 0.0]], 4096.0)
    running.add(encoding, np.ones((5, 3)))
    for block in (running.gradient(0.5), running.gradient(0.5, filtered=True, coordinate=2),
                  running.hessian(), running.hessian(0.25), pl.questions.ClassIs(2),
                  pl.questions.TargetShares(), pl.questions.RowValues(["x"], 0.7, "products"),
                  pl.questions.ColumnValue("x", 0.5, 0.25, 0.125), pl.questions.Ones(),
                  pl.questions.LinearGradient(encoding, 0.75, running),
                  pl.questions.LinearGradient(encoding, 0.5)):
        sent = json.loads(json.dumps(describer.query(child.query((block,)))))
        reader.learn(json.loads(json.dumps(describer.new())))
        (found,) = reader.query(sent).blocks
        assert type(found) is type(block)
        for field in fields(type(block)):
            if field.name == "encoding":
                one, other = found.encoding, encoding
                for part in fields(pl.questions.RowEncoding):
                    assert np.array_equal(getattr(one, part.name), getattr(other, part.name))
            elif field.name != "score":
                assert getattr(found, field.name) == getattr(block, field.name), field.name


def test_label_choices_arrive_as_they_were_described():
    schema = schema_of("s", {"x": (0.0, 1.0)}, t=["n", "p"])
    ledger, owner = protected(pl.Budget(1e4, 0.0), {"x": [0.1, 0.9]}, ["n", "p"], schema)
    vault = Elsewhere("s", schema)
    child = pl.Dataset(schema, vault)
    describer, reader = WireDescriber(vault, schema), WireReader(owner)
    asked = child.choose_label(child.root(child.bins(8)).grow([0], [3]),
                               pl.questions.CategoryCells("", 2))
    sent = json.loads(json.dumps(describer.query(asked)))
    reader.learn(json.loads(json.dumps(describer.new())))
    found = reader.query(sent)
    assert type(found) is pl.questions.LabelChoice
    sharp = pl.Exponential(1e3, (0, 1))
    with ledger.request(sharp, owner) as session:
        assert session.release(sharp, found).tolist() == [0, 1]
