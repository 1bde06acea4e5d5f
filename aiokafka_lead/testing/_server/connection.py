"""A client's connection to a broker: one request at a time, and responses in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ..._wire import ApiKey, Buffer, RequestFrame, Response, UnsupportedRequestError, decode_request, encode_response
from ...errors import MalformedMessageError, UnsupportedVersionError
from ..faults import Fault, answers_for_parts, set_errors
from ..request_log import RequestRecord
from .context import CloseConnection, Handlers, Pending, RequestContext
from .sasl import Authentication

if TYPE_CHECKING:
    from .._state.cluster import BrokerNode
    from .engine import Engine

_QUEUED_BYTES_MAX = 1_048_576
"""Maximum size in bytes of pipelined requests that are read while a request is being served."""


class Transport(Protocol):
    """The socket of a connection. Calls return immediately, and bytes are sent in the order of the calls."""

    certificate: str | None
    """Subject of the client's certificate, or None."""

    def write(self, chunks: list[Buffer]) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class ServerConnection:
    """A client's connection: receives requests and sends the responses.

    As in Kafka, the connection is muted from the arrival of a request until its response is sent. A fetch that waits
    for records therefore delays all later requests.
    """

    def __init__(
        self,
        engine: Engine,
        handlers: Handlers,
        node: BrokerNode,
        number: int,
        transport: Transport,
        peer: str,
        on_closed: Callable[[ServerConnection], None],
    ) -> None:
        self.engine = engine
        self.handlers = handlers
        self.node = node
        self.number = number
        # The client's address, which appears in the descriptions of group members.
        self.peer = peer
        self.authentication = Authentication(engine.options.sasl)
        # The name and version of the client's software, after ApiVersions.
        self.software: tuple[str, str] = ("", "")
        self._transport = transport
        self._on_closed = on_closed
        self._frames: deque[bytes | bytearray] = deque()
        self._queued_bytes = 0
        self._reading_paused = False
        self._writing_paused = False
        # True while a request is being processed or the connection is muted.
        self._busy = False
        self._pumping = False
        self._closed = False
        # The pending response, which is dropped if the client disconnects.
        self._pending: Pending | None = None

    @property
    def closed(self) -> bool:
        return self._closed

    # --- events of the transport -------------------------------------------------------------------------------------

    def frames_received(self, frames: list[bytes | bytearray]) -> None:
        if self._closed:
            return
        for frame in frames:
            self._frames.append(frame)
            self._queued_bytes += len(frame)
        self._pump()
        if self._queued_bytes > _QUEUED_BYTES_MAX and not self._closed:
            self._reading_paused = True
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Stop serving requests until the client reads its responses."""
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._pump()

    def connection_lost(self) -> None:
        """End the requests of the connection, because its socket has ended or is about to end."""
        if self._closed:
            return
        self._closed = True
        self._frames.clear()
        try:
            # Drop pending responses first, so that they cannot get data that the end of the connection releases.
            if self._pending is not None:
                pending, self._pending = self._pending, None
                pending.give_up()
            self._on_closed(self)
        except Exception as error:
            # Do not raise the error: asyncio would only log it, and on trio it would end the cluster immediately.
            self.engine.failed(error)

    def close(self) -> None:
        """Close the connection once pending writes have been sent."""
        if not self._closed:
            self._transport.close()
            self.connection_lost()

    def abort(self) -> None:
        """Reset the connection."""
        if not self._closed:
            self._transport.abort()
            self.connection_lost()

    # --- requests ----------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Serve queued requests until one of them has to wait."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._frames and not (self._busy or self._writing_paused or self._closed):
                frame = self._frames.popleft()
                self._queued_bytes -= len(frame)
                self._busy = True
                self._receive(frame)
                self.engine.run_deferred()
        finally:
            self._pumping = False
        if self._reading_paused and not self._closed and self._queued_bytes <= _QUEUED_BYTES_MAX // 2:
            self._reading_paused = False
            self._transport.resume_reading()

    def _receive(self, frame: bytes | bytearray) -> None:
        """Begin to process a request, which is a whole frame without its length."""
        try:
            header = decode_request(frame)
        except UnsupportedRequestError as error:
            self._answer_unsupported(error.api_key, error.version, error.correlation_id)
            return
        except MalformedMessageError as error:
            self.refuse(error)
            return
        now = self.engine.timers.now()
        record = RequestRecord(
            self.node.node_id,
            self.number,
            header.api_key,
            header.request.NAME,
            header.version,
            header.client_id,
            header.correlation_id,
            len(frame),
            now,
            header.request,
            user=self.authentication.user or self._transport.certificate,
        )
        self.engine.requests.add(record)
        if not self.engine.apis.accepts(header.api_key, header.version):
            self._answer_unsupported(header.api_key, header.version, header.correlation_id)
            return
        if not self.authentication.permits(header.api_key):
            self.refuse(MalformedMessageError(f"{record.api} was received before authentication"))
            return
        try:
            rules = self.engine.faults.concerning(record, header.request)
        except Exception as error:
            error.add_note(f"raised by the function `when` of a fault, for a request {record.api}")
            self.fail(error)
            return
        _Job(self, header, record, rules).start()

    def _answer_unsupported(self, api_key: int, version: int, correlation_id: int) -> None:
        """Answer an unknown version of ApiVersions in version 0 (KIP-511). For another API, close the connection."""
        if api_key == ApiKey.API_VERSIONS:
            self.send(encode_response(self.engine.apis.unsupported_answer(), 0, correlation_id), 0)
        else:
            self.refuse(UnsupportedVersionError(f"API {api_key} does not support version {version}"))

    def refuse(self, error: Exception) -> None:
        """Close the connection, as a broker does after invalid data."""
        self.engine.protocol_errors.append((self.node.node_id, self.peer, error))
        self.close()

    def fail(self, error: Exception) -> None:
        """Report an error of the embedded broker.

        The connection is reset. The error is raised at the end of the cluster's block.
        """
        self.engine.failed(error)
        self.abort()

    def wait_for(self, pending: Pending, on_done: Callable[[Response | None], None]) -> None:
        """Mute the connection until ``pending`` has its response, and then call ``on_done`` with it."""
        self._pending = pending

        def done(response: Response | None) -> None:
            if self._pending is pending:
                self._pending = None
            if not self._closed:
                on_done(response)
                self.resume()

        pending.on_done = done

    def send(self, chunks: list[Buffer], mute_ms: float) -> None:
        """Send a response, and continue with the next request.

        If the client is throttled, the next request waits for ``mute_ms`` (KIP-219).
        """
        if self._closed:
            return
        if chunks:
            self._transport.write(chunks)
        if mute_ms > 0:
            self.engine.timers.call_later(mute_ms / 1000, self._unmute)
        else:
            self._busy = False

    def _unmute(self) -> None:
        self._busy = False
        self.resume()

    def resume(self) -> None:
        """Serve the requests that have waited for a response, a fault or the end of a throttle."""
        self.engine.run_deferred()
        self._pump()


class _Job:
    """One request that a broker processes, and the faults that affect it."""

    __slots__ = ("connection", "error_code", "frame", "garbage", "record", "rules", "throttle_ms")

    def __init__(
        self, connection: ServerConnection, frame: RequestFrame, record: RequestRecord, rules: list[Fault]
    ) -> None:
        self.connection = connection
        self.frame = frame
        self.record = record
        # All rules for this request. The handler applies rules for its parts. Rules with ``after`` apply at the end.
        self.rules = rules
        # The error for the response. If it is set, the request is not processed.
        self.error_code: int | None = None
        self.throttle_ms = 0
        # Rules that replace the bytes of the response.
        self.garbage: list[Fault] = []

    def start(self) -> None:
        """Process the request, unless a fault drops it, disconnects the client, or delays or holds the request."""
        delay_s = 0.0
        holder: Fault | None = None
        for rule in self.rules:
            if rule.after or (rule.by_partition and answers_for_parts(self.frame.api_key)) or not rule.strike():
                continue
            if rule.disconnect:
                self.connection.abort()
                return
            if rule.drop:
                return
            delay_s = max(delay_s, rule.delay_ms / 1000)
            self.throttle_ms = max(self.throttle_ms, rule.throttle_time_ms)
            if self.error_code is None:
                self.error_code = rule.error_code
            if rule.garbage is not None:
                self.garbage.append(rule)
            if rule.hold:
                holder = rule
        if holder is not None:
            holder.keep(self._run_released)
        elif delay_s > 0:
            self.connection.engine.timers.call_later(delay_s, self._run_later)
        else:
            self._run()

    def _run_later(self) -> None:
        if not self.connection.closed:
            self._run()
            self.connection.resume()

    def _run_released(self) -> None:
        """Process a held request. Its client may have disconnected."""
        self._run()
        self.connection.resume()

    def _run(self) -> None:
        """Call the handler, or take the response that a fault requires. Then finish the request."""
        connection, frame = self.connection, self.frame
        engine = connection.engine
        try:
            if self.error_code is not None:
                answer: Response | Pending | None = engine.apis.error_answer(frame, self.error_code)
            elif self.garbage:
                answer = frame.request.RESPONSE()
            else:
                parts = [rule for rule in self.rules if rule.by_partition] if self.rules else self.rules
                answer = connection.handlers[frame.api_key](
                    RequestContext(engine, connection, frame, parts), frame.request
                )
        except CloseConnection:
            connection.close()
            return
        except Exception as error:
            connection.fail(error)
            return
        if not isinstance(answer, Pending):
            self.finish(answer)
        elif answer.done:
            self.finish(answer.response)
        else:
            connection.wait_for(answer, self.finish)

    def finish(self, response: Response | None) -> None:
        """Apply the faults that apply after processing, and then send the response, if any."""
        connection = self.connection
        delay_s = 0.0
        holder: Fault | None = None
        for rule in self.rules:
            if not rule.after or not rule.strike():
                continue
            if rule.disconnect:
                connection.abort()
                return
            if rule.drop:
                return
            delay_s = max(delay_s, rule.delay_ms / 1000)
            self.throttle_ms = max(self.throttle_ms, rule.throttle_time_ms)
            if rule.error_code is not None and response is not None:
                set_errors(response, rule.error_code, rule.topic, rule.partition)
            if rule.garbage is not None:
                self.garbage.append(rule)
            if rule.hold:
                holder = rule
        if holder is not None:
            holder.keep(lambda: self._send_later(response))
        elif delay_s > 0:
            connection.engine.timers.call_later(delay_s, lambda: self._send_later(response))
        else:
            self._send(response)

    def _send_later(self, response: Response | None) -> None:
        if not self.connection.closed:
            self._send(response)
            self.connection.resume()

    def _send(self, response: Any | None) -> None:
        """Encode the response, let faults replace its bytes, and send it."""
        chunks: list[Buffer] = []
        if response is not None:
            if self.throttle_ms and hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = self.throttle_ms
            try:
                chunks = encode_response(response, self.frame.version, self.frame.correlation_id)
            except Exception as error:
                self.connection.fail(error)
                return
        try:
            for rule in self.garbage:
                made = rule.garbage
                chunks = [memoryview(made(b"".join(chunks)) if callable(made) else made or b"")]
        except Exception as error:
            error.add_note(f"raised by the function `garbage` of a fault, for a request {self.record.api}")
            self.connection.fail(error)
            return
        self.record.answered = self.connection.engine.timers.now() if chunks else None
        self.connection.send(chunks, self.throttle_ms)
