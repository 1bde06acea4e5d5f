"""What a consumer and its group know of the handlers that work on records at the same time (`Consumer.run`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

from ..._core.consumer.partition_state import PartitionState
from ..._core.consumer.position import Position
from ...types import TopicPartition

__all__ = ["CurrentRun", "ParallelWork"]


class ParallelWork(Protocol):
    """One run, while it is under way."""

    @property
    def transactional(self) -> bool:
        """Whether it commits in transactions, beside which there must be no other commit."""
        ...

    def problem(self, now: float) -> str | None:
        """What it bears with."""

    async def release(self, partitions: Collection[TopicPartition], deadline: float) -> None:
        """Let go of these partitions: wait for their handlers until the deadline, and commit what is done."""

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """They have been given up, or lost."""

    def done(self) -> Iterator[tuple[PartitionState, Position]]:
        """For each partition that was taken from, the position before which everything is done."""
        ...

    def unsubscribed(self) -> None:
        """The consumer may have nothing to read any more: then the run ends."""

    async def finish(self, ready_by: float, end_by: float) -> None:
        """The consumer is being stopped: end the run. Handlers have until ``ready_by``, all has until ``end_by``."""


class CurrentRun:
    """The run of one consumer. It knows, and commits, what is done; without one that follows from what is in hand."""

    __slots__ = ("work",)

    def __init__(self) -> None:
        self.work: ParallelWork | None = None
        """None while none is under way. Written by the run itself."""
