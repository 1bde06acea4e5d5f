"""Prepares external text for errors and logs: limited in length, on one line, without control characters."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import islice

__all__ = ["PARTITIONS_NAMED", "SHOWN_CHARACTERS", "one_line", "shown", "shown_cause", "some_of", "start_of"]

SHOWN_CHARACTERS = 500
"""Maximum length of a text from another program. Known brokers send less; the protocol allows 32 KiB and more."""

NAMED = 5
"""Maximum number of names that a list in a message shows."""

PARTITIONS_NAMED = 20
"""Maximum number of partitions that a message about a member's assignment names."""

LINE_CHARACTERS = 5000
"""Maximum length of a line. No error or log line without external text is longer."""


def one_line(text: str) -> str:
    """Return an error or log line that may contain external text, escaped and shortened if necessary."""
    return text if len(text) <= LINE_CHARACTERS and text.isprintable() else shown(text, LINE_CHARACTERS)


def shown(text: str | bytes, characters: int = SHOWN_CHARACTERS) -> str:
    """Return the text with unprintable characters escaped as in Python.

    A longer text is cut after ``characters``, with a note of its length.
    """
    whole = text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text
    head = whole[:characters]
    safe = "".join(char if char.isprintable() else _escaped(char) for char in head)
    return safe if len(whole) == len(head) else f"{safe}... ({len(whole)} characters)"


def shown_cause(cause: BaseException, form: Callable[[BaseException], str] = repr) -> str:
    """Return an application's error as text, by default its ``repr``.

    The ``repr`` of a UnicodeError shows all the content that cannot be decoded and must not be logged. It is replaced
    by the type and the message. If ``form`` fails, for example on deep nesting, return only the type.
    """
    try:
        if isinstance(cause, UnicodeError):
            return f"{type(cause).__name__}({str(cause)!r})" if form is repr else str(cause)
        return form(cause)
    except Exception:
        return type(cause).__name__


def start_of(value: object) -> str:
    """Return the start of a value's ``repr`` and its type.

    If ``repr`` fails, as for a huge int, return only the type.
    """
    try:
        return f"{value!r:.80} ({type(value).__name__})"
    except Exception:
        return f"a value of type {type(value).__name__}"


def some_of(names: Collection[object], most: int = NAMED) -> str:
    """Return the first ``most`` names, separated by commas, and the number of further names: ``"a, b, 3 more"``."""
    first = [str(name) for name in islice(names, most)]
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return ", ".join([*first, *more])


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
