"""The history, entry by entry: what it adds up to, and every fault on the way."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from .dues import SLACK, Caps, as_released, beside, due, told
from .meter import Meter, Policy, steps_of
from .prices import Efforts
from .reading import (
    FIELDS,
    FORMAT,
    MALFORMED,
    MOST_BODY,
    MOST_PLAN,
    Bad,
    Node,
    NoPrice,
    Table,
    canonical,
    chain_hash,
    filter_word,
    parse,
    whole,
)
from .shapes import SHAPES, check_shape
from .vectors import Body, Cap, Line, People, Vectors

MOST_FAULTS = 10_000


class Book:
    """What the entries so far add up to. `on_KIND` takes the body of one entry."""

    def __init__(self) -> None:
        self.faults: list[tuple[int, str]] = []
        self.notes: dict[str, int] = {}  # what was not recomputed -> the first such entry
        self.hashes: list[str] = []
        self.created: Any = {}
        self.uuid = self.mode = self.relation = self.unit = self.filter = ""
        self.epsilon = self.delta = self.reserve = self.order = 0.0
        self.format = 0
        self.filter_body: Any = None
        self.allowed: Caps | None = None
        self.cap = self.delta_cap = self.units = self.delta_units = 0
        self.charges = self.refusals = 0
        self.grants: dict[str, dict[str, Any]] = {}
        self.scopes: dict[str, dict[str, Any]] = {}
        self.closed: list[str] = []
        self.closed_names: set[str] = set()
        self.caps: list[Cap] = []  # beside the budget
        self.windows: list[str | None] = [None]  # the open one is the last
        self.window_names: set[str] = set()
        self.window_ends: list[list[Any]] = []
        self.table, self.efforts = Table(), Efforts()
        self.vectors, self.people, self.line = Vectors(), People(), Line()
        self.policy: Policy | None = None
        self.checkpoint: Any = None

    # --- entries -----------------------------------------------------------------------------

    def fault(self, text: str) -> None:
        """Note a fault at the entry that is read now, up to a number of them."""
        if len(self.faults) < MOST_FAULTS:
            self.faults.append((len(self.hashes) - 1, text))

    def is_enough(self) -> bool:
        """So much is wrong that nothing more is read."""
        if len(self.faults) < MOST_FAULTS:
            return False
        self.faults[-1] = len(self.hashes) - 1, "too much is wrong: nothing was read from here on"
        return True

    def note(self, text: str) -> None:
        """Note once what could not be checked, with the entry where it first was so."""
        self.notes.setdefault(text, len(self.hashes) - 1)

    def take(self, raw: bytes) -> None:
        """One line of an export: an entry, or a per-record vector after the last entry."""
        self.hashes.append("")
        try:
            line = parse(raw, "ascii")
            if type(line) is dict and set(line) == {"vector", "data"}:
                self.hashes.pop()
                return self.vectors.line(line["vector"], line["data"])
            if type(line) is not dict or set(line) != FIELDS:
                raise Bad("not an entry")
            text = canonical(line["body"])
        except (Bad, *MALFORMED) as error:
            return self.fault(str(error) if isinstance(error, Bad) else "malformed")
        return self.enter(line["position"], line["kind"], line["body"], text, line["previous"],
                          line["hash"])

    def take_row(self, row: tuple[Any, ...]) -> None:
        """One row of a file; its texts as bytes."""
        self.hashes.append("")
        try:
            position, kind, body, previous, digest = row
            if body is None:
                raise Bad(f"larger than {MOST_BODY} bytes, which is the most of an entry")
            text = body.decode("ascii")
            value = parse(body, "ascii")
            if canonical(value) != text:
                self.fault("the text is not the one of its value")
            kind, previous, digest = (one.decode() for one in (kind, previous, digest))
        except (Bad, *MALFORMED) as error:
            return self.fault(str(error) if isinstance(error, Bad) else "malformed")
        return self.enter(position, kind, value, text, previous, digest)

    def enter(self, position: Any, kind: Any, body: Any, text: str, previous: Any,
              digest: Any) -> None:
        """An entry that could be read: the chain, its shape, and what it means."""
        before = self.hashes[-2] if len(self.hashes) > 1 else "0" * 64
        self.hashes[-1] = digest
        try:
            if type(kind) is not str or type(digest) is not str:
                raise Bad("not an entry")
            if whole(position) != len(self.hashes) - 1 or previous != before:
                self.fault("does not follow the entry before")
            if chain_hash(position, kind, text, before) != digest:
                self.fault("the text does not match its hash")
            most = MOST_PLAN if kind in ("granted", "scope", "corrected") else MOST_BODY
            if len(text) > most:
                raise Bad(f"larger than {most} bytes, which is the most of {kind}")
            if (kind == "created") != (len(self.hashes) == 1):
                raise Bad("the creation is the first entry, and no other")
            if kind == "created" and type(body) is dict and type(body.get("format")) is int and (
                    body["format"] > FORMAT):
                raise Bad(f"a later format than {FORMAT}: take a later verifier")
            check_shape(kind, body, self.format or FORMAT)
            for field in set(body) - set(SHAPES[kind]):
                self.note(f"not looked at: {kind}.{field}, which this reader does not know")
            getattr(self, "on_" + kind)(body)
            if self.checkpoint is not None and self.checkpoint.position == position:
                self.checkpoint.check(self)
        except Bad as error:
            self.fault(str(error))
        except MALFORMED:
            self.fault("malformed")

    def finish(self, look_up: Any = None) -> None:
        """After the last entry: vectors, and a checkpoint that was never reached."""
        if self.checkpoint is not None and not (
                type(self.checkpoint.position) is int
                and 0 <= self.checkpoint.position < len(self.hashes)):
            self.fault("a checkpoint lies beyond the last entry")
        if look_up is None:
            look_up = self.vectors.seen.get
            if not self.vectors.given and (self.vectors.wanted or self.people.wanted):
                return self.note("not compared: per-record vectors, which are not in this file")
        self.faults += self.vectors.check(look_up)
        self.faults += self.people.check(look_up)

    # --- the promise -------------------------------------------------------------------------

    def on_created(self, body: Any) -> None:
        """The promise: format, relation, mode, budget, caps, policy."""
        self.created, self.format = body, body["format"]
        self.uuid, self.mode, self.relation = body["uuid"], body["mode"], body["relation"]
        self.unit = body.get("unit", "row")
        self.epsilon, self.delta, self.reserve = (float(body["budget"].get(name, 0)) for name in (
            "epsilon", "delta", "failure"))
        self.caps = [Cap(cap) for cap in body.get("caps") or []]
        if body.get("policy") is not None:
            self.policy = Policy(body["policy"])
            self.policy.creation(body)

    def on_filter(self, body: Any) -> None:
        """The filter and its cap, which must be what the budget allows."""
        if self.filter or self.grants or self.scopes:
            raise Bad("the filter is fixed once, before anything is granted")
        self.filter, self.order, self.filter_body = body["kind"], float(body["order"]), body
        if self.created.get("filter") not in ("auto", self.filter):
            self.fault("another filter than the one that was asked for")
        self.cap, self.delta_cap = body["cap_units"], body["delta_cap_units"]
        self.allowed = Caps(self.filter, self.order)
        units, delta_units = self.allowed.of(self.epsilon, self.delta, self.reserve)
        if self.filter != "basic" and not units:
            raise Bad("a filter that this budget leaves nothing under")
        if self.cap > units or self.delta_cap > delta_units:
            self.fault("the cap is larger than the budget allows")

    def add(self, units: int, delta_units: int, grant: Any) -> None:
        """To the total, and to every cap that the grant falls under."""
        window = grant.get("window")
        self.charges += 1
        self.units, self.delta_units = self.units + units, self.delta_units + delta_units
        for cap in self.caps:
            if cap.matches(grant):
                total = cap.add(window, units, delta_units)
                if units >= 0 and delta_units >= 0:
                    self.check_cap(cap, total, window)

    def check_cap(self, cap: Cap, total: Any, window: str | None) -> None:
        """Note a fault if `total` is over `cap`, in the filter's units."""
        if self.allowed is None:
            raise Bad("counted before the filter was fixed")
        units, delta_units = self.allowed.of(cap.epsilon, cap.delta, cap.reserve)
        if total[0] > units or total[1] > delta_units or (
                cap.each and window is None and any(total)):
            self.fault(f"over {cap} from here on")

    def charge(self, body: Any, grant: Any, before: Any, free: bool = False) -> Node | None:
        """Add a charge. With what was charged before, it must pay for the plan."""
        if not self.filter:
            raise Bad("charged before the filter was fixed")
        plan = None if body["plan"] is None else self.table.node(body["plan"])
        if self.policy is not None:
            try:
                self.policy.planned(plan)
            except NoPrice as what:
                self.note(f"max_alone_epsilon not compared: {what}")
        self.add(body["units"], body["delta_units"], grant)
        if self.units > self.cap or self.delta_units > self.delta_cap:
            self.fault("the total is over the cap from here on")
        if not self.efforts.add(plan, self.filter, body["delta_units"] != 0):
            raise Bad("not priced: all plans together take too long to price")
        if plan is not None and not free:
            paid = body["units"] + before[0], body["delta_units"] + before[1], float(grant["delta"])
            self.check_price(plan, *paid)
            for line in told(plan, *paid, (self.relation, self.filter, self.order,
                                           (self.epsilon, beside(self.delta, self.reserve)))):
                self.note(line)
        return plan

    def check_price(self, plan: Node, units: int, delta_units: int, delta: float) -> None:
        """Note a fault if a plan was charged less than it costs; one without a price is a note."""
        try:
            found = due(plan, self.relation, self.filter, self.order, (self.epsilon, self.delta),
                        delta, delta_units != 0)
        except NoPrice as what:
            return self.note(f"price not recomputed: {what}")
        if units < found.units * (1 - Fraction(found.near)) or (
                delta_units < found.delta_units - found.delta_units // SLACK):
            self.fault("charged less than the plan costs")
        if found.about:
            self.note(f"price compared with a number that no right price is below: {found.about}")
        return None

    def on_protected(self, body: Any) -> None:
        """Costs nothing."""
        if self.policy is not None:
            self.policy.protected(body)

    def on_enrolled(self, body: Body) -> None:
        """The people of a table get places; who they are is in no entry."""
        self.people.enrol(len(self.hashes) - 1, body, self.unit)

    def on_refused(self, body: Any) -> None:
        """Count a refusal, not who begins to wait or gives up: nothing was charged."""
        self.refusals += self.line.refused(body, self.grants)

    def on_window(self, body: Any) -> None:
        """A new period begins: its name is fresh, and caps of each window start at zero."""
        if body["window"] in self.window_names:
            raise Bad("a window is opened once, and never again")
        self.window_names.add(body["window"])
        self.window_ends.append([cap.spent(self.windows[-1]) for cap in self.caps])
        self.windows.append(body["window"])
        if self.policy is not None:
            self.policy.allows("windows", body["window"])

    def in_window(self, body: Any) -> None:
        """Refuse a charge that names another window than the open one."""
        if body.get("window") != self.windows[-1]:
            raise Bad("charged to another window than the open one")

    def on_scope(self, body: Any) -> None:
        """A filter scope is paid, once, under every cap."""
        if body["scope"] in self.scopes:
            raise Bad("a scope is paid once")
        self.in_window(body)
        # A scope falls under every cap, whatever else its entry names.
        under = {"window": body.get("window"), "delta": body["delta"]}
        plan = self.charge(body, under, (0, 0))
        self.scopes[body["scope"]] = {
            "plan": plan, "data": None, "body": body, "under": under, "paid": (0, 0),
            "position": len(self.hashes) - 1, "corrections": []}

    def on_granted(self, body: Any) -> None:
        """A plan is paid: within the caps, the policy, and the scope it draws on."""
        if body["grant"] in self.grants:
            raise Bad("granted twice")
        self.people.granted(body, self.unit)
        self.in_window(body)
        self.line.granted(body["grant"])
        grant = self.grants[body["grant"]] = {
            "name": body["grant"], "position": len(self.hashes) - 1, "body": body,
            "meter": None, "paid": (body["units"], body["delta_units"]), "released": 0,
            "status": "granted", "releases": 0, "touched": True, "settled": {}, "crashed": {},
            "corrections": []}
        if self.policy is not None:
            self.policy.granted(body)
        scope = body.get("scope")
        plan = self.charge(body, body, (0, 0), free=scope is not None)
        grant["meter"] = Meter(as_released(plan, self.table))
        if scope is not None:
            self.draws(scope, plan, body["data"], body.get("mark"))

    def draws(self, name: str, plan: Node | None, data: str, mark: str | None) -> None:
        """Refuse a grant on an unpaid scope, with another filter, or of two tables."""
        scope = self.scopes.get(name)
        paid = None if scope is None else scope["plan"]
        if paid is None or plan is None or {paid.name, plan.name} != {"IndividualFilter"} or (
                filter_word(paid) != filter_word(plan)):
            raise Bad("uses a scope that was never paid for")
        if scope is not None and self.unit == "row" and scope["data"] not in (None, data):
            raise Bad("one scope serves two tables")
        if scope is not None and mark and scope.setdefault("mark", mark) != mark:
            raise Bad("one scope serves a table in two orders")
        if scope is not None:
            scope["data"] = data

    def open_grant(self, body: Any) -> dict[str, Any]:
        """The grant that an entry is about.

        Raises:
            Bad: there is none, or it is over.
        """
        grant = self.grants.get(body["grant"])
        if grant is None or grant["status"] not in ("granted", "crashed"):
            raise Bad("no such grant, or it is over already")
        return grant

    def on_crashed(self, body: Any) -> None:
        """The charge stays; if its process is alive after all, it may still settle."""
        grant = self.open_grant(body)
        grant["status"], grant["crashed"] = "crashed", body

    def on_released(self, body: Any) -> None:
        """Releases, in order, each of which the grant's meter must admit."""
        grant = self.open_grant(body)
        if body["first"] != grant["releases"]:
            self.fault("releases are missing or repeated")
        grant["releases"] += len(body["items"])
        if self.policy is not None:
            self.policy.released(body)
        nodes = [(steps_of(node), self.table.node(node["leaf"])) for node in body["nodes"]]
        if grant["meter"] is not None:
            for place, _, _ in body["items"]:
                grant["meter"].release(*nodes[place])

    def over(self, body: Any, status: str) -> dict[str, Any]:
        """Close the grant of the entry with `status`; its meter is not needed any more."""
        grant = self.open_grant(body)
        grant["status"], grant["settled"] = status, body
        if grant["body"].get("scope") is None:
            self.closed.append(grant["name"])
            self.closed_names.add(grant["name"])
        if body["releases"] != grant["releases"]:
            self.fault("settled with another number of releases")
        grant["meter"] = None  # no more of it is needed
        return grant

    def on_settled(self, body: Any) -> None:
        """A grant ends with releases; its per-record vector is wanted from now on."""
        grant = self.over(body, "settled")
        if body.get("answer") is not None and self.mode != "private":
            raise Bad("an answer that no single release gave")
        wanted = self.people if self.unit == "person" else self.vectors
        wanted.settled(len(self.hashes) - 1, body, grant["body"].get("scope"))

    def on_aborted(self, body: Any) -> None:
        """A grant is handed back: only what touched nothing may be."""
        grant = self.over(body, "aborted")
        grant["touched"] = body["touched"]
        if grant["releases"]:  # charged, and interrupted before rows were opened: all of it stays
            grant["touched"] = True
            return
        self.add(-grant["body"]["units"], -grant["body"]["delta_units"], grant["body"])

    def on_corrected(self, body: Any) -> None:
        """A charge is raised; what was handed back or drawn from a scope cannot be. Of a scope,
        what ran beside its filter is paid for in full."""
        grant = self.grants.get(body["grant"])
        found = self.scopes.get(body["grant"]) if grant is None else grant
        if found is None or (grant is not None and (
                grant["body"].get("scope") is not None or (
                    grant["status"] == "aborted" and not grant["touched"]))):
            raise Bad("corrects what was never charged")
        found["corrections"].append(body)
        if body["plan"] is None:
            self.fault("a correction: nothing is promised any more")
        paid = found["paid"]
        if grant is not None:
            grant["paid"] = paid[0] + body["units"], paid[1] + body["delta_units"]
        self.charge(body, found.get("under", found["body"]), paid)


KINDS = [name[3:] for name in dir(Book) if name.startswith("on_")]
assert set(KINDS) == set(SHAPES)
