"""Options of `Consumer.run` and `ShareConsumer.run`; `_core.run.options` has their defaults and checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypedDict

from ..types import Header

__all__ = ["DeadLetterProducer", "HandlingOptions", "Order", "RunOptions", "ShareRunOptions"]

Order = Literal["key", "partition", "none"]
"""Records that keep their order: all with the same key, all in the same partition, or none."""


class DeadLetterProducer(Protocol):
    """The required part of a `Producer`."""

    async def partitions_for(self, topic: str) -> frozenset[int]: ...

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: list[Header] | None = None,
    ) -> Any: ...


class HandlingOptions(TypedDict, total=False):
    """Options for calling a handler in `Consumer.run` and `ShareConsumer.run`. Times are in milliseconds."""

    concurrency: int
    """Maximum number of concurrently running handlers (64)."""
    retry_backoff_ms: float
    """The wait before a record's first retry; doubles each time, with jitter (100)."""
    retry_backoff_max_ms: float
    """The longest such wait (10000)."""
    handler_timeout_ms: float | None
    """Time limit of a handler for a record, or for a batch: a slower one is cancelled and counts as having raised
    TimeoutError. A function in a thread cannot be cancelled, and is awaited. None means no limit (None)."""
    slow_handler_ms: float
    """Time after which the log names, once, a record whose handler is still running (30000)."""
    retry_on: type[BaseException] | tuple[type[BaseException], ...] | None
    """Exceptions after which a record is handled again; after any other it goes to ``dead_letter_topic`` at once. None
    means all exceptions except `PermanentError` (None)."""
    dead_letter_producer: DeadLetterProducer | None
    """A started `Producer` for dead letters, without serializers, since they are bytes; None creates one that connects
    like the consumer (None)."""
    on_bad_record: Literal["raise", "skip", "dead_letter"] | None
    """Action for a record that can never be deserialized: end the run with a `HandlerError`; skip the record with a
    warning in the log; or send it to ``dead_letter_topic``. None sends it to that topic if there is one, and otherwise
    ends the run (None)."""
    refusal_patience_ms: float
    """Time for which a run keeps retrying if brokers refuse the login, or access to a topic, the group, the
    transactional id or the cluster, as a broker that has just started may do for a while. With 0 the first refusal
    ends `run`, as in Java's clients (0)."""
    registry_patience_ms: float | None
    """Time for which records wait for a schema registry that is unreachable or refuses the client: they neither count
    as attempts nor become dead letters, and ``health()`` reports it. After this time `run` ends with a `HandlerError`;
    None waits without a limit (None)."""
    stop_on_signals: bool
    """Stop the consumer at SIGTERM or SIGINT: running handlers end, finished records are committed or acknowledged, and
    `run` returns, all within ``close_timeout_ms`` (10000 if that is None). A second signal cancels the handlers, whose
    records are delivered again. Needs the main thread (False)."""
    health_port: int | None
    """Port for answering probes while `run` runs: ``/health/live`` is 200 or 503 by the consumer's ``health()``, and so
    is ``/health/ready``, which is also 503 from the signal on. None opens no port (None)."""
    health_host: str | None
    """Address on which ``health_port`` is opened; None means every address of this machine (None)."""


class RunOptions(HandlingOptions, total=False):
    """Options for calling a handler in `Consumer.run`. Times are in milliseconds."""

    order: Order
    """Order of records (``"key"``): records of one key in one partition are handled in the order of their offsets
    (records without a key do not wait); or all records of one partition; or in any order."""
    max_in_hand: int
    """Maximum number of unfinished records in a run, over all partitions (10000). A partition's share of it also
    limits how far the partition may run ahead of its first unfinished record."""
    max_in_hand_bytes: int
    """Approximate maximum size of the keys and values of unfinished records, in bytes (64 MiB)."""
    retries: int
    """Number of times that a record is handled again after its handler has raised (3)."""
    dead_letter_topic: str | None
    """Topic for records whose retries are exhausted, or which cannot be deserialized: with their original bytes, and
    the cause in headers (see `DEAD_LETTER_HEADERS`). None ends `run` with an error instead (None)."""
    retry_topics: Sequence[str]
    """Delays, such as ``["10s", "1m", "10m"]``. A record whose ``retries`` are exhausted moves to the retry topic of
    the first delay and is handled once after that delay; if that fails, it moves to the next topic. After the last
    topic it is given up, as without retry topics. Needs a group, and topics subscribed by name. The topics (such as
    "orders.billing.retry.10s" for the group "billing") are created with the partition count of the original topic
    (none)."""
    retry_delay: Callable[[int, BaseException], str | None] | None
    """Function that takes a record's number of attempts and its latest error, and returns one of ``retry_topics``, or
    None to give the record up. Without it, a record waits in each retry topic once (None)."""
    retry_order: Literal["none", "key"]
    """Order of records whose key has a record in ``retry_topics``: with "none" they do not wait for it; with "key" they
    follow it, and are handled in the order of their offsets. Needs ``order="key"`` ("none")."""
    retry_share: float
    """Part of the ``concurrency`` for retries and for records of slow keys while other records also wait. A key is slow
    if its handlers have recently taken more than a tenth of one handler's time. Each part is at least one handler; a
    single handler takes both kinds in turn (0.3)."""
    max_transaction_records: int
    """With ``exactly_once``: number of records after which a transaction is committed (1000)."""
    max_transaction_ms: float
    """With ``exactly_once``: time after which a transaction accepts no more records, and is committed once its records
    are handled (100)."""
    transaction_retries: int
    """With ``exactly_once``: number of consecutive times that records are handled again because their transaction was
    aborted without a failed handler (10). The waits are as for ``retry_backoff_ms``."""


class ShareRunOptions(HandlingOptions, total=False):
    """Options for calling a handler in `ShareConsumer.run`. Times are in milliseconds."""

    retries: int
    """Number of times that a record is delivered again after a handler has raised, counted over all members of the
    group (3). Keep it below the group's limit of deliveries (5 by default), at which brokers drop a record themselves.
    """
    renew_locks: bool
    """Renew the locks of records with slow handlers, if brokers can (True; Apache Kafka 4.2)."""
    dead_letter_topic: str | None
    """Topic for records whose retries are exhausted, or which cannot be deserialized: with their original bytes, and
    the cause in headers (see `DEAD_LETTER_HEADERS`). They are rejected when their dead letter is acknowledged. With
    None they are rejected with an error in the log (None)."""
