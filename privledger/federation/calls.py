"""Messages over gRPC with mutual TLS: owners call the one who trains, and answer its questions.

Both sides accept the certificates of the run's cards and no other. A caller is known by its
certificate; what is said is JSON, and checked again by whom it is for. Needs the extra
`federated`.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import grpc
from attrs import define, field

from privledger.broker.channel import parsed, written_message
from privledger.errors import EngineError, InvalidPlan, PrivledgerError
from privledger.federation.cards import Card, Identity
from privledger.federation.enlisted import Run
from privledger.federation.party import Party
from privledger.rounding import count, positive
from privledger.tables.values import Json, table, text_field

SERVICE, METHOD = "privledger.Federation", "Join"
MOST_BYTES = 64 << 20
"""Of one message, either way."""
_OPTIONS = [("grpc.max_receive_message_length", MOST_BYTES),
            ("grpc.max_send_message_length", MOST_BYTES),
            ("grpc.keepalive_time_ms", 20_000), ("grpc.keepalive_timeout_ms", 20_000),
            ("grpc.http2.max_pings_without_data", 0), ("grpc.so_reuseport", 0),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000)]
_GONE: Json = {}


@define(eq=False, repr=False)
class Called:
    """The line to one owner that calls; `Line`.

    Attributes:
        patience: seconds that a reply may take.
    """

    patience: float
    there: threading.Event = field(init=False, factory=threading.Event)
    _out: queue.SimpleQueue[bytes | None] = field(init=False, factory=queue.SimpleQueue)
    _in: queue.SimpleQueue[tuple[int, Json]] = field(init=False, factory=queue.SimpleQueue)
    _number: int = field(init=False, default=0)
    _gone: bool = field(init=False, default=False)

    def send(self, message: Json) -> None:
        if self._gone or not self.there.is_set():
            raise EngineError("the owner is gone")
        self._number += 1
        self._out.put(written_message({"number": self._number, "message": message}))

    def receive(self) -> Json:
        """As `Line.receive`. Replies to what was asked before are thrown away."""
        while True:
            try:
                number, reply = self._in.get(timeout=self.patience)
            except queue.Empty:
                raise EngineError("the owner does not answer in time") from None
            if number < 0:
                self._in.put((number, reply))  # it stays gone
                raise EngineError("the owner is gone")
            if number == self._number:
                return reply

    def carry(self, replies: Iterator[bytes]) -> Iterator[bytes]:
        """What goes to the owner; its replies come back by themselves."""
        self.there.set()
        try:
            while (data := self._out.get()) is not None:
                yield data
                self._take(next(replies))
        except (StopIteration, grpc.RpcError, PrivledgerError, ValueError):
            return  # a reply that cannot be read ends the line
        finally:
            self.hang_up()

    def hang_up(self) -> None:
        """Nothing comes any more."""
        self._gone = True
        self._out.put(None)
        self._in.put((-1, _GONE))

    def _take(self, data: bytes) -> None:
        said = parsed(data)
        self._in.put((count("number", said.get("number"), least=0), table(said.get("reply"))))


@define(eq=False, repr=False)
class Callers:
    """Waits on an address for the owners of a run. A context: at its end nothing listens.

    Attributes:
        run: what was agreed. cards: of the owners that call.
        own: of the coordinator.
        address: host and port; port 0 takes a free one, see `port`.
        patience: seconds that one reply may take.
    """

    run: Run
    cards: tuple[Card, ...]
    own: Identity
    address: str
    patience: float = 600.0
    port: int = field(init=False, default=0)
    lines: dict[str, Called] = field(init=False)
    _server: grpc.Server = field(init=False)
    _lock: threading.Lock = field(init=False, factory=threading.Lock)
    _here: set[str] = field(init=False, factory=set)
    _begun: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        positive("patience", self.patience)
        self.lines = {card.owner.name: Called(self.patience) for card in self.cards}

    def __enter__(self) -> Callers:
        self._server = grpc.server(ThreadPoolExecutor(2 * len(self.cards) + 4), options=_OPTIONS)
        handler = grpc.stream_stream_rpc_method_handler(self._join)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),))
        trusted = "\n".join(card.certificate for card in self.cards).encode("ascii")
        try:
            self.port = self._server.add_secure_port(self.address, grpc.ssl_server_credentials(
                [(self.own.transport_key.encode("ascii"),
                  self.own.card.certificate.encode("ascii"))],
                root_certificates=trusted, require_client_auth=True))
        except RuntimeError:
            raise InvalidPlan("address", self.address, "host:port that is free here") from None
        self._server.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for line in self.lines.values():
            line.hang_up()
        self._server.stop(grace=5.0).wait()

    def wait(self, seconds: float, seen: Callable[[str], None] = lambda name: None) -> None:
        """Until all owners have called.

        Raises:
            EngineError: one has not; nothing was read.
        """
        end = threading.Event()
        timer = threading.Timer(positive("seconds", seconds), end.set)
        timer.daemon = True
        timer.start()
        missing = told = list(self.lines)
        try:
            while missing and not end.is_set():
                for name in [name for name in told if self.lines[name].there.wait(0.05)]:
                    told.remove(name)
                    seen(name)
                with self._lock:  # who hung up meanwhile may call again, until all are there
                    missing = [name for name, line in self.lines.items() if not line.there.is_set()]
                    self._begun = not missing
                told = list({*told, *missing})
        finally:
            timer.cancel()
        if missing:
            raise EngineError(f"{missing[0]} did not call; nothing was read")

    def _join(self, replies: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """One owner's call, from its first word to the end of the run."""
        name = self._caller(context)
        if name is None:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "no party of this run")
            return  # abort raises
        with self._lock:  # calls that say nothing take no threads from other owners
            line = self.lines[name]
            if name in self._here:
                context.abort(grpc.StatusCode.ALREADY_EXISTS, "an owner cannot join a run twice")
            self._here.add(name)
        try:
            asked = text_field(parsed(next(replies)), "run", 64)
        except (StopIteration, grpc.RpcError, PrivledgerError):
            asked = ""
        if asked != self.run.digest.hex():
            with self._lock:
                self._here.discard(name)
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "another run")
        def gone() -> None:
            with self._lock:
                if not self._begun and self.lines[name] is line:
                    self.lines[name] = Called(self.patience)
                    self._here.discard(name)
            line.hang_up()

        line.there.set()
        if not context.add_callback(gone):  # it is gone already
            gone()
        yield from line.carry(replies)

    def _caller(self, context: grpc.ServicerContext) -> str | None:
        shown = context.auth_context().get("x509_pem_cert", [b""])[0].split()
        for card in self.cards:
            if card.certificate.encode("ascii").split() == shown:
                return card.owner.name
        return None


