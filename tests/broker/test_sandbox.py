"""Each layer of the confinement alone: together they hide that one of them is missing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from privledger.broker import boot, sandbox
from privledger.broker.boot import Later
from tests.worlds import refused

FOLDER = Path(sandbox.__file__).parent
PROGRAM = """
import ctypes, importlib.util, json, os, platform, socket, sys

def beside(name):
    spec = importlib.util.spec_from_file_location(name, {folder!r} + "/" + name + ".py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

sandbox, seccomp = beside("sandbox"), beside("seccomp")
private, open_folder = {private!r}, {open_folder!r}

def tried(action):
    try:
        action()
    except OSError as error:
        return error.errno
    return 0

"".encode("idna")  # loaded now: the library is out of sight later

def missing(why):
    print(json.dumps(why))
    sys.exit()

try:
    {layer}
except sandbox.Unavailable as error:
    missing(str(error))
print(json.dumps({{
    "read": tried(lambda: open(private).close()),
    "stat": tried(lambda: os.stat(private)),
    "write": tried(lambda: os.close(os.open(open_folder + "/left", os.O_CREAT | os.O_WRONLY))),
    "fill": tried(lambda: open(open_folder + "/left", "w").write("x" * 10)),
    "folder": tried(lambda: os.mkdir(open_folder + "/made")),
    "list": tried(lambda: os.listdir(open_folder)),
    "open": tried(lambda: open(open_folder + "/public").close()),
    "socket": tried(lambda: socket.socket().close()),
    "tcp": tried(lambda: socket.create_connection(("127.0.0.1", 1), 1)),
    "fork": tried(lambda: os.fork() or os._exit(0)),
    "exec": tried(lambda: os.execv("/bin/true", ["true"])),
}}))
"""
EPERM, ENOENT, EACCES, EFBIG = 1, 2, 13, 27


@pytest.fixture
def alone(tmp_path):
    """What still works in a process that has one layer only."""
    def run(layer):
        private, folder = tmp_path / "private" / "rows.csv", tmp_path / "open"
        private.parent.mkdir()
        private.write_text("1\n", encoding="utf-8")
        folder.mkdir()
        (folder / "public").write_text("1\n", encoding="utf-8")
        program = PROGRAM.format(folder=str(FOLDER), private=str(private),
                                 open_folder=str(folder), layer=layer)
        done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True,
                              text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout.splitlines()[-1]) if done.stdout else None
        if isinstance(found, str):
            pytest.skip(found)
        return found

    return run


def test_without_a_layer_all_of_it_works(alone):
    """The last attempt becomes another program, so nothing is printed."""
    assert alone("pass") is None


def test_landlock_alone(alone):
    found = alone("sandbox._check(sandbox._libc.prctl(38, 1, 0, 0, 0), 'privileges'); "
                  "sandbox._landlock([open_folder])")
    assert [found[key] for key in ("read", "write", "fill", "folder", "exec")] == [EACCES] * 5
    assert [found[key] for key in ("list", "open", "stat")] == [0, 0, 0]


def test_seccomp_alone(alone):
    found = alone("sandbox._check(sandbox._libc.prctl(38, 1, 0, 0, 0), 'privileges'); "
                  "print(json.dumps(why)) if (why := seccomp.install(platform.machine())) else 0")
    assert found["write"] == found["fill"] == EACCES
    assert [found[key] for key in ("folder", "socket", "tcp", "fork", "exec")] == [EPERM] * 5
    assert found["read"] == 0  # it sees no names


def test_namespaces_alone(alone):
    found = alone("sandbox._namespaces([open_folder])")
    assert [found[key] for key in ("read", "stat", "exec")] == [ENOENT] * 3
    assert found["tcp"] not in (0, 111)  # no way out, not even to itself: nobody refuses
    assert found["open"] == 0


def test_folders_below_others_are_named_once(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "ab").mkdir()
    paths = [str(tmp_path / name) for name in ("a/b", "ab", "a", "missing", "a")]
    assert sandbox._outermost(paths) == [str(tmp_path / "a"), str(tmp_path / "ab")]


def test_another_machine_is_refused(monkeypatch):
    monkeypatch.setattr(sandbox.platform, "machine", lambda: "riscv64")
    refused(sandbox.Unavailable, lambda: sandbox.confine([], [], os.getppid()), match="riscv64")
    from privledger.broker import seccomp

    assert "riscv64" in seccomp.install("riscv64")


def test_a_large_module_loads_when_it_is_asked_for(tmp_path, monkeypatch):
    """And one that is not there is missed at once, as ever: who imports it may do without."""
    (tmp_path / "late_one.py").write_text("import late_log\nlate_log.loaded = True\nanswer = 42\n")
    (tmp_path / "late_log.py").write_text("loaded = False\n")
    monkeypatch.syspath_prepend(tmp_path)
    finder = Later(frozenset({"late_one", "late_none"}))
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    import late_log
    import late_one

    assert not late_log.loaded
    assert late_one.answer == 42
    assert late_log.loaded
    with pytest.raises(ModuleNotFoundError):
        import late_none  # noqa: F401
    for name in ("late_one", "late_log"):
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(("source", "output"), [(3, 4), (4, 3), (9, 5), (5, 700)])
def test_every_descriptor_that_was_not_given_is_closed(source, output, monkeypatch):
    closed = set()
    monkeypatch.setattr(os, "closerange", lambda low, high: closed.update(range(low, high)))
    monkeypatch.setattr(boot, "beside", {}.__getitem__)
    monkeypatch.setattr(boot, "refuse_boot", lambda output, why: sys.exit(why))
    with pytest.raises(SystemExit, match="KeyError"):
        boot.run_boot({"input": source, "output": output})
    assert closed == set(range(3, 65536)) - {source, output}
