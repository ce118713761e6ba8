"""The system calls a confined learner may make; every other one fails, harmlessly.

Standard library only: `boot.py` loads this file by its path, before anything else is imported.
A list of what is allowed, not of what is forbidden: a call that a later kernel adds is refused.
Numbers are those of the kernel's tables for x86_64 and for the generic table (aarch64).
"""

from __future__ import annotations

import ctypes
import errno
import os

ALLOW, FAIL, KILL = 0x7FFF0000, 0x00050000, 0x80000000
ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

# name: (x86_64, aarch64); None where a machine has no such call.
PLAIN: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63), "write": (1, 64), "futex": (202, 98), "mmap": (9, 222),
    "munmap": (11, 215), "mprotect": (10, 226), "mremap": (25, 216), "brk": (12, 214),
    "madvise": (28, 233), "mincore": (27, 232), "close": (3, 57), "lseek": (8, 62),
    "pread64": (17, 67), "readv": (19, 65), "writev": (20, 66), "stat": (4, None),
    "lstat": (6, None), "fstat": (5, 80), "newfstatat": (262, 79), "statx": (332, 291),
    "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439),
    "readlink": (89, None), "readlinkat": (267, 78), "getdents64": (217, 61), "getcwd": (79, 17),
    "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24), "pipe": (22, None),
    "pipe2": (293, 59), "poll": (7, None), "ppoll": (271, 73), "select": (23, None),
    "pselect6": (270, 72), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139), "rt_sigtimedwait": (128, 137), "sigaltstack": (131, 132),
    "sched_yield": (24, 124), "nanosleep": (35, 101), "clock_nanosleep": (230, 115),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "gettimeofday": (96, 169),
    "time": (201, None), "times": (100, 153), "getrusage": (98, 165), "getpid": (39, 172),
    "getppid": (110, 173), "gettid": (186, 178), "getuid": (102, 174), "geteuid": (107, 175),
    "getgid": (104, 176), "getegid": (108, 177), "uname": (63, 160), "getrlimit": (97, 163),
    "sched_getaffinity": (204, 123), "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120), "getcpu": (309, 168), "getrandom": (318, 278),
    "set_robust_list": (273, 99), "set_tid_address": (218, 96), "rseq": (334, 293),
    "arch_prctl": (158, None), "membarrier": (324, 283), "restart_syscall": (219, 128),
    "exit": (60, 93), "exit_group": (231, 94),
}
# name: (x86_64, aarch64, which argument, its allowed values); "self" is the process's own number.
BY_VALUE: dict[str, tuple[int, int, int, tuple[int, ...] | str]] = {
    "fcntl": (72, 25, 1, (0, 1, 2, 3, 4, 1030)),  # copies and flags; no owner, no signals
    "ioctl": (16, 29, 1, (0x5401, 0x5450, 0x5451, 0x541B)),  # terminal?, close-on-exec, length
    "kill": (62, 129, 0, "self"), "tgkill": (234, 131, 0, "self"),
    "prlimit64": (302, 261, 0, (0,)),  # its own limits; they can only be lowered
}
OPEN = {"open": ((2, None), 1), "openat": ((257, 56), 2)}
# To write, to create, to cut, to append, a nameless file, a handle that passes Landlock by.
WRITING = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000 | 0o20000000 | 0o10000000
CLONE, CLONE3 = (56, 220), (435, 435)
CLONE_THREAD, CLONE_NEW = 0x00010000, 0x7E020080
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
Instruction = tuple[int, int, int, int]


def _fail(code: int) -> Instruction:
    return RETURN, 0, 0, FAIL | code


def _argument(place: int) -> Instruction:
    return LOAD, 0, 0, 16 + 8 * place  # low half; flags and numbers are 32 bits wide


def _only(number: int, block: list[Instruction]) -> list[Instruction]:
    """`block`, which always returns, for the call `number`; else on to what follows."""
    return [(EQUAL, 0, len(block), number), *block]


def program(machine: str, pid: int) -> list[Instruction]:
    """The filter as BPF instructions (code, jump if true, jump if false, value).

    Args:
        machine: a key of `ARCHITECTURES`.
        pid: the process's own number; it may send signals to itself only.
    """
    word, which = ARCHITECTURES[machine]
    allow: Instruction = (RETURN, 0, 0, ALLOW)
    made: list[Instruction] = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, word), (RETURN, 0, 0, KILL),
                               (LOAD, 0, 0, 0)]
    for numbers in PLAIN.values():
        number = numbers[which]
        if number is not None:
            made += _only(number, [allow])
    for x86, arm, place, values in BY_VALUE.values():
        known = (pid,) if isinstance(values, str) else values
        tests = [line for value in known for line in ((EQUAL, 0, 1, value), allow)]
        made += _only((x86, arm)[which], [_argument(place), *tests, _fail(errno.EPERM)])
    for pair, place in OPEN.values():
        number = pair[which]
        if number is not None:
            made += _only(number, [_argument(place), (ANY_BIT, 0, 1, WRITING),
                                   _fail(errno.EACCES), allow])
    made += _only(CLONE[which], [_argument(0), (ANY_BIT, 2, 0, CLONE_NEW),
                                 (ANY_BIT, 0, 1, CLONE_THREAD), allow, _fail(errno.EPERM)])
    made += _only(CLONE3[which], [_fail(errno.ENOSYS)])  # its flags cannot be seen: use clone
    return [*made, _fail(errno.EPERM)]


class _Filter(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8),
                ("k", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("len", ctypes.c_uint16), ("filter", ctypes.POINTER(_Filter)))


def install(machine: str) -> str:
    """Install the filter for every thread, for good. Returns why not; empty if it worked."""
    if machine not in ARCHITECTURES:
        return f"no table of system calls for machines of type {machine}"
    lines = program(machine, os.getpid())
    array = (_Filter * len(lines))(*[_Filter(*line) for line in lines])
    libc = ctypes.CDLL(None, use_errno=True)
    call = {"x86_64": 317, "aarch64": 277}[machine]
    whole = _Program(len(lines), array)
    if libc.syscall(call, 1, 1, ctypes.byref(whole)) != 0:  # SET_MODE_FILTER, TSYNC
        return f"seccomp filters are not available ({os.strerror(ctypes.get_errno())})"
    return ""
