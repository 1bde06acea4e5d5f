"""The options of `Consumer.run`, some of which `ShareConsumer.run` also has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypedDict

from ..._options.arguments import topic_name
from ..._options.checks import (
    Checked,
    boolean,
    build,
    function,
    integer,
    milliseconds,
    number,
    one_of,
    option,
    optional,
    text,
)
from ..._values import NamedTuple
from ...errors import ConfigError, ConfigTypeError, DropRecordError, PermanentError, RecordDeserializationError
from ...types import Header
from .delays import Delay, delays

if TYPE_CHECKING:
    from ..producer.delivery import Delivery

Order = Literal["key", "partition", "none"]

Fate = Literal["retry", "later", "dead_letter", "skip", "drop", "reject", "raise"]
"""Fate of a record whose handler has raised: it is handled again, waits in a retry topic, goes to the dead letters,
counts as done because it cannot be read or because its handler says so, is rejected in a share group, or ends the run.
"""


class Verdict(NamedTuple):
    """Verdict on a record whose handler has raised."""

    fate: Fate
    delay: Delay | None = None
    """Delay of the retry topic in which it waits."""
    behind: str | None = None
    """Retry topic in which it waits, without having been handled, since another one of its key is there."""
    wait_s: float | None = None
    """Wait before it is handled again because a schema registry is away; None for its backoff."""
    failure: Exception | None = None
    """Error that ends the run."""


def leaves(error: BaseException) -> list[BaseException]:
    """Return the errors of a group, or of groups in it, such as those that a task group raises; else the error."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for each in error.exceptions for leaf in leaves(each)]


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
    ) -> Delivery: ...


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
    """Fate of a record that can never be deserialized: it ends the run with a `HandlerError`, is done with a warning in
    the log, or goes to ``dead_letter_topic``. None means the last if there is a topic, otherwise the first (None)."""
    refusal_patience_ms: float
    """Time for which a run continues, asking again, although brokers refuse the login, or access to a topic, the group,
    the transactional id or the cluster, which may be temporary after a broker's start. With 0 the first refusal ends
    `run`, as in Java's clients (0)."""
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
    """Maximum number of taken, unfinished records over all partitions (10000); a partition's share of it also limits
    how far it may run ahead of its first unfinished record."""
    max_in_hand_bytes: int
    """Approximate maximum size of their keys and values in bytes (64 MiB)."""
    retries: int
    """Number of times that a record is handled again after its handler has raised (3)."""
    dead_letter_topic: str | None
    """Topic for records whose retries are exhausted, or which cannot be deserialized: with their original bytes, and
    the cause in headers (see `DEAD_LETTER_HEADERS`). None ends `run` with an error instead (None)."""
    retry_topics: Sequence[str]
    """Delays, such as ``["10s", "1m", "10m"]``: a record whose ``retries`` are exhausted leaves its partition for a
    topic of the first delay, is handled once after that delay, and so on with the next; after the last it is dropped
    like without retry topics. Needs a group, and topics subscribed by name. The topics ("orders.billing.retry.10s" of
    the group "billing") are created with the partitions of their origin (none)."""
    retry_delay: Callable[[int, BaseException], str | None] | None
    """Function that chooses one of ``retry_topics`` for a record, given its number of attempts and the error of the
    latest; None gives the record up. Without it, a record waits in each of them once (None)."""
    retry_order: Literal["none", "key"]
    """Order of records whose key has a record in ``retry_topics``: with "none" they do not wait for it; with "key" they
    follow it, and are handled in the order of their offsets. Needs ``order="key"``, and is not for handlers of batches
    ("none")."""
    retry_share: float
    """Part of the ``concurrency`` for retries, and for records of keys whose handlers have lately taken more than a
    tenth of the time of one, while other records wait, too. Each part is at least one handler; a single handler takes
    both in turn (0.3)."""
    max_transaction_records: int
    """With ``exactly_once``: number of records after which a transaction is committed (1000)."""
    max_transaction_ms: float
    """With ``exactly_once``: time after which a transaction accepts no more records, and is committed once its records
    are handled (100)."""
    transaction_retries: int
    """With ``exactly_once``: number of consecutive times that records are handled again because their transaction was
    aborted without a failed handler (10). The waits are as for ``retry_backoff_ms``."""


def dead_letter_producer(name: str, value: Any) -> Any:
    """Check for the methods of `Producer` that dead letters need."""
    if not all(callable(getattr(value, method, None)) for method in ("partitions_for", "send")):
        raise ConfigTypeError(f"{name} must be a Producer, not {type(value).__name__}")
    return value


def exception_types(name: str, value: Any) -> tuple[type[BaseException], ...]:
    """Check an exception class, or several."""
    found = value if isinstance(value, tuple) else (value,)
    for each in found:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise ConfigTypeError(f"{name} must be exception classes, not {each!r}")
    return found


