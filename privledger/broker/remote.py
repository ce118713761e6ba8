"""A learner in a confined process of its own, used as if it were here."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, evolve, field, frozen

from privledger.broker.allowance import DEFAULTS, Limits, LimitsWatch, ResourceLimits
from privledger.broker.boot import NO_MEMORY
from privledger.broker.channel import MIB, Channel
from privledger.broker.failures import error_in, number_in, number_out, showable
from privledger.broker.server import Server
from privledger.errors import (
    InvalidPlan,
    IsolationError,
    IsolationLimit,
    IsolationUnavailable,
    LearnerError,
    ModelError,
    NotGranted,
    PrivledgerError,
)
from privledger.graph import Node
from privledger.guard.dataset import Dataset
from privledger.guard.vault import _vault_of
from privledger.ledger import plain_labels
from privledger.plugins import ClaimStep, LearnerInfo
from privledger.plugins.model_file import ModelFacts, ModelFile, model_bytes, model_file
from privledger.tables.columns import Columns
from privledger.tables.encode import encode_features
from privledger.tables.schema import Schema
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

# What a learner's process has to read to run: libraries and its own code, and nothing else.


SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/alternatives",
          "/nix/store")
SYSTEM_FILES = ("/etc/ld.so.cache",)
LIBRARIES = ("site-packages", "dist-packages")


@frozen
class Places:
    """Where things are.

    Attributes:
        path: what `sys.path` of the new process has after the standard library.
        packages: packages that lie outside of it, by name.
        folders, files: what stays readable.
    """

    path: tuple[str, ...]
    packages: dict[str, str]
    folders: tuple[str, ...]
    files: tuple[str, ...]

    def check(self, private: tuple[Path, ...]) -> None:
        """Raise `IsolationUnavailable` if a private file could be read there."""
        for path in private:
            real = path.resolve()
            for place in (*self.folders, *self.files):
                if real.is_relative_to(Path(place).resolve()):
                    raise IsolationUnavailable(
                        f"{path.name} lies below {place}, which the learner's process has to "
                        "read; move it elsewhere. Nothing was read")

    def as_dict(self) -> dict[str, Any]:
        """For JSON, as the learner's process reads it before it is confined."""
        return {"path": list(self.path), "packages": self.packages,
                "folders": list(self.folders), "files": list(self.files)}


def find_places(point: EntryPoint) -> Places:
    """Everything that the learner at an entry point needs; nothing of it is imported.

    Raises:
        LearnerError: its package cannot be found.
    """
    numpy = str(package_place("numpy").parent)  # wherever the libraries of this package are
    libraries = list(dict.fromkeys([*(entry for entry in sys.path
                                      if Path(entry).name in LIBRARIES), numpy]))
    packages: dict[str, str] = {}
    for name in dict.fromkeys(("privledger", point.module.partition(".")[0])):
        place = package_place(name)
        if place.parent.resolve() not in {Path(entry).resolve() for entry in libraries}:
            packages[name] = str(place.resolve())
    folders = [place for place in packages.values() if Path(place).is_dir()]
    files = [place for place in packages.values() if Path(place).is_file()]
    own = [str(Path(sys.base_prefix) / name) for name in ("lib", "lib64")]
    return Places(tuple(libraries), packages, (*SYSTEM, *own, *libraries, *folders),
                  (*SYSTEM_FILES, *files))


