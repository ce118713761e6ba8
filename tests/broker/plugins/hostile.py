"""Learners that try to get at more than answers. Imported in confined processes only."""

import contextlib
import ctypes
import gc
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

import privledger as pl

LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"


class Plain:
    """Counts the records `rounds` times; what it found out is its prediction."""

    info = pl.LearnerInfo("plain", "counts", "", ("add_remove",), ("classification",))

    def __init__(self, epsilon=1.0, delta=1e-6, schema=None, rounds=3, targets=None, what=""):
        self.epsilon, self.delta, self.schema, self.rounds = epsilon, delta, schema, rounds
        self.targets, self.what, self.found = targets or {}, what, {}

    def plan(self, schema):
        noise = pl.calibrate(lambda z: pl.Repeat(pl.Gaussian(z), self.rounds), self.epsilon,
                             self.delta)
        return pl.Repeat(pl.Gaussian(noise), self.rounds)

    def claimed(self, schema):
        return (pl.ClaimStep("nothing", "Lemma 2", None, float("inf"), self.delta),)

    def fit(self, data):
        plan = self.plan(data.schema)
        with data.ledger.request(plan, data, learner="somebody else") as session:
            for _ in range(self.rounds):
                self.found["count"] = float(session.release(plan.node, data.count()))
        return self

    def predict(self, X):
        return [json.dumps(self.found)] * len(X["x"])


def raw(number, *arguments):
    """A system call by its x86_64 number; the error if it fails."""
    if not X86:
        raise OSError("other machine")
    result = LIBC.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def read(path):
    with open(path, "rb") as file:
        return file.read(10)


def write(path):
    with open(path, "wb") as file:
        file.write(b"x")


def other_memory(pid):
    buffer = ctypes.create_string_buffer(16)
    local = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 16)
    remote = (ctypes.c_size_t * 2)(0x400000, 16)
    return raw(310, pid, local, 1, remote, 1, 0)


def in_a_thread(function, *arguments):
    kept = []

    def run():
        try:
            kept.append(function(*arguments))
        except OSError as error:
            kept.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(kept[0], OSError):
        raise kept[0]


def strange_descriptors():
    """Open descriptors besides /dev/null and two pipes."""
    import stat

    found = []
    for number in range(256):
        try:
            kind = os.fstat(number)
        except OSError:
            continue
        if number <= 2 and stat.S_ISCHR(kind.st_mode) and kind.st_rdev == os.makedev(1, 3):
            continue
        if not stat.S_ISFIFO(kind.st_mode):
            found.append(number)
    return found


def shared_objects():
    """Objects of this process that hold rows, or know where they are."""
    kinds = {"Vault", "Rows", "Columns", "History", "State", "SqliteStore"}
    return [type(item).__name__ for item in gc.get_objects() if type(item).__name__ in kinds]


def must(found):
    """Finding anything is an escape."""
    if not found:
        raise OSError("nothing found")


