"""The error that ends `Consumer.run`."""

from __future__ import annotations

from typing import Any

from .base import KafkaError

__all__ = ["HandlerError"]


class HandlerError(KafkaError):
    """A record could not be handled, nor written to a dead-letter topic.

    ``record`` is the record as bytes, ``attempts`` the number of times its handler raised; the last error is the cause.
    The record does not count as done: it will be delivered again.
    """

    def __init__(self, message: str = "", *, record: Any, attempts: int) -> None:
        super().__init__(message)
        self.record = record
        self.attempts = attempts
