"""ControlRecordTypeSchema, versions 0.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

from __future__ import annotations

from ..message import Message


class ControlRecordTypeSchema(Message):
    __slots__ = ("type",)
    FIELDS = ("type int16 0+",)
    NAME = "ControlRecordTypeSchema"
    MIN_VERSION = 0
    MAX_VERSION = 0

    def __init__(
        self,
        *,
        type: int = 0,
    ) -> None:
        self.type: int = type
