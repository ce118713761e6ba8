"""Owners as processes that call over loopback with mutual TLS: their processor time and bytes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from federated import DELTA, EPSILON, beside, model
from measure import table

import privledger as pl
from learners import load
from privledger.federation import Federation, Party, Run, calls
from privledger.federation.calls import Callers, answer_calls
from privledger.federation.cards import new_identity, read_card, read_identity, write_identity

BUDGET = pl.Budget(EPSILON, DELTA)
OWNERS, FITS = (1, 5, 20), 20
NOISES = {"local": "What the whole noise of every owner costs",
          "shared": "Noise that owners share, one owner assumed to tell"}


def weighed() -> list[int]:
    """Bytes of all messages of this process, in and out, from now on."""
    sizes, written, parsed = [0, 0], calls.written_message, calls.parsed

    def back(data: bytes) -> Any:
        sizes[0] += len(data)
        return parsed(data)

    def out(value: Any) -> bytes:
        data = written(value)
        sizes[1] += len(data)
        return data

    calls.parsed, calls.written_message = back, out
    return sizes


def owner(config: Any) -> None:
    """One owner's whole life; prints its seconds and bytes from the first word to the last."""
    schema, X, y = load(Path(config["data"]), "abalone")
    rows = slice(*config["rows"])
    agreed = config["agreed"]
    run = Run.from_agreed(agreed)
    own = read_identity(config["secret"])
    with pl.Ledger.create(config["ledger"], budget=BUDGET) as ledger:
        data = ledger.protect(X.iloc[rows], y.iloc[rows], schema)
        party, sizes = Party(run, own.card.owner.name, data, own.secret), weighed()
        start = time.process_time()
        answer_calls(party, own, read_card(config["other"]), config["address"])
        print(json.dumps([time.process_time() - start, *sizes, ledger.spent]))


def fit(data: Path, k: int) -> list[list[float]]:
    """One fit of 200 trees with k owners: what each of them printed, and the trainer's seconds."""
    schema, _X, y = load(data, "abalone")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        own = [new_identity(f"owner-{i}") for i in range(k)]
        boss = new_identity("boss")
        for one in (*own, boss):
            write_identity(one, place)
        run = Run.of("a run", tuple(one.card.owner for one in own), schema,
                     model(schema, 0).plan(schema), delta=DELTA, learner="sgbdt-regressor")
        with Callers(run, tuple(one.card for one in own), boss, "127.0.0.1:0") as there:
            processes = []
            for i in range(k):
                config = place / f"{i}.json"
                config.write_text(json.dumps({
                    "data": str(data), "rows": [len(y) * i // k, len(y) * (i + 1) // k],
                    "agreed": run.agreed, "secret": str(place / f"owner-{i}.secret"),
                    "other": str(place / "boss.card"), "ledger": str(place / f"{i}.ledger"),
                    "address": f"127.0.0.1:{there.port}"}))
                processes.append(subprocess.Popen(
                    [sys.executable, __file__, str(config)], stdout=subprocess.PIPE))
            there.wait(60)
            start = time.process_time()
            wall = time.perf_counter()
            model(schema, 0).fit(Federation(run, schema, there.lines, BUDGET).data)
            spent = [time.process_time() - start, time.perf_counter() - wall]
        return [json.loads(one.communicate()[0]) + spent for one in processes]


def report(arguments: Any) -> str:
    rows = []
    for k in OWNERS:
        found = fit(Path(arguments.data), k)
        rows.append([k, f"{max(one[0] for one in found):.2f}",
                     f"{max(one[1] for one in found) / 1e6:.2f}",
                     f"{max(one[2] for one in found) / 1e6:.2f}", f"{found[0][4]:.2f}",
                     f"{found[0][5]:.1f}"])
    return ("## Several owners over a network\n\nAbalone, epsilon .54, S-GBDT with 200 trees. "
            "Every owner is a process that calls over loopback, with masks and TLS on both sides "
            "and a ledger in a file; the dearest owner is shown (goal: .5 CPU s). Bytes are those "
            "of messages.\n\n"
            + table(["owners", "CPU s of an owner", "MB down", "MB up", "CPU s of the trainer",
                     "seconds"], rows)
            + "".join(f"\n\n{said} (in one process, {FITS} fits, the same splits for both):\n\n"
                      + beside(Path(arguments.data), noise, FITS, OWNERS[1:])
                      for noise, said in NOISES.items()))


if __name__ == "__main__":
    owner(json.loads(Path(sys.argv[1]).read_text()))
