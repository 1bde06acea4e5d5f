"""Accounting that never makes the native consumer wait for the application."""

from __future__ import annotations

from ..._io.consumer.reader import ReadListener

__all__ = ["NothingInHand"]


class NothingInHand:
    """Replaces the native consumer's account of records in progress: records that were handed out count as done.

    So a rebalance does not wait for the application, and automatic commits cover all records it got, as in aiokafka.
    """

    def __init__(self, account: ReadListener) -> None:
        self.returned = account.returned
        self.watch = account.watch

    def handed_out(self, tp: object, before: object) -> None:
        """Do nothing: the records already count as done."""

    def handing_out(self, chunk: object) -> None:
        """Do nothing: the records already count as done."""