class HandlingConfig(Checked):
    """The options of `HandlingOptions`, checked, and two that each kind of consumer describes itself."""

    concurrency: int = option(64, integer(1))
    retries: int = option(3, integer(0))
    retry_backoff_ms: float = option(100, milliseconds())
    retry_backoff_max_ms: float = option(10_000, milliseconds())
    handler_timeout_ms: float | None = option(None, optional(milliseconds(1)))
    slow_handler_ms: float = option(30_000, milliseconds(1))
    retry_on: tuple[type[BaseException], ...] | None = option(None, optional(exception_types))
    dead_letter_topic: str | None = option(None, optional(topic_name))
    on_bad_record: Literal["raise", "skip", "dead_letter"] | None = option(
        None, optional(one_of("raise", "skip", "dead_letter"))
    )
    dead_letter_producer: Any = option(None, optional(dead_letter_producer))
    refusal_patience_ms: float = option(0, milliseconds())
    registry_patience_ms: float | None = option(None, optional(milliseconds()))
    stop_on_signals: bool = option(False, boolean)
    health_port: int | None = option(None, optional(integer(1, 65_535)))
    health_host: str | None = option(None, optional(text))

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Check the options; raises `ConfigError` or `ConfigTypeError`."""
        return build(cls, options)

    @property
    def attended(self) -> bool:
        """True if signals or probes have to be answered."""
        return self.stop_on_signals or self.health_port is not None

    def verdict(self, error: BaseException, attempts: int, delays: int = 0) -> Verdict:
        """Return the verdict on a record whose handler has raised this for the ``attempts``-th time.

        ``delays`` is the number of retry topics in which it has waited because of its own failures. The ``failure`` of
        the verdict is the error of ``retry_delay``, if that has raised one.
        """
        if isinstance(error, RecordDeserializationError):
            return Verdict(self._unreadable)
        raised = leaves(error)
        if all(isinstance(each, DropRecordError) for each in raised):
            return Verdict("drop")
        if not any(isinstance(each, PermanentError) for each in raised) and self._may_help(error, raised):
            if attempts <= self.retries:
                return Verdict("retry")
            try:
                delay = self._delay(error, attempts, delays)
            except Exception as failed:
                return Verdict("raise", failure=failed)
            if delay is not None:
                return Verdict("later", delay)
        return Verdict(self._given_up)

    def _delay(self, error: BaseException, attempts: int, delays: int) -> Delay | None:
        """Return the delay of the retry topic in which a record waits next, or None."""
        return None

    def _may_help(self, error: BaseException, raised: Sequence[BaseException]) -> bool:
        """Return True if a retry may help."""
        wanted = self.retry_on
        return wanted is None or isinstance(error, wanted) or all(isinstance(each, wanted) for each in raised)

    @property
    def _unreadable(self) -> Fate:
        return self._given_up if self.on_bad_record is None else self.on_bad_record

    @property
    def _given_up(self) -> Fate:
        return "raise" if self.dead_letter_topic is None else "dead_letter"

    def _check(self) -> None:
        if self.health_host is not None and self.health_port is None:
            raise ConfigError("health_host needs a health_port")
        if self.on_bad_record == "dead_letter" and self.dead_letter_topic is None:
            raise ConfigError('on_bad_record="dead_letter" needs a dead_letter_topic')
        if self.dead_letter_producer is not None and self.dead_letter_topic is None:
            raise ConfigError("dead_letter_producer needs a dead_letter_topic")
        if self.retry_backoff_ms > self.retry_backoff_max_ms:
            raise ConfigError(
                f"retry_backoff_ms must not be more than retry_backoff_max_ms ({self.retry_backoff_max_ms})"
            )


class RunConfig(HandlingConfig):
    """The options of `RunOptions`, checked."""

    order: Order = option("key", one_of("key", "partition", "none"))
    max_in_hand: int = option(10_000, integer(1))
    max_in_hand_bytes: int = option(64 * 1024 * 1024, integer(1))
    max_transaction_records: int = option(1_000, integer(1))
    max_transaction_ms: float = option(100, milliseconds(1))
    transaction_retries: int = option(10, integer(0))
    retry_topics: tuple[Delay, ...] = option((), delays)
    retry_delay: Callable[[int, BaseException], str | None] | None = option(None, optional(function))
    retry_share: float = option(0.3, number(0, 1))
    retry_order: Literal["none", "key"] = option("none", one_of("none", "key"))

    def _delay(self, error: BaseException, attempts: int, delays: int) -> Delay | None:
        if self.retry_delay is None:
            return self.retry_topics[delays] if delays < len(self.retry_topics) else None
        chosen = self.retry_delay(attempts, error)
        for delay in self.retry_topics:
            if delay.text == chosen:
                return delay
        if chosen is not None:
            raise ConfigError(f"retry_delay must return one of retry_topics, or None, and not {chosen!r}")
        return None

    def _check(self) -> None:
        super()._check()
        if self.retry_delay is not None and not self.retry_topics:
            raise ConfigError("retry_delay chooses from retry_topics, which are missing")
        if self.retry_order == "key" and not (self.retry_topics and self.order == "key"):
            raise ConfigError('retry_order="key" needs retry_topics, and order="key"')
