"""Headers of a dead letter, which describe its record's failure."""

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
"""Headers added to the record's in a dead letter. All are UTF-8 text.

They give the record's place and its number of attempts, and the exception's qualified class name, its message (at most
2,000 characters) and the innermost frames of its traceback, each a line "file:number in function".
"""

MESSAGE_CHARACTERS = 2_000


def dead_letter_headers(
    record: ConsumerRecord[Any, Any], error: BaseException, attempts: int, group_id: str | None
) -> list[Header]:
    """Return the record's headers, followed by the failure's. A former dead letter has both failures."""
    error = blamed(error)
    cause: tuple[object, ...] = (
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        group_id or "",
        attempts,
        class_name(error),
        shown_cause(error, str)[:MESSAGE_CHARACTERS],
        innermost_frames(error),
    )
    texts = (str(part).encode(errors="replace") for part in cause)
    return [*record.headers, *zip(DEAD_LETTER_HEADERS, texts, strict=True)]