def attacks(t):
    """Name -> a function that must raise OSError."""
    data, ledger, parent = t["data"], t["ledger"], t["parent"]
    folder, here = os.path.dirname(data), os.path.dirname(os.path.abspath(__file__))
    far = [("tmp", "/tmp/left"), ("shm", "/dev/shm/left"), ("root", "/left"),
           ("data_folder", folder + "/left"), ("own_code", os.path.abspath(__file__)),
           ("own_folder", here + "/left"), ("libraries", os.path.dirname(np.__file__) + "/left"),
           ("home", os.path.expanduser("~root") + "/left")]
    return {
        "read_data": lambda: read(data), "read_ledger": lambda: read(ledger),
        "read_data_in_a_thread": lambda: in_a_thread(read, data),
        "handle_on_data": lambda: os.open(data, os.O_PATH),
        "size_of_data": lambda: os.stat(data), "is_there_data": lambda: os.lstat(data),
        "list_data_folder": lambda: os.listdir(folder),
        "up_from_the_working_folder": lambda: read("../../../.." + data),
        "parent_memory": lambda: read(f"/proc/{parent}/mem"),
        "parent_environment": lambda: read(f"/proc/{parent}/environ"),
        "parent_descriptors": lambda: os.listdir(f"/proc/{parent}/fd"),
        "own_memory_file": lambda: read("/proc/self/mem"),
        "passwords": lambda: read("/etc/passwd"), "devices": lambda: read("/dev/mem"),
        **{f"write_{name}": (lambda path=path: write(path)) for name, path in far},
        "append_ledger": lambda: os.open(ledger, os.O_WRONLY | os.O_APPEND),
        "delete_data": lambda: os.unlink(data), "cut_data": lambda: os.truncate(data, 0),
        "change_mode": lambda: os.chmod(data, 0o777), "make_folder": lambda: os.mkdir("/left"),
        "rename": lambda: os.rename(__file__, "/left"), "link": lambda: os.link(__file__, "/l"),
        "symlink": lambda: os.symlink(data, "/left"), "fifo": lambda: os.mkfifo("/left"),
        "nameless_file": lambda: os.memfd_create("left"), "chroot": lambda: os.chroot("/"),
        "system": lambda: must(os.system("true") == 0),
        "subprocess": lambda: subprocess.run(["/bin/true"], check=True),
        "execve": lambda: os.execv(sys.executable, [sys.executable, "-c", "0"]),
        "spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
        "fork": os.fork, "vfork": lambda: raw(58), "forkpty": os.forkpty,
        "tcp": lambda: socket.create_connection(("127.0.0.1", t["port"]), 1),
        "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "unix": lambda: socket.socket(socket.AF_UNIX).connect(t["unix"]),
        "abstract": lambda: socket.socket(socket.AF_UNIX).connect("\0" + t["abstract"]),
        "socketpair": socket.socketpair, "name_lookup": lambda: socket.getaddrinfo("a.org", 80),
        "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
        "raw_socket": lambda: raw(41, 2, 1, 0), "raw_connect": lambda: raw(42, 3, 0, 0),
        "process_vm_readv": lambda: other_memory(parent),
        "ptrace": lambda: raw(101, 16, parent, 0, 0), "pidfd_open": lambda: os.pidfd_open(parent),
        "pidfd_getfd": lambda: raw(438, 3, 3, 0), "kcmp": lambda: raw(312, parent, parent, 0, 0, 0),
        "signal": lambda: os.kill(parent, signal.SIGUSR1), "everybody": lambda: os.kill(-1, 0),
        "thread_signal": lambda: raw(234, parent, parent, signal.SIGUSR1),
        "queued_signal": lambda: raw(129, parent, signal.SIGUSR1, ctypes.byref(
            (ctypes.c_uint64 * 16)())),
        "owner_of_a_pipe": lambda: __import__("fcntl").fcntl(t_pipe(), 8, parent),
        "limits_of_the_parent": lambda: __import__("resource").prlimit(
            parent, __import__("resource").RLIMIT_NOFILE),
        "priority_of_the_parent": lambda: os.setpriority(os.PRIO_PROCESS, parent, 19),
        "unlimited_files": lambda: limit_up(), "unshare": lambda: raw(272, 0x10000000),
        "setns": lambda: raw(308, 3, 0), "mount": lambda: raw(165, 0, b"/", 0, 0, 0),
        "umount": lambda: raw(166, b"/", 2), "io_uring": lambda: raw(425, 1, 0),
        "bpf": lambda: raw(321, 0, 0, 0), "perf": lambda: raw(298, 0, 0, -1, -1, 0),
        "userfaultfd": lambda: raw(323, 0), "keyring": lambda: raw(248, b"user", b"a", b"b", 1, -3),
        "open_by_handle": lambda: raw(304, 3, 0, 0), "openat2": lambda: raw(437, -100, b"/", 0, 24),
        "shared_memory": lambda: raw(29, 4711, 4096, 0o1600),
        "message_queue": lambda: raw(240, b"left", 0o102, 0o600, 0),
        "more_seccomp": lambda: raw(317, 1, 0, 0), "prctl": lambda: raw(157, 4, 1, 0, 0, 0),
        "compatible_calls": lambda: raw(0x40000000 + 41, 2, 1, 0),
        "inherited_descriptors": lambda: must(strange_descriptors()),
        "objects_with_rows": lambda: must(shared_objects()),
        "paths_in_arguments": lambda: must(data in " ".join([*sys.argv, *os.environ.values()])),
        "rows_in_memory": lambda: must(t["secret"] in memory_words())}


