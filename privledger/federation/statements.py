"""What owners sign at the end: that all of them were asked the same, and where it is charged."""

from __future__ import annotations

from privledger.errors import NotGranted
from privledger.facts.values import Json, bytes_in, bytes_out, table, text
from privledger.federation.enlisted import Run, is_signed, signed
from privledger.graph import canonical

_MARK = b"privledger federation statement 1\0"


def statement(run: Run, name: str, secret: bytes, rounds: int, transcript: bytes,
              receipt: Json) -> Json:
    """One owner's word on a finished run, with the receipt of its ledger."""
    body: Json = {"owner": name, "run": run.digest.hex(), "rounds": rounds,
                  "transcript": transcript.hex(), "receipt": receipt}
    return body | {"signature": bytes_out(signed(secret, _MARK + canonical(body).encode()))}


def verify_statements(run: Run, statements: list[Json]) -> list[str]:
    """What is wrong with the statements of a run; empty if one transcript reached everybody.

    It says nothing of the ledgers themselves: each has `verify`, and its receipt is in here.
    """
    wrong: list[str] = []
    told: dict[str, tuple[str, str]] = {}
    for one in statements:
        try:
            owner = run.owner(text(table(one), "owner", 100))
            body = {key: value for key, value in one.items() if key != "signature"}
            if not is_signed(owner.key, bytes_in(one, "signature"),
                             _MARK + canonical(body).encode()):
                wrong.append(f"{owner.name}: not signed by the key on the roster")
            elif one.get("run") != run.digest.hex():
                wrong.append(f"{owner.name}: of another run")
            elif owner.name in told:
                wrong.append(f"{owner.name}: there twice")
            else:
                told[owner.name] = (str(one.get("rounds")), text(one, "transcript", 64))
        except NotGranted:
            wrong.append("a statement of a stranger")
        except Exception:
            wrong.append("a statement that cannot be read")
    wrong += [f"{name}: no statement" for name in run.names if name not in told]
    if len(set(told.values())) > 1:
        wrong.append("the owners were not asked the same: split views")
    return wrong
