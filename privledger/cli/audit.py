"""`privledger audit`: fit a learner many times, and see whether its epsilon can be disproved."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import click

from privledger.accounting import promise
from privledger.cli.output import Guarded, emit, format_option
from privledger.cli.printing import GREEN, RED, charge, pairs, remainder, text
from privledger.errors import InvalidPlan
from privledger.facts.schema import Schema
from privledger.gate import REFUSED
from privledger.plugins import configured, load_learner
from privledger.rounding import exact, positive, probability
from privledger.testing.trials import FITS, Trial, blank_example, empirical_epsilon

if TYPE_CHECKING:
    from rich.console import Console


def parameters(given: tuple[str, ...]) -> dict[str, Any]:
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


def build(name: str, schema: Schema, epsilon: float, delta: float | None, relation: str,
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


@click.command(cls=Guarded)
@click.argument("learner")
@click.option("--schema", "schema_file", required=True,
              type=click.Path(exists=True, dir_okay=False),
              help="Public facts of a table, JSON or TOML. No table is needed.")
@click.option("--epsilon", type=float, required=True, help="What one fit claims to cost.")
@click.option("--delta", type=float, help="Its delta [default: the learner's own].")
@click.option("--relation", type=click.Choice(["add_remove", "replace_one", "replace_label"]),
              default="add_remove", show_default=True, help="Which tables are neighbours.")
@click.option("--fits", type=click.IntRange(min=20, max=1_000_000), default=FITS,
              show_default=True, help="Fits on each of the two tables.")
@click.option("--param", "params", multiple=True, metavar="KEY=VALUE",
              help="A parameter of the learner; the value is JSON, or text.")
@format_option
def audit(learner: str, schema_file: str, epsilon: float, delta: float | None, relation: str,
          fits: int, params: tuple[str, ...], format_: str) -> None:
    """Try to disprove a learner's epsilon by fitting it many times on made-up tables.

    Exit code 1 if the fits prove that it costs more than it claims. Exit code 0 means only that
    these fits did not.
    """
    schema = Schema.load(schema_file)
    made = build(learner, schema, epsilon, delta, relation, parameters(params))
    trial = empirical_epsilon(made, blank_example(schema), fits=fits)
    emit(format_, described(learner, trial), lambda out: render_audit(out, learner, trial))
    if not trial.holds:
        click.get_current_context().exit(REFUSED)


def described(learner: str, trial: Trial) -> dict[str, Any]:
    """A trial as JSON values."""
    found = trial.evidence
    return {"learner": learner, "claimed": trial.claimed, "delta": found.delta,
            "relation": trial.relation, "epsilon_low": found.epsilon_low, "holds": trial.holds,
            "fits": trial.fits, "event": found.event, "hits": list(found.hits),
            "runs": list(found.runs), "false_alarm": found.false_alarm}


def render_audit(out: Console, learner: str, trial: Trial) -> None:
    """Claim, bound, and the event behind it."""
    found = trial.evidence
    out.print(pairs([
        ("learner", learner),
        ("claimed", f"epsilon {charge(trial.claimed)} at delta {exact(found.delta)}, "
                    f"{promise(trial.relation)}"),
        ("proved", f"epsilon is at least {remainder(found.epsilon_low)}, but for a chance of "
                   f"{charge(found.false_alarm)}"),
        ("event", f"{found.event}: {found.hits[0]} of {found.runs[0]} fits on one table, "
                  f"{found.hits[1]} of {found.runs[1]} on its neighbour"),
        ("fits", f"{trial.fits} on each table; half of them chose the event"),
    ]))
    if trial.holds:
        out.print(text("not disproved by these fits; this is not a proof", GREEN))
    else:
        out.print(text("DISPROVED: the learner costs more than it claims", RED))


