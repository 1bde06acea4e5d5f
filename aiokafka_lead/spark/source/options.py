"""Options of the source, with the names, meanings and checks of Spark's connector (KafkaSourceProvider)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeVar
from warnings import catch_warnings, simplefilter

from ..._options.arguments import topic_name
from ..._options.checks import INT32_MAX, INT64_MAX, short_text
from ...types import TopicPartition
from ..kafka_options import boolean, integer, mention_unknown, refuse_owned
from .bad_records import BadRecords, bad_records
from .clients import check_settings

LATEST, EARLIEST = -1, -2
"""Numbers in place of offsets, as in Kafka's ListOffsets request."""


class End(Enum):
    """Beginning or end of a partition."""

    EARLIEST = EARLIEST
    LATEST = LATEST


class NoMatch(Enum):
    """The action if a partition has no record at or after the starting time."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True)
class AtOffsets:
    """Bound with an offset for each partition, which may be `LATEST` or `EARLIEST`."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class AtTimes:
    """Bound at the first record at or after a time, in ms since 1970, for each partition."""

    times_ms: Mapping[TopicPartition, int]
    no_match: NoMatch


@dataclass(frozen=True)
class AtTime:
    """Bound at the first record at or after a time, in ms since 1970, that is the same for all partitions."""

    time_ms: int
    no_match: NoMatch


Bound = End | AtOffsets | AtTimes | AtTime


def is_beginning(bound: Bound, tp: TopicPartition) -> bool:
    """Return True if the bound is the beginning of this partition's log, which retention may move."""
    return bound is End.EARLIEST or (isinstance(bound, AtOffsets) and bound.offsets.get(tp) == EARLIEST)


def is_certain(bound: Bound, found: Mapping[TopicPartition, int]) -> bool:
    """Return True if the bound had the same offsets at any earlier time.

    This is the case for explicit offsets, and for the beginning of a log that still begins at offset 0.
    """
    match bound:
        case End():
            return bound is End.EARLIEST and not any(found.values())
        case AtOffsets(offsets):
            return all(at >= 0 or (at == EARLIEST and found.get(tp) == 0) for tp, at in offsets.items())
        case _:
            return False


@dataclass(frozen=True)
class Selection:
    """Selection of the partitions to read. Exactly one of ``topics``, ``pattern`` and ``partitions`` is set."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    """Regular expression that must match some part of a topic's name."""
    partitions: tuple[TopicPartition, ...] = ()
    numbers: tuple[range, ...] = ()
    """Numbers of the only partitions to select; empty for all partitions."""

    def of(self, found: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Return the selected partitions among these."""
        if self.partitions:
            return set(self.partitions).intersection(found)
        topics = set(self.of_topics({tp.topic for tp in found}))
        return {
            tp
            for tp in found
            if tp.topic in topics and (not self.numbers or any(tp.partition in numbers for numbers in self.numbers))
        }

    def of_topics(self, names: Iterable[str]) -> set[str]:
        """Return the selected topics among these."""
        if self.pattern:
            pattern = re.compile(self.pattern)
            return {name for name in names if pattern.search(name)}
        return {*self.topics, *(tp.topic for tp in self.partitions)}.intersection(names)

    def lacking_in(self, found: Iterable[TopicPartition]) -> str:
        """Return the partitions, or topics without any partition, that the options name but ``found`` lacks, as text.

        Spark's connector also accepts such options.
        """
        found = set(found)
        topics = set(self.topics) - {tp.topic for tp in found}
        return ", ".join((*sorted(topics), *map(str, sorted(set(self.partitions) - found))))


T = TypeVar("T")
_NUMBERS = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")
_LONGEST_QUOTE = 200
"""Maximum number of characters of an option's text in an error."""


def parse_offsets(name: str, text: str) -> dict[TopicPartition, int]:
    """Parse offsets by partition from JSON such as ``{"orders": {"0": 23, "1": -1}}``.

    Offsets may be `LATEST` (-1) or `EARLIEST` (-2). Raises ValueError, which names the option, for invalid text.
    """
    found = _from_json(name, text, '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}', _numbers)
    return _in_range(name, found, "offset", EARLIEST)


def parse_times(name: str, text: str) -> dict[TopicPartition, int]:
    """Parse times by partition, in ms since 1970, from JSON in the form of `parse_offsets`.

    Raises ValueError for invalid text.
    """
    found = _from_json(name, text, '{"topicA":{"0":123456789,"1":123456789},"topicB":{"0":123456789}}', _numbers)
    return _in_range(name, found, "time", 0)


def parse_partitions(name: str, text: str) -> tuple[TopicPartition, ...]:
    """Parse partitions from JSON such as ``{"orders": [0, 1]}``. Raises ValueError for invalid text."""
    found = _from_json(name, text, '{"topicA":[0,1],"topicB":[0,1]}', _partitions)
    for tp in found:
        _check_partition(name, tp)
    return found


def parse_numbers(name: str, text: str) -> tuple[range, ...]:
    """Parse partition numbers such as ``0,2,5-7``. Raises ValueError for invalid text."""
    found = []
    for part in text.split(","):
        match = _NUMBERS.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"option '{name}': expected e.g. 0,2,5-7, got '{text}'")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if not first <= last <= INT32_MAX:
            raise ValueError(f"option '{name}': '{part.strip()}' is not a range of numbers from 0 to {INT32_MAX}")
        found.append(range(first, last + 1))
    return tuple(found)