def package_place(name: str) -> Path:
    """Folder of a package, or file of a module; found, not imported."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise LearnerError(f"the package {name!r} cannot be found")
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    if spec.origin is None or not Path(spec.origin).is_file():
        raise LearnerError(f"the package {name!r} is not a folder or a file")
    return Path(spec.origin)


BOOT = Path(__file__).with_name("boot.py")
PATIENCE = DEFAULTS.silence_seconds
# One thread by default: what a learner starts itself is its own affair.
ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "random", "OMP_NUM_THREADS": "1",
               "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_MOST_TEXT = 400
_PART = 8 << 20  # bytes of a table or a model in one message
_NO_MEMORY = ("MemoryError", "_ArrayMemoryError")
_ONLY_FIT = {"error": "NotGranted", "text": "only fit may ask; nothing was read"}


@define(eq=False)
class RemoteLearner:
    """A learner that was loaded in a confined process; nothing of it runs in this one.

    Attributes:
        info: what it says about itself.
        name: the entry point's name, by which the ledger knows it.
    """

    name: str
    schema: Schema
    _process: subprocess.Popen[bytes] = field(alias="process")
    _channel: Channel = field(alias="channel")
    labels: Mapping[str, str] = field(factory=dict)
    limits: Limits = DEFAULTS
    resources: ResourceLimits = field(init=False)
    info: LearnerInfo = field(init=False)
    _plan: Node = field(init=False)
    _claims: tuple[ClaimStep, ...] = field(init=False, default=())
    unlabelled: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        plain_labels(self.labels)
        self.resources = ResourceLimits(self.limits)

    @staticmethod
    def start(point: EntryPoint, params: dict[str, Any], schema: Schema, relation: str, *,
              private: tuple[Path, ...] = (), patience: float | None = None,
              labels: Mapping[str, str] | None = None,
              limits: Limits = DEFAULTS) -> RemoteLearner:
        """Start a confined process, load the learner there, and ask what it would spend.

        Args:
            point: where the learner is; it is not imported here.
            private: files that must not lie where the process can read.
            patience: `silence_seconds` of the limits, where it is given.
            labels: what its grants carry, for caps; it cannot choose them itself.
            limits: what it may use up.

        Raises:
            IsolationUnavailable: this machine cannot confine it, or a private file lies wrong.
            IsolationLimit: it passed a limit.
            IsolationError: it ended or hung. LearnerError, InvalidPlan: it cannot be loaded.
        """
        if patience is not None:
            limits = evolve(limits, silence_seconds=patience)
        return _begun(point, schema, private, labels or {}, limits,
                      lambda found: found._load(point, params, relation))

    @staticmethod
    def revive(point: EntryPoint, model: ModelFile, *, private: tuple[Path, ...] = (),
               limits: Limits = DEFAULTS) -> RemoteLearner:
        """A fitted learner from a model file, in a confined process; it can only predict.

        Raises:
            ModelError, SchemaError: the file is not of this learner.
            IsolationUnavailable, IsolationError: as `start`.
        """
        return _begun(point, Schema.from_dict(model.header["schema"]), private, {}, limits,
                      lambda found: found._revive(point, model))

    def _load(self, point: EntryPoint, params: dict[str, Any], relation: str) -> None:
        try:
            json.dumps(params, allow_nan=False)
        except (TypeError, ValueError):
            raise InvalidPlan("[params]", "something else", "texts, numbers and lists only when "
                              "the learner runs isolated") from None
        reply = self._order({"do": "load", "module": point.module, "attribute": point.attr,
                             "name": point.name, "params": params, "relation": relation,
                             "schema": self.schema.to_dict()})
        try:
            self.info = _info(table(reply.get("info")))
            self._plan = self.resources.node(reply.get("plan"))
            self._claims = tuple(_claim(table(step)) for step in items(reply, "claims", 1000))
            self.unlabelled = reply.get("unlabelled") is True
        except PrivledgerError:
            raise
        except Exception:
            raise IsolationError("the learner describes itself in an unknown way") from None

    def _revive(self, point: EntryPoint, model: ModelFile) -> None:
        data = model_bytes(model)
        for start in range(0, len(data), _PART):
            self._order({"do": "given", "data": bytes_out(data[start:start + _PART])})
        reply = self._order({"do": "revive", "module": point.module, "attribute": point.attr,
                             "name": point.name, "schema": self.schema.to_dict()})
        self.info = _info(table(reply.get("info")))

    def plan(self, schema: Schema) -> Node:
        """What it said it would spend."""
        if schema != self.schema:
            raise InvalidPlan("schema", schema.name, "the one the learner was loaded with")
        return self._plan

    def claimed(self, schema: Schema) -> tuple[ClaimStep, ...]:
        """The published arithmetic, as it said."""
        return self._claims

    def fit(self, data: Dataset) -> RemoteLearner:
        """Train under grants of the data's ledger.

        Raises:
            PrivledgerError: what the ledger refused.
            IsolationError: the learner failed, ended or hung; what was charged stands.
        """
        ledger, server = data.ledger, Server(data, self.name, self.labels, self.resources)
        failed = True
        try:
            self._tell_public(data)
            self._order({"do": "fit", "identity": data.identity, "relation": ledger.relation,
                         "unlabelled": data.unlabelled,
                         "mode": ledger.mode, "epsilon": number_out(ledger.budget.epsilon),
                         "delta": number_out(ledger.budget.delta)}, server)
            failed = False
        except BaseException:
            self.close()  # first: nothing may be asked after this
            raise
        finally:
            server.end(failed=failed)
        return self

    def _tell_public(self, data: Dataset) -> None:
        """Features and who has a label, where the owner declared them public. Never a label."""
        if _vault_of(data._vault).public is None:
            return
        columns, known = data.public_features, data.public_labelled
        for rows in _batches(columns):
            self._order({"do": "public", "labelled": array_out(known[rows].astype(np.uint8)),
                         "columns": [array_out(array[rows]) for array in columns.arrays]})

    def predict(self, X: Any) -> Any:
        """Predictions for public rows: numbers, or labels."""
        columns = encode_features(X, self.schema, strict=False)
        found = [self._predicted([array[rows] for array in columns.arrays])
                 for rows in _batches(columns)]
        return np.concatenate(found) if found else np.zeros(0)

    def _predicted(self, arrays: list[Any]) -> Any:
        reply = self._order({"do": "predict", "columns": [array_out(one) for one in arrays]})
        if "numbers" in reply:
            found = array_in(reply["numbers"])
        else:
            labels = items(reply, "labels", len(arrays[0]))
            if any(not isinstance(label, str | int | float) for label in labels):
                raise IsolationError("the learner predicted something that is not a label")
            found = np.empty(len(labels), dtype=object)
            found[:] = labels
        if found.shape != (len(arrays[0]),):
            raise IsolationError("the learner predicted another number of rows than it was asked")
        return found

    def keep(self, facts: ModelFacts) -> ModelFile:
        """The model that was learned, for a file; under the owner's word, not the learner's.

        Raises:
            ModelError: it has no word for what was learned.
            IsolationLimit: it is too large. IsolationError: it ended or broke the protocol.
        """
        size = whole(self._order({"do": "keep", "name": self.name, "relation": facts.relation}),
                     "size", 1 << 40)
        if size > self.limits.model_mb * MIB:
            raise self._ended(IsolationLimit("model_mb", self.limits.model_mb))
        data = bytearray()
        while len(data) < size:
            part = bytes_in(self._order({"do": "part", "start": len(data), "size": _PART}), "data")
            if not part or len(part) > _PART:
                raise self._ended(IsolationError("a model in parts of another size"))
            data += part
        made = model_file(bytes(data))
        return ModelFile(made.header | facts.header(), made.arrays)

    def _order(self, order: Json, server: Server | None = None) -> Json:
        """Tell the process to do something, and answer what it asks meanwhile."""
        self._send(order)
        while True:
            message = self._receive()
            if "ask" in message:
                self._send(_ONLY_FIT if server is None else self._answered(server, message))
            elif message.get("done") == order["do"]:
                return message
            elif "failed" in message:
                raise _failure(table(message["failed"]), server, self.limits)
            elif "unavailable" in message:
                raise IsolationUnavailable(f"isolation is not available here: "
                                           f"{_said(message, 'unavailable')}. "
                                           "Nothing was read")
            else:
                raise IsolationError("the learner's process broke the protocol")

    def _answered(self, server: Server, message: Json) -> Json:
        """A reply; what it waited for budget is taken off the learner's time."""
        before = server.waited
        try:
            return server.answer(message)
        finally:
            if self._channel.watch is not None:
                self._channel.watch.excuse(server.waited - before)

    def _send(self, message: Json) -> None:
        try:
            self._channel.send(message)
        except IsolationError as error:
            raise self._ended(error) from None

    def _receive(self) -> Json:
        try:
            return self._channel.receive()
        except IsolationError as error:
            raise self._ended(error) from None

    def _ended(self, error: IsolationError) -> IsolationError:
        self.close()
        if isinstance(error, IsolationLimit):
            return error
        code, watch = self._process.returncode, self._channel.watch
        known = None if watch is None else watch.killed(code)
        if known is not None:
            return known
        return IsolationError(f"the learner's process was given up: {error} "
                              f"(exit code {code}); what was charged stands")

    def close(self) -> None:
        """End the process. What it was granted is settled by the broker."""
        self._process.kill()
        self._process.wait()
        self._channel.close()

    def __reduce__(self) -> Any:
        raise TypeError("a learner in another process cannot be pickled")


