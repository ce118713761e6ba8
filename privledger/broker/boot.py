"""First and only script of a learner's process: confine it, then import, then serve.

Run as `python -I -S -B boot.py CONFIG` with CONFIG a JSON object. Nothing but the standard
library is imported before the process is confined, so no stranger's code ever runs outside.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

LARGE = frozenset({"scipy.stats", "pandas"})
NO_MEMORY = ("failed to map segment", "annot allocate memory")


def beside(name: str) -> ModuleType:
    """A module that lies beside this file, without importing the package around it."""
    place = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"_broker_{name}", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Named:
    """Finds a few packages where they lie; the folders around them cannot be listed."""

    def __init__(self, packages: dict[str, str]) -> None:
        self.packages = packages

    def find_spec(self, name: str, path: Sequence[str] | None = None,
                  target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of a package that was handed over by name; None leaves it to the next finder."""
        place = self.packages.get(name)
        if place is None:
            return None
        if not os.path.isdir(place):
            return importlib.util.spec_from_file_location(name, place)
        first = os.path.join(place, "__init__.py")
        if os.path.exists(first):
            return importlib.util.spec_from_file_location(name, first,
                                                          submodule_search_locations=[place])
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [place]
        return spec


class Later:
    """Lets large modules load when something in them is first asked for. scikit-learn imports
    these for what a learner hardly needs, and they take longer than everything else it imports.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: Sequence[str] | None = None,
                  target: ModuleType | None = None) -> ModuleSpec | None:
        """As the other finders say, to be loaded later; None for other modules."""
        if name not in self.names:
            return None
        self.names -= {name}  # from here on the others are asked
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


def refuse_boot(output: int, text: str) -> None:
    """Tell the other side why nothing was started, in the channel's own format, and end."""
    say(output, {"unavailable": text})


def say(output: int, message: dict[str, Any]) -> None:
    """Send one framed message and end the process: nothing that was loaded runs any more."""
    data = json.dumps(message).encode()
    os.write(output, len(data).to_bytes(4, "big") + data)
    os._exit(3)


def run_boot(config: dict[str, Any]) -> None:
    """Confine, check that it holds, and hand over to the package."""
    source, output = config["input"], config["output"]
    low, high = sorted((source, output))
    os.closerange(3, low)
    os.closerange(low + 1, high)
    os.closerange(high + 1, 65536)
    try:
        sandbox, seccomp = beside("sandbox"), beside("seccomp")
        sandbox.confine(config["folders"], config["files"], config["parent"],
                        cpu_seconds=config["cpu_seconds"], memory_mb=config["memory_mb"])
        why = seccomp.install(platform.machine()) or sandbox.is_confined()
    except Exception as error:
        why = str(error) if type(error).__name__ == "Unavailable" else type(error).__name__
    if why:
        refuse_boot(output, why)
    sys.path += config["path"]
    sys.meta_path[:0] = [Later(LARGE), Named(config["packages"])]
    try:
        from privledger.broker.child import serve_child
    except Exception as error:
        if isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY):
            say(output, {"failed": {"error": "", "type": "MemoryError", "text": ""}})
        refuse_boot(output, f"its libraries cannot be imported there: {error}")
    serve_child(source, output)


if __name__ == "__main__":
    run_boot(json.loads(sys.argv[1]))
