"""Deciding which records of aborted transactions are handled again, and which become dead letters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ..._records import ConsumerRecord
from ..._values import NamedTuple
from ...errors import ConfigError, ConfigTypeError, IllegalStateError, KafkaError, RecordDeserializationError
from ...types import OffsetAndMetadata, TopicPartition
from ..backoff import Backoff
from .later import RetryTopics
from .options import RunConfig, Verdict

Record = ConsumerRecord[Any, Any]
Place = tuple[str, int, int]

_ALONE = Verdict("retry")
"""Verdict for records that will be handled again one by one."""


class TransactionalProducer(Protocol):
    """The required methods of a `Producer` with a ``transactional_id``, or of a `TransactionPipeline`."""

    @property
    def transactional_id(self) -> str | None: ...

    @property
    def _takes_bytes(self) -> bool: ...

    def transaction(self) -> Any: ...

    async def partitions_for(self, topic: str) -> frozenset[int]: ...

    async def _abort_refused(self) -> None:
        """Abort a transaction that the coordinator refuses to end. Its records are waiting for this."""

    def _take_failure(self) -> KafkaError | None:
        """Return the error of a failed transaction if no caller has received it, and clear it."""
        ...


def checked_producer(producer: Any, config: RunConfig) -> TransactionalProducer:
    """Check the value of ``exactly_once``. Raises `ConfigTypeError` or `ConfigError`."""
    if not all(callable(getattr(producer, method, None)) for method in ("transaction", "partitions_for")):
        found = type(producer).__name__
        raise ConfigTypeError(f"exactly_once must be a Producer or a TransactionPipeline, not {found}")
    if producer.transactional_id is None:
        raise ConfigError("exactly_once needs a Producer with a transactional_id")
    if config.dead_letter_producer is not None:
        raise ConfigError(
            "dead_letter_producer and exactly_once cannot be combined: dead letters are part of the transaction"
        )
    if config.dead_letter_topic is not None and not producer._takes_bytes:
        raise ConfigError(
            "dead_letter_topic needs an exactly_once producer without serializers: dead letters are sent as bytes"
        )
    if config.retry_topics and not producer._takes_bytes:
        raise ConfigError("retry_topics need an exactly_once producer without serializers: retries are sent as bytes")
    checked: TransactionalProducer = producer
    return checked


class CallTransaction:
    """The transaction passed to one call of a handler. It tracks whether the call may have sent anything."""

    __slots__ = ("_before", "_outside", "_over", "_txn", "_used")

    def __init__(self, txn: Any, outside: Callable[[], int]) -> None:
        """Wrap ``txn``. ``outside`` counts the uses of the producer other than through the transaction."""
        self._txn = txn
        self._outside = outside
        self._before = outside()
        self._used = False
        self._over = False

    def __getattr__(self, name: str) -> Any:
        if name != "outcome":
            if self._over:
                raise IllegalStateError("the handler's call has failed, so it can no longer use the transaction")
            self._used = True
        return getattr(self._txn, name)

    def _end(self) -> bool:
        """End a call that has failed. Return True if the call may have sent anything."""
        self._over = True
        return self._used or self._outside() != self._before

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The transaction's class, so that `isinstance` works."""
        return type(self._txn)


class HandlerFailure(NamedTuple):
    """A failed record: its exception, the number of attempts, and the decision about it."""

    record: Record
    verdict: Verdict
    error: BaseException
    attempts: int
    """Number of times that its handler has raised."""
    brief: bool = False
    """True if its dead letter was too large with the full description of the error."""


class Attempts:
    """Counts how often each record's handler has raised an exception, across the transactions of a run."""

    def __init__(self, config: RunConfig, backoff: Backoff, retry_topics: RetryTopics | None) -> None:
        self._config = config
        self._retry_topics = retry_topics
        self._backoff = backoff
        self._failed: dict[Place, HandlerFailure] = {}
        """The latest failure of each uncommitted record."""
        self._postponed: set[Place] = set()
        """Records that wait until a schema registry is available."""
        self._settled: set[Place] = set()
        """Failed records that will not be handled again."""
        self._alone: set[Place] = set()
        """Records of batches without retries left. Each is handled alone."""

    def judged(self, records: Sequence[Record], error: BaseException) -> list[HandlerFailure]:
        """Decide about each record of a failed call, without counting the attempt.

        If the call was for several records and any of them has no retries left, each record is handled alone next. This
        identifies the failing record, so that only this record becomes a dead letter.
        """
        failures = [self._judged(record, error) for record in records]
        if len(records) > 1 and any(failure.verdict.fate != "retry" for failure in failures):
            return [failure._replace(verdict=_ALONE) for failure in failures]
        return failures

    def _judged(self, record: Record, error: BaseException) -> HandlerFailure:
        before = self._failed.get(_place(record))
        later = self._retry_topics
        earlier = before.attempts if before is not None else 0 if later is None else later.attempts(record)
        attempts = earlier + (not isinstance(error, RecordDeserializationError))
        delays = 0 if later is None else later.delays(record)
        return HandlerFailure(record, self._config.verdict(error, attempts, delays), error, attempts)

    def count(self, failures: Sequence[HandlerFailure]) -> None:
        """Count a failed attempt at each of these records, and store the decisions about them."""
        for failure in failures:
            place = _place(failure.record)
            self._failed[place] = failure
            if failure.verdict is _ALONE:
                self._alone.add(place)
            elif failure.verdict.fate != "retry":
                self._settled.add(place)

    def failed(self, records: Sequence[Record], error: BaseException) -> HandlerFailure:
        """Decide about the records of a failed call, and count the attempt. Return the first record's failure."""
        failures = self.judged(records, error)
        self.count(failures)
        return failures[0]

    def settle(self, record: Record, verdict: Verdict, *, brief: bool) -> None:
        """Replace the stored decision about a failed record that will not be handled again."""
        self._failed[_place(record)] = self._failed[_place(record)]._replace(verdict=verdict, brief=brief)

    def is_alone(self, record: Record) -> bool:
        """Return True if the record must be handled alone, because its batch has no retries left."""
        return _place(record) in self._alone

    def postponed(self, record: Record, error: BaseException) -> HandlerFailure:
        """Let the record be handled again without counting an attempt. Return the failure to report."""
        self._postponed.add(_place(record))
        return HandlerFailure(record, Verdict("retry"), error, 0)

    def waits(self, record: Record) -> bool:
        """Return True if the record was postponed, and neither it nor a later record has been committed."""
        return _place(record) in self._postponed

    def settled(self, record: Record) -> HandlerFailure | None:
        """Return the failure that prevents the record from being handled again, or None."""
        if not self._settled:
            return None
        place = _place(record)
        return self._failed[place] if place in self._settled else None

    def delay_s(self, failures: list[HandlerFailure]) -> float:
        """Return the seconds to wait before these failed records are handled again.

        This is the backoff of the record with the most attempts.
        """
        return self._backoff.delay_s(
            max((each.attempts for each in failures if each.verdict.fate == "retry"), default=0)
        )

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Forget the records before these offsets, because they have been committed."""
        if self._failed or self._postponed:
            ends = {tuple(tp): offset.offset for tp, offset in offsets.items()}
            self._postponed = {place for place in self._postponed if place[2] >= ends.get(place[:2], 0)}
            for place in [place for place in self._failed if place[2] < ends.get(place[:2], 0)]:
                del self._failed[place]
                self._settled.discard(place)
                self._alone.discard(place)


def _place(record: Record) -> Place:
    return record.topic, record.partition, record.offset