def _batches(columns: Columns) -> Iterator[slice]:
    """Rows of a table in parts that fit into messages."""
    size = max(1, _PART // (8 * max(1, len(columns.arrays))))
    size = min(size, 100_000)  # labels come back as a list
    for start in range(0, columns.n_rows, size):
        yield slice(start, start + size)


def _begun(point: EntryPoint, schema: Schema, private: tuple[Path, ...],
           labels: Mapping[str, str], limits: Limits,
           then: Callable[[RemoteLearner], None]) -> RemoteLearner:
    """A confined process for the learner at an entry point; it ends if `then` fails."""
    if sys.platform != "linux":
        raise IsolationUnavailable("isolation is not available here: it needs Linux. "
                                   "Nothing was read")
    places = find_places(point)
    places.check(private)
    process, channel = _start(places.as_dict(), limits)
    found = RemoteLearner(point.name, schema, process, channel, labels=labels, limits=limits)
    try:
        then(found)
    except BaseException:
        found.close()
        raise
    return found


def _start(config: Json, limits: Limits) -> tuple[subprocess.Popen[bytes], Channel]:
    source, child_output = os.pipe()
    child_source, output = os.pipe()
    config = config | {"input": child_source, "output": child_output, "parent": os.getpid(),
                       "cpu_seconds": math.ceil(limits.cpu_seconds),
                       "memory_mb": limits.memory_mb}
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", str(BOOT), json.dumps(config)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=True, pass_fds=(child_source, child_output), env=ENVIRONMENT, cwd="/",
            start_new_session=True)
    except OSError as error:
        os.close(source)
        os.close(output)
        raise IsolationUnavailable(f"no process could be started ({error.strerror}); nothing "
                                   "was read") from None
    finally:
        os.close(child_source)
        os.close(child_output)
    for number in (source, output):
        os.set_blocking(number, False)
    return process, Channel(source, output, limits.silence_seconds, limits.message_mb,
                            limits.traffic_mb, LimitsWatch(process.pid, limits))


