"""One outcome for a whole batch, seen by each record."""

from __future__ import annotations

import gc
import sys
import weakref

import anyio
import anyio.lowlevel
import pytest

from aiokafka_lead._core.producer.delivery import Delivery, DeliveryBatch
from aiokafka_lead._core.producer.outcome import BatchOutcome, Part
from aiokafka_lead._io.producer.waiting import Parking
from aiokafka_lead.errors import IllegalStateError, InvalidRecordError, MessageTooLargeError
from aiokafka_lead.types import RecordMetadata

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


def outcome() -> BatchOutcome:
    parking = Parking()
    parking.start()
    return BatchOutcome("t", 3, parking)


async def test_done_deliveries_do_not_suspend() -> None:
    whole = outcome()
    whole.complete(100)
    assert await Delivery(whole, 7, 55) == RecordMetadata("t", 3, 107, 55)
    assert whole.waiter is None


async def test_done_delivery_can_be_awaited_under_a_debugger() -> None:
    whole = outcome()
    delivery = Delivery(whole, 7, 55)
    with pytest.raises(TypeError):
        next(delivery)  # type: ignore[call-overload]
    whole.complete(100)
    failed = outcome()
    failed.fail(InvalidRecordError("no"))
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        found = await delivery
        with pytest.raises(InvalidRecordError, match="no"):
            await Delivery(failed, 0, 1)
    finally:
        sys.settrace(before)
    assert found == await delivery == RecordMetadata("t", 3, 107, 55)


async def test_result_before_and_after() -> None:
    whole = outcome()
    delivery = Delivery(whole, 0, 1)
    assert not delivery.done()
    with pytest.raises(IllegalStateError, match="await the delivery"):
        delivery.result()
    assert repr(delivery) == "<Delivery t-3 pending>"
    whole.complete(5, 999)
    assert delivery.result() == RecordMetadata("t", 3, 5, 999)
    assert repr(delivery) == "<Delivery t-3 acknowledged>"
    assert (delivery.timestamp_ms, delivery.topic, delivery.partition) == (1, "t", 3)


async def test_offset_may_be_unknown() -> None:
    whole = outcome()
    whole.complete(-1)
    assert (await Delivery(whole, 7, 55)).offset == -1


async def test_error_of_all_and_of_one() -> None:
    whole = outcome()
    own = InvalidRecordError("record 1 is wrong")
    whole.fail(InvalidRecordError("not written"), {1: own})
    with pytest.raises(InvalidRecordError, match="record 1"):
        await Delivery(whole, 1, 0)
    with pytest.raises(InvalidRecordError, match="not written"):
        await Delivery(whole, 0, 0)


async def test_traceback_does_not_grow_with_each_await() -> None:
    whole = outcome()
    whole.fail(InvalidRecordError("no"))
    depths = []
    for _ in range(3):
        with pytest.raises(InvalidRecordError) as caught:
            await Delivery(whole, 0, 0)
        depths.append(len(caught.traceback))
    assert depths[0] == depths[2]


async def test_divided_twice() -> None:
    whole, left, right, inner = outcome(), outcome(), outcome(), outcome()
    deliveries = [Delivery(whole, index, index) for index in range(6)]
    whole.divide([Part(0, left, 0), Part(4, right, 10)])
    left.divide([Part(0, inner, 2), Part(3, right, 20)])
    inner.complete(100)
    right.complete(1000)
    assert [(await delivery).offset for delivery in deliveries] == [102, 103, 104, 1020, 1010, 1011]


async def test_many_records_one_outcome_each() -> None:
    first, second, piece = outcome(), outcome(), outcome()
    batch = DeliveryBatch()
    batch.add(first, 5, 2, 9)
    batch.add_failed(MessageTooLargeError("too large"))
    batch.add(second, 0, 2, 1)
    batch.add_delivery(Delivery(second, 2, 3))
    batch.add_delivery(Delivery(second, 3, 3))
    assert len(batch) == 7
    done = [batch.done()]
    first.complete(10)
    done.append(batch.done())
    second.divide([Part(0, piece, 0)])
    done.append(batch.done())
    piece.complete(50)
    assert [*done, batch.done()] == [False, False, False, True]
    results = await batch
    assert isinstance(results[2], MessageTooLargeError)
    assert [r.offset for r in results if isinstance(r, RecordMetadata)] == [15, 16, 50, 51, 52, 53]
    assert [r.timestamp_ms for r in results if isinstance(r, RecordMetadata)] == [9, 9, 1, 1, 3, 3]