def t_pipe():
    return os.pipe()[0]


def limit_up():
    import resource

    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    except ValueError:
        raise OSError("refused") from None


def memory_words():
    """Every float in an array or a list that this process can find."""
    found = set()
    for item in gc.get_objects():
        if isinstance(item, np.ndarray) and item.dtype.kind == "f":
            found |= set(item.ravel()[:100000].tolist())
        elif isinstance(item, list | tuple) and len(item) < 10000:
            found |= {part for part in item if isinstance(part, float)}
    return found


class Escapes(Plain):
    """Tries everything, before the grant and inside it, then trains."""

    def fit(self, data):
        super().fit(data)
        for name, attack in attacks(self.targets).items():
            try:
                attack()
            except (OSError, subprocess.SubprocessError, ValueError) as error:
                self.found[name] = f"blocked: {type(error).__name__}"
            else:
                self.found[name] = "ESCAPED"
        return self


class Importing(Plain):
    """Its module was imported in the confined process: at import time nothing is open either."""

    at_import = "blocked"
    try:
        Path("/etc/passwd").read_text()
        at_import = "ESCAPED"
    except OSError:
        pass

    def predict(self, X):
        return [self.at_import] * len(X["x"])


class Liar(Plain):
    """Speaks the protocol itself."""

    def fit(self, data):
        self.ledger = data.ledger
        self.say("before_a_grant", "release", session=0, **self.count(1.0))
        self.say("before_a_grant_filtered", "filtered", session=0, id=5, node=None)
        plan = self.plan(data.schema)
        with data.ledger.request(plan, data) as session:
            session.release(plan.node, data.count())
            good = pl.nodes.to_json(plan.node)
            for name, (ask, fields) in self.lies(good).items():
                self.say(name, ask, **fields)
            for name, (entries, fields) in self.descriptions(good).items():
                self.say(name, "release", define=entries, **fields)
            self.say("a_handle_reads_nothing", "filtered", session=0, id=71,
                     node=pl.nodes.to_json(pl.IndividualFilter("gdp", 1.0)))
            self.say("filter_not_reserved", "release", session=0, **self.count(good, data=71))
            self.found["custom"] = self.custom(session, plan.node, data)
            self.found["ledger_record"] = self.reach(data)
        self.say("after_the_grant", "release", session=0, **self.count(plan.node.noise_multiplier))
        return self

    @staticmethod
    def count(noise, data=0, block=None, **more):
        leaf = noise if isinstance(noise, dict) else pl.nodes.to_json(pl.Gaussian(noise))
        query = {"is": "Query", "data": data, "blocks": [block or {"is": "Ones"}], "what": "x",
                 "cells": None}
        return {"mechanism": leaf, "query": query | more, "rollover": 0}

    def lies(self, good):
        count, noise = self.count, good["noise_multiplier"]
        ask = "release"
        return {
            "unknown_request": ("rows", {}), "audit": ("record", {"row": 0}),
            "close_other": ("close", {"session": 7, "failed": False}),
            "other_session": (ask, {"session": 1, **count(noise)}),
            "negative_session": (ask, {"session": -1, **count(noise)}),
            "true_session": (ask, {"session": False, **count(noise)}),
            "quieter": (ask, {"session": 0, **count(noise * 0.999)}),
            "quiet": (ask, {"session": 0, **count(1e-9)}),
            "not_noise": (ask, {"session": 0, **count({"node": "PostProcess", "note": ""})}),
            "unknown_noise": (ask, {"session": 0, **count({"node": "Nothing"})}),
            "more_shares": (ask, {"session": 0, **count(good | {"shares": [0.5, 0.6]})}),
            "text_noise": (ask, {"session": 0, **count(good | {"noise_multiplier": "9"})}),
            "true_noise": (ask, {"session": 0, **count(good | {"noise_multiplier": True})}),
            "unknown_handle": (ask, {"session": 0, **count(good, data=99)}),
            "unknown_cells": (ask, {"session": 0, **count(good, cells=99)}),
            "handle_as_cells": (ask, {"session": 0, **count(good, cells=0)}),
            "unknown_block": (ask, {"session": 0, **count(good, block={"is": "Rows"})}),
            "custom_block": (ask, {"session": 0, **count(good, block={
                "is": "CustomValue", "function": "os.system", "clip": 1.0, "why": "x"})}),
            "no_blocks": (ask, {"session": 0, **count(good, blocks=[])}),
            "wide_clip": (ask, {"session": 0, **count(good, block={
                "is": "ColumnValue", "name": "x", "center": 0.0, "scale": 1.0, "clip": 1e300})}),
            "unknown_column": (ask, {"session": 0, **count(good, block={
                "is": "ColumnValue", "name": "zip", "center": 0.0, "scale": 1.0, "clip": 1.0})}),
            "negative_rollover": (ask, {"session": 0, **count(good), "rollover": -1}),
            "filter_without_caps": ("filtered", {"session": 0, "id": 70, "node": good}),
            "greedy_plan": ("request", {"plan": pl.nodes.to_json(pl.Gaussian(0.001)), "data": 0,
                                        "delta": 1e-6, "scope": None, "labels": {}}),
            "unpaid_scope": ("request", {"plan": good, "data": 0, "delta": 1e-6, "scope": "a",
                                         "labels": {}}),
            "another_team": ("request", {"plan": good, "data": 0, "delta": 1e-6, "scope": None,
                                         "labels": {"team": "b"}}),
            "its_own_team": ("request", {"plan": good, "data": 0, "delta": 1e-6, "scope": None,
                                         "labels": {"team": "a"}}),
            "a_lease": ("request", {"plan": good, "data": 0, "delta": 1e-6, "scope": None,
                                    "labels": {}, "lease": 1e-3}),
            "greedy_delta": ("request", {"plan": good, "data": 0, "delta": 0.5, "scope": None,
                                         "labels": {}}),
            "negative_claim": ("request", {"plan": good, "data": 0, "delta": 0.0, "scope": None,
                                           "labels": {}, "claimed": -1.0}),
            "scope_not_a_filter": ("open_scope", {"node": good, "name": "a", "delta": 0.0}),
            "scope_name_not_a_text": ("open_scope", {
                "node": pl.nodes.to_json(pl.IndividualFilter("gdp", 1e-6)), "name": [1],
                "delta": 0.0}),
            "odd_labels": ("request", {"plan": good, "data": 0, "delta": 1e-6, "scope": None,
                                       "labels": [1]}),
            "define_not_a_list": (ask, {"session": 0, **count(good), "define": {"id": 3}})}

    def descriptions(self, good):
        numbers = {"dtype": "f8", "shape": [1], "data": "AAAAAAAAAAA="}
        tests = {
            "redefined_root": {"id": 0, "is": "CoinCells", "count": 2},
            "unknown_kind": {"id": 40, "is": "Pickle", "data": "gASVAAAA"},
            "true_id": {"id": True, "is": "CoinCells", "count": 2},
            "many_coins": {"id": 41, "is": "CoinCells", "count": 10**15},
            "short_bytes": {"id": 42, "is": "Score", "loss": "logistic", "center": 0.0,
                            "scale": 1.0, "start": numbers | {"shape": [2**40]}},
            "object_array": {"id": 43, "is": "Score", "loss": "logistic", "center": 0.0,
                             "scale": 1.0, "start": numbers | {"dtype": "O"}},
            "nan_array": {"id": 44, "is": "Score", "loss": "logistic", "center": 0.0,
                          "scale": 1.0, "start": numbers | {"data": "AAAAAAAA+H8="}},
            "huge_tree": {"id": 45, "is": "TreeCells", "bins": 0, "tests": [], "count": 4},
            "part_out_of_range": {"id": 46, "is": "part", "parts": 0, "part": 9},
            "bad_rate": {"id": 47, "is": "sample", "of": 0, "rate": 2.0},
            "update_of_nothing": {"is": "update", "score": 99, "cells": 0, "values": numbers},
            "filter_by_hand": {"id": 48, "is": "filter", "of": 0, "caps": ""}}
        made = {name: ([entry], {"session": 0, **self.count(good)})
                for name, entry in tests.items()}
        made["sample_not_reserved"] = ([{"id": 60, "is": "sample", "of": 0, "rate": 0.5}],
                                       {"session": 0, **self.count(good, data=60)})
        made["part_not_reserved"] = (
            [{"id": 61, "is": "CoinCells", "count": 2}, {"id": 62, "is": "parts", "of": 0,
                                                         "cells": 61},
             {"id": 63, "is": "part", "parts": 62, "part": 0}],
            {"session": 0, **self.count(good, data=63)})
        return made

    def custom(self, session, node, data):
        try:
            session.release(node, data.custom(lambda rows: rows["x"], 1.0, "trust me"))
        except pl.errors.UnsupportedNode as error:
            return f"refused: {type(error).__name__}"
        return "ANSWERED"

    def reach(self, data):
        for name in ("record", "state", "graph", "verify", "protect", "append", "correct"):
            try:
                getattr(data.ledger, name)
            except pl.NotGranted:
                continue
            return f"ANSWERED {name}"
        return "refused: NotGranted"

    def say(self, name, ask, /, define=(), **fields):
        self.ledger._channel.send({"ask": ask, "define": list(define)} | fields)
        reply = self.ledger._channel.receive()
        self.found[name] = f"refused: {reply['error']}" if "error" in reply else "ANSWERED"