def answer_calls(party: Party, own: Identity, other: Card, address: str, *,
                 wait: float = 600.0, silence: float = 7200.0) -> None:
    """Call the one who trains and answer until it is done. The party's run is over afterwards.

    Args:
        own: of the party's owner. other: of the one who trains. address: host and port.
        wait: seconds until it has to be there.
        silence: seconds without a question after which it is as if it had hung up.

    Raises:
        EngineError: it is not there, is another owner, or went away before the run was over.
    """
    out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    out.put(written_message({"run": party.run.digest.hex()}))
    credentials = grpc.ssl_channel_credentials(
        other.certificate.encode("ascii"), own.transport_key.encode("ascii"),
        own.card.certificate.encode("ascii"))
    positive("silence", silence)
    options = [*_OPTIONS, ("grpc.ssl_target_name_override", other.host),
               ("grpc.enable_http_proxy", 0)]
    try:
        with grpc.secure_channel(address, credentials, options) as channel:
            try:
                grpc.channel_ready_future(channel).result(timeout=positive("wait", wait))
            except grpc.FutureTimeoutError:
                raise EngineError("the training party does not answer there, or not with the "
                                  "certificate on its card. Nothing was read") from None
            call = channel.stream_stream(f"/{SERVICE}/{METHOD}")
            try:
                _talk(party, call(iter(out.get, None)), out, silence)
            except grpc.RpcError as error:
                raise EngineError(f"the call ended: {_why(error)}; what was charged stands"
                                  ) from None
            finally:
                out.put(None)
    finally:
        party.close()


def _talk(party: Party, messages: grpc.CallIterator[bytes],
          out: queue.SimpleQueue[bytes | None], silence: float) -> None:
    for data in _heard(messages, silence):
        said = parsed(data)
        number = count("number", said.get("number"), least=0)
        out.put(written_message({"number": number,
                                 "reply": party.answer(table(said.get("message")))}))
    if party.statement is None:
        raise EngineError("the training party disconnected before the end. What was charged stands")


def _heard(messages: grpc.CallIterator[bytes], silence: float) -> Iterator[bytes]:
    """The messages as they come; the call is over if none comes for that long."""
    since: list[float | None] = [time.monotonic()]  # None while a message is answered
    over = threading.Event()

    def watch() -> None:
        pause = min(silence / 4, 60.0)
        while not over.wait(pause):
            if since[0] is not None and time.monotonic() - since[0] > silence:
                messages.cancel()

    threading.Thread(target=watch, daemon=True).start()
    try:
        for data in messages:
            since[0] = None
            yield data
            since[0] = time.monotonic()
    finally:
        over.set()


def _why(error: grpc.RpcError) -> str:
    code = error.code() if isinstance(error, grpc.Call) else None
    return "unknown" if code is None else str(code.name).lower().replace("_", " ")


__all__ = ["MOST_BYTES", "Called", "Callers", "answer_calls"]
