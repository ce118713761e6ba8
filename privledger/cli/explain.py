"""`privledger explain`: why a run, a node tree or a grant costs what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from privledger.accounting import RELATIONS, check_relation, promise
from privledger.cli.output import (
    LedgerPlace,
    Reply,
    Witness,
    command,
    complete_grant,
    data_option,
    reading,
    reading_store,
    without_effect,
)
from privledger.cli.terminal import charge, flow, text, verdict_text
from privledger.errors import InvalidPlan
from privledger.gate import NOT_TRUSTED
from privledger.graph import (
    Explanation,
    Node,
    alone,
    certify,
    children,
    explain,
    from_json,
    label,
    trusts,
)
from privledger.ledger import GrantState, ScopeState, State
from privledger.ledger.view import view_of
from privledger.ledger.view_charges import UNNAMED, charges_of
from privledger.numerals import many
from privledger.reading import load_json
from privledger.reports import leaves, plain
from privledger.reports.pricing import by_hand
from privledger.reports.risk import WRONG, Risk, ledger_risk, plan_risk
from privledger.rounding import exact
from privledger.storage import is_url

if TYPE_CHECKING:
    from rich.console import Console


def node_from_text(path: str) -> Node:
    """The node tree in a JSON file, as `privledger.nodes.to_json` writes it."""
    return from_json(load_json(path, "node tree"))


def check_options(subject: str) -> None:
    """Refuse options of a node tree, or of a run file, for anything else."""
    if not subject.endswith(".json") or is_url(subject):
        without_effect("unless it is a node tree", "relation")
    if not subject.endswith(".toml") or is_url(subject):
        without_effect("unless it is a run file", "data_dir")


def find_grant(state: State, name: str) -> GrantState:
    """The grant whose name begins with `name`.

    Raises:
        InvalidPlan: there is none, or there are several.
    """
    found = [grant for known, grant in state.grants.items() if known.startswith(name)]
    if name in state.grants:
        found = [state.grants[name]]
    if len(found) != 1:
        raise InvalidPlan("grant", name, "the first letters of exactly one grant, not of "
                                         f"{len(found)}")
    return found[0]


def node_at(node: Node, path: str) -> Node:
    """The node at a path such as "0.2.0", as `pl.nodes.view` names vertices; "0" is the root."""
    parts = path.split(".")
    if parts[0] != "0" or not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise InvalidPlan("--node", path, "a path from the root, such as 0.2")
    for part in parts[1:]:
        below = children(node)
        if int(part) >= len(below):
            raise InvalidPlan("--node", path, f"a node: {label(node)} has {len(below)} below it")
        node = below[int(part)]
    return node


@command
@click.argument("subject", metavar="RUN.toml|NODE.json|LEDGER", type=LedgerPlace())
@click.argument("grant", metavar="[GRANT]", required=False, shell_complete=complete_grant)
@click.option("--node", "path", metavar="PATH",
              help="Only the node there, such as 0.2: member 2 of the root.")
@click.option("--delta", type=float, help="Failure probability [default: the run's, the ledger's].")
@click.option("--relation", type=click.Choice(RELATIONS),
              help="For NODE.json [default: add_remove].")
@data_option
def explain_command(subject: str, grant: str | None, path: str | None, delta: float | None,
                    relation: str | None, data_dir: str | None) -> Reply:
    """Say which theorem proves a price, what is proved from below, and why others differ.

    Of a ledger, name a grant or a filter scope (its first letters do); without one, its total is
    done by hand: the theorem, the formula with its numbers, and a script. Opens no data.
    """
    words: list[str] = []
    about, receipt, risk = "row", None, None
    check_options(subject)
    if is_url(subject) or not subject.endswith((".json", ".toml")):
        if grant is None:
            if path is not None or delta is not None:
                raise click.UsageError("--node and --delta are for one grant: name it")
            return _explain_total(subject)
        with reading(subject) as opened:
            state, receipt = opened.state, opened.receipt.as_dict()
            risk = ledger_risk(view_of(state))
        node, words = _granted(state, grant)
        at, stated = state.budget.delta if state.budget else 0.0, state.relation
    elif grant is not None:
        raise click.UsageError("only a ledger has grants")
    elif subject.endswith(".json"):
        if delta is None:
            raise click.UsageError("--delta is needed for a node tree")
        node, at, stated = node_from_text(subject), delta, relation or "add_remove"
    else:
        from privledger.cli.plan import prepare

        prepared = prepare(subject, data_dir)
        node, stated, at = prepared.node, prepared.run.relation, prepared.run.params["delta"]
        about = prepared.run.unit_for(prepared.schema)
    node = node if path is None else node_at(node, path)
    found = explain(node, at if delta is None else delta, check_relation(stated))
    words += _believed(node, found)
    told = risk or plan_risk(node, stated, about, wrong=WRONG[:1], several=False)
    value = found.as_dict() | {"node": label(node), "words": words, "vouched": _vouched(node),
                               "risk": told.as_dict()}
    lines = [told.sentences[0], *words, *_vouched(node), *str(found).splitlines()]
    return Reply(value if receipt is None else value | {"receipt": receipt},
                 lambda out: out.print(*map(text, lines), sep="\n"))


def _explain_total(ledger: str) -> Reply:
    """The whole ledger: what its total rests on, to be redone with a calculator."""
    with reading(ledger) as opened:
        view, receipt = view_of(opened.state), opened.receipt.as_dict()
    risk, found = ledger_risk(view), by_hand(view)

    lines = [text(line) for line in (risk.sentences[0], *found.lines)]
    return Reply(plain(found) | {"risk": risk.as_dict(), "receipt": receipt},
                 lambda out: out.print(*lines, sep="\n", soft_wrap=True))


def _granted(state: State, name: str) -> tuple[Node, list[str]]:
    """The plan of a grant or scope, and how its ledger charged it, in words."""
    scopes = [scope for known, scope in state.scopes.items() if known.startswith(name)]
    if len(scopes) == 1 and name not in state.grants:
        return _scope(state, scopes[0])
    grant = find_grant(state, name)
    one, rule = next(one for one in charges_of(state) if one.name == grant.grant), state.rule
    words = [f"{one.name}: {one.learner or UNNAMED} on {one.table}, {one.status}, "
             f"{many(one.releases, 'release')}"]
    if one.scope:
        words.append(f"it uses scope {one.scope}, which was paid for once")
    elif rule is not None:
        words += [f"the ledger booked epsilon {charge(rule.epsilon_of(grant.charged[0]))} of "
                  f"{exact(rule.budget.epsilon)} for it, {promise(state.relation, state.unit)}",
                  f"plans add up by {rule.kind}: {rule.theorem}"]
    words += [f"corrected: {why}" for why in one.why]
    if grant.plan is None:
        raise InvalidPlan("grant", name, "a grant that still promises something. It was corrected: "
                          + words[-1])
    return from_json(grant.plan), words


def _scope(state: State, scope: ScopeState) -> tuple[Node, list[str]]:
    rule = state.rule
    words = [f"{scope.scope}: an individual filter, charged once"]
    if rule is not None:
        booked = charge(rule.epsilon_of(scope.event.units))
        words.append(f"the ledger booked epsilon {booked} for it; "
                     f"plans add up by {rule.kind}: {rule.theorem}")
    return from_json(scope.event.plan), words


def _vouched(node: Node) -> list[str]:
    """The unverified claims: what stands on no proof."""
    return [f"ASSERTED, not proved: {label(leaf)}" for leaf in dict.fromkeys(leaves(node))
            if type(leaf).__name__.startswith("Asserted")]


def _believed(node: Node, found: Explanation) -> list[str]:
    """Both prices of what runs in a federation."""
    believed = trusts(node)
    if not believed:
        return []
    value = certify(alone(node), found.certificate.delta, check_relation(found.relation)).epsilon
    return [*(one.text for one in believed),
            f"declared epsilon {charge(found.epsilon)}, alone epsilon {charge(value)} (if every "
            "other party reveals its noise)"]


# `privledger risk`: what an attacker who knows everything else can find out, at most.

@command
@click.argument("subject", metavar="LEDGER|RUN.toml|NODE.json", type=LedgerPlace())
@click.option("--fpr", type=float, multiple=True,
              help="Share of outsiders that the attacker wrongly accuses; may be repeated "
                   "[default: 0.01 and 0.001].")
@click.option("--prior", type=float, multiple=True,
              help="Share of people for whom the case is true, such as .001 of a town; may be "
                   "repeated.")
@click.option("--relation", type=click.Choice(RELATIONS),
              help="For NODE.json [default: add_remove].")
@data_option
def risk(subject: str, fpr: tuple[float, ...], prior: tuple[float, ...], relation: str | None,
         data_dir: str | None) -> Reply:
    """Risk in words, from a trade-off curve: upper bounds, rounded up. Opens no data.

    Of a ledger everything that was spent or reserved counts, by its own filter. A run, or a node
    tree, is priced by its privacy losses, as a plan that is fixed beforehand. Exit code 3 if the
    history cannot be trusted.
    """
    wrong = fpr or WRONG
    check_options(subject)
    if is_url(subject) or not subject.endswith((".json", ".toml")):
        return _of_ledger(subject, wrong, prior)
    if subject.endswith(".json"):
        found = plan_risk(node_from_text(subject), relation or "add_remove", wrong=wrong,
                          priors=prior)
    else:
        from privledger.cli.plan import prepare

        prepared = prepare(subject, data_dir)
        found = plan_risk(prepared.node, prepared.run.relation,
                          prepared.run.unit_for(prepared.schema), wrong=wrong, priors=prior)
    return Reply(found.as_dict(), lambda out: render_risk(out, found))


def _of_ledger(ledger: str, wrong: tuple[float, ...], priors: tuple[float, ...]) -> Reply:
    with reading_store(ledger) as store:
        report = Witness().report(store)
    if not report.trusted:
        return Reply({"verdict": report.verdict.word, "findings": report.findings},
                     lambda out: flow(out, verdict_text(report.verdict)),
                     NOT_TRUSTED)
    found = ledger_risk(report.view, wrong=wrong, priors=priors)

    def render(out: Console) -> None:
        flow(out, verdict_text(report.verdict))
        render_risk(out, found)

    return Reply(found.as_dict() | {"receipt": report.receipt}, render)


def render_risk(out: Console, found: Risk) -> None:
    """A sentence a line, and which curve they were read from."""
    for sentence in found.sentences:
        out.print(text(sentence))
    if not found.why:
        kind = "a plan fixed beforehand" if found.fixed else "the ledger's own filter"
        out.print(text(f"Read from the trade-off curve of {kind}: {found.source}.", "dim"))
