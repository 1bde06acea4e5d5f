"""What can be wrong with a write that is to be done exactly once. The messages say all: they are what Spark shows."""

from __future__ import annotations

__all__ = ["ExactlyOnceError", "TransactionsLostError"]


class ExactlyOnceError(Exception):
    """The micro-batch, or the write, does not count: it may be done again."""


class TransactionsLostError(Exception):
    """Part of what was decided was aborted by the cluster before anybody could commit it: those rows are lost."""
