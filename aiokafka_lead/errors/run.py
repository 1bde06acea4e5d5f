"""Errors that end `run`, and those that a handler raises to decide about its record."""

from __future__ import annotations

from typing import Any

from .base import KafkaError

__all__ = ["DropRecordError", "HandlerError", "PermanentError"]


class HandlerError(KafkaError):
    """A record could not be handled, nor written to a dead-letter topic.

    ``record`` is the record as bytes, ``attempts`` the number of times its handler raised; the last error is the cause.
    The record does not count as done: it will be delivered again.
    """

    def __init__(self, message: str = "", *, record: Any, attempts: int) -> None:
        super().__init__(message)
        self.record = record
        self.attempts = attempts


class PermanentError(Exception):
    """Raised by a handler to say that no retry helps: its record goes to the dead letters at once.

    The dead letter names its cause, if it has one::

        raise PermanentError("no such customer") from error
    """


class DropRecordError(Exception):
    """Raised by a handler to drop its record: it counts as done, without a retry or a dead letter.

    A share group never delivers it again.
    """
