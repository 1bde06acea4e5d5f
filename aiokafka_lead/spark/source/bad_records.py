"""Handling of *bad records*, whose key or value cannot be decoded with its schema.

The option ``onBadRecord`` is ``fail`` (the default), ``null``, or ``deadletter`` with the option ``deadLetterTopic``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._options.arguments import topic_name
from ...errors import KafkaError, MessageTooLargeError
from ...types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from ...consumer import RecordBatch
    from ...producer import Producer

CORRUPT = "_corrupt"
"""Column with the error, key bytes and value bytes of a bad record. It is null for other records."""

DeadLetter = tuple[TopicPartition, dict[str, Any]]
"""Partition of a bad record, and a row with its ``offset``, ``timestamp`` in ms, ``headers`` and `CORRUPT`."""

DeadLetters = list[DeadLetter]


class OnBadRecord(Enum):
    """The action for a bad record: fail the query, return null, or write it to a dead-letter topic."""

    FAIL = "fail"
    NULL = "null"
    DEADLETTER = "deadletter"


class BadRecords(NamedTuple):
    """Options for bad records, which Spark sends to tasks."""

    mode: OnBadRecord
    topic: str | None
    """Topic for dead letters."""


class BadRecordError(Exception):
    """A record cannot be decoded with its schema. The message identifies the record, because Spark shows only that."""

    def __init__(self, tp: TopicPartition, offset: int, column: str, error: BaseException) -> None:
        super().__init__(
            f"record of {tp} at offset {offset}: cannot decode its {column}: {error} "
            "(set onBadRecord=null or deadletter to continue after bad records)"
        )


def bad_records(options: Mapping[str, str]) -> BadRecords:
    """Return the options for bad records. Raises ValueError if any is invalid."""
    text, topic = options.get("onBadRecord", "fail"), options.get("deadLetterTopic")
    typed = options.get("valueSchema") or options.get("keySchema")
    for name in ("mode", "columnNameOfCorruptRecord"):
        if typed and name in options:
            raise ValueError(f"option '{name}' is not supported; use 'onBadRecord' and the column '{CORRUPT}'")
    try:
        mode = OnBadRecord(text.lower())
    except ValueError:
        raise ValueError(f"option 'onBadRecord' must be fail, null or deadletter, not '{text}'") from None
    if (topic is not None) != (mode is OnBadRecord.DEADLETTER):
        raise ValueError("options 'onBadRecord'='deadletter' and 'deadLetterTopic' must be given together")
    if mode is not OnBadRecord.FAIL and not typed:
        raise ValueError("option 'onBadRecord' needs 'valueSchema' or 'keySchema', because bytes need no decoding")
    return BadRecords(mode, None if topic is None else topic_name("option 'deadLetterTopic'", topic.strip()))


def corrupt_column(batch: RecordBatch[Any, Any], bad: Mapping[int, str]) -> pa.Array:
    """Return the `CORRUPT` column for a batch. ``bad`` maps row numbers to error texts."""
    import pyarrow as pa

    kind = pa.struct([("error", pa.string()), ("key", pa.binary()), ("value", pa.binary())])
    if not bad:
        return pa.nulls(len(batch), kind)
    keys: Sequence[bytes | None] = batch.raw_column(is_key=True)
    values: Sequence[bytes | None] = batch.raw_column(is_key=False)
    rows = [
        {"error": bad[row], "key": keys[row], "value": values[row]} if row in bad else None for row in range(len(batch))
    ]
    return pa.array(rows, kind)


async def send_dead_letters(producer: Producer, topic: str, letters: DeadLetters) -> None:
    """Write bad records with the additional headers `DEAD_LETTER_HEADERS`, and wait until they are acknowledged.

    A dead letter that would be too large for its topic is written without the message.
    """
    too_large = await _send(producer, topic, letters)
    for error, _ in await _send(producer, topic, [letter for _, letter in too_large], brief=True):
        raise error


async def _send(
    producer: Producer, topic: str, letters: DeadLetters, *, brief: bool = False
) -> list[tuple[MessageTooLargeError, DeadLetter]]:
    """Write dead letters. Return those that are too large, with their errors, and raise any other error."""
    from ... import DEAD_LETTER_HEADERS
    from ..._core.run.failures import MESSAGE_CHARACTERS

    values, keys, headers = [], [], []
    kind = f"{BadRecordError.__module__}.{BadRecordError.__qualname__}"
    for tp, row in letters:
        place = (tp.topic, tp.partition, row["offset"], -1 if row["timestamp"] is None else row["timestamp"])
        message = "" if brief else row[CORRUPT]["error"][:MESSAGE_CHARACTERS]
        texts = (str(part).encode(errors="replace") for part in (*place, "", 1, kind, message, ""))  # no group, frames
        own = [(header["key"], header["value"]) for header in row["headers"] or ()]
        headers.append([*own, *zip(DEAD_LETTER_HEADERS, texts, strict=True)])
        keys.append(row[CORRUPT]["key"])
        values.append(row[CORRUPT]["value"])
    outcomes = await (await producer.send_many(topic, values, keys=keys, headers=headers)) if letters else []
    for outcome in outcomes:
        if isinstance(outcome, KafkaError) and not isinstance(outcome, MessageTooLargeError):
            raise outcome
    return [(e, letter) for e, letter in zip(outcomes, letters, strict=True) if isinstance(e, MessageTooLargeError)]
