"""Is a database's schema `privledger` what the migrations make, and nothing else?

A trigger, a rule, a policy or a changed function that an attacker planted can take grants back as
they are written. The system's catalogs are read one line for each table, column, constraint,
index, trigger, rule, policy and function, and compared with the lines of `catalog.txt`. Lines are
made of what the catalogs store, not of what a server's version prints. Names in queries are whole,
so that no search path matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files

from privledger.findings import Finding
from privledger.ledger.store import PLACE
from privledger.storage.postgres_sql import Connection

MOST_TOLD = 20
LOOK = "privledger_look"
_READ_FROM = tuple(
    f"{what} {table} " for table in ("ledgers", "entries", "vectors", "migrations")
    for what in ("column", "policy", "child", "rule", *(f"relation {kind}" for kind in "rvmfp")))

_HERE = "(SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = 'privledger')"
_TABLES = ("SELECT c.* FROM pg_catalog.pg_class c WHERE c.relnamespace = "
           f"{_HERE} AND c.relkind <> 'i'")

_LINES = f"""
SELECT pg_catalog.concat_ws(' ', 'relation', c.relkind, c.relname, c.relpersistence, am.amname,
    'rls', c.relrowsecurity, c.relforcerowsecurity, 'options', c.reloptions,
    'owner', c.relowner = n.nspowner)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam
WHERE n.nspname = 'privledger' AND c.relkind <> 'i'
UNION ALL
SELECT pg_catalog.concat_ws(' ', 'column', c.relname, a.attnum, a.attname,
    pg_catalog.format_type(a.atttypid, a.atttypmod), 'not null', a.attnotnull,
    'identity', a.attidentity, 'generated', a.attgenerated, 'dropped', a.attisdropped,
    'default', pg_catalog.pg_get_expr(d.adbin, d.adrelid))
FROM ({_TABLES}) c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relkind <> 'S'
UNION ALL
SELECT pg_catalog.concat_ws(' ', 'constraint', c.relname, x.contype, x.conname, x.conkey,
    'to', o.relname, x.confkey, x.confupdtype, x.confdeltype, x.confmatchtype,
    'deferrable', x.condeferrable, x.condeferred, 'valid', x.convalidated,
    'check', pg_catalog.pg_get_expr(x.conbin, x.conrelid))
FROM ({_TABLES}) c JOIN pg_catalog.pg_constraint x ON x.conrelid = c.oid AND x.contype <> 'n'
LEFT JOIN pg_catalog.pg_class o ON o.oid = x.confrelid
UNION ALL
SELECT pg_catalog.concat_ws(' ', 'index', c.relname, o.relname, am.amname, 'unique',
    i.indisunique, 'primary', i.indisprimary, 'valid', i.indisvalid, i.indisready, i.indkey,
    'where', pg_catalog.pg_get_expr(i.indpred, i.indrelid),
    pg_catalog.pg_get_expr(i.indexprs, i.indrelid))
FROM ({_TABLES}) c JOIN pg_catalog.pg_index i ON i.indrelid = c.oid
JOIN pg_catalog.pg_class o ON o.oid = i.indexrelid
JOIN pg_catalog.pg_am am ON am.oid = o.relam
UNION ALL
SELECT pg_catalog.concat_ws(' ', 'trigger', c.relname,
    CASE WHEN t.tgisinternal THEN 'of the server' ELSE t.tgname::text END, t.tgtype, t.tgenabled,
    m.nspname, p.proname, x.conname, t.tgdeferrable, t.tginitdeferred, t.tgnargs, t.tgattr,
    'when', t.tgqual IS NOT NULL)
