"""ConsumerProtocolSubscription, versions 0-3.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Message, Struct


class TopicPartition(Struct):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        "topic string 1+",
        "partitions []int32 1+",
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] = DEFAULT,
    ) -> None:
        self.topic: str = topic
        self.partitions: list[int] = [] if partitions is DEFAULT else partitions


class ConsumerProtocolSubscription(Message):
    __slots__ = ("topics", "user_data", "owned_partitions", "generation_id", "rack_id")
    FIELDS = (
        "topics []string 0+",
        "user_data bytes 0+ null 0+ = null",
        "owned_partitions []TopicPartition 1+ ignorable",
        "generation_id int32 2+ = -1 ignorable",
        "rack_id string 3+ null 3+ = null ignorable",
    )
    NAME = "ConsumerProtocolSubscription"
    MIN_VERSION = 0
    MAX_VERSION = 3

    def __init__(
        self,
        *,
        topics: list[str] = DEFAULT,
        user_data: bytes | None = None,
        owned_partitions: list[TopicPartition] = DEFAULT,
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        self.topics: list[str] = [] if topics is DEFAULT else topics
        self.user_data: bytes | None = user_data
        self.owned_partitions: list[TopicPartition] = [] if owned_partitions is DEFAULT else owned_partitions
        self.generation_id: int = generation_id
        self.rack_id: str | None = rack_id
