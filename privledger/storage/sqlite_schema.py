"""The schema of a ledger file, to the letter, and what in a file differs from it.

A file may have been touched by anybody. A trigger can delete a charge as it is written, a view
can stand where the history should be, an index can hold other rows than its table. So whatever
is not exactly what privledger wrote is named, and a file with any of it grants nothing. Files of
the formats 1 to 3 have the same tables.
"""

from __future__ import annotations

import sqlite3
from typing import Any, TypeAlias

APPLICATION_ID = 0x70726C67  # "prlg"
IN_USE = 0x70726C68  # from before the first write until a clean close: the log belongs to it

TABLES = (
    """CREATE TABLE entries (
    position INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL,
    previous TEXT NOT NULL, hash TEXT NOT NULL
) STRICT""",
    "CREATE TABLE vectors (name TEXT PRIMARY KEY, data BLOB NOT NULL) STRICT",
)
TRIGGERS = (
    """CREATE TRIGGER entries_keep BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'history is append-only'); END""",
    """CREATE TRIGGER entries_stay BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'history is append-only'); END""",
)
# Made by the first checkpoint; a file without them is as good, and an earlier version does not
# look at them. `closed` has the names of grants that are over, in the order they ended.
CHECKPOINTS = (
    "CREATE TABLE checkpoint (one INTEGER PRIMARY KEY CHECK (one = 1), "
    "position INTEGER NOT NULL, head TEXT NOT NULL, state TEXT NOT NULL, seal TEXT NOT NULL) "
    "STRICT",
    "CREATE TABLE closed (number INTEGER PRIMARY KEY, names TEXT NOT NULL) STRICT",
)

_MOST = 40
_READ = ("SELECT type, name, tbl_name, rootpage, substr(sql, 1, 1000), "
         f"length(CAST(sql AS BLOB)) FROM sqlite_master LIMIT {_MOST}")
Objects: TypeAlias = list[tuple[Any, ...]]


def _object(sql: str) -> tuple[tuple[str, str], tuple[Any, ...]]:
    words = sql.split()
    kind, name = words[1].lower(), words[2]
    table = words[words.index("ON") + 1] if kind == "trigger" else name
    return (kind, name), (table, sql, len(sql))


_FIRST: dict[tuple[Any, Any], tuple[Any, ...]] = dict(map(_object, (*TABLES, *TRIGGERS)))
_FIRST["index", "sqlite_autoindex_vectors_1"] = "vectors", None, None  # of the primary key
_LATER: dict[tuple[Any, Any], tuple[Any, ...]] = dict(map(_object, CHECKPOINTS))


def read_objects(connection: sqlite3.Connection) -> Objects:
    """What the file says is in it. Reading this list runs nothing of it."""
    return connection.execute(_READ).fetchall()


def differences(found: Objects) -> list[str]:
    """A sentence for everything that is not as privledger writes it."""
    said, names = [], [(kind, name) for kind, name, *_ in found]
    known = _FIRST | _LATER
    for kind, name, table, _, sql, length in found:
        right = known.get((kind, name)) if isinstance(name, str) else None
        if right is None:
            said.append(f"{_shown(kind, name)} is nothing that privledger made")
        elif (table, sql, length) != right:
            said.append(f"{_shown(kind, name)} is not the one that privledger makes")
        elif names.count((kind, name)) > 1:
            said.append(f"there are two of {_shown(kind, name)}")
    wanted = [*_FIRST, *(_LATER if any(name in _LATER for name in names) else ())]
    said += [f"{_shown(*name)} is missing" for name in wanted if name not in names]
    if len(found) >= _MOST:
        said.append("there are many more such objects")
    return [*said, *_roots(found)]


def _roots(found: Objects) -> list[str]:
    """Every table has pages of its own: two on the same ones could be written through each."""
    roots = [root for kind, _, _, root, *_ in found if kind in ("table", "index")]
    others = [root for kind, _, _, root, *_ in found if kind not in ("table", "index")]
    if len(set(roots)) < len(roots):
        return ["two tables or indexes share their pages"]
    if any(type(root) is not int or root < 2 for root in roots) or any(others):
        return ["a table or index has no pages of its own"]
    return []


def is_readable_format(found: Objects, name: str) -> bool:
    """Whether `name` is that table and nothing else, so that an auditor may read it."""
    rows = [row for row in found if row[1] == name]
    right = (_FIRST | _LATER)["table", name]
    if len(rows) != 1 or rows[0][0] != "table" or (*rows[0][2:3], *rows[0][4:]) != right:
        return False
    root = rows[0][3]
    return type(root) is int and root > 1 and [row[3] for row in found].count(root) == 1


def _shown(kind: object, name: object) -> str:
    """Names from a file that anybody may have written: short, and in printable ASCII."""
    plain = kind if kind in ("table", "index", "trigger", "view") else "an object"
    article = "" if plain == "an object" else "the "
    return f"{article}{plain} {ascii(name)[:60]}"
