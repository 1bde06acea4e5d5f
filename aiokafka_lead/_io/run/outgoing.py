"""Sending a run's records to dead-letter and retry topics."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..._core.run.options import Verdict
from ..._values import NamedTuple
from ..cancellation import face_cancellation, outlives_cancellation
from ..loop import Signal

if TYPE_CHECKING:
    from ..._core.producer.delivery import Delivery

S = TypeVar("S")

TOGETHER_S = 0.1
"""Seconds for which records wait to be sent together, because a request costs more than the records in it."""

AT_ONCE = 200
"""Number of records that are sent at once, without waiting for more."""


class Sending(NamedTuple):
    """A record to send to another topic.

    It keeps its slot, and therefore stays in hand, until it has been written there.
    """

    slot: Any
    """The record's slot. None in a transaction, whose records are finished at its end."""
    record: Any
    verdict: Verdict
    error: BaseException | None = None
    """The handler's exception, or None for a record that was not handled because it follows another record."""
    attempts: int = 0
    brief: bool = False
    """True for a dead letter that was too large with the full description of its error."""


Sent = tuple[Sending, "Delivery"]


class Outgoing(Generic[S]):
    """Sends records to other topics, several at a time. The records stay in hand until they are written."""

    def __init__(
        self,
        send: Callable[[Sending], Awaitable[Delivery]],
        refused: Callable[[Sending, Exception], None],
        answered: Callable[[], None],
    ) -> None:
        """Send records with ``send``.

        ``refused`` is called with an error of ``send``. ``answered`` is called when `answers` has new entries.
        """
        self._send = send
        self._refused = refused
        self._on_answer = answered
        self.slots: set[S] = set()
        """The slots of these records."""
        self.answers: deque[Sent] = deque()
        """Records that brokers have accepted or refused."""
        self._sent: dict[object, list[Sent]] = {}
        """The sent records, by partition.

        In each list, the first record has a callback for the whole list.
        """
        self._waiting: list[Sending] = []
        """Records that have not been sent yet."""
        self._send_at = math.inf
        """Time at which the waiting records are sent (``time.monotonic()``)."""
        self._changed = Signal()
        """Set when this time has changed."""

    def add(self, sending: Sending) -> None:
        """Send a record soon."""
        self.slots.add(sending.slot)
        self._waiting.append(sending)
        # Records without an error are sent one by one for each key, so waits for more records would add up.
        if sending.error is None or len(self._waiting) >= AT_ONCE:
            self.hurry()
        elif len(self._waiting) == 1:
            self._send_at = time.monotonic() + TOGETHER_S
            self._changed.set()

    def hurry(self) -> None:
        """Send the waiting records at once, because there may be no more."""
        if self._waiting:
            self._send_at = 0.0
            self._changed.set()

    async def run(self) -> None:
        """Send records when they are due, until cancelled. Does not wait until they are written."""
        while True:
            left_s = self._send_at - time.monotonic()
            if left_s > 0:
                await self._changed.wait(None if left_s == math.inf else left_s)
                continue
            leaving, self._waiting, self._send_at = self._waiting, [], math.inf
            for sending in leaving:
                await self.send(sending)

    async def send(self, sending: Sending) -> None:
        """Send a record now. If the task is cancelled during the call, the record may be sent twice."""
        try:
            while True:
                try:
                    delivery = await self._send(sending)
                    await face_cancellation()
                    break
                except asyncio.CancelledError:
                    if not await outlives_cancellation():
                        raise
        except Exception as refusal:
            self._refused(sending, refusal)
        else:
            self._expect_answer(_way(sending), sending, delivery)

    def _expect_answer(self, way: object, sending: Sending, delivery: Delivery) -> None:
        sent = self._sent.get(way)
        if sent is None:
            sent = self._sent[way] = []
            delivery.add_done_callback(partial(self._answered, way))
        sent.append((sending, delivery))

    def _answered(self, way: object, first: Delivery) -> None:
        """Leave the processing of answers to a task, because a connection calls this outside of tasks."""
        for sending, delivery in self._sent.pop(way):
            if delivery.done():
                self.answers.append((sending, delivery))
            else:
                self._expect_answer(way, sending, delivery)
        self._on_answer()


def _way(sending: Sending) -> object:
    """Return an object that is equal for records with the same target partition, which are answered together."""
    if sending.verdict.fate != "later":
        return sending.slot
    return sending.record.topic, sending.record.partition, sending.verdict
