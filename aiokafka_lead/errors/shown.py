"""What a stranger says, made fit for errors and logs: bounded, on one line, and without what a terminal obeys."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import islice

__all__ = ["PARTITIONS_NAMED", "SHOWN_CHARACTERS", "one_line", "shown", "shown_cause", "some_of"]

SHOWN_CHARACTERS = 500
"""More of a broker's text than any known broker writes; a string of the protocol may hold 32 KiB, or more."""

NAMED = 5
"""Of many names."""

PARTITIONS_NAMED = 20
"""Of those that a member of a group gets, gives up or has lost, of which a few more are worth a line."""

LINE_CHARACTERS = 5000
"""More than any error or line of the log has that is no stranger's doing."""


def one_line(text: str) -> str:
    """A whole error or line of the log, which names and texts of strangers may be part of; nearly always as it is."""
    return text if len(text) <= LINE_CHARACTERS and text.isprintable() else shown(text, LINE_CHARACTERS)


def shown(text: str | bytes, characters: int = SHOWN_CHARACTERS) -> str:
    """The text, with what cannot be printed escaped as in a Python literal, and cut off with the length it had."""
    whole = text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text
    head = whole[:characters]
    safe = "".join(char if char.isprintable() else _escaped(char) for char in head)
    return safe if len(whole) == len(head) else f"{safe}... ({len(whole)} characters)"


def shown_cause(cause: BaseException, form: Callable[[BaseException], str] = repr) -> str:
    """The ``repr`` of what the application raised, or its type where that cannot be had: it is too deep, say."""
    try:
        return form(cause)
    except Exception:
        return type(cause).__name__


def some_of(names: Collection[object], most: int = NAMED) -> str:
    """The first few of perhaps thousands of names, and how many more there are."""
    first = [str(name) for name in islice(names, most)]
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return ", ".join([*first, *more])


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
