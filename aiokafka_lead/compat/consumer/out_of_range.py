"""The error of a position outside of the log, in the form that programs take apart."""

from __future__ import annotations

from typing import Self

from ...errors import FetchOffsetOutOfRangeError
from ...types import TopicPartition

__all__ = ["PositionOutOfRangeError"]


class PositionOutOfRangeError(FetchOffsetOutOfRangeError):
    """`OffsetOutOfRangeError` whose ``args[0]`` has the offset by partition: ``seek_to_beginning(*error.args[0])``."""

    @classmethod
    def of(cls, error: FetchOffsetOutOfRangeError) -> Self:
        """Convert the error that a native consumer raised."""
        own = cls(error.message, topic=error.topic, partition=error.partition, offset=error.offset)
        own.args = ({TopicPartition(error.topic, error.partition): error.offset},)
        return own

    def __str__(self) -> str:
        return self.message
