"""Errors of a partition without a valid position, in the form that programs take apart."""

from __future__ import annotations

from ...errors import FetchOffsetOutOfRangeError, KafkaError, NoOffsetForPartitionError
from ...types import TopicPartition

__all__ = ["NO_POSITION", "with_place"]

NO_POSITION = (FetchOffsetOutOfRangeError, NoOffsetForPartitionError)


class PositionOutOfRangeError(FetchOffsetOutOfRangeError):
    """`OffsetOutOfRangeError` whose ``args[0]`` has the offset by partition: ``seek_to_beginning(*error.args[0])``."""

    def __str__(self) -> str:
        return self.message


class NoPositionError(NoOffsetForPartitionError):
    """`NoOffsetForPartitionError` whose ``args[0]`` is the partition: ``seek(error.args[0], 0)``."""

    def __str__(self) -> str:
        return self.message


def with_place(error: FetchOffsetOutOfRangeError | NoOffsetForPartitionError) -> KafkaError:
    """Return the error that a native consumer raised with aiokafka's ``args``."""
    tp = TopicPartition(error.topic, error.partition)
    own: KafkaError
    if isinstance(error, NoOffsetForPartitionError):
        own = NoPositionError(error.message, topic=error.topic, partition=error.partition)
        own.args = (tp,)
    else:
        own = PositionOutOfRangeError(error.message, topic=tp.topic, partition=tp.partition, offset=error.offset)
        own.args = ({tp: error.offset},)
    return own
