"""What can happen to a ledger: one frozen record per kind of entry.

These records are what deciding (`state`), auditing (`rules`) and showing (`view`) read; only
`codec` knows how they are written. They take what they are given, so that an old or an edited
history still opens: a field that its body lacks raises `Unreadable` where it is asked for, and an
audit looks at every value. Whole numbers called units are charges in the
ledger's own scaled integers (`FilterRule`); times are ISO 8601 texts, for information only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypedDict

from attrs import Factory, asdict, fields_dict, frozen

from privledger.errors import LedgerCorrupt
from privledger.graph import SIZED, Context, Node, from_json, to_json
from privledger.ledger.filters import Budget, Cap
from privledger.ledger.line import QueuePosition
from privledger.ledger.policy import Policy

Plan: TypeAlias = dict[str, Any]
"""A node tree as `privledger.graph.to_json` writes it; `from_json` reads it."""


class Unreadable(LedgerCorrupt, AttributeError):
    """A field that an entry lacks, or that holds what cannot be read."""


class _Event:
    """What all events have: fields that could not be read say so when they are asked for."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in fields_dict(type(self)):
                raise Unreadable(f"an entry ({self.kind}) has no {name} that can be read")
            raise AttributeError(name)


@frozen
class Holder:
    """The process that holds a grant.

    Attributes:
        host: name of its machine.
        pid: its number there.
        started: a mark that tells it from a later process of that number; empty if unknown.
    """

    host: str
    pid: int
    started: str


@frozen
class VectorNote:
    """Which per-record vector belongs to the end of a grant, and what its bytes hash to."""

    name: str
    sha256: str


class KeptArray(TypedDict):
    """An array as JSON: `kind` is `float` or `int`, `values` are in C order."""

    kind: str
    shape: list[int]
    values: list[float]


@frozen
class Answer:
    """A released value that the history keeps, so that it can be given out again.

    Attributes:
        asked: sha256 that tells the question, the mechanism and the version of the table.
        values: one for each array.
        seal: HMAC over ledger, grant, `asked` and `values`, by a key that the guard of the
            table has; None in files of earlier versions.
    """

    asked: str
    values: list[KeptArray]
    seal: str | None = None


LEVEL = 0.95


@frozen
class Estimate:
    """One figure of a private score, with two intervals, both of probability `LEVEL`.

    Attributes:
        name: `accuracy`, `balanced accuracy`, `auc`, `recall of yes`, `precision of yes`; `rmse`
            or `mae`, in the target's own unit.
        value: from released sums. noise: low and high, of the noise alone: where the figure of
            these very held-out records lies. both: of noise and sample: where that of all such
            records lies; approximate for few records. None where nothing can be said.
    """

    name: str
    value: float
    noise: tuple[float, float] | None
    both: tuple[float, float] | None

    @property
    def told(self) -> float | None:
        """The value; None where it was cut at an end of what is possible: that is the noise's."""
        return None if self.value in (self.noise or self.both or ()) else self.value


@frozen
class PrivateScore:
    """What a private score says of a fitted model.

    Attributes:
        estimates: the figures. records: about how many were held out; a released number.
        share: of the records, that were held out. epsilon: of the score alone.
    """

    estimates: tuple[Estimate, ...]
    records: float
    share: float
    epsilon: float

    def as_dict(self) -> dict[str, object]:
        """JSON values, the same on every surface: each measure by its name, its value (None as
        `Estimate.told` says), and its two intervals of probability `level`."""
        return {"holdout": self.share, "epsilon": self.epsilon, "records_about": self.records,
                "level": LEVEL, "scores": {
                    one.name: {"value": one.told, "noise": one.noise,
                               "noise_and_sample": one.both} for one in self.estimates}}

    @property
    def text(self) -> str:
        """In one line, with intervals of noise and sample. No charge: rounded to nearest."""
        return (f"private score of about {self.records:.0f} held out: " + ", ".join(
            f"{one.name} {'-' if one.told is None else f'{one.told:.4g}'}" + (
                "" if one.both is None else f" ({one.both[0]:.4g} to {one.both[1]:.4g})")
            for one in self.estimates))


