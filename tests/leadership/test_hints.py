"""Rules 1 to 10: leader hints that producers and consumers follow alike."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import anyio
import pytest

from aiokafka_lead import Producer, TopicPartition
from aiokafka_lead._wire import decode_response, encode_response
from aiokafka_lead._wire.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from aiokafka_lead.testing import HTTP_ANSWER, TLS_ALERT, EmbeddedCluster, Hint

from .support import (
    ALWAYS,
    NEVER,
    NOT_LEADER,
    T0,
    asked,
    consumer_of,
    fill,
    garbage_server,
    next_number,
    producer_of,
    until,
    values,
)

pytestmark = pytest.mark.anyio

BRIEF: dict[str, Any] = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 40}


async def send(producer: Producer, number: int, partition: int = 0, topic: str = "t") -> None:
    with anyio.fail_after(20):
        await producer.send_and_wait(topic, b"%d" % number, partition=partition)


# --- rule 1 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "incomplete"),
    [(Hint(leader_id=-1), 1), (Hint(leader_epoch=-1), 1), (Hint(leader_id=-1, leader_epoch=-1), 0)],
    ids=["no leader", "no epoch", "nothing"],
)
async def test_rule_1_a_hint_without_leader_or_epoch(cluster: EmbeddedCluster, hint: Hint, incomplete: int) -> None:
    """It is counted; without both there is no hint. Metadata brings the leader instead, and no record is lost."""
    async with producer_of(cluster, **BRIEF) as producer, consumer_of(cluster, "t", **BRIEF) as consumer:
        await send(producer, 0)
        assert await next_number(consumer) == 0
        for api in ("Produce", "Fetch"):
            cluster.faults.add(api, topic="t", error_code=NOT_LEADER, count=1)
            cluster.faults.add(api, hint=hint, count=1)
        await send(producer, 1)
        assert await next_number(consumer) == 1
        await until(lambda: consumer.metrics().fetch_errors == {NOT_LEADER: 1})
        for metrics in (producer.metrics().metadata, consumer.metrics().metadata):
            assert (metrics.hints_received, metrics.hints_rejected_incomplete) == (incomplete, incomplete)
            assert metrics.hints_accepted == 0
    assert values(cluster) == [0, 1]


async def test_rule_1_older_versions_have_no_hints(cluster: EmbeddedCluster) -> None:
    cluster.max_versions = {"Produce": 9, "Fetch": 15}
    async with producer_of(cluster, **BRIEF) as producer, consumer_of(cluster, "t", **BRIEF) as consumer:
        await send(producer, 0)
        assert await next_number(consumer) == 0
        cluster.move_leader("t")
        await send(producer, 1)
        assert await next_number(consumer) == 1
        assert producer.metrics().metadata.hints_received == 0
        assert consumer.metrics().metadata.hints_received == 0


async def test_rule_1_a_fenced_epoch_brings_a_hint_as_well(cluster: EmbeddedCluster) -> None:
    """The same leader, re-elected: the broker that refuses names itself, with a new epoch."""
    async with consumer_of(cluster, "t", **NEVER) as consumer:
        await fill(cluster, 1)
        assert await next_number(consumer) == 0
        cluster.freeze_metadata(ALWAYS)
        cluster.move_leader("t", to=1)
        await fill(cluster, 1, first=1)
        assert await next_number(consumer) == 1
        assert consumer.metrics().fetch_errors == {74: 1}
        assert consumer.metrics().metadata.hints_accepted == 1


# --- rules 2 to 5 ----------------------------------------------------------------------------------------------------


async def test_rule_2_a_hint_that_is_no_news_is_not_followed(cluster: EmbeddedCluster) -> None:
    """Another leader with the known epoch, named by a leader that keeps the leadership."""
    async with producer_of(cluster, **BRIEF) as producer, consumer_of(cluster, "t", **BRIEF) as consumer:
        await send(producer, 0)
        assert await next_number(consumer) == 0
        for api in ("Produce", "Fetch"):
            cluster.faults.add(api, topic="t", error_code=NOT_LEADER, count=1)
            cluster.faults.add(api, hint=Hint(leader_id=3), count=1)
        await send(producer, 1)
        assert await next_number(consumer) == 1
        await until(lambda: consumer.metrics().metadata.hints_rejected_stale == 1)
        assert producer.metrics().metadata.hints_rejected_stale == 1
        assert not asked(cluster, "Produce", broker=3)
        assert not asked(cluster, "Fetch", broker=3)


async def test_rule_3_a_leader_of_unknown_address_is_not_followed(cluster: EmbeddedCluster) -> None:
    async with producer_of(cluster, **BRIEF) as producer:
        await send(producer, 0)
        cluster.faults.add("Produce", hint=Hint(leader_id=77, endpoint=()), count=1)
        cluster.move_leader("t")
        await send(producer, 1)
        assert producer.metrics().metadata.hints_rejected_no_address == 1
    assert values(cluster) == [0, 1]


async def test_rule_3_an_address_may_be_known_already(cluster: EmbeddedCluster) -> None:
    async with producer_of(cluster, **NEVER) as producer:
        await send(producer, 0)
        cluster.freeze_metadata(ALWAYS)
        cluster.faults.add("Produce", hint=Hint(endpoint=()), count=1)
        cluster.move_leader("t", to=3)
        await send(producer, 1)
        assert len(asked(cluster, "Produce", broker=3)) == 1


def with_a_hint_about_an_unknown_topic(frame: bytes) -> bytes:
    """Return a Produce answer that includes a topic outside the request."""
    version = ProduceResponse.MAX_VERSION
    correlation_id, response = decode_response(ProduceResponse, version, frame[4:])
    refusal = PartitionProduceResponse(
        index=5, error_code=NOT_LEADER, base_offset=-1, current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=9)
    )
    response.responses.append(TopicProduceResponse(topic_id=uuid4(), partition_responses=[refusal]))
    return b"".join(encode_response(response, version, correlation_id))


async def test_rule_4_a_hint_about_an_unknown_topic_is_ignored(cluster: EmbeddedCluster) -> None:
    async with producer_of(cluster, **BRIEF) as producer:
        await send(producer, 0)
        cluster.faults.add("Produce", garbage=with_a_hint_about_an_unknown_topic, after=True, count=1)
        cluster.move_leader("t")
        await send(producer, 1)
        metrics = producer.metrics().metadata
        assert (metrics.hints_received, metrics.hints_accepted, metrics.hints_rejected_unknown_partition) == (2, 1, 1)
        await send(producer, 2)
    assert values(cluster) == [0, 1, 2]


async def test_rule_5_a_late_hint_of_a_deleted_topic_does_not_poison_its_successor(cluster: EmbeddedCluster) -> None:
    for _ in range(6):
        cluster.move_leader("t")
    async with producer_of(cluster, metadata_max_age_ms=20, **BRIEF) as producer:
        await send(producer, 0)
        cluster.faults.add("Produce", topic="t", error_code=NOT_LEADER, count=1)
        cluster.faults.add("Produce", hint=Hint(leader_id=2, leader_epoch=7), count=1)
        late = cluster.faults.add("Produce", hold=True, after=True, count=1)
        delivery = await producer.send("t", b"1", partition=0)
        await until(lambda: late.struck)
        cluster.delete_topic("t")
        cluster.create_topic("t", partitions=1, replication_factor=3)
        refreshes = producer.metrics().metadata.refreshes
        await until(lambda: producer.metrics().metadata.refreshes >= refreshes + 2)
        late.release()
        with anyio.fail_after(20):
            assert (await delivery).offset == 0
        assert producer.metrics().metadata.hints_rejected_unknown_partition == 1
        # The successor's epochs count, low as they are.
        cluster.freeze_metadata(ALWAYS)
        cluster.move_leader("t")
        await send(producer, 2)
        assert producer.metrics().metadata.hints_accepted == 1
    assert values(cluster) == [1, 2]


async def test_rule_5_a_late_hint_for_a_topic_that_was_dropped_and_taken_again(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("other")
    await fill(cluster, 1)
    async with consumer_of(cluster, **BRIEF) as consumer:
        consumer.assign([T0])
        assert await next_number(consumer) == 0
        late = cluster.faults.add("Fetch", topic="t", error_code=NOT_LEADER, count=1)
        cluster.faults.add("Fetch", hint=Hint(leader_id=2, leader_epoch=50), count=1)
        held = cluster.faults.add("Fetch", broker=1, hold=True, after=True, count=1)
        await until(lambda: late.struck and held.struck)
        consumer.assign([TopicPartition("other", 0)])
        consumer.assign([T0])
        held.release()
        await fill(cluster, 1, first=1)
        assert [await next_number(consumer), await next_number(consumer)] == [0, 1]
        cluster.move_leader("t")
        await fill(cluster, 1, first=2)
        assert await next_number(consumer) == 2


# --- rules 6 to 9 ----------------------------------------------------------------------------------------------------


async def test_rule_6_and_7_a_hint_leaves_every_other_connection_alone(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("many", partitions=6, replication_factor=3)
    async with producer_of(cluster, **NEVER) as producer:
        for partition in range(6):
            await send(producer, 0, partition, "many")
        cluster.freeze_metadata(ALWAYS)
        connections = {record.connection for record in cluster.requests.select("Produce")}
        for partition in range(6):
            cluster.move_leader("many", partition)
            await send(producer, 1, partition, "many")
            for other in range(6):
                await send(producer, 2, other, "many")
        assert {record.connection for record in cluster.requests.select("Produce")} == connections
        assert len(connections) == 3
        assert producer.metrics().metadata.hints_accepted == 6


async def test_rule_7_a_hint_brings_a_brokers_new_address(cluster: EmbeddedCluster) -> None:
    async with producer_of(cluster, **NEVER) as producer, consumer_of(cluster, "t", **NEVER) as consumer:
        await send(producer, 0)
        assert await next_number(consumer) == 0
        await cluster.stop_broker(2)
        cluster.freeze_metadata(ALWAYS)
        await cluster.start_broker(2, port=0)
        cluster.move_leader("t", to=2)
        await send(producer, 1)
        assert await next_number(consumer) == 1
        assert producer.metrics().metadata.hints_accepted == 1
        assert consumer.metrics().metadata.hints_accepted == 1


async def test_rule_8_an_accepted_hint_asks_for_metadata_too(cluster: EmbeddedCluster) -> None:
    async with producer_of(cluster, **NEVER) as producer:
        await send(producer, 0)
        refreshes = producer.metrics().metadata.refreshes
        cluster.move_leader("t")
        await send(producer, 1)
        await until(lambda: producer.metrics().metadata.refreshes > refreshes)


@pytest.mark.parametrize(("policy", "followed"), [("trust", True), ("known_nodes", False), ("off", False)])
async def test_rule_9_policies_and_a_leader_that_nobody_knew(
    cluster: EmbeddedCluster, policy: str, followed: bool
) -> None:
    """A broker that has just joined is followed to the hint's address, or only after metadata names it."""
    backoff = NEVER if followed else BRIEF
    async with producer_of(cluster, leader_hint_policy=policy, **backoff) as producer:
        await send(producer, 0)
        if followed:
            cluster.freeze_metadata(ALWAYS)
        await cluster.add_broker(4)
        cluster.reassign("t", 0, [4, 2, 3])
        assert cluster.leader("t") == 4
        await send(producer, 1)
        metrics = producer.metrics().metadata
        assert (metrics.hints_accepted, bool(metrics.hints_rejected_policy)) == (int(followed), not followed)
    assert len(asked(cluster, "Produce", broker=4)) == 1


