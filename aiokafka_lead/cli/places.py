"""Ranges of offsets to read, given as offsets or times, and the notation of times and durations."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from .._records.record import ConsumerRecord
from ..admin import AdminClient, OffsetSpec, outcomes_of
from ..consumer import Consumer
from ..errors import ConfigError, KafkaError
from ..errors.shown import some_of
from ..types import TopicPartition
from .failures import ExitCode, exit_code, sentence
from .names import described_topics
from .session import Session

NO_TIME = -1
"""Timestamp of a record without a time."""

_LAST_MS = 2**63 - 1
_DIGITS_OF_DATE = 8
_DIGITS_OF_SECONDS = 10
"""Numbers with 10 digits count seconds, in the years 2001 to 2286. As milliseconds, they would be in early 1970."""

_EPOCH = datetime(1970, 1, 1)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")


def duration(text: str) -> timedelta:
    """Parse a duration such as ``"2h"``, ``"1d12h"``, ``"90s"`` or ``"250ms"``. Raises `ConfigError` for other text."""
    if not _DURATION.fullmatch(text):
        raise ConfigError(f"{text!r} is not a duration such as 90s, 2h or 1d12h")
    try:
        return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)))
    except OverflowError:
        raise ConfigError(f"{text!r} is too long") from None


def span(option: str, text: str) -> float:
    """Parse a duration such as ``"2h"``, or a plain number of seconds, and return it in seconds.

    ``option`` is the name of the command's option for errors.
    """
    try:
        return duration(f"{text}s" if text.replace(".", "", 1).isdigit() else text).total_seconds()
    except ConfigError as error:
        raise ConfigError(f"{option}: {error}") from None


def seconds(option: str, text: str | None) -> float | None:
    """Return the value in seconds of an option that must not be 0, or None if it was not given."""
    if text is None:
        return None
    found = span(option, text)
    if not found:
        raise ConfigError(f"{option} must be longer than {text}")
    return found


def pause(interval: str) -> float:
    """Return the value of ``--interval`` in seconds."""
    return seconds("--interval", interval) or 0.0


def moment_ms(text: str) -> int:
    """Return a time in milliseconds since 1970.

    ``text`` is a duration before now, an ISO 8601 time, or a number of milliseconds since 1970 (of seconds if it has 10
    digits). Raises `ConfigError` for other text.
    """
    if _DURATION.fullmatch(text):
        return max(0, int((time.time() - duration(text).total_seconds()) * 1000))
    try:
        found = _since_1970(text) if text.isdecimal() else _date_ms(text)
    except (ValueError, OverflowError, OSError):  # OSError: a local time before 1970 on Windows
        raise ConfigError(
            f"{text!r} is not a time; write 2h (2 hours ago), 2026-11-23T10:00, or milliseconds since 1970"
        ) from None
    if found > _LAST_MS:
        raise ConfigError(f"{text!r} is too late: a time must fit in 64 bits as milliseconds since 1970")
    return max(0, found)


def _since_1970(digits: str) -> int:
    if len(digits) == _DIGITS_OF_DATE:
        try:
            return _date_ms(digits)
        except ValueError:
            pass
    return int(digits) * (1000 if len(digits) == _DIGITS_OF_SECONDS else 1)


def _date_ms(text: str) -> int:
    moment = datetime.fromisoformat(text)  # without a zone, it is local time
    # A float has too few digits for milliseconds.
    return int(moment.replace(microsecond=0).timestamp()) * 1000 + moment.microsecond // 1000


def shown_time(timestamp_ms: int) -> str:
    """Return a timestamp as ISO 8601 in UTC, ``-`` if there is none, or as milliseconds beyond the year 9999."""
    if timestamp_ms == NO_TIME:
        return "-"
    try:
        shown = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms}ms"
    return shown.isoformat(timespec="milliseconds") + "Z"


Record = ConsumerRecord[Any, Any]


class Part:
    """Range of offsets to read in each partition, from ``first`` up to, but not including, ``last``.

    If ``last`` is None, reading never ends. ``open`` contains the partitions that have not been read to their end.
    """

    def __init__(
        self,
        first: Mapping[TopicPartition, int],
        last: Mapping[TopicPartition, int] | None,
        counts: Mapping[str, int] | None = None,
    ) -> None:
        """Create a range.

        ``counts`` maps topics to their current number of partitions. `grow` adds later partitions of these topics.
        """
        self.first = first
        self.last = last
        self._counts = dict(counts or {})
        self.open = {where for where in first if last is None or first[where] < last[where]}
        self.total = None if last is None else sum(last[where] - first[where] for where in self.open)
        """Number of offsets in the range, including offsets without a record; None if it has no end."""

    def begin(self, consumer: Consumer[Any, Any]) -> None:
        """Assign the partitions to the consumer, and seek to their starts."""
        consumer.assign(self.open)
        for where in self.open:
            consumer.seek(where, self.first[where])

    def grow(self, consumer: Consumer[Any, Any]) -> list[TopicPartition]:
        """Assign partitions that were created since the last call to the consumer, and return them."""
        topics = consumer._client.metadata.snapshot.topics
        new: list[TopicPartition] = []
        for name, before in self._counts.items():
            now = len(topics[name].partitions) if name in topics else 0
            new += [TopicPartition(name, number) for number in range(before, now)]
            self._counts[name] = max(before, now)
        if new:
            self.open.update(new)
            consumer.assign(self.open)
            for where in new:
                consumer.seek(where, 0)
        return new

    async def batch(self, consumer: Consumer[Any, Any]) -> list[Record]:
        """Return the next records of the range, or an empty list if none arrive within half a second."""
        found = await consumer.getmany(timeout_ms=500)
        last = self.last
        if last is None:
            return [record for records in found.values() for record in records]
        # Compare positions and not offsets of records: the range may end with transaction markers, which are skipped.
        for where in list(self.open):
            if await consumer.position(where) >= last[where]:
                self.open.discard(where)
                consumer.pause(where)
        return [record for where, records in found.items() for record in records if record.offset < last[where]]


def isolation(*, committed: bool) -> dict[str, Any]:
    """Return the consumer option ``isolation_level``."""
    return {"isolation_level": "read_committed" if committed else "read_uncommitted"}


async def part_of(
    session: Session,
    topics: Iterable[str],
    numbers: Collection[int] | None,
    offset: str,
    until: str | None,
    *,
    committed: bool,
) -> Part:
    """Return the range to read. Reports missing topics, and raises `Failed` if none of the topics exists.

    ``offset`` is the start: ``beginning``, ``end``, an offset, ``-N`` for N offsets before the end, or ``@TIME`` for
    the first record at or after a time. ``until`` is the end: ``end`` (at the time of this call), an offset or
    ``@TIME``; None reads without end. With ``committed``, ``end`` is the last stable offset, before the first open
    transaction. ``numbers`` limits the range to these partitions.
    """
    async with session.admin() as admin:
        described = await described_topics(session, admin, topics)
        leaders = {
            TopicPartition(topic.name, each.partition): each.leader_id
            for topic in described.values()
            for each in topic.partitions
            if numbers is None or each.partition in numbers
        }
        there = {where.partition for where in leaders}
        missing = [number for number in numbers or () if number not in there]
        if missing:
            raise ConfigError(f"--partition: topic {', '.join(described)} has no partition {missing[0]}")
        reading = _Reading(session, admin, leaders)
        ends = await reading.named(OffsetSpec.LATEST, committed=committed)
        first = await _beginnings(reading, offset, ends)
        last = None if until is None else await _endings(reading, until, ends)
        first = {where: first[where] for where in reading.partitions}
        if last is None:
            grows = numbers is None
            return Part(first, None, {name: len(each.partitions) for name, each in described.items() if grows})
        return Part(first, {where: last[where] for where in reading.partitions})


class _Reading:
    """Requests offsets of the partitions to read. Reports and removes partitions whose offsets are not available."""

    def __init__(self, session: Session, admin: AdminClient, leaders: Mapping[TopicPartition, int]) -> None:
        self.partitions = list(leaders)
        self._session = session
        self._admin = admin
        none = "the partition has no leader"  # not requested, because the request would wait for a leader
        self._leave_out({where: (none, ExitCode.FAILED) for where, leader in leaders.items() if leader < 0})

    async def named(self, spec: OffsetSpec, *, committed: bool = False) -> dict[TopicPartition, int]:
        """Return the earliest or latest offset of each partition."""
        found = await self.offsets(int(spec), committed=committed)
        return {where: offset or 0 for where, offset in found.items()}

    async def offsets(self, at: int, *, committed: bool = False) -> dict[TopicPartition, int | None]:
        """Return the offset of each partition at a time in milliseconds, or None if it has no later record."""
        if not self.partitions:
            return {}
        found = await outcomes_of(
            self._admin.list_offsets(
                dict.fromkeys(self.partitions, at),
                read_committed=committed,
                timeout_ms=self._session.options["request_timeout_ms"],
            )
        )
        errors = {where: each for where, each in found.items() if isinstance(each, KafkaError)}
        self._leave_out({where: (sentence(error), exit_code(error)) for where, error in errors.items()})
        return {
            where: None if each is None else each.offset
            for where, each in found.items()
            if not isinstance(each, KafkaError)
        }

    def _leave_out(self, reasons: Mapping[TopicPartition, tuple[str, ExitCode]]) -> None:
        self.partitions = [where for where in self.partitions if where not in reasons]
        for why in dict.fromkeys(reasons.values()):
            names = [f"{where.topic}-{where.partition}" for where in sorted(reasons) if reasons[where] == why]
            self._session.fail(f"{some_of(names)} not read: {why[0]}", why[1])


async def _beginnings(
    reading: _Reading, place: str, ends: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, int]:
    found = await _by_name_or_time(reading, place, ends)
    if found is not None:
        return found
    first = await reading.named(OffsetSpec.EARLIEST)
    if place in ("beginning", "earliest"):
        return first
    number = _number(place, "--offset takes beginning, end, an offset, -N or @TIME")
    if place.startswith("-"):
        return {where: max(each, ends[where] + number) for where, each in first.items()}
    return {where: max(each, min(number, ends[where])) for where, each in first.items()}


async def _endings(reading: _Reading, place: str, ends: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
    found = await _by_name_or_time(reading, place, ends)
    if found is not None:
        return found
    usage = "--until takes end, an offset or @TIME"
    number = _number(place, usage)
    if place.startswith("-"):
        raise ConfigError(f"{usage}, not {place!r}")
    return {where: min(number, each) for where, each in ends.items()}


async def _by_name_or_time(
    reading: _Reading, place: str, ends: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, int] | None:
    """Return the offsets for ``end`` or ``@TIME``, or None for other notations."""
    if place in ("end", "latest"):
        return ends
    if not place.startswith("@"):
        return None
    found = await reading.offsets(moment_ms(place[1:]))
    return {where: ends[where] if at is None else min(at, ends[where]) for where, at in found.items()}


def _number(text: str, usage: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{usage}, not {text!r}") from None
