"""Retry topics, for records whose retries take longer than their partition can be held up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..._records import ConsumerRecord
from ..._values import NamedTuple
from ...errors import DropRecordError, RecordDeserializationError
from ...errors.shown import shown_cause
from ...types import Header, TimestampType
from .delays import Delay
from .failures import blamed
from .handler import place_of

Record = ConsumerRecord[Any, Any]

PREFIX = "retry."

RETRY_HEADERS = tuple(
    PREFIX + name
    for name in ("topic", "partition", "offset", "timestamp_ms", "attempts", "due_ms", "exception", "message")
)
"""Headers of a record in a retry topic besides its own, as UTF-8 text.

They give the place and time of the original record, the number of attempts, the time of the next attempt (Unix time in
milliseconds), and the first error of its handler: the class and the message (at most 2,000 characters).
"""

_TOPIC, _PARTITION, _OFFSET, _TIMESTAMP, _ATTEMPTS, _DUE, _EXCEPTION, _MESSAGE = RETRY_HEADERS

MESSAGE_CHARACTERS = 2_000


class Letter(NamedTuple):
    """Record to be sent to a retry topic."""

    topic: str
    value: Any
    key: Any
    partition: int
    headers: list[Header]


class RetryTopics:
    """Retry topics of a group: one for each topic that it reads and each delay, with the same partitions."""

    def __init__(self, group_id: str, delays: Sequence[Delay]) -> None:
        self._group_id = group_id
        self._delays = delays
        self._levels: dict[str, int] = {}
        """Number of delays that a record in this topic has had."""
        self._origins: dict[str, str] = {}
        """Topic from which the records of this topic come."""

    def add(self, topic: str) -> list[str]:
        """Return the names of the retry topics of a topic that the group reads."""
        names = [self._name(topic, delay) for delay in self._delays]
        self._levels.update(zip(names, range(1, len(names) + 1), strict=True))
        self._origins.update(dict.fromkeys(names, topic))
        return names

    def level(self, topic: str) -> int:
        """Return the number of delays that this topic's records have had: 0 if it is no retry topic."""
        return self._levels.get(topic, 0)

    def attempts(self, record: Record) -> int:
        """Return the number of attempts at a record before it came here."""
        said = _said(record).get(_ATTEMPTS, "") if self.level(record.topic) else ""
        return int(said) if said.isdecimal() else 0

    def __contains__(self, topic: object) -> bool:
        return topic in self._levels

    def origin(self, record: Record) -> Record:
        """Return the original record. Raises `RecordDeserializationError` if its headers do not give its origin.

        Raises `DropRecordError` for a record of another group: the topic "a.b" of "c" has the retry topics of the topic
        "a" of "b.c".
        """
        if not self.level(record.topic):
            return record
        found = _restored(record)
        if found.topic != self._origins[record.topic]:
            raise DropRecordError(f"it came from {found.topic}, and waits for another group")
        return found

    def named(self, record: Record) -> Record:
        """Return the original record, or the record as it is here if its headers do not give its origin."""
        try:
            return self.origin(record)
        except RecordDeserializationError:
            return record

    def letter(self, record: Record, error: BaseException, attempts: int, now: float) -> Letter:
        """Return the letter to the next retry topic for a record that has failed here; ``now`` is Unix time."""
        level = self.level(record.topic)
        delay = self._delays[level]
        origin = _said(record)[_TOPIC] if level else record.topic
        headers = _headers(record, error, attempts, int(now * 1000) + delay.ms)
        return Letter(self._name(origin, delay), record.value, record.key, record.partition, headers)

    def _name(self, origin: str, delay: Delay) -> str:
        return f"{origin}.{self._group_id}.retry.{delay.text}"


def _headers(record: Record, error: BaseException, attempts: int, due_ms: int) -> list[Header]:
    """Return the headers of a record that waits in a retry topic."""
    said = _said(record)
    error = blamed(error)
    kind = type(error)
    first = {
        _TOPIC: record.topic,
        _PARTITION: record.partition,
        _OFFSET: record.offset,
        _TIMESTAMP: record.timestamp_ms,
        _EXCEPTION: kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}",
        _MESSAGE: shown_cause(error, str)[:MESSAGE_CHARACTERS],
    }
    now = {**first, **said, _ATTEMPTS: attempts, _DUE: due_ms}
    return [*_own(record), *((name, str(now[name]).encode(errors="replace")) for name in RETRY_HEADERS)]


def _restored(record: Record) -> Record:
    said = _said(record)
    try:
        place = said[_TOPIC], int(said[_PARTITION]), int(said[_OFFSET]), int(said[_TIMESTAMP])
    except (KeyError, ValueError) as error:
        text = f"{place_of(record)} does not say where it came from: {error!r}"
        raise RecordDeserializationError(text, record=record, part="headers") from None
    return ConsumerRecord(*place, TimestampType.CREATE_TIME, record.key, record.value, tuple(_own(record)), None)


def due_ms(record: Record) -> float:
    """Return the due time of a record in a retry topic (Unix time in milliseconds)."""
    try:
        return int(_said(record)[_DUE])
    except (KeyError, ValueError):
        return 0.0


def _said(record: Record) -> Mapping[str, str]:
    return {
        name: content.decode(errors="replace")
        for name, content in record.headers
        if name in RETRY_HEADERS and content is not None
    }


def _own(record: Record) -> list[Header]:
    return [(name, content) for name, content in record.headers if name not in RETRY_HEADERS]