class Breaking(Plain):
    """Ends the conversation in some ugly way, after one release."""

    def fit(self, data):
        plan = self.plan(data.schema)
        with data.ledger.request(plan, data) as session:
            session.release(plan.node, data.count())
            output = data.ledger._channel.output
            getattr(self, f"do_{self.what}")(output)
        return self

    def do_long(self, output):
        os.write(output, b"\xff\xff\xff\xff")

    def do_pickle(self, output):
        import pickle

        body = pickle.dumps({"ask": "totals"})
        os.write(output, len(body).to_bytes(4, "big") + body)

    def do_nan(self, output):
        body = b'{"ask": "release", "define": [], "session": NaN}'
        os.write(output, len(body).to_bytes(4, "big") + body)

    def do_deep(self, output):
        body = b"[" * 200000 + b"]" * 200000
        os.write(output, len(body).to_bytes(4, "big"))
        for start in range(0, len(body), 4096):
            os.write(output, body[start:start + 4096])

    def do_number(self, output):
        os.write(output, b"\x00\x00\x00\x02" + b"42")

    def do_silence(self, output):
        os.write(output, b"\x00\x00")
        time.sleep(600)

    def do_exit(self, output):
        os._exit(0)

    def do_crash(self, output):
        ctypes.string_at(0)

    def do_error(self, output):
        raise RuntimeError("it \x1b[31mfailed")

    def do_memory_of_itself(self, output):
        raise MemoryError

    def do_recursion(self, output):
        self.do_recursion(output)

    def do_done(self, output):
        body = b'{"done": "predict"}'
        os.write(output, len(body).to_bytes(4, "big") + body)