@pytest.mark.parametrize("answer", [HTTP_ANSWER, TLS_ALERT], ids=["http", "tls"])
async def test_rule_9_an_endpoint_that_answers_with_garbage(cluster: EmbeddedCluster, answer: bytes) -> None:
    """For example, a proxy's wrong address. Metadata at the hint's own epoch corrects it, and no record is lost."""
    async with garbage_server(answer) as endpoint:
        cluster.faults.add(hint=Hint(endpoint=endpoint))
        producing, consuming = producer_of(cluster, **BRIEF), consumer_of(cluster, "t", **BRIEF)
        async with producing as producer, consuming as consumer:
            await send(producer, 0)
            assert await next_number(consumer) == 0
            cluster.move_leader("t")
            await send(producer, 1)
            assert await next_number(consumer) == 1
            assert producer.metrics().metadata.hints_accepted == 1
            assert consumer.metrics().metadata.hints_accepted == 1
    assert values(cluster) == [0, 1]


async def test_rule_9_a_wrong_address_does_not_cut_the_client_off_from_its_only_broker() -> None:
    """Without a rebootstrap, no other broker is left to ask: the address from metadata is used again."""
    async with (
        EmbeddedCluster(brokers=1) as cluster,
        producer_of(cluster, metadata_recovery_strategy="none", **BRIEF) as producer,
    ):
        cluster.create_topic("t")
        await send(producer, 0)
        cluster.faults.add("Produce", topic="t", error_code=NOT_LEADER, count=1)
        cluster.faults.add("Produce", hint=Hint(leader_id=1, leader_epoch=100, endpoint=("127.0.0.1", 1)), count=1)
        await send(producer, 1)
        assert producer.metrics().metadata.hints_accepted == 1
        assert values(cluster) == [0, 1]