FROM ({_TABLES}) c JOIN pg_catalog.pg_trigger t ON t.tgrelid = c.oid
JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
JOIN pg_catalog.pg_namespace m ON m.oid = p.pronamespace
LEFT JOIN pg_catalog.pg_constraint x ON x.oid = t.tgconstraint
UNION ALL
SELECT pg_catalog.concat_ws(' ', 'rule', c.relname, r.rulename, r.ev_type, r.ev_enabled)
FROM ({_TABLES}) c JOIN pg_catalog.pg_rewrite r ON r.ev_class = c.oid
UNION ALL
SELECT pg_catalog.concat_ws(' ', 'policy', c.relname, p.polname, p.polcmd, p.polpermissive)
FROM ({_TABLES}) c JOIN pg_catalog.pg_policy p ON p.polrelid = c.oid
UNION ALL
SELECT pg_catalog.concat_ws(' ', 'child', c.relname, m.nspname, o.relname)
FROM ({_TABLES}) c JOIN pg_catalog.pg_inherits i ON i.inhparent = c.oid OR i.inhrelid = c.oid
JOIN pg_catalog.pg_class o ON o.oid = CASE WHEN i.inhparent = c.oid THEN i.inhrelid
                                          ELSE i.inhparent END
JOIN pg_catalog.pg_namespace m ON m.oid = o.relnamespace
UNION ALL
SELECT pg_catalog.concat_ws(' ', 'function', p.prokind, p.proname,
    pg_catalog.pg_get_function_identity_arguments(p.oid), 'returns',
    pg_catalog.pg_get_function_result(p.oid), l.lanname, p.provolatile, 'strict', p.proisstrict,
    'definer', p.prosecdef, 'leakproof', p.proleakproof, 'set', p.proconfig,
    'owner', p.proowner = n.nspowner, 'text', pg_catalog.md5(p.prosrc))
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
JOIN pg_catalog.pg_language l ON l.oid = p.prolang
WHERE n.nspname = 'privledger'
UNION ALL
SELECT pg_catalog.concat_ws(' ', 'other', d.classid::pg_catalog.regclass, pg_catalog.count(*))
FROM pg_catalog.pg_depend d WHERE d.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass
AND d.refobjid = {_HERE} AND d.classid NOT IN ('pg_catalog.pg_class'::pg_catalog.regclass,
    'pg_catalog.pg_proc'::pg_catalog.regclass, 'pg_catalog.pg_default_acl'::pg_catalog.regclass)
GROUP BY d.classid
"""

# A sum over every row that a change of one of these objects would write anew, by its transaction:
# cheap enough for each transaction. If it differs from the last, everything is compared again.
_SUM = ("(SELECT pg_catalog.concat(pg_catalog.count(*), ':', pg_catalog.sum("
        "(x.xmin::pg_catalog.text::pg_catalog.int8 * 1000003) # ({key}::pg_catalog.int8 * 40503)))"
        " FROM pg_catalog.{table} x WHERE {where})")
_SUMS = (
    ("pg_depend", "x.objid", "x.refclassid = 2615 AND x.refobjid IN ({schema})"),
    ("pg_proc", "x.oid", "x.oid IN ({functions})"), ("pg_class", "x.oid", "x.oid IN ({tables})"),
    ("pg_attribute", "x.attnum", "x.attrelid IN ({tables}) AND x.attnum > 0"),
    ("pg_trigger", "x.oid", "x.tgrelid IN ({tables})"),
    ("pg_constraint", "x.oid", "x.conrelid IN ({tables})"),
    ("pg_index", "x.indexrelid", "x.indrelid IN ({tables})"),
    ("pg_rewrite", "x.oid", "x.ev_class IN ({tables})"),
    ("pg_policy", "x.oid", "x.polrelid IN ({tables})"),
    ("pg_inherits", "x.inhrelid", "x.inhparent IN ({tables})"),
)
_OBJECTS = f"""
SELECT n.oid, d.classid, d.objid FROM pg_catalog.pg_namespace n
LEFT JOIN pg_catalog.pg_depend d ON d.refclassid = 2615 AND d.refobjid = n.oid
WHERE n.oid = {_HERE}
"""
_CLASS, _FUNCTION = 1259, 1255  # the system's own numbers of pg_class and pg_proc

_RIGHTS = """
SELECT DISTINCT coalesce(r.rolname::text, 'everybody'), c.relname::text
FROM pg_catalog.pg_class c
CROSS JOIN LATERAL (
    SELECT x.grantee, x.privilege_type FROM pg_catalog.aclexplode(c.relacl) x
    UNION SELECT x.grantee, x.privilege_type FROM pg_catalog.pg_attribute b
        CROSS JOIN LATERAL pg_catalog.aclexplode(b.attacl) x WHERE b.attrelid = c.oid) a
LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
WHERE c.relnamespace = (SELECT n.oid FROM pg_catalog.pg_namespace n
                        WHERE n.nspname = 'privledger')
    AND a.grantee <> c.relowner AND c.relkind IN ('r', 'v', 'p')
    AND a.privilege_type NOT IN ('SELECT', 'MAINTAIN') ORDER BY 1, 2
"""


@cache
def expected() -> frozenset[str]:
    """The lines of a schema that the migrations made."""
    text = (files("privledger.storage") / "catalog.txt").read_text(encoding="utf-8")
    return frozenset(text.splitlines())


def lines(connection: Connection) -> list[str]:
    """The schema as it is, one line for each object, sorted. A line that comes twice is told."""
    found = sorted(str(line) for (line,) in connection.execute(_LINES))
    return [line if line != before else f"{line} (again)"
            for line, before in zip(found, ["", *found], strict=False)]


def prepare_catalog(connection: Connection, *, again: bool = False) -> None:
    """Plan the look at the objects that are there now, once for a connection.

    No user's objects come before the system's from here on.
    """
    connection.execute("SET search_path = pg_catalog, pg_temp")
    found = connection.execute(_OBJECTS).fetchall()
    here = {"schema": _numbers(schema for schema, _, _ in found),
            "tables": _numbers(number for _, kind, number in found if kind == _CLASS),
            "functions": _numbers(number for _, kind, number in found if kind == _FUNCTION)}
    sums = ", ".join(_SUM.format(table=table, key=key, where=where.format(**here))
                     for table, key, where in _SUMS)
    connection.execute((f"DEALLOCATE {LOOK}; " if again else "").encode("ascii")
                       + f"PREPARE {LOOK} AS SELECT pg_catalog.concat_ws(' ', {sums})".encode())


def _numbers(found: Iterable[int]) -> str:
    return ", ".join(sorted({str(int(number)) for number in found})) or "0"


def look(connection: Connection) -> object:
    """The sums now."""
    row = connection.execute(f"EXECUTE {LOOK}".encode("ascii")).fetchone()
    return None if row is None else row[0]


def strange(connection: Connection) -> list[Finding]:
    """How the schema differs from what the migrations make."""
    found, wanted = set(lines(connection)), expected()
    return list(_told(sorted(found - wanted), "not made by privledger: ")) + list(
        _told(sorted(wanted - found), "missing or changed: "))


def unreadable(finding: Finding) -> bool:
    """Whether reading entries or vectors may do something else than read tables."""
    _, _, line = finding.message.partition(": ")
    return line.startswith(_READ_FROM)


def _told(differing: list[str], words: str) -> Iterator[Finding]:
    for line in differing[:MOST_TOLD]:
        yield Finding(PLACE, -1, words + _short(line))
    if len(differing) > MOST_TOLD:
        yield Finding(PLACE, -1, f"{words}{len(differing) - MOST_TOLD} more")


def _short(line: str) -> str:
    """The kind and the names of a line."""
    text = "".join(letter if letter.isprintable() else "?" for letter in line)
    return text if len(text) <= 120 else text[:117] + "..."


def too_many_rights(connection: Connection) -> list[Finding]:
    """Users but the owner who may write a table without asking a function."""
    return [Finding(PLACE, -1, f"{who} may write {table} directly; a client needs SELECT, and "
                               "EXECUTE on the functions")
            for who, table in connection.execute(_RIGHTS)]