class Asking(Plain):
    """Asks again when the fit is over and public rows are there to be predicted."""

    def fit(self, data):
        self.data = data
        return super().fit(data)

    def predict(self, X):
        found = []
        for ask in (lambda: self.data.ledger.left,
                    lambda: self.data.ledger.request(self.plan(self.schema), self.data)):
            try:
                ask()
            except pl.NotGranted as error:
                found.append(str(error))
        return [" ".join(found)] * len(X["x"])


class Careless(Plain):
    """Leaves its grant open, and predicts too little."""

    def fit(self, data):
        plan = self.plan(data.schema)
        session = data.ledger.request(plan, data)
        session.release(plan.node, data.count())
        return self

    def predict(self, X):
        return {"short": ["no"], "lists": [["no"]] * len(X["x"]),
                "nothing": [None] * len(X["x"])}[self.what]


class Filtering(Plain):
    """Every derivation once: a filter scope, samples, parts by coins and by cells, a score."""

    def plan(self, schema):
        noise = pl.Gaussian(60.0)
        return pl.Sequential([
            pl.Repeat(noise, 4), pl.PoissonSample(0.5, pl.Sequential([noise, noise])),
            pl.Parallel([noise, noise], "iid_per_record"),
            pl.Parallel([pl.Sequential([noise, pl.PoissonSample(0.25, noise)]), noise]),
            pl.IndividualFilter("gdp", 0.01, node=pl.Repeat(noise, 3))])

    def fit(self, data):
        noise, answers = pl.Gaussian(60.0), []
        score = data.score("logistic", [0.1])
        bins = data.bins(16)
        with data.ledger.request(self.plan(data.schema), data, delta=1e-6) as session:
            def ask(query, **more):
                answers.append(np.asarray(session.release(noise, query, **more)).tolist())

            ask(data.histogram("label"))
            ask(data.sum("x", lower=0.25, upper=0.5))
            tree = pl.questions.TreeCells(bins,
                                          [pl.questions.Test(0,
                                                             (np.arange(17) > 8).astype(np.uint8))],
                                          2)
            score.add(tree, np.array([0.5, -0.25]))
            ask(data.query((score.gradient(0.5),), tree))
            ask(data.query((score.hessian(),), pl.questions.ResidualCells(score, (0.25, 0.5))))
            sample = data.poisson(0.5)
            ask(sample.count())
            score.add(pl.questions.CategoryCells("", 2), np.array([1.0, 2.0]))
            ask(sample.query((score.gradient(0.5),)))
            coins = data.partition(2)
            ask(coins[0].count())
            ask(coins[1].count())
            parts = data.partition(pl.questions.CategoryCells("", 2))
            ask(parts[1].count())
            ask(parts[0].count())
            ask(parts[0].poisson(0.25).count())
            kept = session.filtered(pl.IndividualFilter("gdp", 0.01))
            ask(kept.query((score.gradient(0.5),), tree), rollover=3)
            ask(kept.select(["x"]).count())
            self.found = {"answers": answers, "scope": session.releases}
        return self


