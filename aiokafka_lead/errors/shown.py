"""What a stranger says, made fit for errors and logs: bounded, on one line, and without what a terminal obeys."""

from __future__ import annotations

__all__ = ["SHOWN_CHARACTERS", "one_line", "shown"]

SHOWN_CHARACTERS = 500
"""More of a broker's text than any known broker writes; a string of the protocol may hold 32 KiB, or more."""

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


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
