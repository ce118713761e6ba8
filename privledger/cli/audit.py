"""`privledger audit`: try to disprove a learner's epsilon, by many guesses or by replay."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve

from privledger.accounting import UNITS, promise
from privledger.cli.output import FILE, PLACE, Reply, command, complete_learner, without_effect
from privledger.cli.terminal import GREEN, RED, YELLOW, charge, pairs, quiet_option, remainder, text
from privledger.errors import InvalidPlan, PrivledgerError
from privledger.gate import NOTHING, REFUSED
from privledger.plugins import Priced, configured, load_learner
from privledger.reports import plain
from privledger.rounding import exact, positive, probability
from privledger.tables.schema import Column, Schema
from privledger.testing.fitting import delta_of, fresh, relation_of
from privledger.testing.guessing import FITS, Guessed, guessing_audit
from privledger.testing.lockstep import Verdict, lockstep
from privledger.testing.trials import blank_example

if TYPE_CHECKING:
    from rich.console import Console


LOCK_SECONDS = 2.0


def audit_parameters(given: tuple[str, ...]) -> dict[str, Any]:
    """`key=value` pairs; a value is JSON, or text if it is none."""
    found: dict[str, Any] = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidPlan("--param", pair, "KEY=VALUE")
        try:
            found[key] = json.loads(value)
        except (ValueError, RecursionError):
            found[key] = value
    return found


def build_audited(name: str, schema: Schema, epsilon: float, delta: float | None, relation: str,
          params: dict[str, Any]) -> Any:
    """The learner with its parameters; one without a parameter `delta` may be given none."""
    positive("epsilon", epsilon)
    if delta is not None:
        probability("delta", delta, zero=True)
    kind = load_learner(name)
    params = params | {"epsilon": epsilon} | ({} if delta is None else {"delta": delta})
    if "mode" in inspect.signature(kind).parameters and params.get("mode", "private") != "private":
        raise InvalidPlan("--param mode", params["mode"], "private: seeded noise is not audited")
    return configured(kind, name, params, schema, relation)


@command
@click.argument("learner", shell_complete=complete_learner)
@click.option("--schema", "schema_file", required=True, type=FILE,
              help="Schema of a table, JSON or TOML. No table is needed.")
@click.option("--epsilon", type=float, required=True, help="Claimed epsilon of one fit.")
@click.option("--delta", type=float, help="Its delta [default: the learner's own].")
@click.option("--relation", type=click.Choice(["add_remove", "replace_one", "replace_label"]),
              default="add_remove", show_default=True, help="Which tables are neighbours.")
@click.option("--fits", type=click.IntRange(min=20, max=1_000_000), default=FITS,
              show_default=True, help="Maximum number of fits, each on one of two tables.")
@click.option("--lockstep", "by_lock", is_flag=True,
              help="Replay fits with equal answers, and check every premise of the proof.")
@click.option("--seconds", type=click.FloatRange(min=0.1, max=86_400),
              help="Processor time for --lockstep [default: 2].")
@click.option("--unit", type=click.Choice(UNITS), default="row", show_default=True,
              help="With --lockstep: how neighbours differ, by a row or by a person with several "
                   "rows.")
@click.option("--witness", metavar="FILE", type=PLACE,
              help="With --lockstep: where to write the pair of tables with the worst result; "
                   "`python -m privledger.testing.lockstep FILE` runs it again.")
@click.option("--param", "params", multiple=True, metavar="KEY=VALUE",
              help="A parameter of the learner; the value is JSON, or text.")
@quiet_option
def audit(learner: str, schema_file: str, epsilon: float, delta: float | None, relation: str,
          fits: int, by_lock: bool, seconds: float | None, unit: str, witness: str | None,
          params: tuple[str, ...]) -> Reply:
    """Try to disprove a learner's epsilon by fitting it many times on made-up tables.

    Exit code 1 if the fits prove that it costs more than it claims. Exit code 0 means only that
    these fits did not; 5 that --lockstep cannot replay what it releases.
    """
    for name, value in (("--seconds", seconds), ("--witness", witness),
                        ("--unit", None if unit == "row" else unit)):
        if value is not None and not by_lock:
            raise InvalidPlan(name, value, "given with --lockstep")
    if by_lock:
        without_effect("with --lockstep, which replays a fit pair by pair", "fits")
    schema = Schema.load(schema_file)
    made = build_audited(learner, schema, epsilon, delta, relation, audit_parameters(params))
    if all(column.role != "target" for column in schema.columns):
        _can_begin(made, schema)
        # A learner that needs none is checked on tables that have one: no premise is about it.
        unused = "target" + "_" * max(len(column.name) for column in schema.columns)
        more = Column(unused, "numeric", "target", 0, 1)
        schema = evolve(schema, columns=(*schema.columns, more))
        made = build_audited(learner, schema, epsilon, delta, relation, audit_parameters(params))
    tasks = made.info.tasks
    if tasks and schema.task not in tasks:  # no premise is broken by a fit that cannot begin
        raise InvalidPlan("schema", Path(schema_file).name, f"for {' or '.join(tasks)}")
    _can_begin(made, schema)
    if by_lock:
        verdict = lockstep(made, blank_example(schema), seconds=seconds or LOCK_SECONDS, unit=unit)
        if witness is not None:
            Path(witness).write_text(verdict.as_json(), encoding="utf-8")
        return Reply(described_lock(learner, made, verdict),
                     lambda out: render_lock(out, learner, made, verdict),
                     0 if verdict.holds else REFUSED if verdict.premise else NOTHING)
    found = guessing_audit(made, blank_example(schema), fits=fits)
    return Reply({"learner": learner} | plain(found), lambda out: render_audit(out, learner, found),
                 0 if found.holds else REFUSED)


def _can_begin(made: Priced, schema: Schema) -> None:
    """Raise what the learner itself refuses: a parameter that does not fit the schema."""
    try:
        fresh(made).plan(schema)
    except PrivledgerError:
        raise
    except Exception:
        return  # a stranger's code: the audit says what it does


def described_lock(learner: str, made: Priced, found: Verdict) -> dict[str, Any]:
    """An audit by replay as JSON values, with the witness that replays it."""
    return {"learner": learner, "claimed": float(made.epsilon), "delta": delta_of(made),
            "relation": relation_of(made), "holds": found.holds, "verdict": found.word,
            "premise": found.premise,
            "release": found.release, "why": found.why, "ratio": found.ratio,
            "tables": found.tables, "seconds": found.seconds, "witness": found.witness}


def render_lock(out: Console, learner: str, made: Priced, found: Verdict) -> None:
    """Claim, worst loss, and the premise that is broken."""
    lines = [("learner", learner),
             ("claimed", f"epsilon {charge(float(made.epsilon))} at delta "
                         f"{exact(delta_of(made))}, {promise(relation_of(made))}"),
             ("tables", f"{found.tables} pairs of neighbours, in {charge(found.seconds)} seconds"),
             ("worst", f"a loss of {charge(found.ratio)} times its price")]
    if found.word == "not replayable":
        lines += [("release", f"{found.release + 1}"), ("why", found.why)]
    elif not found.holds:
        place = "the whole fit" if found.release < 0 else f"release {found.release + 1}"
        lines += [("broken", f"premise {found.premise}, {place}"), ("why", found.why)]
    out.print(pairs(lines))
    if found.holds:
        out.print(text("every "
                       "premise held on these paths. This is no proof for other paths", GREEN))
    elif found.word == "not replayable":
        out.print(text("NOT REPLAYABLE: neither proved nor disproved. Run the audit without "
                       "--lockstep instead", YELLOW))
    else:
        out.print(text("DISPROVED: a premise of the learner's privacy proof is broken", RED))


def render_audit(out: Console, learner: str, found: Guessed) -> None:
    """Claim, bound, and the guesses behind it."""
    apart = "one record" if found.records == 1 else f"{found.records} records"
    out.print(pairs([
        ("learner", learner),
        ("claimed", f"epsilon {charge(found.claimed)} at delta {exact(found.delta)}, "
                    f"{promise(found.relation)}"),
        ("proved", f"epsilon is at least {remainder(found.epsilon_low)}, but for a chance of "
                   f"{charge(found.false_alarm)}"),
        ("guesses", f"{found.right} of {found.guesses} right, by {found.event}"),
        ("fits", f"{found.fits}, "
                 f"each on one of two tables that differ in {apart}, chosen by a coin"),
    ]))
    if found.holds:
        out.print(text("not disproved by these fits. This is no proof", GREEN))
        return
    out.print(text("DISPROVED: the learner costs more than it claims", RED))
    if not found.epsilon_low > found.claimed:
        out.print("The fits differ more than the plan allows, and the ledger relies on the plan.")
