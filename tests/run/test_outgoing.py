"""Records on their way to other topics leave together, in order."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from aiokafka_lead import ConsumerRecord, TimestampType
from aiokafka_lead._core.producer.delivery import Delivery
from aiokafka_lead._core.producer.outcome import BatchOutcome
from aiokafka_lead._core.run.options import Verdict
from aiokafka_lead._io.producer.waiting import Parking
from aiokafka_lead._io.run.outgoing import AT_ONCE, Outgoing, Sending
from aiokafka_lead.errors import KafkaError

pytestmark = pytest.mark.anyio

FAILED = LookupError()


class Desk:
    """Outgoing records, and the records that were sent or refused."""

    def __init__(self, expected: int) -> None:
        self.outgoing: Outgoing[int] = Outgoing(self._send, self._refused, lambda: None)
        self.sent: list[int] = []
        self.refused: list[int] = []
        self._expected = expected
        self._all = anyio.Event()

    async def _send(self, sending: Sending) -> Any:
        self.sent.append(sending.slot)
        raise KafkaError

    def _refused(self, sending: Sending, error: Exception) -> None:
        assert isinstance(error, KafkaError)
        self.refused.append(sending.slot)
        if len(self.refused) == self._expected:
            self._all.set()

    def add(self, number: int, error: BaseException | None = FAILED) -> None:
        self.outgoing.add(Sending(number, None, Verdict("later"), error))

    async def run(self) -> None:
        """Run until all records that are expected were sent."""
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.outgoing.run)
                await self._all.wait()
                tasks.cancel_scope.cancel()


@pytest.mark.parametrize("hurry", [False, True])
async def test_records_leave_in_order(hurry: bool) -> None:
    desk = Desk(3)
    for number in range(3):
        desk.add(number)
    assert desk.outgoing.slots == {0, 1, 2}
    if hurry:
        desk.outgoing.hurry()
    await desk.run()
    assert desk.sent == desk.refused == [0, 1, 2]


async def test_a_record_that_follows_another_takes_those_before_it_along() -> None:
    desk = Desk(2)
    desk.add(0)
    desk.add(1, None)
    await desk.run()
    assert desk.sent == [0, 1]


async def test_many_records_do_not_wait_for_more() -> None:
    desk = Desk(AT_ONCE + 1)
    for number in range(AT_ONCE + 1):
        desk.add(number)
    await desk.run()
    assert desk.sent == list(range(AT_ONCE + 1))


async def test_records_of_one_partition_that_are_answered_apart() -> None:
    """Though one function waits for both answers."""
    outcomes = [BatchOutcome("events.g.retry.1s", 0, Parking()) for _ in range(2)]
    told = anyio.Event()

    async def send(sending: Sending) -> Delivery:
        return Delivery(outcomes[sending.slot], 0, -1)

    def refused(sending: Sending, error: Exception) -> None:
        raise AssertionError

    def answered() -> None:
        told.set()

    outgoing: Outgoing[int] = Outgoing(send, refused, answered)
    record = ConsumerRecord("events", 0, 0, -1, TimestampType.CREATE_TIME, b"", b"", (), None)
    for slot in range(2):
        await outgoing.send(Sending(slot, record, Verdict("later"), FAILED))
    for slot in range(2):
        outcomes[slot].complete(7)
        with anyio.fail_after(20):
            await told.wait()
        told = anyio.Event()
        [(sending, delivery)] = outgoing.answers
        assert sending.slot == slot
        assert delivery.result().offset == 7
        outgoing.answers.clear()
