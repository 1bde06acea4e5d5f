"""Calls of a rebalance listener, its permitted actions, and listeners that fail or take long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from aiokafka_lead import OffsetAndMetadata, RebalanceListener, TopicPartition
from aiokafka_lead.consumer import Consumer
from aiokafka_lead.errors import ConfigTypeError, IllegalStateError, RebalanceListenerError
from aiokafka_lead.testing import EmbeddedCluster

from .support import ALL, Partitions, Recorder, fill, member, read_on, reading, shared, starting, until

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

EAGER = {"partition_assignment_strategy": ["range"]}


async def test_a_listener_hears_in_order_and_can_commit(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 5)

    class Committing(Recorder):
        async def on_partitions_revoked(self, partitions: Partitions) -> None:
            await one.commit({tp: OffsetAndMetadata(2, "by the listener") for tp in partitions})
            await super().on_partitions_revoked(partitions)

        async def on_partitions_assigned(self, partitions: Partitions) -> None:
            for tp in partitions:
                one.seek(tp, 4)
            await super().on_partitions_assigned(partitions)

    recorder = Committing()
    one = member(cluster, enable_auto_commit=False)
    one.subscribe(["events"], listener=recorder)
    async with one, reading(one) as got:
        await until(lambda: len(got) >= 6)
        assert {record.offset for record in got} == {4}
        async with member(cluster, "events") as two, reading(two):
            await until(lambda: shared([one, two]))
            taken = two.assignment()
            for tp in taken:
                assert await two.committed(tp) == OffsetAndMetadata(2, "by the listener")
        # Before the group has settled, the listener's final commit may be refused.
        await until(lambda: ("assigned", taken) in recorder.heard)
    assert recorder.heard[:2] == [("assigned", ALL), ("revoked", taken)]
    assert recorder.heard[-1] == ("revoked", ALL)


def test_names_that_are_nearly_a_listener_s_are_refused() -> None:
    class Misspelt(RebalanceListener):
        def on_partition_revoked(self, partitions: Partitions) -> None:
            pass

    consumer = Consumer(bootstrap_servers="localhost:9", group_id="g")
    with pytest.raises(ConfigTypeError, match="on_partition_revoked, which is never called"):
        consumer.subscribe(["events"], listener=Misspelt())
    consumer.subscribe(["events"], listener=RebalanceListener())


async def test_a_base_class_for_listeners(cluster: EmbeddedCluster) -> None:
    class Listener(RebalanceListener):
        def __init__(self) -> None:
            self.revoked: list[Partitions] = []

        async def on_partitions_revoked(self, partitions: Partitions) -> None:
            self.revoked.append(partitions)

    listener = Listener()
    consumer = member(cluster)
    consumer.subscribe(["events"], listener=listener)
    async with consumer:
        lost = listener.on_partitions_lost(ALL)  # by default as if they were revoked
        assert lost is not None
        await lost
    assert listener.revoked == [ALL, ALL]


async def test_a_listener_that_fails_is_told_to_the_reader(cluster: EmbeddedCluster) -> None:
    class Failing:
        def on_partitions_assigned(self, partitions: Partitions) -> None:
            raise ZeroDivisionError

    consumer = member(cluster)
    consumer.subscribe(["events"], listener=Failing())
    async with consumer:
        with anyio.fail_after(20), pytest.raises(RebalanceListenerError, match="on_partitions_assigned") as caught:
            await consumer.getone()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        await until(lambda: consumer.assignment() == ALL)
        await fill(cluster, 1)
        with anyio.fail_after(20):
            await consumer.getone()


class AwaitsWhatWasCancelled:
    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.cancel()
        await future


class CancelsItsTask:
    def on_partitions_revoked(self, partitions: Partitions) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("failing", [AwaitsWhatWasCancelled, CancelsItsTask])
async def test_a_listener_whose_own_work_was_cancelled_has_failed(
    cluster: EmbeddedCluster, failing: type[object]
) -> None:
    """asyncio raises the same error as for a cancelled task, but rebalances have to continue."""
    one = member(cluster)
    one.subscribe(["events"], listener=failing())
    async with one:
        async with reading(one):
            await until(lambda: one.assignment() == ALL)
        async with member(cluster, "events") as two, reading(two):
            with anyio.fail_after(20), pytest.raises(RebalanceListenerError, match="CancelledError"):
                await read_on(one)
            async with reading(one):
                await until(lambda: shared([one, two]))


async def test_a_timeout_of_the_listeners_own_is_told_as_such(cluster: EmbeddedCluster) -> None:
    class Failing:
        async def on_partitions_assigned(self, partitions: Partitions) -> None:
            raise TimeoutError("of the database")

    consumer = member(cluster)
    consumer.subscribe(["events"], listener=Failing())
    async with consumer:
        with anyio.fail_after(20), pytest.raises(RebalanceListenerError, match="of the database"):
            await consumer.getone()


class Stuck:
    """A listener that does not return from one of its callbacks."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.called = anyio.Event()
        self.cancelled = False

    async def _wait(self, where: str) -> None:
        if where != self.where:
            return
        self.called.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.cancelled = True

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        await self._wait("assigned")

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        await self._wait("revoked")