# --- rule 10 ---------------------------------------------------------------------------------------------------------


async def test_rule_10_six_stale_answers_after_a_hint_and_not_one_request_to_the_old_leader(
    cluster: EmbeddedCluster,
) -> None:
    async with producer_of(cluster, **BRIEF) as producer, consumer_of(cluster, "t", **BRIEF) as consumer:
        await send(producer, 0)
        assert await next_number(consumer) == 0
        stale = cluster.requests.count("Metadata") + 12
        cluster.freeze_metadata(ALWAYS)
        cluster.move_leader("t", to=3)
        await send(producer, 1)
        assert await next_number(consumer) == 1
        produced, fetched = (len(asked(cluster, api, broker=1)) for api in ("Produce", "Fetch"))
        number = 1
        while cluster.requests.count("Metadata") < stale:
            number += 1
            await send(producer, number)
            assert await next_number(consumer) == number
        assert len(asked(cluster, "Produce", broker=1)) == produced == 2
        assert len(asked(cluster, "Fetch", broker=1)) == fetched
        assert producer.metrics().metadata.stale_partitions >= 1
        assert consumer.metrics().metadata.stale_partitions >= 1
        assert producer.metrics().metadata.rewinds == consumer.metrics().metadata.rewinds == 0
    assert values(cluster) == list(range(number + 1))


