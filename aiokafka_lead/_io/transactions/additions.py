"""Adding partitions and offsets to a transaction, once the coordinator has finished the previous one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import anyio

from ... import errors
from ..._core.producer.batches import PartitionQueue
from ..._core.transactions.additions import (
    add_offsets_request,
    add_partitions_request,
    offsets_request,
    read_added,
    read_offsets,
)
from ..._core.transactions.errand import EndPace, ask_request, read_ended
from ..._core.transactions.state import Phase, TransactionState
from ..._core.transactions.verdicts import Call
from ..._wire import ApiVersions, Request
from ...types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from ..client import Client
from ..group.coordinators import CoordinatorKind
from ..group.offsets import UNKNOWN, Missing, gone
from ..loop import Signal, Waiter
from ..producer.sender import Sender
from .asking import Asking, soon_s

HELD_S = 0.1
"""Seconds for which a transaction's first batches wait for the end of the previous transaction.

Brokers that have to ask the coordinator wait for the same time, but ask only every 20 ms
(``add.partitions.to.txn.retry.backoff.max.ms``).
"""


class LastEnd:
    """Polls the coordinator until it has finished the previous transaction.

    Work of the next transaction waits for this. It also continues after `HELD_S` seconds, or if the coordinator cannot
    be asked.
    """

    def __init__(
        self,
        transactional_id: str,
        asking: Asking,
        pace: EndPace,
        over: Callable[[int], None],
        look_by: Callable[[float], None],
    ) -> None:
        """Ask about the transactions of ``transactional_id``.

        ``over`` is called with the number of the waiting transaction once it may continue. ``look_by`` is called with
        the time at which `look` must be called again.
        """
        self._transactional_id = transactional_id
        self._asking = asking
        self._pace = pace
        self._over = over
        self._look_by = look_by
        self._number = 0
        """Number of the latest transaction that has waited."""
        self._asked = 0
        """Number of requests made for that transaction."""
        self._unanswered = False
        """True while the response to a request is pending."""
        self._ask_at = self._first_at = self._until = 0.0

    def look(self, number: int, now: float) -> float:
        """Ask the coordinator if a request is due. Return the maximum number of seconds until the next check."""
        if number != self._number:
            self._number = number
            self._asked = 0
            self._unanswered = False
            self._ask_at = self._first_at = now + self._pace.left_s(now)
            self._until = now + HELD_S
        if now >= self._until:
            self._end()
        elif not self._unanswered and now >= self._ask_at:
            self._asked += 1
            self._unanswered = self._asking.submit(self._shape, partial(self._answered, number)) is not None
            if not self._unanswered:
                self._end()
        return max(0.0, (self._until if self._unanswered else min(self._until, self._ask_at)) - now)

    def _shape(self, versions: ApiVersions) -> tuple[Request[Any], int]:
        return ask_request(self._transactional_id, versions)

    def _answered(self, number: int, response: Any, error: errors.KafkaError | None) -> None:
        if number != self._number or not self._unanswered:
            return
        self._unanswered = False
        if error is None and read_ended(response) is not None:
            now = time.monotonic()
            self._ask_at = now + soon_s(now - self._first_at)
            self._look_by(self._ask_at)
        else:
            self._end()

    def _end(self) -> None:
        self._unanswered = False
        self._pace.asked(self._asked)
        self._over(self._number)


_NOT_A_MEMBER = (
    errors.FencedInstanceIdError,
    errors.GroupIdNotFoundError,
    errors.IllegalGenerationError,
    errors.StaleMemberEpochError,
    errors.UnknownMemberIdError,
)


class Additions:
    """Adds partitions, groups and offsets to the open transaction.

    Only one request of each kind is in flight. If a request fails permanently, the transaction can only be aborted.
    """

    def __init__(
        self,
        state: TransactionState,
        sender: Sender,
        client: Client,
        asking: Asking,
        failed: Callable[[errors.KafkaError], None],
    ) -> None:
        self._state = state
        assert sender.accumulator.transactional is not None
        self._sequencing = sender.accumulator.transactional
        self._sender = sender
        self._client = client
        self._asking = asking
        self._failed = failed
        self.pace = EndPace()
        self._wanted = Signal()
        self._last_end = LastEnd(state.transactional_id, asking, self.pace, self._release, self._wanted.wake_by)
        self._groups: set[str] = set()
        """Groups that the coordinator has added to the transaction with the number ``_number``."""
        self._number = 0
        self._busy = 0
        """Number of requests in flight."""
        self._idle: Waiter[None] | None = None
        self._missing = Missing(client)
        self._one_at_a_time = anyio.Lock()
        self._sequencing.on_wanted = self._wanted.set

    @property
    def busy(self) -> bool:
        """True while a request is in flight."""
        return self._busy > 0

    async def idle(self, timeout_s: float | None = None) -> None:
        """Wait until no request is in flight. Raises TimeoutError after ``timeout_s`` seconds."""
        if self._busy:
            if self._idle is None:
                self._idle = Waiter()
            await self._idle.wait(timeout_s)

    def _done(self) -> None:
        self._busy -= 1
        if not self._busy and self._idle is not None:
            idle, self._idle = self._idle, None
            idle.set_result(None)

    def _lost(self) -> None:
        """Handle a request without a response. It may still be executed, even in a later transaction of the epoch."""
        self._state.renew = not self._state.v2

    # --- adding partitions --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Release waiting partitions and have the coordinator add partitions to the transaction, until cancelled."""
        left_s: float | None = None
        while True:
            await self._wanted.wait(left_s)
            left_s = self._last_end.look(self._state.number, time.monotonic()) if self._sequencing.held else None
            while self._sequencing.wanted:
                self._busy += 1
                try:
                    await self._add(self._state.number, list(self._sequencing.wanted))
                finally:
                    self._done()

    def _release(self, number: int) -> None:
        """Release the partitions, because they no longer have to wait for the end of the previous transaction."""
        if self._state.number == number:
            waited = self._sequencing.release()
            if waited:
                self._sender.release(waited)

    async def _add(self, number: int, queues: list[PartitionQueue]) -> None:
        """Have the coordinator add these partitions to the transaction, and release their batches.

        If the coordinator refuses, fails the transaction. Has no effect if the transaction has ended in the meantime.
        """
        partitions = [TopicPartition(queue.topic.name, queue.partition) for queue in queues]
        # Set it before the request, because the coordinator may know the transaction even if its response is lost.
        self._state.touched = True

        def shape(versions: ApiVersions) -> tuple[Request[Any], int]:
            return add_partitions_request(self._state, partitions, versions)

        error = await self._asking.until_taken(
            Call.ADD_PARTITIONS,
            CoordinatorKind.TRANSACTION,
            self._state.transactional_id,
            shape,
            partial(read_added, partitions=partitions),
            self._lost,
            partial(self._goes_on, number),
        )
        if not self._goes_on(number):
            return
        if error is not None:
            self._failed(error)
            return
        for queue in queues:
            self._sequencing.added(queue)
        self._sender.release(queues)

    def _goes_on(self, number: int) -> bool:
        """Return True if the transaction with this number can still be committed."""
        return self._state.number == number and self._state.phase in (Phase.OPEN, Phase.COMMITTING)

    # --- offsets ------------------------------------------------------------------------------------------------------

    async def offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata) -> None:
        """Add offsets to the transaction. If this call does not finish, the transaction fails."""
        number = self._state.number
        self._busy += 1
        try:
            async with self._one_at_a_time:
                self._state.check_open(number)
                error = await self._take(number, dict(offsets), group)
        except BaseException:
            if self._goes_on(number):
                self._failed(errors.KafkaError("a call that adds offsets to the transaction was interrupted"))
            raise
        finally:
            self._done()
        if error is None:
            return
        if self._goes_on(number):
            self._failed(error)
        if isinstance(error, _NOT_A_MEMBER):
            raise errors.CommitFailedError(f"the consumer is no longer a member of its group: {error}") from error
        raise error

    async def _take(
        self, number: int, left: dict[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> errors.KafkaError | None:
        """Add the offsets in ``left`` to the transaction, and remove from ``left`` those that were added.

        Returns the error if some can never be added, otherwise None.
        """
        wanted = partial(self._goes_on, number)
        if not self._state.v2:
            error = await self._add_group(number, group.group_id)
            if error is not None:
                return error
        self._state.touched = True

        def shape(versions: ApiVersions) -> tuple[Request[Any], int]:
            return offsets_request(self._state, left, group, versions)

        failed: dict[TopicPartition, errors.KafkaError] = {}

        def read(response: Any) -> errors.KafkaError | None:
            nonlocal failed
            failed = read_offsets(response, group, left)
            for tp in [tp for tp in left if tp not in failed]:
                del left[tp]
            return min(failed.values(), key=lambda error: error.retriable, default=None)

        async def hopeless(node_id: int) -> errors.KafkaError | None:
            refused = [tp for tp, error in failed.items() if isinstance(error, UNKNOWN)]
            missing = await self._missing.among(refused, node_id, topic_ids=group.topic_ids)
            return gone(missing) if missing else None

        error = await self._asking.until_taken(
            Call.COMMIT_OFFSETS, CoordinatorKind.GROUP, group.group_id, shape, read, self._lost, wanted, hopeless
        )
        if error is None and left:
            self._state.check_open(number)
        return error

    async def _add_group(self, number: int, group_id: str) -> errors.KafkaError | None:
        """Have the coordinator add the group to the transaction, unless it has already done so."""
        if self._number != number:
            self._number = number
            self._groups.clear()
        if group_id in self._groups:
            return None
        self._state.touched = True

        def shape(versions: ApiVersions) -> tuple[Request[Any], int]:
            return add_offsets_request(self._state, group_id, versions)

        def read(response: Any) -> errors.KafkaError | None:
            return errors.error_for_code(response.error_code)() if response.error_code else None

        error = await self._asking.until_taken(
            Call.ADD_OFFSETS,
            CoordinatorKind.TRANSACTION,
            self._state.transactional_id,
            shape,
            read,
            self._lost,
            partial(self._goes_on, number),
        )
        if error is None:
            self._groups.add(group_id)
        return error
