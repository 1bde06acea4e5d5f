"""What a dead letter says about its record."""

from __future__ import annotations

from typing import Any, Protocol

from ..._records import ConsumerRecord
from ...errors.shown import shown_cause
from ...types import Header

__all__ = ["DEAD_LETTER_HEADERS", "DeadLetterProducer", "dead_letter_headers"]

PREFIX = "dead_letter."

DEAD_LETTER_HEADERS = tuple(
    PREFIX + name
    for name in ("topic", "partition", "offset", "timestamp_ms", "group", "attempts", "exception", "message")
)
"""The headers that a dead letter has beside its record's own: where the record was, how often it was handled, the
qualified class name of the exception and its message (at most 2,000 characters). All are UTF-8 text."""

MESSAGE_CHARACTERS = 2_000


class DeadLetterProducer(Protocol):
    """What is needed of a `Producer`."""

    async def partitions_for(self, topic: str) -> frozenset[int]: ...

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: list[Header] | None = None,
    ) -> object: ...


def dead_letter_headers(
    record: ConsumerRecord[Any, Any], error: BaseException, attempts: int, group_id: str | None
) -> list[Header]:
    """The record's headers, and behind them the cause. A record that was a dead letter before has both causes."""
    kind = type(error)
    cause: tuple[object, ...] = (
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        group_id or "",
        attempts,
        kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}",
        shown_cause(error, str)[:MESSAGE_CHARACTERS],
    )
    texts = (str(part).encode(errors="replace") for part in cause)
    return [*record.headers, *zip(DEAD_LETTER_HEADERS, texts, strict=True)]
