"""Retry topics, for records whose retries take longer than their partition can wait.

The group member that owns a partition also reads the same partition of its retry topics (`Positions.accompany`). It
therefore finds every waiting record of its partition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..._options.arguments import topic_name
from ..._records import ConsumerRecord
from ..._values import NamedTuple
from ...errors import ConfigError, DropRecordError, RecordDeserializationError
from ...errors.shown import shown_cause
from ...types import Header, TimestampType, TopicPartition
from ..consumer.position import Position
from .failures import MESSAGE_CHARACTERS, blamed, class_name
from .handler import place_of
from .options import Delay, Verdict

Record = ConsumerRecord[Any, Any]

PREFIX = "retry."

RETRY_HEADERS = tuple(
    PREFIX + name
    for name in ("topic", "partition", "offset", "timestamp_ms", "attempts", "delays", "due_ms", "exception", "message")
)
"""Headers that a record in a retry topic has in addition to its own headers. All are UTF-8 text.

They contain the place and time of the original record, the number of attempts, the number of delays caused by its
failures, the time of the next attempt (Unix time in milliseconds), and the class and message of the first exception (at
most 2,000 characters). A record that only follows an earlier record of its key has no exception until it fails itself,
and is due after that record.
"""

RETRY_TOPIC_CONFIG = {"message.timestamp.type": "LogAppendTime"}
"""Configuration of new retry topics. Delays start at the broker's time instead of the sender's."""

_ADDED = frozenset(RETRY_HEADERS)
_TOPIC, _PARTITION, _OFFSET, _TIMESTAMP, _ATTEMPTS, _DELAYS, _DUE, _EXCEPTION, _MESSAGE = RETRY_HEADERS

DIGITS = 18
"""Maximum number of digits of a number in a header. Another program may have written longer ones."""

TOLERANCE_MS = 5_000
"""Tolerated difference between clocks in milliseconds."""


class Letter(NamedTuple):
    """A record to send to a retry topic."""

    topic: str
    value: Any
    key: Any
    partition: int
    timestamp_ms: None
    """Always None, which means the time at which the record is sent."""
    headers: list[Header]


class RetryTopics:
    """Names a group's retry topics, and reads and writes the headers of their records.

    Each topic that the group reads has one for each delay, with the same number of partitions.
    """

    def __init__(self, group_id: str, delays: Sequence[Delay]) -> None:
        self._group_id = group_id
        self._delays = delays
        self._levels: dict[str, int] = {}
        """Position of each retry topic in the order of the delays, starting with 1."""
        self._origins: dict[str, str] = {}
        """The original topic of each retry topic."""
        self.names: dict[str, list[str]] = {}
        """The retry topics of each topic, in the order of the delays."""

    def add(self, topics: Iterable[str]) -> None:
        """Add topics that the group reads. Raises `ConfigError` if the group's name cannot be part of a topic name."""
        for topic in topics:
            names = [self._name(topic, delay) for delay in self._delays]
            for name in names:
                try:
                    topic_name("a retry topic", name)
                except ConfigError as error:
                    raise ConfigError(f"retry_topics need a group_id that is valid in topic names: {error}") from None
            self.names[topic] = names
            self._levels.update(zip(names, range(1, len(names) + 1), strict=True))
            self._origins.update(dict.fromkeys(names, topic))

    def original(self, topic: str) -> str:
        """Return the original topic of a retry topic. For any other topic, return the topic itself."""
        return self._origins.get(topic, topic)

    def level(self, topic: str) -> int:
        """Return the position of a retry topic in the order of the delays, starting with 1. 0 for any other topic."""
        return self._levels.get(topic, 0)

    def attempts(self, record: Record) -> int:
        """Return the number of attempts at a record before it was last written to a retry topic."""
        return self._number(record, _ATTEMPTS, 0)

    def delays(self, record: Record) -> int:
        """Return the number of delays that a record has had because of its own failures."""
        return self._number(record, _DELAYS, self.level(record.topic))

    def offset(self, record: Record) -> int:
        """Return the record's offset in its original partition.

        If the headers do not contain it, returns the offset in the retry topic.
        """
        return self._number(record, _OFFSET, record.offset)

    def timestamp_ms(self, record: Record) -> int:
        """Return the timestamp of the original record, or -1 if the headers do not contain it."""
        return self._number(record, _TIMESTAMP, -1 if record.topic in self else record.timestamp_ms)

    def _number(self, record: Record, name: str, default: int) -> int:
        if record.topic in self._levels:
            for header, content in reversed(record.headers):
                if header == name and content is not None:
                    said = content.decode(errors="replace")
                    return int(said) if said.isdecimal() and len(said) <= DIGITS else default
        return default

    def __contains__(self, topic: object) -> bool:
        return topic in self._levels

    def origin(self, record: Record) -> Record:
        """Return the original record. Raises `RecordDeserializationError` if the headers do not contain its place.

        Raises `DropRecordError` for another group's record. For example, the topic "a.b" of the group "c" has the same
        retry topics as the topic "a" of the group "b.c".
        """
        if record.topic not in self._levels:
            return record
        found = self._restored(record)
        if found.topic != self._origins[record.topic]:
            raise DropRecordError(f"its original topic is {found.topic}: it belongs to another group")
        return found

    def named(self, record: Record) -> Record:
        """Return the original record. If the headers do not contain its place, return the record itself."""
        try:
            return self.origin(record)
        except RecordDeserializationError:
            return record

    def sent(self, record: Record, verdict: Verdict, error: BaseException | None, attempts: int, now: float) -> Letter:
        """Return the record to send to a retry topic, as decided by the verdict. ``now`` is Unix time."""
        if verdict.behind is not None:
            return self.follower(record, verdict.behind)
        assert verdict.delay is not None
        assert error is not None
        return self.letter(record, error, attempts, verdict.delay, now)

    def letter(self, record: Record, error: BaseException, attempts: int, delay: Delay, now: float) -> Letter:
        """Return the record to send to a retry topic after a failure. ``now`` is Unix time."""
        own, said = self._parted(record)
        if _EXCEPTION in said:
            exception, message = said[_EXCEPTION], said.get(_MESSAGE, b"")
        else:
            error = blamed(error)
            exception, message = _encoded(class_name(error)), _encoded(shown_cause(error, str)[:MESSAGE_CHARACTERS])
        headers = [
            *own,
            *_place(record, said),
            (_ATTEMPTS, b"%d" % attempts),
            (_DELAYS, b"%d" % (self.delays(record) + 1)),
            (_DUE, b"%d" % (int(now * 1000) + delay.ms)),
            (_EXCEPTION, exception),
            (_MESSAGE, message),
        ]
        return Letter(self._name(record.topic, delay), record.value, record.key, record.partition, None, headers)

    def follower(self, record: Record, topic: str) -> Letter:
        """Return the record to send to this retry topic, because an earlier record of its key waits there."""
        own, said = self._parted(record)
        told = {_ATTEMPTS: b"0", _DELAYS: b"0", **said, _DUE: b"0"}
        headers = [*own, *_place(record, said), *((name, told[name]) for name in RETRY_HEADERS[4:] if name in told)]
        return Letter(topic, record.value, record.key, record.partition, None, headers)

    def due_ms(self, record: Record, now_ms: float) -> float:
        """Return the time at which a record in a retry topic is due, in Unix time in milliseconds.

        If this time is later than the topic's delay allows, the sender's clock is ahead of the local clock. Such a
        record is due now, because otherwise it would delay all records behind it.
        """
        said = self._number(record, _DUE, -1)
        if said == 0:
            return 0.0
        delay_ms = self._delays[self.level(record.topic) - 1].ms
        by_broker = record.timestamp_type == TimestampType.LOG_APPEND_TIME
        due = float(record.timestamp_ms + delay_ms if by_broker else max(0, said))
        return due if due <= now_ms + delay_ms + TOLERANCE_MS else 0.0

    def _parted(self, record: Record) -> tuple[Sequence[Header], Mapping[str, bytes]]:
        """Return the headers of the original record, and the headers added for its current retry topic.

        The added headers begin with the last "retry.topic", and a tracer's headers may follow. The original record may
        have headers of the same names, for example if another program copied it from a retry topic.
        """
        headers, said = record.headers, dict[str, bytes]()
        if record.topic not in self._levels:
            return headers, said
        at = len(headers) - 1
        while at >= 0 and headers[at][0] != _TOPIC:
            at -= 1
        if at < 0:
            return headers, said
        own = list(headers[:at])
        for name, content in headers[at:]:
            if name in _ADDED:
                said[name] = content or b""
            else:
                own.append((name, content))
        return own, said

    def _restored(self, record: Record) -> Record:
        own, said = self._parted(record)
        try:
            topic = said[_TOPIC].decode(errors="replace")
            place = topic, int(said[_PARTITION]), int(said[_OFFSET]), int(said[_TIMESTAMP])
        except (KeyError, ValueError) as error:
            text = f"{place_of(record)} has no valid headers of a retry: {error!r}"
            raise RecordDeserializationError(text, record=record, part="headers") from None
        return ConsumerRecord(*place, TimestampType.CREATE_TIME, record.key, record.value, tuple(own), None)

    def _name(self, topic: str, delay: Delay) -> str:
        """Return the name of a topic's retry topic for this delay. For a retry topic, use its original topic."""
        return f"{self.original(topic)}.{self._group_id}.retry.{delay.text}"


