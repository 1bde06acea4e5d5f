"""The headers of a dead letter, which describe the failure of its record."""

from __future__ import annotations

from typing import Any

from ..._records import ConsumerRecord
from ...errors.shown import shown_cause
from ...types import Header
from .failures import blamed, class_name, innermost_frames

PREFIX = "dead_letter."

DEAD_LETTER_HEADERS = tuple(
    PREFIX + name
    for name in (
        "topic",
        "partition",
        "offset",
        "timestamp_ms",
        "group",
        "attempts",
        "exception",
        "message",
        "frames",
    )
)
"""Headers that a dead letter has in addition to the record's own headers. All are UTF-8 text.

They contain the record's place, the number of attempts, the qualified name of the exception's class, its message (at
most 2,000 characters), and the innermost frames of its traceback (one line "file:number in function" each). The message
and the frames are empty if the dead letter would otherwise be too large for its topic.
"""

MESSAGE_CHARACTERS = 2_000


def dead_letter_headers(
    record: ConsumerRecord[Any, Any],
    error: BaseException,
    attempts: int,
    group_id: str | None,
    *,
    brief: bool = False,
) -> list[Header]:
    """Return the record's headers, followed by those that describe the failure.

    If the record is itself a former dead letter, both failures are included. With ``brief``, the message and the frames
    are empty.
    """
    error = blamed(error)
    cause: tuple[object, ...] = (
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        group_id or "",
        attempts,
        class_name(error),
        "" if brief else shown_cause(error, str)[:MESSAGE_CHARACTERS],
        "" if brief else innermost_frames(error),
    )
    texts = (str(part).encode(errors="replace") for part in cause)
    return [*record.headers, *zip(DEAD_LETTER_HEADERS, texts, strict=True)]
