"""`privledger check`: is a ledger, or a run that has not happened yet, allowed."""

from __future__ import annotations

from functools import partial
from typing import Any

import click
from attrs import evolve

from privledger.cli.ledger_gate import answer_told, check_format_option, check_ledger, find_policy
from privledger.cli.output import (
    FILE,
    PLACE,
    LedgerPlace,
    Reply,
    command,
    complete_learner,
    data_option,
    kept_elsewhere,
    key_option,
    public_option,
    without_effect,
)
from privledger.cli.terminal import quiet_option
from privledger.storage import is_url, shown


@partial(command, formats=check_format_option)
@click.argument("subject", metavar="[LEDGER|RUN.toml]", type=LedgerPlace(), required=False)
@click.option("--policy", type=FILE,
              help="TOML file with a table [policy] [default: privledger.toml, or "
                   "[tool.privledger.policy] of pyproject.toml, in the working directory or "
                   "the nearest folder above it, up to the project's root].")
@data_option
@click.option("--ledger", type=PLACE,
              help="For a run file: the ledger it would continue [default: the run file's].")
@click.option("--receipt", type=FILE,
              help="A receipt kept elsewhere: detects deleted last entries or an old copy.")
@click.option("--expect-head", metavar="HASH", help="An entry with this hash must be there.")
@click.option("--new-ledger", is_flag=True,
              help="For a run file whose ledger does not exist yet. Without this, or new_ledger in "
                   "the policy, a missing ledger is refused.")
@key_option
@public_option
@click.option("--learner", shell_complete=complete_learner,
              help="Price this learner, without a run file or data.")
@click.option("--schema", type=FILE, help="For --learner.")
@click.option("--epsilon", type=float, help="For --learner.")
@click.option("--delta", type=float, default=0.0, show_default=True, help="For --learner.")
@click.option("--relation", type=click.Choice(["add_remove", "replace_one", "replace_label"]),
              default="add_remove", show_default=True, help="For --learner.")
@click.option("--param", "params", multiple=True, metavar="NAME=VALUE",
              help="For --learner: one of its parameters, as TOML writes it.")
@click.option("--isolation", type=click.Choice(["guarded", "brokered"]),
              help="For a plan: how the learner will be kept from the rows [default: as run does].")
@click.option("--warn-at", type=float, metavar="SHARE",
              help="For a ledger: warn, but pass, from this share of its budget or of a cap.")
@quiet_option
def check(subject: str | None, policy: str | None, data_dir: str | None, ledger: str | None,
          receipt: str | None, expect_head: str | None, new_ledger: bool, key_file: str | None,
          public_key: str | None, warn_at: float | None, **sketch: Any) -> Reply:
    """The gate for CI: does a ledger, or a run that has not happened yet, keep to a policy?

    Exit codes: 0 within, 1 refused, 2 usage, 3 the ledger cannot be trusted, 4 internal error,
    5 nothing to check. Anything that cannot be read fails.
    """
    learner = sketch["learner"]
    if (subject is None) == (learner is None):
        raise click.UsageError("give LEDGER, RUN.toml, or --learner NAME")
    if warn_at is not None and (subject is None or is_run_file(subject)):
        raise click.UsageError("--warn-at is for a ledger")
    if subject is None:
        without_effect("without a run file", "data_dir", "ledger", "new_ledger")
    else:
        without_effect("without --learner", "schema", "epsilon", "delta", "relation", "params")
        if not is_run_file(subject):
            without_effect("on a ledger: name a run file", "data_dir", "ledger", "isolation")
    rules = find_policy(policy)
    known = kept_elsewhere(receipt, expect_head, key_file, public_key)
    if subject is not None and not is_run_file(subject):
        result = evolve(check_ledger(subject, rules, known, warn_at), compared=known.comparison)
        return answer_told(shown(subject), rules, result)
    # Here: what prices a plan takes several times as long to import as what reads a ledger.
    from privledger.broker import ISOLATION
    from privledger.cli.plan import built_here, prepare
    from privledger.cli.plan_gate import Sketch, gate_plan, sketched

    plan = Sketch(**sketch)
    if subject is None:
        if known.present:
            raise click.UsageError("a learner has no ledger: no receipt and no head to compare")
        result = gate_plan(lambda: sketched(plan), rules, known, plan.isolation, new=True)
        return answer_told(f"learner {learner}", rules, result)
    isolate = None if plan.isolation is None else plan.isolation == ISOLATION
    result = gate_plan(
        lambda: prepare(subject, data_dir, ledger,
                        lambda run, schema: built_here(run, schema, isolate)),
        rules, known, plan.isolation, new=new_ledger or rules.new_ledger)
    return answer_told(shown(subject), rules, result)


def is_run_file(path: str) -> bool:
    """By content first, so that a renamed ledger is still read as one."""
    if is_url(path):
        return False
    with open(path, "rb") as file:
        head = file.read(16)
    return not head.startswith(b"SQLite format 3") and path.endswith(".toml")