def _place(record: Record, said: Mapping[str, bytes]) -> tuple[Header, Header, Header, Header]:
    """Return headers with the topic, partition, offset and timestamp of the original record.

    ``said`` contains the headers for the record's current retry topic. They name the original record, if there are any.
    Otherwise, ``record`` itself is the original.
    """
    return (
        (_TOPIC, said.get(_TOPIC) or _encoded(record.topic)),
        (_PARTITION, said.get(_PARTITION) or b"%d" % record.partition),
        (_OFFSET, said.get(_OFFSET) or b"%d" % record.offset),
        (_TIMESTAMP, said.get(_TIMESTAMP) or b"%d" % record.timestamp_ms),
    )


def _encoded(text: str) -> bytes:
    return text.encode(errors="replace")


TOGETHER_S = 0.5
"""Number of seconds within which due records are taken together."""

_Times = tuple[float, float]
"""A time in Unix seconds, and in seconds of a monotonic clock."""


class Closed:
    """Tracks the partitions of retry topics whose next record is not due yet. Times are Unix seconds."""

    def __init__(self, due_ms: Callable[[Any, float], float], clock: Callable[[], float]) -> None:
        """Start without closed partitions.

        ``due_ms(record, now)`` returns the time at which the record is due. Both times are Unix times in milliseconds.
        ``clock`` is monotonic, because setting a wall clock back would keep partitions closed for too long.
        """
        self._due_ms = due_ms
        self._clock = clock
        self._until: dict[TopicPartition, tuple[int, _Times]] = {}
        """For each partition, the offset of a record that is not due, and the time until which it is not examined."""

    def is_closed(self, tp: TopicPartition, position: Position | None, now: float) -> bool:
        """Return True if the partition is closed at this position: its next record is not due."""
        # Records before that offset did not fit into the limits, or are delivered again after an abort.
        offset, until = self._until.get(tp, (0, (0.0, 0.0)))
        return self._left_s(until, now) > 0 and position is not None and position.offset >= offset

    def due(self, tp: TopicPartition, records: Sequence[Any], now: float) -> int:
        """Return the number of the partition's next records that are due.

        Close the partition if not all of its records are due.
        """
        for index, record in enumerate(records):
            due_at = self._due_ms(record, now * 1000) / 1000
            if due_at > now:
                left_s = max(due_at - now, TOGETHER_S)
                self._until[tp] = record.offset, (now + left_s, self._clock() + left_s)
                return index
        return len(records)

    def opens_in_s(self, now: float) -> float:
        """Return the seconds until the next partition opens, or infinity if all are open."""
        # Also forget partitions that were revoked or paused, because no later record opens them.
        self._until = {tp: closed for tp, closed in self._until.items() if self._left_s(closed[1], now) > 0}
        return min((self._left_s(until, now) for _, until in self._until.values()), default=math.inf)

    def _left_s(self, until: _Times, now: float) -> float:
        return min(until[0] - now, until[1] - self._clock())
