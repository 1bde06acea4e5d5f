"""Controls of an embedded cluster's transactions."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from aiokafka_lead import errors
from aiokafka_lead._wire import Request
from aiokafka_lead._wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from aiokafka_lead._wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from aiokafka_lead._wire.messages.api_versions import ApiVersionsRequest
from aiokafka_lead._wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from aiokafka_lead._wire.messages.init_producer_id import InitProducerIdRequest
from aiokafka_lead._wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from aiokafka_lead._wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster
from aiokafka_lead.types import TopicPartition

from ..patience import again_if_late
from .raw import RawClient, connected
from .test_transactions import commit_offset, write

pytestmark = pytest.mark.anyio

CONCURRENT = errors.ConcurrentTransactionsError.code


async def begin(client: RawClient, transactional_id: str = "tx") -> tuple[int, int]:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    given = await client.call(request)
    assert given.error_code == 0
    return given.producer_id, given.producer_epoch


def ending(producer: tuple[int, int], *, committed: bool = True) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id="tx", producer_id=producer[0], producer_epoch=producer[1], committed=committed
    )


def adding(producer: tuple[int, int]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
    )


async def test_markers_take_the_time_that_a_test_gives_them() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        assert cluster.transactions.view("tx") is None
        cluster.transactions.marker_delay_ms = None
        producer = await begin(client)
        assert await write(client, *producer, 0) == 0
        view = cluster.transactions.view("tx")
        assert view == ("Ongoing", *producer, (TopicPartition("t", 0),), ())
        ended = await client.call(ending(producer))
        after = ended.producer_id, ended.producer_epoch
        assert after == (producer[0], 1)
        # All requests outside the transaction have to wait; Produce does so in the broker for a while.
        for committed in (True, False):
            assert (await client.call(ending(producer, committed=committed))).error_code == CONCURRENT
            assert (await client.call(ending(after, committed=committed))).error_code == CONCURRENT
        assert await write(client, *after, 0) == CONCURRENT
        assert await write(client, *after, 0, version=11) == errors.NotEnoughReplicasError.code
        assert (await client.call(commit_offset(cluster, *after, 7))).topics[0].partitions[0].error_code == CONCURRENT
        request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000)
        assert (await client.call(request)).error_code == CONCURRENT
        view = cluster.transactions.view("tx")
        assert view == ("PrepareCommit", *after, (TopicPartition("t", 0),), ())
        assert cluster.end_offset("t") == 1
        cluster.transactions.write_markers()
        assert cluster.end_offset("t") == 2
        assert await write(client, *after, 0) == 0


@again_if_late(30, 30, 30)
async def test_markers_that_come_while_a_write_waits_for_them_are_not_noticed(delay_ms: int) -> None:
    """A broker delays the next write for 100 ms."""
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        cluster.transactions.marker_delay_ms = delay_ms
        producer = await begin(client)
        assert await write(client, *producer, 0) == 0
        ended = await client.call(ending(producer))
        assert await write(client, ended.producer_id, ended.producer_epoch, 0) == 0
        assert [record.offset for record in cluster.records("t")] == [0, 2]


async def test_a_timeout_without_the_wait() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        producer = await begin(client)
        assert not cluster.transactions.time_out("tx")
        assert await write(client, *producer, 0) == 0
        assert cluster.transactions.time_out("tx")
        view = cluster.transactions.view("tx")
        assert view is not None
        assert (view.state, view.epoch) == ("CompleteAbort", 1)
        assert await write(client, *producer, 1) == errors.InvalidProducerEpochError.code


async def test_a_feature_is_raised_and_lowered() -> None:
    software = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    async with (
        EmbeddedCluster(brokers=1, features={"transaction.version": 0}) as cluster,
        connected(cluster.address(1)) as client,
    ):

        async def finalized() -> tuple[int, dict[str, int]]:
            answer = await client.call(software)
            return answer.finalized_features_epoch, {
                each.name: each.max_version_level for each in answer.finalized_features
            }

        epoch, levels = await finalized()
        assert "transaction.version" not in levels
        assert "group.version" in levels
        cluster.set_feature("transaction.version", 2)
        assert await finalized() == (epoch + 1, {**levels, "transaction.version": 2})
        assert cluster.features == {**levels, "transaction.version": 2}
        cluster.set_feature("transaction.version", 2)
        assert (await finalized())[0] == epoch + 1
        lower = FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=2)
        assert (await client.call(UpdateFeaturesRequest(feature_updates=[lower]))).error_code == 0
        assert (await finalized())[1]["transaction.version"] == 1
        # The coordinator's aborts have the lower version from then on: the producer cannot come back.
        cluster.create_topic("t")
        producer = await begin(client)
        assert await write(client, *producer, 0) == 0
        cluster.transactions.time_out("tx")
        resumed = InitProducerIdRequest(
            transactional_id="tx", transaction_timeout_ms=1000, producer_id=producer[0], producer_epoch=producer[1]
        )
        assert (await client.call(resumed)).error_code == errors.ProducerFencedError.code


async def test_the_coordinator_moves() -> None:
    async with EmbeddedCluster(brokers=2) as cluster:
        first = cluster.transactions.coordinator("tx")
        assert cluster.transactions.move_coordinator("tx", first) == first
        second = cluster.transactions.move_coordinator("tx")
        assert second != first
        async with connected(cluster.address(first)) as old, connected(cluster.address(second)) as new:
            request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000)
            assert (await old.call(request)).error_code == errors.NotCoordinatorError.code
            assert (await new.call(request)).error_code == 0
        with pytest.raises(errors.ConfigError, match="to must be one of"):
            cluster.transactions.move_coordinator("tx", 9)


async def test_a_coordinator_that_stops_takes_no_transaction_with_it() -> None:
    async with EmbeddedCluster(brokers=2) as cluster:
        coordinator = cluster.transactions.coordinator("tx")
        leader = 3 - coordinator
        cluster.create_topic("t", assignments=[[leader]])
        async with connected(cluster.address(coordinator)) as client:
            producer = await begin(client)
        async with connected(cluster.address(leader)) as client:
            assert await write(client, *producer, 0) == 0
            await cluster.stop_broker(coordinator)
            # Its slots move to the remaining broker, with all their state.
            assert await write(client, *producer, 1) == 0


async def test_offsets_that_are_decided_late_undo_nothing() -> None:
    """They count in the order in which they were committed, whenever their transactions end."""
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        first, second = await begin(client), await begin(client, "other")
        assert (await client.call(commit_offset(cluster, *first, 5))).topics[0].partitions[0].error_code == 0
        late = commit_offset(cluster, *second, 9)
        late.transactional_id = "other"
        assert (await client.call(late)).topics[0].partitions[0].error_code == 0
        end_second = ending(second)
        end_second.transactional_id = "other"
        for request in (end_second, ending(first)):
            assert (await client.call(request)).error_code == 0
        wanted = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
        group = OffsetFetchRequestGroup(group_id="g", topics=[wanted])
        response = await client.call(OffsetFetchRequest(groups=[group], require_stable=True), 9)
        assert response.groups[0].topics[0].partitions[0].committed_offset == 9


@pytest.mark.parametrize(("version", "stolen"), [(4, True), (5, False)])
async def test_an_end_that_the_network_holds_until_the_next_transaction_runs(version: int, stolen: bool) -> None:
    """KAFKA-17754: in version 1 it ends the next transaction; in version 2 each transaction has a separate epoch."""
    produce = 11 if version == 4 else 12
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        producer = await begin(client)
        if version == 4:
            await client.call(adding(producer), 3)
        assert await write(client, *producer, 0, version=produce) == 0
        rule = cluster.faults.add("EndTxn", hold=True, count=1)
        async with connected(cluster.address(1)) as lost:
            await lost.send(ending(producer), version)
            await cluster.wait_for_requests("EndTxn")
        ended = await client.call(ending(producer), version)
        assert ended.error_code == 0
        if version == 4:
            await client.call(adding(producer), 3)
        after = producer if version == 4 else (ended.producer_id, ended.producer_epoch)
        assert await write(client, *after, 1 if version == 4 else 0, version=produce) == 0
        with anyio.fail_after(20):
            while cluster.connection_count(1) > 1:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        rule.release()
        view = cluster.transactions.view("tx")
        assert view is not None
        assert view.state == ("CompleteCommit" if stolen else "Ongoing")


async def test_an_answer_that_is_held() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        producer = await begin(client)
        assert await write(client, *producer, 0) == 0
        rule = cluster.faults.add("EndTxn", hold=True, after=True, count=1)
        sent = await client.send(ending(producer))
        await cluster.wait_for_requests("EndTxn")
        assert cluster.end_offset("t") == 2
        rule.remove()
        correlation_id, ended = await client.receive(EndTxnRequest.RESPONSE, EndTxnRequest.MAX_VERSION)
        assert isinstance(ended, EndTxnResponse)
        assert (correlation_id, ended.producer_epoch) == (sent, 1)


@pytest.mark.parametrize(
    "request_type",
    [InitProducerIdRequest, AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, EndTxnRequest],
    ids=lambda request_type: request_type.NAME,
)
async def test_every_answer_can_be_refused_cut_and_lost(request_type: type[Request[Any]]) -> None:
    async with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("t")
        async with connected(cluster.address(1)) as client:
            producer = await begin(client)

            def asked() -> Request[Any]:
                if request_type is InitProducerIdRequest:
                    return InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000)
                if request_type is AddPartitionsToTxnRequest:
                    return adding(producer)
                if request_type is AddOffsetsToTxnRequest:
                    return AddOffsetsToTxnRequest(
                        transactional_id="tx", producer_id=producer[0], producer_epoch=producer[1], group_id="g"
                    )
                return ending(producer, committed=False)

            version = 3
            cluster.faults.add(request_type, error_code=errors.TransactionAbortableError, count=1)
            answer = await client.call(asked(), version)
            if request_type is AddPartitionsToTxnRequest:
                code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            else:
                code = answer.error_code
            assert code == errors.TransactionAbortableError.code
            cluster.faults.add(request_type, after=True, disconnect=True, count=1)
            with pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
                await client.call(asked(), version)
        assert cluster.requests.count(request_type) == 2 + (request_type is InitProducerIdRequest)


def test_the_controls_from_another_thread() -> None:
    with ClusterThread(EmbeddedCluster(1)) as cluster:
        assert cluster.transactions.view("tx") is None
        assert cluster.transactions.coordinator("tx") == 1
        cluster.transactions.marker_delay_ms = 5
        assert cluster.transactions.marker_delay_ms == 5
        cluster.transactions.write_markers()
        cluster.set_feature("transaction.version", 1)
        assert cluster.features["transaction.version"] == 1
        rule = cluster.faults.add("EndTxn", hold=True)
        cluster.release(rule)
    with pytest.raises(errors.ConfigError):
        EmbeddedCluster(1).transactions.marker_delay_ms = -1