async def test_rule_10_a_hinted_node_stays_known_though_stale_answers_do_not_name_it(cluster: EmbeddedCluster) -> None:
    async with producer_of(cluster, **BRIEF) as producer:
        await send(producer, 0)
        cluster.freeze_metadata(ALWAYS)
        await cluster.add_broker(4)
        cluster.reassign("t", 0, [4, 2, 3])
        await send(producer, 1)
        stale = producer.metrics().metadata.refreshes + 3
        await until(lambda: producer.metrics().metadata.refreshes >= stale)
        await send(producer, 2)
        connections = {record.connection for record in asked(cluster, "Produce", broker=4)}
        assert len(connections) == 1
    assert values(cluster) == [0, 1, 2]


async def test_rule_10_metadata_contradicts_a_hint_at_its_own_epoch(cluster: EmbeddedCluster) -> None:
    async with producer_of(cluster, **BRIEF) as producer:
        await send(producer, 0)
        cluster.faults.add("Produce", hint=Hint(leader_id=3), broker=1, count=1)
        # Broker 3, which is no leader, agrees with broker 1 for a while.
        cluster.faults.add("Produce", hint=Hint(leader_id=3), broker=3)
        cluster.move_leader("t", to=2)
        await send(producer, 1)
        assert producer.metrics().metadata.disagreements == 1
    assert values(cluster) == [0, 1]


async def test_a_hint_at_an_epoch_that_never_comes_is_outlived(cluster: EmbeddedCluster) -> None:
    """The broker lies about the epoch, too: after some seconds, metadata that disagrees is believed."""
    async with garbage_server(HTTP_ANSWER) as endpoint, producer_of(cluster, **BRIEF) as producer:
        await send(producer, 0)
        lie = Hint(leader_id=2, leader_epoch=100, endpoint=endpoint)
        cluster.faults.add("Produce", topic="t", error_code=NOT_LEADER, count=1)
        cluster.faults.add("Produce", hint=lie, count=1)
        await send(producer, 1)
        assert producer.metrics().metadata.rewinds == 1
    assert values(cluster) == [0, 1]
