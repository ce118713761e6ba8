"""What the kernel takes away from a learner's process: files, network, other processes.

Standard library only: `boot.py` loads this file by its path, before anything else is imported.
Every step is required. Where the kernel offers one of them not, `Unavailable` says which, and
the run does not start.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import socket

MACHINES = {"x86_64": 155, "aarch64": 41}  # the number of pivot_root
USER, MOUNT, NET, IPC, UTS = 0x10000000, 0x00020000, 0x40000000, 0x08000000, 0x04000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
READ_FILE, READ_DIR = 1 << 2, 1 << 3
STAGE = "/tmp"  # covered by an empty file system of the process's own, never written to
BROKEN = "the confinement does not hold"

_libc = ctypes.CDLL(None, use_errno=True)


class Unavailable(Exception):
    """This machine cannot confine a process; the text says what is missing."""


def _check(result: int, what: str) -> int:
    if result < 0:
        raise Unavailable(f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def confine(folders: list[str], files: list[str], parent: int, *, cpu_seconds: int = 3600,
            memory_mb: int = 4096) -> None:
    """Leave this process nothing but `folders` and `files`, to read.

    Args:
        folders, files: absolute paths; what lies below them stays readable.
        parent: number of the process that must outlive this one.
        cpu_seconds, memory_mb: processor time and MiB of address space that it may use.

    Raises:
        Unavailable: nothing of a stranger's may be run in this process.
    """
    if platform.system() != "Linux" or platform.machine() not in MACHINES:
        raise Unavailable(f"isolation needs Linux on x86_64 or aarch64, this is "
                          f"{platform.system()} on {platform.machine()}")
    _die_with(parent)
    # Each restriction is of a thread: a thread from before would stay free.
    if len(os.listdir("/proc/self/task")) != 1:
        raise Unavailable("the process has several threads before it is confined")
    places = _outermost([*folders, *files])
    _namespaces(places)
    _limits(cpu_seconds, memory_mb)
    _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    _check(_libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "dumpable")
    _no_capabilities()
    _landlock(places)


def _die_with(parent: int) -> None:
    _check(_libc.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0), "parent death signal")
    if os.getppid() != parent:
        raise Unavailable("the process that started this one is gone")


def _outermost(paths: list[str]) -> list[str]:
    """Existing paths that lie below no other one, parents first."""
    kept: list[str] = []
    for path in sorted(set(paths)):
        if os.path.exists(path) and not any(path.startswith(above + "/") for above in kept):
            kept.append(path)
    return kept


def _namespaces(places: list[str]) -> None:
    """A user, network and mount namespace of its own: other files have no name in it."""
    uid, gid = os.getuid(), os.getgid()
    _check(_libc.unshare(USER | MOUNT | NET | IPC | UTS),
           "user namespaces are not allowed here (in a container or by the system's policy)")
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"),
                           ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    except OSError as error:
        raise Unavailable(f"user namespaces cannot be set up here: {error.strerror}") from None
    what = "a view of the file system of its own is not allowed here"
    _check(_libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), what)
    held = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC), os.path.isdir(path)) for path in places]
    _check(_libc.mount(b"none", STAGE.encode(), b"tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                       b"size=1m,mode=755"), what)
    for path, number, folder in held:
        _show(path, number, folder, what)
    os.chdir(STAGE)
    pivot = MACHINES[platform.machine()]
    _check(_libc.syscall(pivot, b".", b"."), what)
    _check(_libc.umount2(b".", 2), what)  # detach: the old tree is gone
    os.chdir("/")


def _show(path: str, number: int, folder: bool, what: str) -> None:
    """Let `path` be seen below the stage, and let go of the descriptor."""
    place = STAGE + path
    os.makedirs(place if folder else os.path.dirname(place), exist_ok=True)
    if not folder:
        os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))
    _check(_libc.mount(f"/proc/self/fd/{number}".encode(), place.encode(), None,
                       MS_BIND | MS_REC, None), what)
    os.close(number)


def _limits(cpu_seconds: int, memory_mb: int) -> None:
    for name in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_MSGQUEUE):
        resource.setrlimit(name, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    # One second more before the signal that cannot be ignored: the first one says why.
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20))


def _no_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(header, nothing), "capabilities")


class _Below(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _landlock(places: list[str]) -> None:
    """Nothing may be opened but `places`, to read; no TCP, no signals where it knows them."""
    version = _libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    _check(version, "Landlock (Linux 5.13 or later, switched on) is not available")
    handled = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF}.get(version, 0xFFFF)
    words = [handled, *([3] if version >= 4 else []), *([3] if version >= 6 else [])]
    attributes = (ctypes.c_uint64 * len(words))(*words)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    ruleset = _check(_libc.syscall(CREATE_RULESET, attributes, size, 0), "a Landlock ruleset")
    for path in places:
        number = os.open(path, os.O_PATH | os.O_CLOEXEC)
        access = READ_FILE | READ_DIR if os.path.isdir(path) else READ_FILE
        rule = _Below(access, number)
        _check(_libc.syscall(ADD_RULE, ruleset, 1, ctypes.byref(rule), 0), "a Landlock rule")
        os.close(number)
    _check(_libc.syscall(RESTRICT_SELF, ruleset, 0), "the Landlock ruleset")
    os.close(ruleset)


def is_confined() -> str:
    """Try what must not work. Returns a complaint about what did; empty if nothing."""
    for path in ("/proc/self/status", "/etc/passwd", "/proc/1/environ"):
        try:
            os.close(os.open(path, os.O_RDONLY))
        except OSError:
            continue
        return f"{BROKEN}: {path} could be read"
    for family in (socket.AF_INET, socket.AF_UNIX):
        try:
            socket.socket(family, socket.SOCK_STREAM).close()
        except OSError:
            continue
        return f"{BROKEN}: a socket could be made"
    try:
        os.close(os.open("/left-behind", os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError:
        return ""
    return f"{BROKEN}: a file could be written"
