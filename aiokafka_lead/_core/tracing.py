"""What a tracer is to the clients. `aiokafka_lead.otel` has one; nothing here, or below, needs its packages.

A client asks `installed` for a tracer when it starts. Without one, all of this is None for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from ..config import ClientConfig
from ..types import Headers, OffsetAndMetadata, TopicPartition
from .unsampled import Unsampled

__all__ = [
    "BatchLoop",
    "ReadTracing",
    "RecordLoop",
    "RunTracing",
    "SendSpan",
    "SendTracing",
    "TracedClient",
    "Tracer",
    "installed",
]

Handle = Callable[[Any], Awaitable[object]]


class TracedClient(NamedTuple):
    """What a tracer learns of a client."""

    client_id: str
    host: str
    """The first bootstrap server."""
    port: int
    cluster_id: Callable[[], str | None]
    """The cluster's id, as far as it is known."""
    group_id: str | None = None
    consumed: Callable[[], Mapping[str, int]] = dict
    """How many records of each topic a consumer has handed out."""

    @classmethod
    def of(
        cls,
        config: ClientConfig,
        cluster_id: Callable[[], str | None],
        group_id: str | None = None,
        consumed: Callable[[], Mapping[str, int]] = dict,
    ) -> TracedClient:
        """A client with this configuration."""
        return cls(config.client_id, *config.bootstrap_servers[0], cluster_id, group_id, consumed)


class SendSpan(Protocol):
    """One call of ``send``, or of ``send_many``."""

    def carry(self, headers: Headers) -> Headers:
        """A record's headers, and what it carries of the context."""
        ...

    def taken(self, delivery: Any) -> None:
        """It has returned this `Delivery` or `DeliveryBatch`."""
        ...

    def failed(self, error: BaseException) -> None:
        """It raises this."""
        ...


class SendTracing(Protocol):
    """The tracer's side of one producer."""

    unsampled: Unsampled

    def send(self, topic: str, key: object, value: object, partition: int | None, headers: Headers) -> SendSpan:
        """A record is about to be sent."""
        ...

    def send_many(self, topic: str, count: int, partition: int | None) -> SendSpan:
        """So many records are about to be sent together."""
        ...

    def settled(self, topic: str, records: int, seconds: float, error: BaseException | None, /) -> None:
        """A batch of records was acknowledged, or given up with ``error``, ``seconds`` after its first one."""
        ...


class RecordLoop(Protocol):
    """A loop over records: is called with each that is handed out, and with None when the loop waits for more.

    Those that ``unsampled`` covers and that have no headers, it need not be called with.
    """

    unsampled: Unsampled

    def __call__(self, record: Any, /) -> None: ...


class BatchLoop(Protocol):
    """The same of a loop over batches; ``began`` is when the batch was asked for (``time.time_ns()``)."""

    def __call__(self, batch: Any, began: int, /) -> None: ...


class RunTracing(Protocol):
    """The tracer's side of one `Consumer.run`, or `ShareConsumer.run`."""

    def around(self, handle: Handle) -> Handle:
        """The same, with a span that is current while it runs."""
        ...

    def retried(self, record: Any, error: BaseException, attempts: int) -> None:
        """Its handler has raised this, and is called again later, within the same span."""
        ...

    def within(self, record: Any) -> AbstractContextManager[object]:
        """Makes the span of a record whose handler has failed current again."""
        ...

    def dead_letter(self, record: Any, error: BaseException, topic: str) -> None:
        """It went to this topic."""
        ...

    def failed(self, record: Any, error: BaseException) -> None:
        """It is given up for this."""
        ...

    def drop(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """What was to be handled again of these partitions is not; without them, the run is over."""
        ...


class ReadTracing(Protocol):
    """The tracer's side of one consumer, or share consumer."""

    def received(self, began: int, records: Sequence[Any]) -> None:
        """A call that began then (``time.time_ns()``) returns these records."""
        ...

    def records(self) -> RecordLoop:
        """A loop begins."""
        ...

    def batches(self) -> BatchLoop:
        """A loop over batches begins."""
        ...

    def run(self) -> RunTracing:
        """`Consumer.run` begins."""
        ...

    def committed(
        self, began: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: BaseException | None
    ) -> None:
        """A commit that began then has ended, or failed with this."""
        ...

    def acknowledged(self, began: int, counts: Mapping[TopicPartition, int], error: BaseException | None) -> None:
        """A request of a share group's member, sent at ``began``, has acknowledged these counts, or failed."""
        ...

    def stopped(self) -> None:
        """The consumer hands out nothing more."""
        ...


class Tracer(Protocol):
    """What is installed."""

    def producer(self, client: TracedClient) -> SendTracing: ...

    def consumer(self, client: TracedClient) -> ReadTracing: ...


class Installed:
    """The process's tracer, for clients that start from now on."""

    __slots__ = ("tracer",)

    def __init__(self) -> None:
        self.tracer: Tracer | None = None


installed = Installed()
