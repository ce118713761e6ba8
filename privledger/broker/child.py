"""The learner's process, after `boot.py` confined it: stand-ins that ask over the channel.

`Dataset`, `Query`, cells and scores are the package's own classes: they describe and hold no
rows. Only what would reach rows, the budget or the history goes to the other process.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy as np
from attrs import asdict, define, field, frozen

from privledger.broker.channel import Channel, Ends
from privledger.broker.failures import error_in, error_out, number_in, number_out
from privledger.broker.wire import WireDescriber
from privledger.errors import NotGranted, PrivledgerError
from privledger.graph import Context, IndividualFilter, Node, to_json
from privledger.guard import Scope
from privledger.guard.dataset import Dataset
from privledger.guard.vault import _sealed
from privledger.ledger import Budget, Receipt
from privledger.mutex import Uncopied
from privledger.plugins import checked_plugin, configured
from privledger.plugins.model_file import ModelFacts, kept, model_bytes, model_file, revived
from privledger.questions.groups import Groups
from privledger.questions.options import Picked
from privledger.questions.question import Step
from privledger.tables.chunk import Rows
from privledger.tables.columns import MISSING, Columns
from privledger.tables.schema import Schema
from privledger.tables.sources import as_frame
from privledger.tables.values import (
    Json,
    array_in,
    array_out,
    bytes_in,
    bytes_out,
    items,
    table,
    text_field,
    whole,
)

_NO_LIMIT = 4096


@frozen(eq=False)
class Elsewhere:
    """Stands where the rows would be: a name and a schema."""

    identity: str
    schema: Schema
    unlabelled: bool = False
    public: Rows | None = None  # features, where the owner declared them public; no label
    facts: None = None  # the owner knows them, and checks what is asked


@define(eq=False, repr=False)
class BrokeredLedger(Uncopied):
    """A learner's view of a ledger in another process: what it may spend, and requests.

    Attributes:
        noise_factor: how many times the noise of a mechanism is in an answer: of k owners that each
            add all of it the square root of k.
    """

    relation: str
    mode: str
    budget: Budget
    _channel: Ends = field(alias="channel")
    _describer: WireDescriber = field(alias="describer")
    path: str = "in another process"
    _UNPICKLED = "a ledger cannot be pickled"
    on_release: Any = None
    noise_factor: float = 1.0

    def _ask(self, what: str, **fields: Any) -> Json:
        self._channel.send({"ask": what, "define": self._describer.new()} | fields)
        reply = self._channel.receive()
        if "error" in reply:
            raise error_in(reply)
        return reply

    @property
    def spent(self) -> float:
        return number_in(self._ask("totals"), "spent")

    @property
    def left(self) -> float:
        return number_in(self._ask("totals"), "left")

    @property
    def receipt(self) -> Receipt:
        return _receipt(self._ask("totals")["receipt"])

    def request(self, plan: Node, data: Dataset, *, learner: str = "", delta: float = 0.0,
                scope: Scope | None = None, labels: Mapping[str, str] | None = None,
                lease: float | None = None, claimed: float | None = None,
                wait: float | None = None) -> BrokeredSession:
        """As `Ledger.request`; the other process decides, its own word names the learner and sets
        its labels, and there is no lease. It waits as long as the ledger's owner said, whatever
        `wait` says."""
        reply = self._ask("request", plan=to_json(plan), data=self._describer.handle(data),
                          delta=float(delta), scope=None if scope is None else scope.name,
                          labels=dict(labels or {}), lease=lease, claimed=claimed)
        return BrokeredSession(plan, text_field(reply, "grant"), reply["session"], data, self)

    def open_scope(self, node: IndividualFilter, *, name: str | None = None,
                   delta: float = 0.0) -> Scope:
        reply = self._ask("open_scope", node=to_json(node), name=name, delta=float(delta))
        return Scope(text_field(reply, "name"), node)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotGranted(f"a learner in its own process has no ledger.{name}")


@define(eq=False, repr=False)
class BrokeredSession(Uncopied):
    """As `Session`; every release is charged and answered by the other process."""

    _UNPICKLED = "a session cannot be pickled or copied to another process"
    plan: Node
    grant: str
    _number: int = field(alias="number")
    data: Dataset
    _ledger: BrokeredLedger = field(alias="ledger")
    active: bool = field(default=True, init=False)
    releases: int = field(default=0, init=False)
    receipt: Receipt | None = field(default=None, init=False)

    @property
    def covers(self) -> str:
        return self.data.identity

    def filtered(self, node: IndividualFilter | None = None) -> Dataset:
        describer = self._ledger._describer
        step = Step(Context("filter", "", caps="" if node is None else node.caps))
        self._ledger._ask("filtered", session=self._number, id=describer.fresh(step),
                          node=None if node is None else to_json(node))
        return Dataset(self.data.schema, self.data._vault, (step, *self.data.steps), self._ledger)

    def release(self, mechanism: Any, query: Any, *, rollover: int = 0) -> Any:
        asked = self._ledger._describer.query(query)
        reply = self._ledger._ask("release", session=self._number, mechanism=to_json(mechanism),
                                  query=asked, rollover=int(rollover))
        self.releases += 1
        if "chosen" in reply:
            return array_in(reply["chosen"], "i")
        if "names" in reply:
            return Groups(tuple(map(str, items(reply, "names"))), array_in(reply.get("counts")))
        if "feature" in reply:
            return Picked(array_in(reply["feature"], "i"), array_in(reply.get("cut"), "i"))
        answers = [array_in(item, "fi") for item in items(reply, "answers")]
        return answers[0] if len(answers) == 1 else answers

    def close(self, failed: type[BaseException] | None = None) -> None:
        if not self.active:
            return
        self.active = False
        reply = self._ledger._ask("close", session=self._number, failed=failed is not None)
        self.receipt = _receipt(reply["receipt"])

    def __enter__(self) -> BrokeredSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close(failed=kind)


def _receipt(value: Json) -> Receipt:
    return Receipt(value["uuid"], value["entries"], value["head"], number_in(value, "epsilon"),
                   number_in(value, "delta"), value["mode"], value["counter"],
                   value.get("unit", "row"), value.get("time", ""))


@define(eq=False)
class Worker:
    """Does what it is told: load, fit, predict."""

    channel: Channel
    learner: Any = None
    schema: Any = None
    _kept: bytes = b""
    _public: list[tuple[list[Any], Any]] = field(factory=list)

    def load(self, order: Json) -> Json:
        """Import the learner, make it, and say what it would spend."""
        self.schema = Schema.from_dict(order["schema"])
        self.learner = configured(imported(order), text_field(order, "name"),
                                  table(order["params"]), self.schema,
                                  text_field(order, "relation"))
        claims = [asdict(step) | {"sound": number_out(step.sound), "delta": number_out(step.delta),
                                  "claimed": None if step.claimed is None
                                  else number_out(step.claimed)}
                  for step in self.learner.claimed(self.schema)]
        return {"info": asdict(self.learner.info), "claims": claims,
                "unlabelled": bool(getattr(self.learner, "unlabelled", False)),
                "plan": to_json(self.learner.plan(self.schema))}

    def fit(self, order: Json) -> Json:
        """Train on a handle whose rows are elsewhere."""
        vault = _sealed(Elsewhere(text_field(order, "identity"), self.schema,
                                  order.get("unlabelled") is True, self._public_rows()))
        budget = Budget(number_in(order, "epsilon"), number_in(order, "delta"))
        ledger = BrokeredLedger(text_field(order, "relation"), text_field(order, "mode"), budget,
                                self.channel, WireDescriber(vault, self.schema))
        self.learner.fit(Dataset(self.schema, vault, ledger=ledger))
        return {}

    def public(self, order: Json) -> Json:
        """A part of the features that the owner declared public, and who has a label."""
        self._public.append(([array_in(sent, "fi") for sent in items(order, "columns")],
                             array_in(order.get("labelled"), "u").astype(bool)))
        return {}

    def _public_rows(self) -> Rows | None:
        if not self._public:
            return None
        arrays = tuple(np.concatenate(parts) for parts in zip(
            *(columns for columns, _ in self._public), strict=True))
        known = np.concatenate([labelled for _, labelled in self._public])
        return Rows(Columns(self.schema, arrays, len(known)), np.where(known, 0, MISSING))

    def keep(self, order: Json) -> Json:
        """What was learned, as a model file; it is fetched in parts."""
        facts = ModelFacts(text_field(order, "name"), self.schema, text_field(order, "relation"))
        self._kept = model_bytes(kept(self.learner, facts))
        return {"size": len(self._kept)}

    def part(self, order: Json) -> Json:
        """A part of the model file."""
        start = whole(order, "start", 1 << 40)
        return {"data": bytes_out(self._kept[start:start + whole(order, "size", 1 << 30)])}

    def given(self, order: Json) -> Json:
        """A part of a model file that is to be read."""
        self._kept += bytes_in(order, "data")
        return {}

    def revive(self, order: Json) -> Json:
        """The fitted learner of the model file that was given."""
        self.schema = Schema.from_dict(order["schema"])
        found = checked_plugin(imported(order), text_field(order, "name"))
        self.learner, self._kept = revived(model_file(self._kept), found), b""
        return {"info": asdict(self.learner.info)}

    def predict(self, order: Json) -> Json:
        """Predictions for public rows."""
        found = self.learner.predict(public_rows(items(order, "columns"), self.schema))
        array = np.asarray(found)
        if array.dtype.kind in "fiu" and self.schema.task == "regression":
            return {"numbers": array_out(array.astype(np.float64))}
        return {"labels": array.tolist()}


def imported(order: Json) -> Any:
    """What an entry point points at; only ever called in a confined process."""
    found: Any = importlib.import_module(text_field(order, "module"))
    for name in text_field(order, "attribute").split("."):
        found = getattr(found, name)
    return found


def public_rows(columns: list[Any], schema: Schema) -> Any:
    """Encoded columns as the table that `read_table` would give."""
    table_: dict[str, Any] = {}
    for column, sent in zip(schema.features, columns, strict=True):
        array = array_in(sent, "fi")
        if column.kind == "categorical":
            labels = np.empty(len(column.categories) + 1, dtype=object)
            labels[:-1] = column.categories
            array = labels[np.where(array == MISSING, len(column.categories), array)]
        table_[column.name] = array
    return as_frame(table_)


def serve_child(source: int, output: int) -> None:
    """Answer orders until the other side is gone."""
    channel = Channel(source, output, message_mb=_NO_LIMIT)  # what is too long, the other side says
    worker = Worker(channel)
    orders = {"load": worker.load, "fit": worker.fit, "predict": worker.predict,
              "keep": worker.keep, "part": worker.part, "given": worker.given,
              "revive": worker.revive, "public": worker.public}
    while True:
        order = channel.receive()
        try:
            reply = {"done": order["do"]} | orders[order["do"]](order)
        except BaseException as error:
            reply = {"failed": told(error)}
        channel.send(reply)


def told(error: BaseException) -> Json:
    """What went wrong in the learner, for its author. This process never held a row."""
    if isinstance(error, PrivledgerError):
        return error_out(error)
    return {"error": "", "type": type(error).__name__, "text": str(error)[:400]}

