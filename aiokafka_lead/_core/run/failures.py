"""Failures of handlers, as logs and the headers of dead letters describe them."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from typing import Any

from ..._records import ConsumerRecord
from ...errors import HandlerError, PermanentError, SchemaContentError
from ...errors.shown import shown_cause, some_of
from ...types import Header
from .handler import place_of
from .options import leaves

FRAMES = 10
"""Number of innermost frames of a traceback to include."""

CHAIN = 20
"""Maximum number of exceptions of a chain to examine."""

PYDANTIC, MSGSPEC = "pydantic_core._pydantic_core.ValidationError", "msgspec.ValidationError"
QUOTING = {PYDANTIC, MSGSPEC}
"""Exceptions whose messages contain their input."""

_QUOTED = re.compile(r"""(value|field) ('.*'|".*"|`.*`|-?\d+)""", re.DOTALL)
"""Patterns of input in msgspec's messages: values that are not in an enum, and names of unknown fields."""


def blamed(error: BaseException) -> BaseException:
    """Return the exception to name as the reason for a failure.

    This is the only exception of a group, the cause of a `PermanentError`, or otherwise the exception itself.
    """
    raised = leaves(error)
    if len(raised) == 1:
        error = raised[0]
    cause = error.__cause__
    return cause if isinstance(error, PermanentError) and cause is not None else error


def class_name(error: BaseException) -> str:
    """Return the qualified name of an exception's class. Builtin classes have no module."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else _name(error)


def kind_and_place(error: Exception) -> str:
    """Return the class of an error and the position of its record.

    The text of the error is left out, because it may quote the record.
    """
    if isinstance(error, HandlerError) and error.__cause__ is not None:
        return f"{place_of(error.record)}: {class_name(blamed(error.__cause__))}"
    return class_name(error)


def quotes_input(error: BaseException) -> bool:
    """Return True if a message in the exception's chain contains its input, which must not be logged."""
    return any(map(_quotes, _chain(error)))


def described(error: BaseException) -> str:
    """Return the exception's ``repr`` without its input."""
    if not quotes_input(error):
        return shown_cause(error)
    return " from ".join(_without_input(each) for each in _chain(error))


def innermost_frames(error: BaseException) -> str:
    """Return a line "file:number in function" for each of the innermost frames of a traceback.

    The innermost frame is last.
    """
    # Source lines are omitted.
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return "\n".join(f"{code.co_filename}:{line} in {code.co_name}" for code, line in frames[-FRAMES:])


def reason_of(error: BaseException) -> str:
    """Return the message of an exception of a parser or a schema, without the input that it may contain."""
    if isinstance(error, SchemaContentError):
        return error.unquoted
    text = shown_cause(error, str)
    if _name(error) != PYDANTIC:
        return _QUOTED.sub(r"\1", text) if _name(error) == MSGSPEC else text
    problems = error.errors(include_input=False, include_url=False, include_context=False)  # type: ignore[attr-defined]
    return some_of([f"{'.'.join(map(str, each['loc']))} {each['type']}".strip() for each in problems])


def _without_input(error: BaseException) -> str:
    name = type(error).__name__
    return f"{name}: {reason_of(error)}" if _quotes(error) else name


def _quotes(error: BaseException) -> bool:
    return _name(error) in QUOTING or (isinstance(error, SchemaContentError) and error.unquoted != error.message)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception, its causes, and the exceptions of groups among them, up to `CHAIN` exceptions."""
    left = [error]
    for _ in range(CHAIN):
        if not left:
            return
        each = left.pop()
        yield each
        cause = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
        left += [] if cause is None else [cause]
        if isinstance(each, BaseExceptionGroup):
            left += reversed(each.exceptions)


def _name(error: BaseException) -> str:
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}"


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
"""Maximum length of an error's message in a header."""


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
