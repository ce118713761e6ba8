"""Which code answers chunks: a digest that drivers, workers and the ledger can compare."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

_PACKAGES: Final = ("engines", "facts", "kernels", "noise", "questions", "spool", "tables")


@cache
def kernels_digest() -> str:
    """Of the source files that decide what a chunk answers: 16 hexadecimal digits. Public."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for file in sorted((root / package).glob("**/*.py")):
            text = file.read_bytes()
            digest.update(f"{file.relative_to(root).as_posix()}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()[:16]


def described(engine: str) -> str:
    """An engine, and the code that its workers run, for the ledger."""
    return f"{engine}, kernels sha256:{kernels_digest()}"