def _from_json(name: str, text: str, example: str, convert: Callable[[Any], T]) -> T:
    """Parse the JSON of the option ``name``, and return the result of ``convert``.

    Raises ValueError, which contains ``example``, if either fails.
    """
    try:
        return convert(json.loads(text))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        quote = text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."
        raise ValueError(f"option '{name}': expected e.g. {example}, got {quote}") from None


def _numbers(found: Any) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, _partition(key)): _integer(number)
        for topic, partitions in found.items()
        for key, number in partitions.items()
    }


def _partitions(found: Any) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, _integer(number)) for topic, numbers in found.items() for number in numbers)


def _partition(key: str) -> int:
    """Parse a partition number as Java does, which accepts no blanks, underscores or non-ASCII digits."""
    if not key.isascii() or not key.removeprefix("-").isdigit():
        raise ValueError
    return int(key)


def _integer(number: object) -> int:
    """Return a JSON number as an integer, without its fraction as in Spark's connector. Raises TypeError for text."""
    if not isinstance(number, (int, float)) or isinstance(number, bool):
        raise TypeError
    return int(number)


def _in_range(name: str, found: dict[TopicPartition, int], what: str, low: int) -> dict[TopicPartition, int]:
    for tp, number in found.items():
        _check_partition(name, tp)
        if not low <= number <= INT64_MAX:
            raise ValueError(f"option '{name}': the {what} of {tp} must be from {low} to {INT64_MAX}, not {number}")
    return found


def _check_partition(name: str, tp: TopicPartition) -> None:
    if not 0 <= tp.partition <= INT32_MAX:
        raise ValueError(
            f"option '{name}': a partition of topic '{tp.topic}' must be from 0 to {INT32_MAX}, not {tp.partition}"
        )