@frozen
class ReleasedNode:
    """A mechanism that was released, as JSON values.

    Attributes:
        under: the contexts (sample, part, filter) it was released under, outermost first.
        leaf: the mechanism, as in `Plan`.
    """

    under: list[dict[str, Any]]
    leaf: Plan


@frozen(slots=False)
class Created(_Event):
    """The promise. Always the first entry, and only there.

    Assumes that `relation` is what its owner means by one person's data changing; under unit
    `row`, that a person has one row.

    Attributes:
        format: 4; 3 has no `unit` other than the row and no `enrolled`; 2 has no `window` and
            no `policy`; 1 has no `caps`, `labels` and `corrected` either. Older files are read,
            and written in their own format.
        uuid: identity of the ledger.
        time: when it was written, for information only.
        relation: `add_remove`, `replace_one`, or `replace_label` (labels only: nothing is
            promised about whole records).
        budget: `{epsilon, delta}`, and `failure` where a part of delta is a reserve for plans
            with a delta of their own.
        filter: what was asked for: `auto`, `gdp`, `zcdp`, `rdp`, `basic`.
        mode: `private` or `simulation`.
        noise: description of the noise source.
        caps: list of `{epsilon, delta, data, labels, window, per_window}`: a grant matches if
            it is for the table `data` (any, if null), carries all `labels`, and was charged to
            `window` (any, if null). Each has its own total, in the units of the ledger's
            filter, and with `per_window` one total for each window; without a window such a cap
            lets nothing through. A `scope` entry counts against all of them but those of
            another window. From version 3: `window`, `per_window`.
        policy: from version 3, only where the ledger has one: what `[policy]` of a policy file
            holds, by name.
        unit: whom the promise is about: `row` (also where it is left out), or `person`, with
            all rows in all tables. From version 4; another one is refused.
        key_check: with unit `person`, and only with it: 32 hexadecimal digits, HMAC-SHA256 of
            `privledger people key check 1` under the owner's key, cut to 16 bytes.
    """

    kind: ClassVar[str] = "created"
    format: int
    uuid: str
    relation: str
    budget: Budget
    filter: str
    mode: str
    noise: str
    time: str | None = None
    caps: tuple[Cap, ...] = ()
    policy: Policy | None = None
    unit: str = "row"
    key_check: str | None = None


@frozen(slots=False)
class FilterFixed(_Event):
    """How charges add up from here on: before any charge, and once.

    Attributes:
        rule: `gdp`, `zcdp`, `rdp`, `basic`.
        order: Renyi order for `rdp`, at most 10^6, else 0.
        cap_units: cap in units of 2^-192.
        delta_cap_units: for `basic`: delta in units of 2^-512; else 0.
        theorem: what the totals rest on, in words.
    """

    kind: ClassVar[str] = "filter"
    rule: str
    order: float
    cap_units: int
    delta_cap_units: int
    theorem: str | None = None


@frozen(slots=False)
class Protected(_Event):
    """A table was put behind the ledger; its values are not in the history.

    Assumes that `rows`, `public_features` and `unlabelled` are what its owner vouches for.

    Attributes:
        data: name of the table.
        schema, schema_sha256: name of the schema, and what its text hashes to.
        rows: how many the schema declares; None if it does not.
        fingerprint: a keyed mark of the values; None where none was made.
        engine: who answers its chunks, and of which version; None for a table in memory.
    """

    kind: ClassVar[str] = "protected"
    data: str
    schema: str
    schema_sha256: str
    time: str | None = None
    rows: int | None = None
    fingerprint: str | None = None
    public_features: bool = False
    unlabelled: bool = False
    engine: str | None = None


@frozen(slots=False)
class Enrolled(_Event):
    """A table's people were given places, those whom the ledger did not know yet.

    One for every time that a table is protected or appended to, empty or not: that there is
    one tells nothing.

    Attributes:
        data: name of the table.
        people: index of the digests of the new ones. members: index of who is in the table.
    """

    kind: ClassVar[str] = "enrolled"
    data: str
    people: VectorNote
    members: VectorNote
    time: str | None = None


