"""Files that anybody may have written: an honest ledger, tampered with in 200 ways.

Pages, entries (hashed again), sizes and, where the schema is compared, the schema.
"""

import json
import random
import sqlite3
import zlib
from hashlib import sha256

import privledger as pl
from privledger.ledger import limits
from privledger.storage.sqlite import SQLiteStore
from tests.standalone import histories
from tests.standalone.conftest import chained

NODE = pl.Gaussian(20.0)
PAGES, ENTRIES = 70, 90
SCHEMA = (
    "CREATE TRIGGER z AFTER INSERT ON entries WHEN new.position > 5 BEGIN "
    "DELETE FROM entries WHERE position = new.position; END",
    "CREATE TRIGGER z BEFORE INSERT ON entries BEGIN SELECT RAISE(IGNORE); END",
    "DROP TRIGGER entries_keep", "DROP TRIGGER entries_stay", "CREATE TABLE more (x)",
    "CREATE INDEX i ON entries (kind)", "CREATE VIEW v AS SELECT * FROM entries",
    "ALTER TABLE entries RENAME TO hidden; CREATE VIEW entries AS WITH RECURSIVE n(x) AS "
    "(SELECT 0 UNION ALL SELECT x + 1 FROM n) SELECT x AS position, 'refused' AS kind, '{}' AS "
    "body, '' AS previous, '' AS hash FROM n",
    "DROP TABLE vectors; CREATE VIEW vectors AS SELECT 'a' AS name, zeroblob(900000000) AS data",
    "ALTER TABLE entries ADD COLUMN more TEXT", "DROP TABLE entries", "DROP TABLE vectors",
    "CREATE TRIGGER z AFTER INSERT ON vectors BEGIN DELETE FROM vectors; END")


def honest(path):
    """A ledger in which some of the budget is spent, one grant is behind a filter."""
    ledger = pl.Ledger.create(path, budget=pl.Budget(1.0, 1e-6), filter="gdp")
    data = ledger.protect(histories.ROWS, schema=histories.SCHEMA, name="people")
    scope = ledger.open_scope(pl.IndividualFilter("gdp", 1e-3), name="scope")
    with ledger.request(scope.node, data, scope=scope) as session:
        session.release(pl.Gaussian(300.0), session.filtered().sum("x"))
    for _ in range(3):
        with ledger.request(NODE, data) as session:
            session.release(NODE, data.count())
    ledger.close()


def lines_in(path):
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT * FROM entries ORDER BY position").fetchall()
    connection.close()
    return [{"position": row[0], "kind": row[1], "body": json.loads(row[2]), "previous": row[3],
             "hash": row[4]} for row in rows]


def write(path, lines, texts=None, vectors=()):
    """Entries in place of what is there; `texts` has bodies that are no canonical JSON."""
    with sqlite3.connect(path) as connection:
        connection.executescript("DROP TRIGGER entries_keep; DROP TRIGGER entries_stay; "
                                 "DELETE FROM entries")
        for line in lines:
            body = (texts or {}).get(line["position"]) or json.dumps(
                line["body"], sort_keys=True, separators=(",", ":"))
            connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)",
                               (line["position"], line["kind"], body, line["previous"],
                                line["hash"]))
        connection.executemany("REPLACE INTO vectors VALUES (?, ?)", vectors)
        for name, when in (("keep", "UPDATE"), ("stay", "DELETE")):
            connection.execute(f"CREATE TRIGGER entries_{name} BEFORE {when} ON entries\n"
                               "    BEGIN SELECT RAISE(ABORT, 'history is append-only'); END")
    connection.close()


def pages(path, seed):
    """Bytes of the file flipped, cleared or exchanged, a page at a time."""
    source, raw = random.Random(seed), bytearray(path.read_bytes())
    for _ in range(source.randint(1, 4)):
        at, size = source.randrange(len(raw)), source.choice([1, 4, 64, 4096])
        kind = source.choice(["flip", "clear", "noise", "copy"])
        part = raw[at:at + size]
        raw[at:at + len(part)] = {
            "flip": bytes(one ^ (1 << source.randrange(8)) for one in part),
            "clear": bytes(len(part)), "noise": source.randbytes(len(part)),
            "copy": (raw[:size] * 2)[:len(part)]}[kind]
    path.write_bytes(raw)


def one_body(path, kind, body=None, text=None, vectors=()):
    """The last entry exchanged for one of `kind`, hashed as if it belonged there."""
    lines = lines_in(path)
    lines.append({"position": len(lines), "kind": kind, "body": body or {}, "previous": "",
                  "hash": ""})
    lines = chained(lines)
    texts = None
    if text is not None:
        last = lines[-1]
        whole = f'{last["previous"]}[{last["position"]},"{kind}",{text}]'
        lines[-1] = {**last, "hash": sha256(whole.encode("utf-8", "replace")).hexdigest()}
        texts = {last["position"]: text}
    write(path, lines, texts, vectors)


