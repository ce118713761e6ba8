"""A learner in a confined process of its own, used as if it were here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field

from privledger.broker.channel import Channel
from privledger.broker.failures import error_in, number_in, number_out
from privledger.broker.places import find_places
from privledger.broker.server import Server, node_in
from privledger.broker.values import Json, array_in, array_out, items, table, text
from privledger.data import Dataset, Schema, encode_features
from privledger.errors import (
    InvalidPlan,
    IsolationError,
    IsolationUnavailable,
    LearnerError,
    NotGranted,
    PrivledgerError,
)
from privledger.graph import Node
from privledger.plugins import ClaimStep, LearnerInfo

BOOT = Path(__file__).with_name("boot.py")
PATIENCE = 600.0
# One thread by default: what a learner starts itself is its own affair.
ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "random", "OMP_NUM_THREADS": "1",
               "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_MOST_TEXT = 400
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
    info: LearnerInfo = field(init=False)
    _plan: Node = field(init=False)
    _claims: tuple[ClaimStep, ...] = field(init=False)

    @staticmethod
    def start(point: EntryPoint, params: dict[str, Any], schema: Schema, relation: str, *,
              private: tuple[Path, ...] = (), patience: float = PATIENCE) -> RemoteLearner:
        """Start a confined process, load the learner there, and ask what it would spend.

        Args:
            point: where the learner is; it is not imported here.
            private: files that must not lie where the process can read.
            patience: seconds of silence after which it counts as hanging.

        Raises:
            IsolationUnavailable: this machine cannot confine it, or a private file lies wrong.
            IsolationError: it ended or hung. LearnerError, InvalidPlan: it cannot be loaded.
        """
        if sys.platform != "linux":
            raise IsolationUnavailable("isolation is not available here: it needs Linux. "
                                       "Nothing was read")
        places = find_places(point)
        places.check(private)
        process, channel = _start(places.as_dict(), patience)
        found = RemoteLearner(point.name, schema, process, channel)
        try:
            found._load(point, params, relation)
        except BaseException:
            found.close()
            raise
        return found

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
            self._plan = node_in(reply.get("plan"))
            self._claims = tuple(_claim(table(step)) for step in items(reply, "claims", 1000))
        except PrivledgerError:
            raise
        except Exception:
            raise IsolationError("the learner describes itself in an unknown way") from None

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
        ledger, server = data.ledger, Server(data, self.name)
        failed = True
        try:
            self._order({"do": "fit", "identity": data.identity, "relation": ledger.relation,
                         "mode": ledger.mode, "epsilon": number_out(ledger.budget.epsilon),
                         "delta": number_out(ledger.budget.delta)}, server)
            failed = False
        except BaseException:
            self.close()  # first: nothing may be asked after this
            raise
        finally:
            server.end(failed=failed)
        return self

    def predict(self, X: Any) -> Any:
        """Predictions for public rows: numbers, or labels. They are only ever scored."""
        columns = encode_features(X, self.schema, strict=False)
        reply = self._order({"do": "predict",
                             "columns": [array_out(array) for array in columns.arrays]})
        if "numbers" in reply:
            found = array_in(reply["numbers"])
        else:
            labels = items(reply, "labels", columns.n_rows)
            if any(not isinstance(label, str | int | float) for label in labels):
                raise IsolationError("the learner predicted something that is not a label")
            found = np.empty(len(labels), dtype=object)
            found[:] = labels
        if found.shape != (columns.n_rows,):
            raise IsolationError("the learner predicted another number of rows than it was asked")
        return found

    def _order(self, order: Json, server: Server | None = None) -> Json:
        """Tell the process to do something, and answer what it asks meanwhile."""
        self._send(order)
        while True:
            message = self._receive()
            if "ask" in message:
                self._send(_ONLY_FIT if server is None else server.answer(message))
            elif message.get("done") == order["do"]:
                return message
            elif "failed" in message:
                raise _failure(table(message["failed"]), server)
            elif "unavailable" in message:
                raise IsolationUnavailable(f"isolation is not available here: "
                                           f"{text(message, 'unavailable', _MOST_TEXT)}. "
                                           "Nothing was read")
            else:
                raise IsolationError("the learner's process broke the protocol")

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
        code = self._process.returncode
        return IsolationError(f"the learner's process was given up: {error} "
                              f"(exit code {code}); what was charged stands")

    def close(self) -> None:
        """End the process. What it was granted is settled by whoever serves it."""
        self._process.kill()
        self._process.wait()
        self._channel.close()

    def __reduce__(self) -> Any:
        raise TypeError("a learner in another process cannot be pickled")


def _start(config: Json, patience: float) -> tuple[subprocess.Popen[bytes], Channel]:
    source, child_output = os.pipe()
    child_source, output = os.pipe()
    config = config | {"input": child_source, "output": child_output, "parent": os.getpid()}
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
    return process, Channel(source, output, patience)


def _info(body: Json) -> LearnerInfo:
    words = {name: text(body, name, _MOST_TEXT) for name in ("name", "summary", "paper")}
    lists = {name: tuple(str(item)[:100] for item in items(body, name, 20))
             for name in ("relations", "tasks")}
    return LearnerInfo(**words, **lists)  # type: ignore[arg-type]


def _claim(body: Json) -> ClaimStep:
    numbers = {key: number_in(body, key) for key in ("sound", "delta")}
    claimed = None if body.get("claimed") is None else number_in(body, "claimed")
    words = {key: text(body, key, _MOST_TEXT) for key in ("step", "reference", "note")}
    return ClaimStep(**words, claimed=claimed, **numbers)  # type: ignore[arg-type]


def _failure(body: Json, server: Server | None) -> PrivledgerError:
    """The error to raise: the owner's own if it is the one that ended the fit."""
    if not body.get("error"):
        return IsolationError(f"the learner failed: {text(body, 'type', 100)}: "
                              f"{text(body, 'text', _MOST_TEXT)}")
    told = error_in(body)
    if server is None:
        return LearnerError(f"the learner cannot be used: {told}") if not isinstance(
            told, InvalidPlan | NotGranted) else told
    if server.last is not None and type(server.last) is type(told) and (
            str(server.last) == str(told)):
        return server.last
    return IsolationError(f"the learner failed: {type(told).__name__}: {told}")


