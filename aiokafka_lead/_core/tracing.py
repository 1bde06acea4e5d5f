"""The interface between a tracer and the clients. `aiokafka_lead.otel` implements it; no code here needs its packages.

A client gets the tracer from `installed` when it starts. Without a tracer, it has None for each object of this module.
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
    """Data about a client for a tracer."""

    client_id: str
    host: str
    """The first bootstrap server."""
    port: int
    cluster_id: Callable[[], str | None]
    """Returns the cluster's id, if known."""
    group_id: str | None = None
    consumed: Callable[[], Mapping[str, int]] = dict
    """Returns each topic's number of records that a consumer has handed out."""

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
    """One call of ``send`` or ``send_many``."""

    def carry(self, headers: Headers) -> Headers:
        """Return a record's headers, with the context added."""
        ...

    def taken(self, delivery: Any) -> None:
        """Record that the call has returned this `Delivery` or `DeliveryBatch`."""
        ...

    def failed(self, error: BaseException) -> None:
        """Record that the call raises this error."""
        ...


class SendTracing(Protocol):
    """The tracer's side of one producer."""

    unsampled: Unsampled

    def send(self, topic: str, key: object, value: object, partition: int | None, headers: Headers) -> SendSpan:
        """Begin the span of a record to be sent."""
        ...

    def send_many(self, topic: str, count: int, partition: int | None) -> SendSpan:
        """Begin the span of ``count`` records to be sent together."""
        ...

    def settled(self, topic: str, records: int, seconds: float, error: BaseException | None, /) -> None:
        """Record that a batch was acknowledged, or given up with ``error``, ``seconds`` after its first record."""
        ...


class RecordLoop(Protocol):
    """A loop over records: called with each record handed out, and with None when the loop waits for more.

    Calls for records without headers that ``unsampled`` covers may be omitted.
    """

    unsampled: Unsampled

    def __call__(self, record: Any, /) -> None: ...


class BatchLoop(Protocol):
    """A loop over batches; ``began`` is the time at which the batch was requested (``time.time_ns()``)."""

    def __call__(self, batch: Any, began: int, /) -> None: ...


class RunTracing(Protocol):
    """The tracer's side of one `Consumer.run`, or `ShareConsumer.run`."""

    def around(self, handle: Handle) -> Handle:
        """Return the handler wrapped in a span that is current while it runs."""
        ...

    def together(self, records: Sequence[Any]) -> AbstractContextManager[object]:
        """Return a context manager for a call of a handler with several records, whose span is current inside it."""
        ...

    def retried(self, record: Any, error: BaseException, attempts: int) -> None:
        """Record that the handler raised this error, and will be called again within the same span."""
        ...

    def within(self, record: Any) -> AbstractContextManager[object]:
        """Return a context manager in which the span of a failed record is current again."""
        ...

    def dead_letter(self, record: Any, error: BaseException, topic: str) -> None:
        """Record that the record went to this dead-letter topic because of this error."""
        ...

    def failed(self, record: Any, error: BaseException) -> None:
        """Record that the record was given up because of this error."""
        ...

    def drop(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Drop the pending retries of these partitions; without partitions, the run has ended."""
        ...


class ReadTracing(Protocol):
    """The tracer's side of one consumer, or share consumer."""

    def received(self, began: int, records: Sequence[Any]) -> None:
        """Record that a call that began at this time (``time.time_ns()``) returns these records."""
        ...

    def records(self) -> RecordLoop:
        """Begin a loop."""
        ...

    def batches(self) -> BatchLoop:
        """Begin a loop over batches."""
        ...

    def run(self) -> RunTracing:
        """Begin `Consumer.run`."""
        ...

    def committed(
        self, began: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: BaseException | None
    ) -> None:
        """Record the end of a commit that began at this time, successful or failed."""
        ...

    def acknowledged(self, began: int, counts: Mapping[TopicPartition, int], error: BaseException | None) -> None:
        """Record a share group member's request, sent at ``began``, that acknowledged these counts, or failed."""
        ...

    def stopped(self) -> None:
        """Record that the consumer hands out no more records."""
        ...


class Tracer(Protocol):
    """The interface of an installed tracer."""

    def producer(self, client: TracedClient) -> SendTracing: ...

    def consumer(self, client: TracedClient) -> ReadTracing: ...

    def carry(self, headers: Headers) -> Headers:
        """Return the headers of a record to be sent later by another task, with the current context added."""
        ...


class Installed:
    """The process's tracer, for clients that start from now on."""

    __slots__ = ("tracer",)

    def __init__(self) -> None:
        self.tracer: Tracer | None = None


installed = Installed()
