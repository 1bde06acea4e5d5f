"""Errors of writes with exactly-once semantics. The messages are complete, because Spark shows only them."""

from __future__ import annotations

__all__ = ["ExactlyOnceError", "TransactionsLostError"]


class ExactlyOnceError(Exception):
    """The micro-batch, or the write, does not count: it may be repeated."""


class TransactionsLostError(Exception):
    """The cluster aborted part of a decision before it could be committed: those rows are lost."""