def _info(wire: Json) -> LearnerInfo:
    words = {name: _said(wire, name) for name in ("name", "summary", "paper")}
    lists = {name: tuple(str(item)[:100] for item in items(wire, name, 20))
             for name in ("relations", "tasks")}
    return LearnerInfo(**words, **lists)  # type: ignore[arg-type]


def _claim(wire: Json) -> ClaimStep:
    numbers = {key: number_in(wire, key) for key in ("sound", "delta")}
    claimed = None if wire.get("claimed") is None else number_in(wire, "claimed")
    words = {key: _said(wire, key) for key in ("step", "reference", "note")}
    return ClaimStep(**words, claimed=claimed, **numbers)  # type: ignore[arg-type]


def _said(wire: Json, key: str) -> str:
    """A text of the learner's process, which can do nothing to a terminal."""
    return showable(text_field(wire, key, _MOST_TEXT))


def _failure(wire: Json, server: Server | None, limits: Limits) -> PrivledgerError:
    """The error to raise: the owner's own if it is the one that ended the fit."""
    if not wire.get("error"):
        if text_field(wire, "type", 100) in _NO_MEMORY or any(
                words in text_field(wire, "text", _MOST_TEXT) for words in NO_MEMORY):
            return IsolationLimit("memory_mb", limits.memory_mb)
        return IsolationError(showable(f"the learner failed: {text_field(wire, 'type', 100)}: "
                                       f"{text_field(wire, 'text', _MOST_TEXT)}"))
    told = error_in(wire)
    if isinstance(told, ModelError):
        return told
    if server is None:
        return LearnerError(f"the learner cannot be used: {told}") if not isinstance(
            told, InvalidPlan | NotGranted) else told
    if server.last is not None and type(server.last) is type(told) and (
            showable(str(server.last)) == str(told)):
        return server.last
    return IsolationError(f"the learner failed: {type(told).__name__}: {told}")
