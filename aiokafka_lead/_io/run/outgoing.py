"""Records of a run on their way to dead-letter and retry topics."""

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
"""Time for which records wait to be sent together: a request takes more time than several records in it."""

AT_ONCE = 200
"""Number of records that do not wait for more."""


class Sending(NamedTuple):
    """Record on its way to another topic. It keeps its slot, and so stays in hand, until it is written there."""

    slot: Any
    """None in a transaction, whose end settles its records."""
    record: Any
    verdict: Verdict
    error: BaseException | None = None
    """Its handler's error; None for a record that was not handled, since it follows another one."""
    attempts: int = 0
    brief: bool = False
    """True for a dead letter whose description made it too large."""


Sent = tuple[Sending, "Delivery"]


class Outgoing(Generic[S]):
    """Sends records to other topics, several at once. They stay in hand until they are written there."""

    def __init__(
        self,
        send: Callable[[Sending], Awaitable[Delivery]],
        refused: Callable[[Sending, Exception], None],
        answered: Callable[[], None],
    ) -> None:
        """``refused`` is called with the error of ``send``, and ``answered`` if `answers` has news."""
        self._send = send
        self._refused = refused
        self._on_answer = answered
        self.slots: set[S] = set()
        """Slots of these records."""
        self.answers: deque[Sent] = deque()
        """Records that brokers have accepted or refused."""
        self._sent: dict[object, list[Sent]] = {}
        """Records that have been sent, by partition; the first of each list has a callback for all."""
        self._waiting: list[Sending] = []
        """Records that have not been sent yet."""
        self._send_at = math.inf
        """Time at which they are sent (``time.monotonic()``)."""
        self._changed = Signal()
        """Set when that time has changed."""

    def add(self, sending: Sending) -> None:
        """Send a record soon."""
        self.slots.add(sending.slot)
        self._waiting.append(sending)
        # The next record of the key cannot be sent before this one is written: a wait for each would add up.
        if sending.error is None or len(self._waiting) >= AT_ONCE:
            self.hurry()
        elif len(self._waiting) == 1:
            self._send_at = time.monotonic() + TOGETHER_S
            self._changed.set()

    def hurry(self) -> None:
        """Send at once, since no other records may come."""
        if self._waiting:
            self._send_at = 0.0
            self._changed.set()

    async def run(self) -> None:
        """Send records in time, without waiting until they are written, until cancelled."""
        while True:
            left_s = self._send_at - time.monotonic()
            if left_s > 0:
                await self._changed.wait(None if left_s == math.inf else left_s)
                continue
            leaving, self._waiting, self._send_at = self._waiting, [], math.inf
            for sending in leaving:
                await self.send(sending)

    async def send(self, sending: Sending) -> None:
        """Send one of these records now; a task cancelled meanwhile may send it twice."""
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
        """Have a task settle these: a connection calls it outside of any, where no worker can be made."""
        for sending, delivery in self._sent.pop(way):
            if delivery.done():
                self.answers.append((sending, delivery))
            else:
                self._expect_answer(way, sending, delivery)
        self._on_answer()


def _way(sending: Sending) -> object:
    """Return the same for records that go to the same partition, whose answers come together."""
    if sending.verdict.fate != "later":
        return sending.slot
    return sending.record.topic, sending.record.partition, sending.verdict