async def test_error_that_was_raised_keeps_nothing_alive() -> None:
    class Caller:
        pass

    async def fails(delivery: Delivery, caller: Caller) -> None:
        with pytest.raises(InvalidRecordError) as caught:
            await delivery
        assert caught.value.__cause__ is cause
        assert caught.value.broker == "1 (h:1)"

    whole = outcome()
    cause = ValueError("why")
    shared = InvalidRecordError("wrong", broker="1 (h:1)")
    shared.__cause__ = cause
    whole.fail(shared)
    caller = Caller()
    seen = weakref.ref(caller)
    delivery = Delivery(whole, 0, 1)
    await fails(delivery, caller)
    del caller
    gc.collect()
    assert seen() is None
    assert shared.__traceback__ is None


async def test_callbacks_are_called_by_the_event_loop_once_done() -> None:
    whole, left, right = outcome(), outcome(), outcome()
    first, second = Delivery(whole, 0, 0), Delivery(whole, 1, 0)
    called: list[Delivery] = []
    first.add_done_callback(called.append)
    second.add_done_callback(called.append)
    second.add_done_callback(called.append)
    assert second.remove_done_callback(called.append) == 2
    second.add_done_callback(called.append)
    whole.divide([Part(0, left, 0), Part(1, right, 0)])
    await anyio.lowlevel.checkpoint()
    right.complete(7)
    assert not called, "callbacks wait for the event loop"
    await anyio.wait_all_tasks_blocked()
    assert called == [second]
    left.fail(InvalidRecordError("no"))
    await anyio.wait_all_tasks_blocked()
    first.add_done_callback(called.append)
    await anyio.wait_all_tasks_blocked()
    assert called == [second, first, first]
    assert isinstance(first.exception(), InvalidRecordError)
    assert second.exception() is None


async def test_a_callback_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    whole = outcome()
    delivery = Delivery(whole, 0, 0)
    called: list[Delivery] = []
    delivery.add_done_callback(lambda _: 1 / 0)
    delivery.add_done_callback(called.append)
    whole.complete(7)
    await anyio.wait_all_tasks_blocked()
    assert called == [delivery]
    assert "a done callback of a delivery raised an exception" in caplog.text


async def test_a_record_cannot_be_called_back() -> None:
    delivery = Delivery(outcome(), 0, 0)
    assert not delivery.cancel()
    assert not delivery.cancelled()
    with pytest.raises(IllegalStateError, match="await the delivery"):
        delivery.exception()


async def test_a_batch_as_one() -> None:
    first, second, left, right = outcome(), outcome(), outcome(), outcome()
    batch = DeliveryBatch()
    batch.add(first, 0, 2, 9)
    batch.add_delivery(Delivery(second, 0, 3))
    batch.add(second, 1, 2, 4)
    assert batch.first().place == (first, 0)
    with pytest.raises(IllegalStateError, match="await the batch"):
        batch.exception()
    called: list[DeliveryBatch] = []
    batch.add_done_callback(called.append)
    batch.add_done_callback(called.append)
    assert batch.remove_done_callback(called.append) == 2
    assert batch.remove_done_callback(called.append) == 0
    ended = anyio.Event()
    batch.add_done_callback(lambda _: ended.set())
    first.complete(10)
    second.divide([Part(0, left, 0), Part(2, right, 0)])
    left.complete(20)
    await anyio.wait_all_tasks_blocked()
    assert not ended.is_set()
    right.fail(InvalidRecordError("the last one"))
    with anyio.fail_after(10):
        await ended.wait()
    assert not called
    assert batch.remove_done_callback(called.append) == 0
    assert str(batch.exception()) == "the last one"
    assert (await batch.first()).offset == 10


async def test_no_record_of_a_batch_failed() -> None:
    whole = outcome()
    batch = DeliveryBatch()
    batch.add_delivery(Delivery(whole, 4, 3))
    batch.add(whole, 5, 2, 4)
    whole.complete(10)
    assert batch.exception() is None
    assert batch.first().result().offset == 14


async def test_tasks_that_were_cancelled_are_not_woken() -> None:
    whole = outcome()
    delivery = Delivery(whole, 0, 0)
    found: list[int] = []

    async def wait() -> None:
        found.append((await delivery).offset)

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        for _ in range(2):
            with anyio.move_on_after(0):
                await delivery
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        whole.complete(7)
    assert found == [7, 7]