class Wasteful(Plain):
    """Uses up what it can, after one release."""

    def fit(self, data):
        plan = self.plan(data.schema)
        with data.ledger.request(plan, data) as session:
            session.release(plan.node, data.count())
            getattr(self, f"do_{self.what}")(data)
        return self

    def do_cpu_seconds(self, data):
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)
        while True:
            pass

    def do_memory_mb(self, data):
        held = []
        while True:
            held.append(bytearray(64 << 20))

    def do_threads(self, data):
        threading.stack_size(64 << 10)
        gate = threading.Event()
        for _ in range(100_000):
            threading.Thread(target=gate.wait, daemon=True).start()

    def do_total_seconds(self, data):
        while True:  # it talks all the time, and uses no processor
            data.ledger.spent  # noqa: B018
            time.sleep(0.02)

    def do_silence_seconds(self, data):
        time.sleep(600)

    def do_message_mb(self, data):
        os.write(data.ledger._channel.output, (3 << 20).to_bytes(4, "big"))
        time.sleep(600)

    def do_traffic_mb(self, data):
        while True:
            data.ledger._channel.send({"ask": "totals", "define": [], "x": "a" * 900_000})
            data.ledger._channel.receive()

    def do_plan_nodes(self, data):
        self.request(data, pl.Sequential([pl.Gaussian(1000.0 + i) for i in range(65_000)]))

    def do_pricing_seconds(self, data):
        while True:
            self.request(data, pl.Sequential([
                pl.PoissonSample(np.random.uniform(0.01, 0.02), pl.Gaussian(30.0 + i))
                for i in range(1000)]))

    def request(self, data, plan):
        with contextlib.suppress(pl.BudgetExceeded):
            data.ledger.request(plan, data, delta=0.0)

    def do_values(self, data):
        body = b'{"a":[' + b"[]," * 1_200_000 + b"[]]}"
        os.write(data.ledger._channel.output, len(body).to_bytes(4, "big"))
        for start in range(0, len(body), 4096):
            os.write(data.ledger._channel.output, body[start:start + 4096])
        time.sleep(600)