async def test_a_callback_has_the_rebalance_timeout_and_no_longer(cluster: EmbeddedCluster) -> None:
    listener = Stuck("assigned")
    consumer = member(cluster, rebalance_timeout_ms=300)
    consumer.subscribe(["events"], listener=listener)
    async with consumer:
        with (
            anyio.fail_after(20),
            pytest.raises(RebalanceListenerError, match="of the listener did not return within"),
        ):
            await consumer.getone()
        assert listener.cancelled


@pytest.mark.parametrize("where", ["assigned", "revoked"])
async def test_stop_ends_a_callback_and_leaves_the_group_nevertheless(cluster: EmbeddedCluster, where: str) -> None:
    listener = Stuck(where)
    one, two = member(cluster, **EAGER), member(cluster, "events", **EAGER)
    one.subscribe(["events"], listener=listener)
    async with starting(one):
        if where == "revoked":
            await until(lambda: one.assignment() == ALL)
        async with starting(two), reading(two):
            with anyio.fail_after(20):
                await listener.called.wait()
                await one.stop(timeout_ms=15_000)
            assert listener.cancelled
            assert cluster.requests.select("LeaveGroup")
            await until(lambda: two.assignment() == ALL)


async def test_a_callback_cannot_stop_its_consumer(cluster: EmbeddedCluster) -> None:
    """Leaving the group would wait for the callback, and the callback for the stop."""

    class Stopping:
        async def on_partitions_assigned(self, partitions: Partitions) -> None:
            await consumer.stop()

    consumer: Consumer[Any, Any] = member(cluster)
    consumer.subscribe(["events"], listener=Stopping())
    async with consumer:
        with anyio.fail_after(20), pytest.raises(RebalanceListenerError) as caught:
            await consumer.getone()
        assert isinstance(caught.value.__cause__, IllegalStateError)
        await until(lambda: consumer.assignment() == ALL)


READS: dict[str, Callable[[Consumer[Any, Any]], Awaitable[object]]] = {
    "getone": lambda consumer: consumer.getone(),
    "getmany": lambda consumer: consumer.getmany(timeout_ms=60_000),
    "iteration": lambda consumer: anext(aiter(consumer)),
    "batches": lambda consumer: anext(aiter(consumer.batches())),
    "run": lambda consumer: consumer.run(_ignore),
    "wait_ready": lambda consumer: consumer.wait_ready(),
}


async def _ignore(record: Any) -> None:
    pass


@pytest.mark.parametrize("how", READS)
async def test_a_callback_cannot_read(cluster: EmbeddedCluster, how: str) -> None:
    """It would wait for itself, until the rebalance timeout."""
    heard: list[str] = []

    class Reading:
        async def on_partitions_assigned(self, partitions: Partitions) -> None:
            await self._read("assigned")

        async def on_partitions_revoked(self, partitions: Partitions) -> None:
            await self._read("revoked")

        async def _read(self, where: str) -> None:
            if len(heard) == 3:
                return  # the consumer is being stopped, which ends reads
            with pytest.raises(IllegalStateError, match="a listener's callback cannot"):
                await READS[how](consumer)
            heard.append(where)

    consumer: Consumer[Any, Any] = member(cluster)
    consumer.subscribe(["events"], listener=Reading())
    with anyio.fail_after(20):
        async with consumer:
            cluster.create_topic("others", partitions=1)
            consumer.subscribe(["others"], listener=Reading())
            async with reading(consumer):
                await until(lambda: consumer.assignment() == {TopicPartition("others", 0)} and len(heard) == 3)
    assert heard == ["assigned", "revoked", "assigned"]


async def test_a_callback_can_do_everything_else(cluster: EmbeddedCluster) -> None:
    """Its requests go to brokers, and do not wait for a rebalance."""
    done: list[object] = []

    class Asking:
        async def on_partitions_assigned(self, partitions: Partitions) -> None:
            first = min(partitions)
            done.append(await consumer.position(first))
            done.append(await consumer.committed(first))
            await consumer.seek_to_end(first)
            consumer.seek(first, 0)
            await consumer.seek_to_committed(first)
            await consumer.commit({first: 0})
            done.append(await consumer.end_offsets([first]))

        async def on_partitions_revoked(self, partitions: Partitions) -> None:
            first = min(partitions)
            done.append(await consumer.position(first))
            await consumer.commit()

    consumer: Consumer[Any, Any] = member(cluster)
    consumer.subscribe(["events"], listener=Asking())
    with anyio.fail_after(20):
        async with consumer:
            await until(lambda: consumer.assignment() == ALL)
    assert done == [0, None, {min(ALL): 0}, 0]
