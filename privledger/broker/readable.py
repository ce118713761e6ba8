"""What a learner's process has to read to run: libraries and its own code, and nothing else."""

from __future__ import annotations

import importlib.util
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from attrs import frozen

from privledger.errors import IsolationUnavailable, LearnerError

SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/alternatives",
          "/nix/store")
SYSTEM_FILES = ("/etc/ld.so.cache",)
LIBRARIES = ("site-packages", "dist-packages")


@frozen
class Places:
    """Where things are.

    Attributes:
        path: what `sys.path` of the new process has after the standard library.
        packages: packages that lie outside of it, by name.
        folders, files: what stays readable.
    """

    path: tuple[str, ...]
    packages: dict[str, str]
    folders: tuple[str, ...]
    files: tuple[str, ...]

    def check(self, private: tuple[Path, ...]) -> None:
        """Raise `IsolationUnavailable` if a private file could be read there."""
        for path in private:
            real = path.resolve()
            for place in (*self.folders, *self.files):
                if real.is_relative_to(Path(place).resolve()):
                    raise IsolationUnavailable(
                        f"{path.name} lies below {place}, which the learner's process has to "
                        "read; move it elsewhere. Nothing was read")

    def as_dict(self) -> dict[str, Any]:
        """For JSON, as the learner's process reads it before it is confined."""
        return {"path": list(self.path), "packages": self.packages,
                "folders": list(self.folders), "files": list(self.files)}


def find_places(point: EntryPoint) -> Places:
    """Everything that the learner at an entry point needs; nothing of it is imported.

    Raises:
        LearnerError: its package cannot be found.
    """
    numpy = str(package_place("numpy").parent)  # wherever the libraries of this package are
    libraries = list(dict.fromkeys([*(entry for entry in sys.path
                                      if Path(entry).name in LIBRARIES), numpy]))
    packages: dict[str, str] = {}
    for name in dict.fromkeys(("privledger", point.module.partition(".")[0])):
        place = package_place(name)
        if place.parent.resolve() not in {Path(entry).resolve() for entry in libraries}:
            packages[name] = str(place.resolve())
    folders = [place for place in packages.values() if Path(place).is_dir()]
    files = [place for place in packages.values() if Path(place).is_file()]
    own = [str(Path(sys.base_prefix) / name) for name in ("lib", "lib64")]
    return Places(tuple(libraries), packages, (*SYSTEM, *own, *libraries, *folders),
                  (*SYSTEM_FILES, *files))


def package_place(name: str) -> Path:
    """Folder of a package, or file of a module; found, not imported."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise LearnerError(f"the package {name!r} cannot be found")
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    if spec.origin is None or not Path(spec.origin).is_file():
        raise LearnerError(f"the package {name!r} is not a folder or a file")
    return Path(spec.origin)