class DeepPlan(Plain):
    """Its plan is nested beyond every limit; it writes the message itself."""

    def fit(self, data):
        node = {"node": "Gaussian", "noise_multiplier": 50.0}
        for _ in range(int(self.what)):
            node = {"node": "Sequential", "nodes": [node]}
        ledger = data.ledger
        ledger._channel.send({"ask": "request", "define": [], "plan": node, "data": 0,
                              "delta": 0.0, "scope": None, "labels": {}})
        self.found = ledger._channel.receive()
        return self


class Scopes(Plain):
    """Opens a scope under a name of its choice."""

    def fit(self, data):
        scope = data.ledger.open_scope(pl.IndividualFilter("gdp", 0.01), name=self.what)
        self.found = {"name": scope.name}
        return self


class ManyNodes(Plain):
    """A plan that costs its owner to read."""

    def plan(self, schema):
        return pl.Sequential([pl.Gaussian(1000.0 + i) for i in range(65_000)])


class BigModel(Plain):
    """Learns more than its owner keeps."""

    def fit(self, data):
        self.model_ = np.zeros(1 << 20)
        del self.found
        return self


class OddModel(Plain):
    """Sends something else than an honest model."""

    def fit(self, data):
        from privledger.broker import child
        from privledger.plugins.model_file import ModelFile, model_bytes

        self.model_ = {"code": os.system, "object": np.array([{}], dtype=object)}.get(
            self.what, 1.0)
        if self.what == "nothing":
            del self.model_
        else:
            del self.found
        forged = {
            "bytes": b"\x80\x04\x95 a pickle, and no model of this version" * 4,
            "header": None}
        if self.what in forged:
            def keep(worker, order):
                facts = child.ModelFacts(order["name"], data.schema, "add_remove")
                honest = child.kept(self, facts)
                lied = ModelFile(honest.header | {
                    "learner": "dpsis", "isolation": "guarded", "private": True,
                    "schema": {"name": "other"}, "receipt": {"entries": 9}}, honest.arrays)
                worker._kept = forged[self.what] or model_bytes(lied)
                return {"size": len(worker._kept)}

            self._patch("keep", keep)
        elif self.what == "truncated":
            self._patch("part", lambda worker, order: {"data": ""})
        elif self.what == "long":
            self._patch("part", lambda worker, order: {"data": "AAAA" * (4 << 20)})
        return self

    def _patch(self, name, method):
        for item in gc.get_objects():
            if type(item).__name__ == "Worker":
                frame = sys._getframe()
                while frame is not None:
                    orders = frame.f_locals.get("orders")
                    if isinstance(orders, dict):
                        orders[name] = lambda order, worker=item: method(worker, order)
                    frame = frame.f_back
