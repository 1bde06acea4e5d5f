"""What ends `Consumer.run`."""

from __future__ import annotations

from typing import Any

from .base import KafkaError

__all__ = ["HandlerError"]


class HandlerError(KafkaError):
    """A record could not be handled, and was not accepted by a dead-letter topic either.

    ``record`` is the record as bytes, ``attempts`` how often its handler has raised; the last error is the cause. The
    record counts as not done: it comes again.
    """

    def __init__(self, message: str = "", *, record: Any, attempts: int) -> None:
        super().__init__(message)
        self.record = record
        self.attempts = attempts
