"""Timing and tables for the benchmark scripts."""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def asked(doc: str | None, **options: Any) -> argparse.Namespace:
    """What the caller asks for, an option for each keyword, whose value is the default: a list
    takes several words, a tuple of texts is a choice among them, False is a flag, a type has no
    default, and a type in a tuple has to be given."""
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in options.items():
        many, tuple_ = isinstance(default, list), isinstance(default, tuple)
        one = default[0] if many or tuple_ else default
        more: dict[str, Any] = {"action": "store_true"} if default is False else {
            "type": one if isinstance(one, type) else type(one), "nargs": "+" if many else None}
        if isinstance(one, type):
            more["required"] = tuple_
        else:
            more["default"] = default if many else one
            more |= {"choices": default} if tuple_ else {}
        parser.add_argument("--" + name.replace("_", "-"), **more)
    return parser.parse_args()


def spread(values: Sequence[float], digits: int = 3) -> str:
    """median (min to max)."""
    return (f"{statistics.median(values):.{digits}g} "
            f"({min(values):.{digits}g} to {max(values):.{digits}g})")


def times(action: Callable[[], Any], runs: int,
          clock: Callable[[], float] = time.perf_counter) -> list[float]:
    """Seconds of each run, on the wall or of another clock."""
    found = []
    for _ in range(runs):
        start = clock()
        action()
        found.append(clock() - start)
    return found


def cpu_times(action: Callable[[], Any], runs: int) -> list[float]:
    """Seconds of CPU time of each run."""
    return times(action, runs, time.process_time)


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def keep_part(name: str, text: str) -> None:
    """Keep what was measured as the part `name` of a page, and renew the pages."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.made_pages import blocks_of, keep, measured_parts, renew

    keep(measured_parts() | {name: blocks_of(text)})
    renew()


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def status_megabytes(field: str) -> float:
    """`VmRSS` or `VmHWM` (its peak) of this process; Linux only.

    Not ru_maxrss, which a child process inherits from its parent.
    """
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise OSError(f"{field} is unknown here")


def forget_peak() -> None:
    """Start VmHWM anew."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def fsync_rate(seconds: float = 0.5) -> float:
    """Appends of 100 bytes with fsync per second, in the temporary directory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "probe"
        with path.open("ab") as file:
            count, stop = 0, time.perf_counter() + seconds
            while time.perf_counter() < stop:
                file.write(b"x" * 100)
                file.flush()
                os.fsync(file.fileno())
                count += 1
    return count / seconds


def machine() -> str:
    """Processor, cores, system, versions that matter, and how busy it is."""
    import numpy
    import scipy
    import sklearn

    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return (f"{name}, {os.cpu_count()} cores, {platform.system()}, Python "
            f"{platform.python_version()}, numpy {numpy.__version__}, scipy {scipy.__version__}, "
            f"scikit-learn {sklearn.__version__}, load {os.getloadavg()[0]:.1f}")