def grant(plan, units=0):
    return {"grant": "g", "learner": "", "data": "people", "plan": plan, "delta": 0.0,
            "units": units, "delta_units": 0, "scope": None, "labels": {}, "time": "",
            "lease": None, "isolation": "guarded", "holder": {"host": "", "pid": 1, "started": ""}}


def sampled(count):
    return {"node": "Sequential", "nodes": [
        {"node": "PoissonSample", "rate": 0.01 + place * 1e-6,
         "inner": {"node": "Gaussian", "noise_multiplier": 1.0 + place * 1e-3, "shares": []}}
        for place in range(count)]}


def mixed(count, deep=1):
    node = {"node": "Sequential", "nodes": [
        {"node": "Laplace", "scale": 1.0 + place * 1e-3, "l1_sensitivity": 1.0}
        for place in range(count)]}
    for _ in range(deep):
        node = {"node": "Sequential", "nodes": [node]}
    return node


def vector_bomb(path, records, says=None):
    raw = (says or records).to_bytes(8, "little") + bytes(12 * records)
    data = zlib.compress(raw, 9)
    lines = lines_in(path)
    for line in lines:
        if line["body"].get("vector"):
            line["body"]["vector"]["sha256"] = sha256(data).hexdigest()
            name = line["body"]["vector"]["name"]
    write(path, chained(lines), None, [(name, data)])


LARGE = {
    "a body of 60 MB": lambda path: one_body(path, "refused", text='"' + "a" * 60_000_000 + '"'),
    "a body of lists": lambda path: one_body(path, "refused", text="[" + "[]," * 1_000_000 + "[]]"),
    "a deep body": lambda path: one_body(path, "refused", text="[" * 100_000 + "]" * 100_000),
    "a deep plan": lambda path: one_body(path, "granted", grant(mixed(1, 120))),
    "a number of 10^5 digits": lambda path: one_body(path, "refused", text="9" * 100_000),
    "a large exponent": lambda path: one_body(path, "refused", text='{"asked":1e999999}'),
    "not a number": lambda path: one_body(path, "refused", text='{"asked":NaN}'),
    "a key twice": lambda path: one_body(path, "refused", text='{"learner":"","learner":"x"}'),
    "half a letter": lambda path: one_body(path, "window", {"window": "\ud800", "time": "\0"}),
    "a zero letter": lambda path: one_body(path, "refused", text='{"unit":"\x00"}'),
    "900 samples": lambda path: one_body(path, "granted", grant(sampled(900), 2**191)),
    "5,000 samples": lambda path: one_body(path, "granted", grant(sampled(5000), 2**191)),
    "20,000 nodes": lambda path: one_body(path, "granted", grant(mixed(12_000), 2**191)),
    "a plan of 3 MB": lambda path: one_body(path, "granted", grant(mixed(45_000), 2**191)),
    "a vector of 5 million": lambda path: vector_bomb(path, 5_000_000),
    "a vector of 30 million": lambda path: vector_bomb(path, 30_000_000),
    "a vector that lies": lambda path: vector_bomb(path, 4_000_000, says=5),
    "a vector below zero": lambda path: vector_bomb(path, 5, says=2**64 - 1)}


def forged(lines, rehash):
    return [*histories.order_forgeries(lines, rehash), *histories.field_forgeries(lines, rehash)]


def corpus(path):
    """(name, how to tamper with a copy of the honest file at `path`): at least 200."""
    made = {f"page {seed}": lambda copy, seed=seed: pages(copy, seed) for seed in range(PAGES)}
    lines = lines_in(path)
    for name, forgery in histories.drawn(random.Random(3), forged, lines, ENTRIES):
        made[f"entry {name}"] = lambda copy, forgery=forgery: write(copy, forgery)
    made |= LARGE
    if hasattr(SQLiteStore, "inspect"):  # what compares the schema at opening
        made |= {f"schema {text[:40]}": lambda copy, text=text: run(copy, text) for text in SCHEMA}
        made |= {f"schema and page {place}": lambda copy, place=place: (
            pages(copy, place), run(copy, SCHEMA[place])) for place in range(len(SCHEMA))}
    return made


def run(path, text):
    try:
        with sqlite3.connect(path) as connection:
            connection.executescript(text)
        connection.close()
    except sqlite3.Error:
        pass  # a page that was damaged before


assert limits.MOST_BODY < 60_000_000
