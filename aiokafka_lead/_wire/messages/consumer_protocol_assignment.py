"""ConsumerProtocolAssignment, versions 0-3.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Message, Struct


class TopicPartition(Struct):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        "topic string 0+",
        "partitions []int32 0+",
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] = DEFAULT,
    ) -> None:
        self.topic: str = topic
        self.partitions: list[int] = [] if partitions is DEFAULT else partitions


class ConsumerProtocolAssignment(Message):
    __slots__ = ("assigned_partitions", "user_data")
    FIELDS = (
        "assigned_partitions []TopicPartition 0+",
        "user_data bytes 0+ null 0+ = null",
    )
    NAME = "ConsumerProtocolAssignment"
    MIN_VERSION = 0
    MAX_VERSION = 3

    def __init__(
        self,
        *,
        assigned_partitions: list[TopicPartition] = DEFAULT,
        user_data: bytes | None = None,
    ) -> None:
        self.assigned_partitions: list[TopicPartition] = [] if assigned_partitions is DEFAULT else assigned_partitions
        self.user_data: bytes | None = user_data
