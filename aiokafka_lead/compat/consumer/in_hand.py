"""What the native consumer is not to wait for."""

from __future__ import annotations

from ..._io.consumer.reader import ReadListener

__all__ = ["NothingInHand"]


class NothingInHand:
    """In place of the native consumer's account of what the application works on: what was handed out counts as done.

    So a rebalance does not wait for the application, and automatic commits cover all that it got, as in aiokafka.
    """

    def __init__(self, account: ReadListener) -> None:
        self.returned = account.returned
        self.watch = account.watch

    def handed_out(self, tp: object, before: object) -> None:
        """Records were handed out."""

    def handing_out(self, chunk: object) -> None:
        """Records are handed out one by one."""
