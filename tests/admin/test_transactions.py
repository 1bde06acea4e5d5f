"""Transactions as the admin client describes and ends them, against embedded brokers."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest

from aiokafka_lead._wire.messages.init_producer_id import InitProducerIdRequest
from aiokafka_lead.admin import AdminClient, TransactionState, outcomes_of
from aiokafka_lead.errors import (
    ConcurrentTransactionsError,
    ConfigError,
    CoordinatorLoadInProgressError,
    InvalidProducerEpochError,
    InvalidRegularExpressionError,
    KafkaError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    TransactionalIdNotFoundError,
    TransactionCoordinatorFencedError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafka_lead.testing import EmbeddedCluster
from aiokafka_lead.types import TopicPartition
from tests.patience import again_if_late
from tests.testing.raw import connected
from tests.testing.test_transactions import write

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

WHERE = TopicPartition("t", 0)


class World:
    """A cluster, an admin client, and a producer that leaves transactions open."""

    def __init__(self, stack: AsyncExitStack, **max_versions: int) -> None:
        self._stack = stack
        self.cluster = EmbeddedCluster(2)
        self.cluster.max_versions.update(max_versions)

    async def start(self) -> AdminClient:
        await self._stack.enter_async_context(self.cluster)
        self.cluster.create_topic("t", assignments=[[1, 2]])
        admin = AdminClient(self.cluster.bootstrap_servers, retry_backoff_ms=10, default_api_timeout_ms=10_000)
        return await self._stack.enter_async_context(admin)

    async def begin(self, transactional_id: str = "tx") -> tuple[int, int]:
        coordinator = self.cluster.transactions.coordinator(transactional_id)
        async with connected(self.cluster.address(coordinator)) as client:
            request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
            given = await client.call(request)
        assert given.error_code == 0
        return given.producer_id, given.producer_epoch

    async def write(self, producer: tuple[int, int], sequence: int = 0) -> int:
        async with connected(self.cluster.address(self.cluster.leader("t"))) as client:
            return await write(client, *producer, sequence)


async def test_transactions_are_listed_and_described() -> None:
    async with AsyncExitStack() as stack:
        world = World(stack)
        admin = await world.start()
        producer, other = await world.begin(), await world.begin("other")
        assert await world.write(producer) == 0
        listed = await admin.list_transactions()
        assert {name: (each.state, each.producer_id) for name, each in listed.items()} == {
            "tx": (TransactionState.ONGOING, producer[0]),
            "other": (TransactionState.EMPTY, other[0]),
        }
        for name, listing in listed.items():
            assert listing.coordinator_id == world.cluster.transactions.coordinator(name)
        assert set(await admin.list_transactions(states=[TransactionState.ONGOING])) == {"tx"}
        assert set(await admin.list_transactions(producer_ids=[other[0]])) == {"other"}
        assert set(await admin.list_transactions(transactional_id_pattern="o.*")) == {"other"}
        assert "tx" not in await admin.list_transactions(longer_than_ms=100_000)
        with pytest.raises(InvalidRegularExpressionError):
            await admin.list_transactions(transactional_id_pattern="(")
        described = await admin.describe_transactions(["tx", "other"])
        assert described["tx"].partitions == {WHERE}
        assert described["tx"].start_time_ms is not None
        assert (described["tx"].producer_id, described["tx"].producer_epoch) == producer
        assert (described["tx"].state, described["tx"].timeout_ms) == (TransactionState.ONGOING, 60_000)
        assert (described["other"].start_time_ms, described["other"].partitions) == (None, frozenset())
        with pytest.raises(TransactionalIdNotFoundError, match="nobody") as caught:
            await admin.describe_transactions(["tx", "nobody", "nothing"])
        assert caught.value.__notes__ == ["failed: nobody, nothing (1 others succeeded)"]


async def test_filters_that_the_brokers_do_not_know() -> None:
    async with AsyncExitStack() as stack:
        admin = await World(stack, ListTransactions=0).start()
        assert await admin.list_transactions() == {}
        with pytest.raises(UnsupportedVersionError, match="duration"):
            await admin.list_transactions(longer_than_ms=5)
        with pytest.raises(UnsupportedVersionError, match="pattern"):
            await admin.list_transactions(transactional_id_pattern="x")


@again_if_late(500, 5_000)
async def test_a_broker_that_fails_hides_no_transactional_ids_of_the_others(timeout_ms: int) -> None:
    async with AsyncExitStack() as stack:
        world = World(stack)
        admin = await world.start()
        world.cluster.transactions.move_coordinator("tx", 1)
        await world.begin("tx")
        world.cluster.faults.add("ListTransactions", broker=2, disconnect=True)
        found: dict[Any, Any] = {**await outcomes_of(admin.list_transactions(timeout_ms=timeout_ms))}
        assert found["tx"].coordinator_id == 1
        assert isinstance(found[2], RequestTimedOutError)


async def test_coordinators_that_move_or_load_are_followed() -> None:
    async with AsyncExitStack() as stack:
        world = World(stack, FindCoordinator=3)
        admin = await world.start()
        await world.begin()
        described = (await admin.describe_transactions(["tx"]))["tx"]
        world.cluster.transactions.move_coordinator("tx")
        moved = (await admin.describe_transactions(["tx"]))["tx"]
        assert moved.coordinator_id != described.coordinator_id
        for error in (NotCoordinatorError, CoordinatorLoadInProgressError):
            rule = world.cluster.faults.add("DescribeTransactions", error_code=error, count=2)
            assert await admin.describe_transactions(["tx"]) == {"tx": moved}
            assert rule.spent
        world.cluster.faults.add("DescribeTransactions", disconnect=True, count=1)
        assert await admin.describe_transactions(["tx"]) == {"tx": moved}


async def test_producers_of_a_partition() -> None:
    async with AsyncExitStack() as stack:
        world = World(stack)
        admin = await world.start()
        producer = await world.begin()
        assert await world.write(producer) == 0
        found = (await admin.describe_producers([WHERE]))[WHERE]
        assert [(each.producer_id, each.producer_epoch, each.last_sequence) for each in found] == [(*producer, 0)]
        assert (found[0].coordinator_epoch, found[0].transaction_start_offset) == (None, 0)
        assert await admin.describe_producers([WHERE], broker_id=2) == {WHERE: found}
        world.cluster.transactions.time_out("tx")
        [ended] = (await admin.describe_producers([WHERE]))[WHERE]
        assert (ended.coordinator_epoch, ended.transaction_start_offset) == (0, None)
        world.cluster.create_topic("alone", assignments=[[1]])
        with pytest.raises(NotLeaderOrFollowerError):
            await admin.describe_producers([TopicPartition("alone", 0)], broker_id=2)
        with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
            await admin.describe_producers([WHERE, TopicPartition("nowhere", 0)])


async def test_producers_are_fenced() -> None:
    async with AsyncExitStack() as stack:
        world = World(stack)
        admin = await world.start()
        producer = await world.begin()
        assert await world.write(producer) == 0
        world.cluster.transactions.marker_delay_ms = 30
        fenced = await admin.fence_producers(["tx", "new"])
        assert fenced["tx"] == (producer[0], producer[1] + 2)
        assert fenced["new"].producer_epoch == 0
        assert await world.write(producer, 1) == InvalidProducerEpochError.code
        assert world.cluster.requests.count("InitProducerId") > 3
        world.cluster.faults.add("InitProducerId", error_code=ConcurrentTransactionsError)
        with pytest.raises(RequestTimedOutError, match="tx"):
            await admin.fence_producers(["tx"], timeout_ms=200)


@again_if_late(1_000, 8_000)
async def test_an_attempt_without_an_answer_does_not_hide_the_reason(timeout_ms: int) -> None:
    async with AsyncExitStack() as stack:
        world = World(stack)
        admin = await world.start()
        await admin.fence_producers(["tx"])  # a busy machine may need long to find the coordinator
        world.cluster.faults.add("InitProducerId", error_code=ConcurrentTransactionsError, count=1)
        world.cluster.faults.add("InitProducerId", skip=1, drop=True)
        with pytest.raises(RequestTimedOutError, match=rf"within {timeout_ms} ms; the last try: .*tx") as caught:
            await admin.fence_producers(["tx"], timeout_ms=timeout_ms)
        assert isinstance(caught.value.__cause__, ConcurrentTransactionsError)


async def hang(world: World) -> tuple[int, int]:
    """Leave a transaction open that its coordinator has forgotten."""
    producer = await world.begin()
    assert await world.write(producer) == 0
    world.cluster.transactions.forget("tx")
    return producer


async def test_hanging_transactions_are_found_and_aborted() -> None:
    async with AsyncExitStack() as stack:
        world = World(stack)
        admin = await world.start()
        # A transaction that its coordinator knows does not hang, however old it is.
        assert await world.write(await world.begin()) == 0
        assert await admin.find_hanging_transactions(["t"], max_transaction_timeout_ms=0) == []
        world.cluster.transactions.time_out("tx")
        producer = await hang(world)
        assert await admin.find_hanging_transactions(["t"], max_transaction_timeout_ms=10**13) == []
        everywhere: list[dict[str, Any]] = [{"topics": ["t"]}, {"partitions": [WHERE]}, {"broker_id": 2}]
        for where in everywhere:
            [found] = await admin.find_hanging_transactions(**where, max_transaction_timeout_ms=0)
            assert (found.partition, found.start_offset) == (WHERE, 2)
            assert (found.producer.producer_id, found.producer.producer_epoch) == producer
        with pytest.raises(KafkaError, match="offset 5"):
            await admin.abort_transaction(WHERE, start_offset=5)
        await admin.abort_transaction(WHERE, start_offset=2)
        assert await admin.find_hanging_transactions(["t"], max_transaction_timeout_ms=0) == []


async def test_a_transaction_that_ends_while_it_is_looked_for_does_not_hang() -> None:
    async with AsyncExitStack() as stack:
        world = World(stack)
        admin = await world.start()
        assert await world.write(await world.begin()) == 0

        def end_it(_: object) -> bool:
            world.cluster.transactions.time_out("tx")
            return False

        world.cluster.faults.add("ListTransactions", when=end_it, error_code=CoordinatorLoadInProgressError)
        assert await admin.find_hanging_transactions(["t"], max_transaction_timeout_ms=0) == []
        assert world.cluster.requests.count("DescribeProducers") == 2


async def test_aborts_by_the_producer_s_epoch() -> None:
    async with AsyncExitStack() as stack:
        world = World(stack)
        admin = await world.start()
        assert await world.write(await world.begin()) == 0
        world.cluster.transactions.time_out("tx")
        producer_id, epoch = await hang(world)

        async def abort(at: int, coordinator_epoch: int = 0) -> None:
            await admin.abort_transaction(
                WHERE, producer_id=producer_id, producer_epoch=at, coordinator_epoch=coordinator_epoch
            )

        world.cluster.faults.add("WriteTxnMarkers", error_code=NotLeaderOrFollowerError, count=1)
        await abort(epoch, 3)
        [ended] = (await admin.describe_producers([WHERE]))[WHERE]
        assert (ended.coordinator_epoch, ended.transaction_start_offset) == (3, None)
        with pytest.raises(TransactionCoordinatorFencedError, match="t-0"):
            await abort(epoch, 2)
        with pytest.raises(InvalidProducerEpochError, match="t-0"):
            await abort(epoch - 1, 3)
        for given in (
            {},
            {"producer_id": 1},
            {"producer_epoch": 1},
            {"start_offset": 1, "producer_id": 1},
            {"start_offset": 1, "producer_epoch": 1},
        ):
            with pytest.raises(ConfigError, match="start_offset"):
                await admin.abort_transaction(WHERE, **given)
        with pytest.raises(ConfigError, match="topics"):
            await admin.find_hanging_transactions()