@frozen(slots=False)
class ScopeOpened(_Event):
    """An individual filter was paid for once; grants may draw on it.

    Assumes nothing about the table: under unit `row` the first grant binds it to one, under
    `person` it is for all people in every table.
    """

    kind: ClassVar[str] = "scope"
    scope: str
    plan: Plan
    delta: float
    units: int
    delta_units: int
    window: str | None = None
    time: str | None = None


@frozen(slots=False)
class Granted(_Event):
    """A plan was reserved, before any row was read.

    Assumes whatever the plan's asserted nodes assert.

    Attributes:
        grant: name.
        learner: who asked.
        data: name of the table.
        plan: the whole node.
        delta: the delta that the request named; only a `basic` ledger uses it.
        units, delta_units: what it takes from the caps; 0 inside a scope.
        scope: name of the scope it draws on, or null.
        labels: text under names, that caps may match.
        enrolled: with unit `person`: the number of the enrolment that says who is in the table.
        mark: with unit `row` and a `scope`: the keyed mark of the rows in their order, where a
            key was given. All grants of a scope that have one have the same.
        window: the window that is open; left out before the first.
        claimed: epsilon that a paper states for the plan at `delta`, by the learner's word. For
            information only: nothing is charged or decided by it. Left out where the paper
            states none, and in files written before it existed.
        worst: only with a scope: most that any record can spend, in the filter's unit.
        lease: seconds from the reservation, after which any client may record that it crashed
            (docs/postgres.md); left out, or null, for never.
        holder: `host`, `pid`, `started` of the process.
        isolation: how far the learner was kept from the rows, by the holder's word: `guarded`
            or `brokered` (docs/isolation.md); where it is missing, `guarded`.
        time: when it was written, for information only.
    """

    kind: ClassVar[str] = "granted"
    grant: str
    learner: str
    data: str
    plan: Plan
    delta: float
    units: int
    delta_units: int
    time: str | None = None
    window: str | None = None
    scope: str | None = None
    labels: dict[str, str] = Factory(dict)
    claimed: float | None = None
    worst: float | None = None
    lease: float | None = None
    holder: Holder | None = None
    isolation: str = "guarded"
    enrolled: int | None = None
    mark: str | None = None


@frozen(slots=False)
class Refused(_Event):
    """A request did not fit; nothing was read or spent.

    Attributes:
        unit: what the numbers are: `epsilon`, `delta`, or `policy` where rules refused.
        rules: names of those rules.
        limit: the budget that did not suffice: the ledger's, or a cap's title.
        waits: its place in the line, if it waits for budget; see `privledger.ledger.line`.
        left_line: the grant whose place this ends: its request gave up. Neither is counted.
    """

    kind: ClassVar[str] = "refused"
    learner: str = ""
    unit: str = "epsilon"
    time: str | None = None
    asked: float | None = None
    spent: float | None = None
    left: float | None = None
    rules: tuple[str, ...] = ()
    waits: QueuePosition | None = None
    left_line: str | None = None
    limit: str | None = None

    @property
    def counts(self) -> bool:
        """Whether it is a refusal: not of who begins to wait, or gives up."""
        return self.waits is None and self.left_line is None


@frozen(slots=False)
class Released(_Event):
    """Noisy values left the guard under a grant; the values are not in the history.

    Attributes:
        grant: name of the grant.
        first: number of the first item within the grant.
        nodes: list of `{under, leaf}`: the contexts and the mechanism, or a whole `Tuning`
            node: what its runs released is in no entry.
        questions: list of texts.
        items: list of `[node, question, cells]`: places in the two lists, and how many cells
            were answered.
        noise: description of the noise source.
    """

    kind: ClassVar[str] = "released"
    grant: str
    first: int
    questions: list[str]
    nodes: list[ReleasedNode]
    items: list[list[int]]
    noise: str | None = None


