"""Records of one transaction of `Consumer.run`, from the first one taken to the end of their handlers."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Container
from typing import Any

import anyio

from ..._core.consumer.reading import Reading
from ..._core.run.exactly_once import Attempts, HandlerFailure
from ..._core.run.handler import NoAwaitableError
from ..._core.run.options import RunConfig
from ..._core.run.refusals import is_outage
from ..._core.run.work import HandlerSlot, Work
from ..._options.logs import ClientLog
from ..._records import ConsumerRecord
from ...errors import (
    CommitFailedError,
    CommitOutcomeUnknownError,
    ConfigTypeError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortedError,
)
from ...types import OffsetAndMetadata, TopicPartition
from ..loop import Signal, Waiter
from .handling import Intake, standing_still
from .workers import Worker, Workers

Record = ConsumerRecord[Any, Any]


class Batch:
    """Takes records until there are enough, and gives them to handlers meanwhile.

    If a handler fails, the transaction is lost: running handlers continue to their end, and no other starts.
    """

    def __init__(
        self, config: RunConfig, reading: Reading, intake: Intake, attempts: Attempts, retry_topics: Container[str] = ()
    ) -> None:
        self._config = config
        self._reading = reading
        self._intake = intake
        self._attempts = attempts
        self._until = math.inf
        """Time after which no more records are taken (``time.monotonic()``)."""
        self._left = config.max_transaction_records
        self.commits_unchanged = False
        """True if positions in retry partitions are committed that have not changed."""
        self._room = Signal()
        self._calm = Signal()
        self._work = Work(
            config, reading.positions, self._room.set, self._calm.set, time.monotonic, retry_topics=retry_topics
        )
        self._workers: Workers[HandlerSlot, Record] | None = None
        self._taking = anyio.CancelScope()
        self.scope = anyio.CancelScope()
        """Scope around the whole batch, its transaction included."""
        self.failures: list[HandlerFailure] = []
        self.error: BaseException | None = None
        """Error that ends the batch without being a handler's failure."""
        self.ended: Waiter[None] = Waiter()
        """Done when the batch is committed or aborted, as far as that is known."""

    # --- taking ------------------------------------------------------------------------------------------------------

    async def begin(self, idle_ms: float) -> bool:
        """Take the first records; return False if none came in time. Raises the error that prevents reading."""
        taken = await self._intake.take(self._work, idle_ms, min(self._work.room(), self._left), from_all=True)
        self._until = time.monotonic() + self._config.max_transaction_ms / 1000
        self._left -= taken
        return taken > 0

    def close(self) -> None:
        """Take no more records."""
        self._left = 0
        self._taking.cancel()

    def concerns(self, partitions: Container[TopicPartition]) -> bool:
        """Return True if it has records of these partitions."""
        return any(partition.state.tp in partitions for partition in self._work)

    async def _take(self) -> None:
        while self._left > 0 and not self._lost:
            left_s = self._until - time.monotonic()
            if left_s <= 0:
                return
            room = min(self._work.room(), self._left)
            if room < 1:
                self._work.wait_for_room()
                await self._room.wait(left_s)
                continue
            try:
                self._left -= await self._intake.take(self._work, left_s * 1000, room)
            except KafkaError:
                return  # raised again after these records are committed; raised now, it would prevent that
            if self.failures or self.error is not None:  # while records were being taken
                self._close_all()
            self._rouse()

    # --- handling ----------------------------------------------------------------------------------------------------

    async def handle(self, handle: Callable[[Record], Awaitable[object]], log: ClientLog) -> None:
        """Wait until every handler has returned, or one has failed and the others have ended."""
        async with anyio.create_task_group() as tasks:
            self._workers = Workers(
                tasks,
                self._work,
                self._config.concurrency,
                handle,
                self._failed,
                self._end,
                slow_s=self._config.slow_handler_ms / 1000,
                log=log,
            )
            self._rouse()
            with self._taking:
                await self._take()
            while not self._lost and not self._work.wait_for_all():
                await self._room.wait()
            while self._lost and self.busy:
                await self._calm.wait()
            tasks.cancel_scope.cancel()

    def _rouse(self) -> None:
        if self._workers is not None:
            self._workers.rouse()

    @property
    def _lost(self) -> bool:
        return bool(self.failures) or self.error is not None

    @property
    def busy(self) -> list[Worker[HandlerSlot]]:
        """Workers that handle a record."""
        return [] if self._workers is None else self._workers.busy

    async def _failed(self, slot: HandlerSlot, record: Record, error: BaseException) -> None:
        if isinstance(error, NoAwaitableError):
            self._end(slot, ConfigTypeError(str(error)))
        elif isinstance(error, CommitOutcomeUnknownError | ProducerFencedError | TransactionAbortedError):
            self._end(slot, error)
        elif isinstance(error, Exception) and self._attempts.settled(record) is not None:
            self._end(slot, error)  # no handler's: the record could not be sent to another topic
        else:
            note = self._attempts.postponed if is_outage(error) else self._attempts.failed
            self.failures.append(note(record, error))
            self._give_up(slot)

    def _end(self, slot: HandlerSlot, error: BaseException) -> None:
        if self.error is None:
            self.error = error
        self._give_up(slot)

    def _close_all(self) -> None:
        for partition in self._work:
            self._work.close(partition)

    def _give_up(self, slot: HandlerSlot) -> None:
        self._close_all()
        self._work.given_up(slot)
        self.close()
        self._room.set()
        self._calm.set()

    # --- the end -----------------------------------------------------------------------------------------------------

    def offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets behind all records; raise `CommitFailedError` if a partition was taken away meanwhile."""
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        if self.commits_unchanged:
            found.update(standing_still(self._reading, self._work))
        for partition, position in self._work.done():
            if not self._reading.positions.owns(partition.state):
                raise CommitFailedError(f"{partition.state.tp} was taken away while its records were handled")
            found[partition.state.tp] = position.to_commit()
        return found
