"""EndTxnMarker, versions 0.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

from __future__ import annotations

from ..message import Message


class EndTxnMarker(Message):
    __slots__ = ("coordinator_epoch",)
    FIELDS = ("coordinator_epoch int32 0+",)
    NAME = "EndTxnMarker"
    MIN_VERSION = 0
    MAX_VERSION = 0

    def __init__(
        self,
        *,
        coordinator_epoch: int = 0,
    ) -> None:
        self.coordinator_epoch: int = coordinator_epoch