@frozen(slots=False)
class Settled(_Event):
    """A grant is over; its whole charge stays.

    Attributes:
        touched: whether data was read.
        releases: how many there were.
        failed: the learner raised; `error` is the type of what it raised.
        vector: what each record spent, under a scope or a filter.
        cap: of that filter, in its own currency.
        answer: of its one release, where the owner asked to keep it.
        score: how the model did that was fitted under it, as its learner made it of releases.
    """

    kind: ClassVar[str] = "settled"
    grant: str
    touched: bool
    releases: int
    time: str | None = None
    error: str | None = None
    failed: bool = False
    vector: VectorNote | None = None
    cap: float | None = None
    answer: Answer | None = None
    score: PrivateScore | None = None


@frozen(slots=False)
class Aborted(Settled):
    """A grant was handed back before anything was read: its charge is undone.

    One that names releases keeps its charge (`gives_back`). Earlier versions wrote that under an
    interrupt between the charge of a release and the look at the rows.
    """

    kind: ClassVar[str] = "aborted"

    @property
    def gives_back(self) -> bool:
        """Whether the charge is undone: nothing was read, and no release was charged."""
        return self.touched is False and not self.releases


@frozen(slots=False)
class Crashed(_Event):
    """The holder of a grant is gone; its whole charge stays. A later `Settled` is possible."""

    kind: ClassVar[str] = "crashed"
    grant: str
    time: str | None = None
    why: str | None = None


@frozen(slots=False)
class Corrected(_Event):
    """What was granted turned out to cost more. Never gives anything back.

    Assumes that `plan` is what really ran.

    Attributes:
        grant: the grant that is corrected; one that was charged itself, not one inside a scope.
            Where no grant has the name, the scope of that name.
        plan: what it really ran, or null if nothing can be promised for it.
        units, delta_units: what this adds to the totals: the corrected price minus all that was
            charged before, at least 0. Of a scope: the whole price of `plan`, which is what ran
            beyond what its filter counted.
        why: a sentence.
        time: when it was written, for information only.
    """

    kind: ClassVar[str] = "corrected"
    grant: str
    plan: Plan | None
    units: int
    delta_units: int
    why: str
    time: str | None = None


@frozen(slots=False)
class WindowOpened(_Event):
    """The owner began another period. Nothing is given back."""

    kind: ClassVar[str] = "window"
    window: str
    time: str | None = None


@frozen(slots=False)
class Unknown(_Event):
    """An entry of a kind that this version does not know; no state can be folded over it."""

    kind: str


Event: TypeAlias = (
    Created | FilterFixed | Protected | Enrolled | ScopeOpened | Granted | Refused | Released
    | Settled | Aborted | Crashed | Corrected | WindowOpened | Unknown
)


def is_readable(event: Event) -> bool:
    """Whether every field of an event was there and could be read."""
    return all(name in event.__dict__ for name in fields_dict(type(event)))


EVENTS: dict[str, type[Any]] = {one.kind: one for one in (
    Created, FilterFixed, Protected, Enrolled, ScopeOpened, Granted, Refused, Released, Settled,
    Aborted, Crashed, Corrected, WindowOpened)}
"""Kind -> record: the closed set (`Unknown` is no kind). `codec` and every reader go by it."""

Chain: TypeAlias = tuple[Context, ...]  # that a node was released under, the outermost first


def released_node(chain: Chain, leaf: Node) -> ReleasedNode:
    """A node and the contexts it was released under, as an event holds them."""
    return ReleasedNode([_under(step) for step in chain], to_json(leaf))


def _under(step: Context) -> dict[str, object]:
    """Fields of a context; sizes for samples that have one only, which others never had."""
    fields = asdict(step)
    if step.kind not in SIZED:
        del fields["size"], fields["out_of"]
    return fields


def read_node(node: ReleasedNode) -> tuple[Chain, Node]:
    """The inverse of `released_node`.

    Raises:
        LedgerCorrupt: it cannot be read.
    """
    try:
        return tuple(Context(**step) for step in node.under), from_json(node.leaf)
    except (KeyError, TypeError):
        raise LedgerCorrupt("a released node is malformed") from None