_OWNED = {
    "auto.offset.reset": "use the option 'startingOffsets'",
    "key.deserializer": "keys are bytes; use DataFrame operations to deserialize them",
    "value.deserializer": "values are bytes; use DataFrame operations to deserialize them",
    "enable.auto.commit": "Spark stores the offsets; see the option 'commitGroupId'",
    "interceptor.classes": "it names Java classes, which could change the records",
}
_NO_PUSHING = (
    "option 'pushFilters' is no longer supported, because Spark would reuse the plan of one filter for other filters "
    "of the same DataFrame. Select records with options instead: 'assign', 'partitions', 'fromOffset', 'untilOffset', "
    "'startingTimestamp' or 'endingTimestamp'"
)
_DURATION = re.compile(r"(-?[0-9]+)\s*(us|ms|s|m|min|h|d)?")
_UNIT_MS = {"us": 1e-3, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Validated options of a query."""

    selection: Selection
    starting: Bound
    ending: Bound
    min_partitions: int | None
    """Minimum number of Spark partitions, if there are enough records."""
    max_records_per_partition: int | None
    """Maximum number of offsets in a Spark partition."""
    max_tasks: int | None
    """Maximum number of Spark partitions."""
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: float = 0
    """Maximum time that a micro-batch waits for ``min_offsets_per_trigger``. Batch queries ignore this option and the
    three options above."""
    fail_on_data_loss: bool
    commit_group_id: str | None
    """Consumer group under which a streaming query commits its offsets, so that tools can show its lag."""
    read_timeout_ms: float
    """Time without progress after which a task fails."""
    data_loss_timeout_ms: float
    """Time after which a partition that is missing, or shorter than before, counts as lost."""
    bad_records: BadRecords
    offset_attempts: int
    """Number of attempts for requests about partitions and offsets."""
    offset_retry_interval_ms: float
    from_offset: int
    until_offset: int | None
    """A batch query reads only offsets from ``from_offset`` up to, but not including, ``until_offset``."""


def check_options(options: Mapping[str, str]) -> None:
    """Raise ValueError for options that are invalid in batch and in streaming queries."""
    _parse(options, End.EARLIEST)


def batch_options(options: Mapping[str, str]) -> SourceOptions:
    """Return the options of a batch query. Raises ValueError if any is invalid.

    Like Spark's connector, this also checks the trigger limits, although batch queries ignore them.
    """
    parsed = _parse(options, End.EARLIEST)
    if "minOffsetsPerTrigger" in options and "maxOffsetsPerTrigger" in options:
        _trigger_limits(options)  # raises an error like Spark's connector, although batch queries ignore these options
    if _has(parsed.starting, End.LATEST):
        raise ValueError("startingOffsets can't be latest for batch queries")
    if _has(parsed.ending, End.EARLIEST):
        raise ValueError("endingOffsets can't be earliest for batch queries")
    _check_order(parsed.starting, parsed.ending)
    if parsed.commit_group_id is not None:
        raise ValueError("commitGroupId is only valid in streaming queries")
    return parsed


def stream_options(options: Mapping[str, str]) -> SourceOptions:
    """Return the options of a streaming query. Raises ValueError if any is invalid."""
    for name in ("endingOffsets", "endingOffsetsByTimestamp", "fromOffset", "untilOffset"):
        if name in options:
            raise ValueError(f"option '{name}' is not valid in streaming queries")
    parsed = _parse(options, End.LATEST)
    least, most = _trigger_limits(options)
    delay_ms = _duration_ms(options.get("maxTriggerDelay", "15m"))
    return replace(
        parsed,
        min_offsets_per_trigger=least,
        max_offsets_per_trigger=most,
        max_bytes_per_trigger=integer(options, "maxBytesPerTrigger", 1),
        max_trigger_delay_ms=delay_ms,
    )


def _parse(options: Mapping[str, str], default_start: End) -> SourceOptions:
    """Return the options that batch and streaming queries have in common. Raises ValueError if any is invalid."""
    refuse_owned(options, _OWNED)
    mention_unknown(options)
    if boolean(options, "pushFilters", False):
        raise ValueError(_NO_PUSHING)
    selection = selection_of(options)
    check_settings(options)
    min_partitions = integer(options, "minPartitions", 1, INT32_MAX)
    max_records = integer(options, "maxRecordsPerPartition", 1)
    max_tasks = integer(options, "maxTasks", 1)
    if max_tasks is not None:
        if max_records is not None:
            raise ValueError("maxTasks and maxRecordsPerPartition cannot be combined")
        if min_partitions is not None and min_partitions > max_tasks:
            raise ValueError(f"minPartitions ({min_partitions}) is higher than maxTasks ({max_tasks})")
    boolean(options, "includeHeaders", False)  # checked here, because it is not used if the user gives a schema
    group_id = options.get("commitGroupId")
    if group_id is not None:
        group_id = short_text("option 'commitGroupId'", group_id)
    no_match = _no_match(options)
    bad = bad_records(options)
    if bad.topic is not None and selection.of_topics([bad.topic]):
        raise ValueError(
            f"option 'deadLetterTopic' must be a topic that the query does not read, not '{bad.topic}'; otherwise the "
            "query would read its dead letters, and write them again without end"
        )
    return SourceOptions(
        selection=selection,
        starting=_bound(options, "starting", default_start, no_match),
        ending=_bound(options, "ending", End.LATEST, no_match),
        min_partitions=min_partitions,
        max_records_per_partition=max_records,
        max_tasks=max_tasks,
        fail_on_data_loss=boolean(options, "failOnDataLoss", True),
        commit_group_id=group_id,
        read_timeout_ms=integer(options, "kafkaConsumer.pollTimeoutMs", 1) or 120_000,
        data_loss_timeout_ms=_or(integer(options, "dataLossTimeoutMs", 0), 30_000),
        bad_records=bad,
        offset_attempts=integer(options, "fetchOffset.numRetries", 1) or 3,
        offset_retry_interval_ms=max(0, _or(integer(options, "fetchOffset.retryIntervalMs"), 1000)),
        from_offset=integer(options, "fromOffset", 0) or 0,
        until_offset=integer(options, "untilOffset", 0),
    )


def _trigger_limits(options: Mapping[str, str]) -> tuple[int | None, int | None]:
    least = integer(options, "minOffsetsPerTrigger")
    # Spark's connector also accepts numbers below 1, with which a query never reads anything.
    most = integer(options, "maxOffsetsPerTrigger", 1)
    if least is not None and most is not None and least > most:
        raise ValueError(f"minOffsetsPerTrigger ({least}) is higher than maxOffsetsPerTrigger ({most})")
    return least, most


def selection_of(options: Mapping[str, str]) -> Selection:
    """Return the partitions to read. Raises ValueError for invalid options."""
    names = [name for name in ("subscribe", "subscribePattern", "assign") if name in options]
    if len(names) != 1:
        how = "One" if not names else "Only one"
        raise ValueError(f"{how} of the options subscribe, subscribePattern, assign must be specified")
    numbers = parse_numbers("partitions", options["partitions"]) if "partitions" in options else ()
    if numbers and "assign" in options:
        raise ValueError("options assign and partitions cannot be combined")
    text = options[names[0]]
    match names[0]:
        case "subscribe":
            topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
            if not topics:
                raise ValueError(f"option 'subscribe' names no topic: '{text}'")
            for topic in topics:
                topic_name("option 'subscribe': a topic's name", topic)
            return Selection(topics=topics, numbers=numbers)
        case "subscribePattern":
            pattern = text.strip()
            if not pattern:
                raise ValueError("option 'subscribePattern' is empty")
            try:
                with catch_warnings():
                    simplefilter("error", FutureWarning)  # for set operators, which only Java supports
                    re.compile(pattern)
            except (re.error, FutureWarning) as error:
                raise ValueError(
                    f"option 'subscribePattern' is not a valid regular expression in Python: {error}"
                ) from None
            return Selection(pattern=pattern, numbers=numbers)
        case _:
            if not text.strip().startswith("{"):
                raise ValueError(f"option 'assign' names no partition: '{text}'")
            return Selection(partitions=parse_partitions("assign", text))


def _no_match(options: Mapping[str, str]) -> NoMatch:
    text = options.get("startingOffsetsByTimestampStrategy", "error")
    try:
        return NoMatch(text.lower())
    except ValueError:
        raise ValueError(f"startingOffsetsByTimestampStrategy must be error or latest, not '{text}'") from None


def _bound(options: Mapping[str, str], side: str, default: End, no_match: NoMatch) -> Bound:
    """Return the bound for ``side``, which is ``"starting"`` or ``"ending"``. Raises ValueError.

    As in Spark's connector, a time for all partitions takes precedence over times by partition, and both over offsets.
    """
    name = f"{side}Timestamp"
    if (text := options.get(name)) is not None:
        time_ms = integer({name: text.strip()}, name, 0)
        assert time_ms is not None
        return AtTime(time_ms, no_match)
    name = f"{side}OffsetsByTimestamp"
    if (text := options.get(name)) is not None:
        return AtTimes(parse_times(name, text), no_match)
    name = f"{side}Offsets"
    text = options.get(name)
    if text is None:
        return default
    word = text.strip().lower()
    return End[word.upper()] if word in ("latest", "earliest") else AtOffsets(parse_offsets(name, text))


def _has(bound: Bound, end: End) -> bool:
    return bound is end or (isinstance(bound, AtOffsets) and end.value in bound.offsets.values())


def _check_order(starting: Bound, ending: Bound) -> None:
    """Raise ValueError for bounds that cannot form ranges in any state of the cluster."""
    match starting, ending:
        case AtOffsets(starts), AtOffsets(ends):
            _check_each(starts, ends, "offset")
        case AtTimes(starts, _), AtTimes(ends, _):
            _check_each(starts, ends, "timestamp")


def _check_each(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], what: str) -> None:
    if starts.keys() != ends.keys():
        raise ValueError(f"starting and ending {what}s must be given for the same partitions")
    for tp, start in starts.items():
        end = ends[tp]
        if start >= 0 and end not in (LATEST, EARLIEST) and start > end:
            raise ValueError(f"the starting {what} of {tp} is after its ending {what}: {start}, {end}")


def _duration_ms(text: str) -> float:
    """Parse a duration such as ``30s`` like Spark. A number without a unit is in milliseconds. Raises ValueError."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f"option 'maxTriggerDelay' must be a duration such as 30s or 15m, not '{text}'")
    return int(match[1]) * _UNIT_MS[match[2] or "ms"]


def _or(number: int | None, default: int) -> int:
    return default if number is None else number
