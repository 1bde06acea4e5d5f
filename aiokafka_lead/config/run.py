"""Options of `Consumer.run` and `ShareConsumer.run`. Each description ends with the default in parentheses.

`_core.run.options` has the defaults and the checks of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypedDict

from ..types import Header

__all__ = ["DeadLetterProducer", "HandlingOptions", "Order", "RunOptions", "ShareRunOptions"]

Order = Literal["key", "partition", "none"]
"""Scope in which records are handled in order: records of the same key, of the same partition, or no order."""


class DeadLetterProducer(Protocol):
    """Object with the methods of a `Producer` that are needed to send dead letters."""

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
    """Options that `Consumer.run` and `ShareConsumer.run` have in common. Times are in milliseconds."""

    concurrency: int
    """Maximum number of concurrently running handlers (64)."""
    retry_backoff_ms: float
    """Delay before the first retry of a record. The delay doubles with each retry, with jitter (100)."""
    retry_backoff_max_ms: float
    """Maximum delay before a retry (10000)."""
    handler_timeout_ms: float | None
    """Time limit of a handler for a record or a batch. A slower handler is cancelled and counts as having raised
    TimeoutError. A function in a thread cannot be cancelled; `run` waits until it returns. None means no limit (None).
    """
    slow_handler_ms: float
    """Time after which one warning is logged for a record whose handler is still running (30000)."""
    retry_on: type[BaseException] | tuple[type[BaseException], ...] | None
    """Exceptions after which a record is handled again. After other exceptions the record goes to ``dead_letter_topic``
    immediately. None means all exceptions except `PermanentError` (None)."""
    dead_letter_producer: DeadLetterProducer | None
    """Started `Producer` for dead letters. It must not have serializers, because dead letters are bytes. None creates a
    producer that connects like the consumer (None)."""
    on_bad_record: Literal["raise", "skip", "dead_letter"] | None
    """Action for a record that can never be deserialized. ``"raise"`` ends the run with a `HandlerError`, ``"skip"``
    skips the record and logs a warning, and ``"dead_letter"`` sends it to ``dead_letter_topic``. None means
    ``"dead_letter"`` if there is such a topic, and otherwise ``"raise"`` (None)."""
    refusal_patience_ms: float
    """Time that `run` keeps retrying while brokers reject the login, or deny access to a topic, the group, the
    transactional id or the cluster. A broker that has just started may do so for a while. With 0, the first such error
    ends `run`, as in Java's clients (0)."""
    registry_patience_ms: float | None
    """Maximum time that records wait for a schema registry that is unreachable or rejects the client. While they wait,
    no attempts are counted, no record becomes a dead letter, and ``health()`` reports the problem. After that time,
    `run` ends with a `HandlerError`. None means no limit (None)."""
    stop_on_signals: bool
    """Stop the consumer on SIGTERM or SIGINT: running handlers end, finished records are committed or acknowledged, and
    `run` returns, all within ``close_timeout_ms`` (10000 if that is None). A second signal cancels the handlers, and
    their records are delivered again. Only works in the main thread (False)."""
    health_port: int | None
    """Port on which HTTP probes are answered while `run` runs. ``/health/live`` returns 200 or 503 according to the
    consumer's ``health()``. ``/health/ready`` does the same, but also returns 503 once a stop signal has arrived. None
    opens no port (None)."""
    health_host: str | None
    """Address on which ``health_port`` is opened. None means every address of this machine (None)."""


class RunOptions(HandlingOptions, total=False):
    """Options of `Consumer.run`, in addition to `HandlingOptions`. Times are in milliseconds."""

    order: Order
    """Order in which records are handled. ``"key"`` handles the records of a key in a partition in the order of their
    offsets; records without a key do not wait. ``"partition"`` handles all records of a partition in order. ``"none"``
    keeps no order (``"key"``)."""
    max_in_hand: int
    """Maximum number of unfinished records in a run, over all partitions. It also limits how far a partition may be
    read beyond its first unfinished record, to that partition's share of this number (10000)."""
    max_in_hand_bytes: int
    """Approximate maximum size in bytes of the keys and values of unfinished records (64 MiB)."""
    retries: int
    """Number of times that a record is handled again after its handler raised an error (3)."""
    dead_letter_topic: str | None
    """Topic for records whose retries are exhausted or that cannot be deserialized, with their original bytes and the
    cause in headers (see `DEAD_LETTER_HEADERS`). Without this topic, such a record ends `run` with an error (None)."""
    retry_topics: Sequence[str]
    """Delays, such as ``["10s", "1m", "10m"]``, each with a retry topic. A record whose ``retries`` are exhausted moves
    to the first retry topic and is handled once after the delay. If it fails again, it moves to the next retry topic.
    After the last retry topic, it becomes a dead letter, or ends `run` if there is no ``dead_letter_topic``. Needs a
    group, and topics subscribed by name. `run` creates the retry topics, such as "orders.billing.retry.10s" for the
    group "billing", with the number of partitions of the original topic (none)."""
    retry_delay: Callable[[int, BaseException], str | None] | None
    """Function that takes the number of attempts and the latest error of a record, and returns one of ``retry_topics``,
    or None to give the record up. Without it, a record waits in each retry topic once (None)."""
    retry_order: Literal["none", "key"]
    """Order of records with the same key as a record in ``retry_topics``. With ``"none"``, later records do not wait
    for that record. With ``"key"``, which needs ``order="key"``, they follow it, and all are handled in the order of
    their offsets (``"none"``)."""
    retry_share: float
    """Share of ``concurrency`` that retries and records of slow keys get while other records also wait. A key is slow
    if its handlers have recently taken more than a tenth of one handler's time. Both kinds of records get at least one
    handler; if there is only one handler, it alternates between them (0.3)."""
    max_transaction_records: int
    """With ``exactly_once``: number of records after which a transaction is committed (1000)."""
    max_transaction_ms: float
    """With ``exactly_once``: time after which a transaction accepts no more records. It is committed when its records
    are handled (100)."""
    transaction_retries: int
    """With ``exactly_once``: number of consecutive times that records are handled again because their transaction was
    aborted without a failed handler. Outages do not count. The delays follow ``retry_backoff_ms`` (10)."""


class ShareRunOptions(HandlingOptions, total=False):
    """Options of `ShareConsumer.run`, in addition to `HandlingOptions`. Times are in milliseconds."""

    retries: int
    """Number of times that a record is delivered again after a handler raised an error, counted over all members of the
    group. Keep it below the group's limit of deliveries (5 by default), because brokers drop a record at that limit
    (3)."""
    renew_locks: bool
    """Renew the locks of records whose handlers are slow, if the brokers support it (True; needs Apache Kafka 4.2)."""
    dead_letter_topic: str | None
    """Topic for records whose retries are exhausted or that cannot be deserialized, with their original bytes and the
    cause in headers (see `DEAD_LETTER_HEADERS`). The record is rejected when its dead letter is acknowledged. Without
    this topic, it is rejected, and an error is logged (None)."""
