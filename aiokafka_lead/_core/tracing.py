"""Interface between a tracer and the clients.

`aiokafka_lead.otel` implements it with OpenTelemetry. A client takes the tracer from `installed` when it starts.
Without a tracer, each object of this module is replaced by None.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from .._values import NamedTuple
from ..config import ClientConfig
from ..types import Headers, OffsetAndMetadata, TopicPartition
from .unsampled import Unsampled

Handle = Callable[[Any], Awaitable[object]]


class TracedClient(NamedTuple):
    """The data about a client that a tracer adds to spans and metrics."""

    client_id: str
    host: str
    """The first bootstrap server."""
    port: int
    cluster_id: Callable[[], str | None]
    """Function that returns the cluster's id, or None if it is unknown."""
    group_id: str | None = None
    consumed: Callable[[], Mapping[str, int]] = dict
    """Function that returns the number of records that a consumer has handed out, by topic."""

    @classmethod
    def of(
        cls,
        config: ClientConfig,
        cluster_id: Callable[[], str | None],
        group_id: str | None = None,
        consumed: Callable[[], Mapping[str, int]] = dict,
    ) -> TracedClient:
        """Return the data of a client with this configuration."""
        return cls(config.client_id, *config.bootstrap_servers[0], cluster_id, group_id, consumed)


class SendSpan(Protocol):
    """The span of one call of ``send`` or ``send_many``."""

    def carry(self, headers: Headers) -> Headers:
        """Return the headers of the record to send, with the trace context added."""
        ...

    def taken(self, delivery: Any) -> None:
        """Called when the call returns this `Delivery` or `DeliveryBatch`."""
        ...

    def failed(self, error: BaseException) -> None:
        """Called when the call raises this error."""
        ...


class SendTracing(Protocol):
    """Traces one producer."""

    unsampled: Unsampled

    def send(self, topic: str, key: object, value: object, partition: int | None, headers: Headers) -> SendSpan:
        """Start the span of a call of ``send``, which has these arguments."""
        ...

    def send_many(self, topic: str, count: int, partition: int | None) -> SendSpan:
        """Start the span of a call of ``send_many`` with ``count`` values."""
        ...

    def settled(self, topic: str, records: int, seconds: float, error: BaseException | None, /) -> None:
        """Record that a batch was acknowledged, or that it failed with ``error``.

        ``seconds`` is the time since its first record was accepted.
        """
        ...


class RecordLoop(Protocol):
    """Traces a loop over records. It is called with each record handed out, and with None when the loop waits for more.

    The call may be omitted for records without headers if ``unsampled`` covers them.
    """

    unsampled: Unsampled

    def __call__(self, record: Any, /) -> None: ...


class BatchLoop(Protocol):
    """Traces a loop over batches. ``began`` is the time at which the batch was requested (``time.time_ns()``)."""

    def __call__(self, batch: Any, began: int, /) -> None: ...


class RunTracing(Protocol):
    """Traces one `Consumer.run` or `ShareConsumer.run`."""

    def around(self, handle: Handle) -> Handle:
        """Return the handler, wrapped in a span that is current while the handler runs."""
        ...

    def together(self, records: Sequence[Any]) -> AbstractContextManager[object]:
        """Return a context manager for one handler call with several records. Their span is current inside."""
        ...

    def retried(self, record: Any, error: BaseException, attempts: int) -> None:
        """Trace an error of the handler, which will be called again within the same span."""
        ...

    def within(self, record: Any) -> AbstractContextManager[object]:
        """Return a context manager inside which the span of a failed record is current again."""
        ...

    def dead_letter(self, record: Any, error: BaseException, topic: str) -> None:
        """Trace a record that was sent to this dead-letter topic because of this error."""
        ...

    def failed(self, record: Any, error: BaseException) -> None:
        """Trace a record that was given up because of this error."""
        ...

    def drop(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Drop the pending retries of these partitions, or all pending retries at the end of a run."""
        ...


class ReadTracing(Protocol):
    """Traces one consumer or share consumer."""

    def received(self, began: int, records: Sequence[Any]) -> None:
        """Trace a call that began at this time (``time.time_ns()``) and returns these records."""
        ...

    def records(self) -> RecordLoop:
        """Start tracing a loop over records."""
        ...

    def batches(self) -> BatchLoop:
        """Start tracing a loop over batches."""
        ...

    def run(self) -> RunTracing:
        """Start tracing a call of `Consumer.run`."""
        ...

    def committed(
        self, began: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: BaseException | None
    ) -> None:
        """Trace a commit that began at this time and has ended. ``error`` is None if it succeeded."""
        ...

    def acknowledged(self, began: int, counts: Mapping[TopicPartition, int], error: BaseException | None) -> None:
        """Trace a share group member's request, sent at ``began``, that acknowledged these numbers of records.

        If the request failed, ``error`` is set.
        """
        ...

    def stopped(self) -> None:
        """Called when the consumer will hand out no more records."""
        ...


class Tracer(Protocol):
    """The interface that a tracer implements."""

    def producer(self, client: TracedClient) -> SendTracing: ...

    def consumer(self, client: TracedClient) -> ReadTracing: ...

    def carry(self, headers: Headers) -> Headers:
        """Return the headers of a record that another task will send later, with the current trace context added."""
        ...


class Installed:
    """Holds the tracer of the process, which clients take when they start."""

    __slots__ = ("tracer",)

    def __init__(self) -> None:
        self.tracer: Tracer | None = None


installed = Installed()
