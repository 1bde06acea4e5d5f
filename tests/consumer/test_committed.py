"""Committed offsets of a consumer that assigns its partitions itself."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from aiokafka_lead import OffsetAndMetadata
from aiokafka_lead.errors import (
    CommitFailedError,
    ConfigTypeError,
    CoordinatorLoadInProgressError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    NoOffsetForPartitionError,
    RequestTimedOutError,
    UnstableOffsetCommitError,
)
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late, started
from .support import E0, E1, consumer_of, fill, numbers, take, values

pytestmark = pytest.mark.anyio


async def test_positions_are_committed_and_read_from_again(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(10))
    async with consumer_of(cluster, group_id="g") as consumer:
        consumer.assign([E0, E1])
        assert await consumer.committed(E0) is None
        assert numbers(await take(consumer, 4)) == [0, 1, 2, 3]
        await consumer.position(E1)
        await consumer.commit()
        assert await consumer.committed(E0) == OffsetAndMetadata(4, "", 0)
        assert await consumer.committed(E1) == OffsetAndMetadata(0, "", None)
    async with consumer_of(cluster, group_id="g", auto_offset_reset="none") as consumer:
        consumer.assign([E0])
        assert numbers(await take(consumer, 2)) == [4, 5]


async def test_offsets_that_are_given(cluster: EmbeddedCluster) -> None:
    async with consumer_of(cluster, group_id="g") as consumer:
        await consumer.commit({E0: 5, E1: OffsetAndMetadata(7, "why", 3)})
        assert await consumer.committed(E0) == OffsetAndMetadata(5, "", None)
        assert await consumer.committed(E1) == OffsetAndMetadata(7, "why", 3)
        await consumer.commit({E0: (6, "pair")})
        assert await consumer.committed(E0) == OffsetAndMetadata(6, "pair", None)
        with pytest.raises(ConfigTypeError, match="events-0"):
            await consumer.commit({E0: "5"})  # type: ignore[dict-item]


async def test_without_a_committed_offset_the_policy_decides(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(3))
    async with consumer_of(cluster, group_id="g", enable_auto_commit=False) as consumer:
        consumer.assign([E0])
        assert await consumer.position(E0) == 0
    async with consumer_of(cluster, group_id="g", auto_offset_reset="none") as consumer:
        consumer.assign([E0])
        with pytest.raises(NoOffsetForPartitionError):
            await consumer.getone()


@pytest.mark.parametrize("versions", [{}, {"OffsetCommit": 5, "OffsetFetch": 5, "FindCoordinator": 2}])
async def test_a_coordinator_that_moves_is_followed(cluster: EmbeddedCluster, versions: dict[str, int]) -> None:
    cluster.max_versions.update(versions)
    async with consumer_of(cluster, group_id="g") as consumer:
        for number in range(4):
            with anyio.fail_after(20):
                await consumer.commit({E0: number})
                assert await consumer.committed(E0) == OffsetAndMetadata(number, "", None)
            cluster.move_coordinator("g")


async def test_a_coordinator_that_dies_is_replaced(cluster: EmbeddedCluster) -> None:
    async with consumer_of(cluster, group_id="g") as consumer:
        await consumer.commit({E0: 1})
        await cluster.kill_broker(cluster.coordinator("g"))
        with anyio.fail_after(20):
            await consumer.commit({E0: 2})
            assert (await consumer.committed(E0)) == OffsetAndMetadata(2, "", None)


@pytest.mark.parametrize("code", [3, 7, 14, 15, 16])
async def test_errors_that_pass_are_waited_out(cluster: EmbeddedCluster, code: int) -> None:
    cluster.faults.add("OffsetCommit", error_code=code, count=2)
    async with consumer_of(cluster, group_id="g", retry_backoff_ms=5) as consumer:
        await consumer.commit({E0: 1, E1: 2})
        assert await consumer.committed(E1) == OffsetAndMetadata(2, "", None)
    assert len(cluster.requests.select("OffsetCommit")) == 3


async def test_offsets_of_open_transactions_are_waited_for(cluster: EmbeddedCluster) -> None:
    """KIP-447."""
    async with consumer_of(cluster, group_id="g", retry_backoff_ms=5) as consumer:
        await consumer.commit({E0: 1})
        cluster.faults.add("OffsetFetch", error_code=UnstableOffsetCommitError.code, count=2)
        assert await consumer.committed(E0) == OffsetAndMetadata(1, "", None)


async def test_a_partition_whose_offset_is_unstable_does_not_hold_up_the_others(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(3))
    await fill(cluster, values(3), partition=1)
    rule = cluster.faults.add("OffsetFetch", error_code=UnstableOffsetCommitError.code, topic="events", partition=0)
    short: dict[str, Any] = {"retry_backoff_ms": 5, "fetch_max_wait_ms": 50, "request_timeout_ms": 500}
    async with started(consumer_of(cluster, group_id="g", **short)) as consumer:
        consumer.assign([E0, E1])
        with anyio.fail_after(20):
            assert {record.partition for record in await take(consumer, 3)} == {1}
            while E0 not in consumer.health().stuck:
                await consumer.getmany(timeout_ms=50)
        assert "open transaction" in consumer.health().stuck[E0]
        rule.remove()
        with anyio.fail_after(20):
            assert numbers(await take(consumer, 3)) == [0, 1, 2]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_commit_beside_members_of_the_group_says_what_to_do(cluster: EmbeddedCluster, protocol: str) -> None:
    async with (
        consumer_of(cluster, "events", group_id="g", group_protocol=protocol),
        consumer_of(cluster, group_id="g") as consumer,
    ):
        consumer.assign([E0])
        with pytest.raises(CommitFailedError, match=r"group 'g' has members.*another group_id"):
            await consumer.commit({E0: 1})


@again_if_late(1_000, 8_000)
async def test_a_last_attempt_without_an_answer_does_not_hide_the_reason(
    timeout_ms: int, cluster: EmbeddedCluster
) -> None:
    cluster.faults.clear()  # from the first attempt
    async with consumer_of(cluster, group_id="g") as consumer:
        await consumer.committed(E0)  # a busy machine may need long to find the coordinator
        cluster.faults.add("OffsetFetch", error_code=CoordinatorLoadInProgressError.code, count=1)
        cluster.faults.add("OffsetFetch", skip=1, drop=True)
        with pytest.raises(RequestTimedOutError, match="the last error: ") as caught:
            await consumer.committed(E0, timeout_ms=timeout_ms)
        assert isinstance(caught.value.__cause__, CoordinatorLoadInProgressError)


async def test_what_a_coordinator_refuses_is_raised_at_once(cluster: EmbeddedCluster) -> None:
    async with consumer_of(cluster, group_id="g") as consumer:
        cluster.faults.add("OffsetCommit", error_code=IllegalGenerationError.code, count=1)
        with pytest.raises(IllegalGenerationError, match="events-0"):
            await consumer.commit({E0: 1})
        rule = cluster.faults.add("OffsetFetch", error_code=GroupAuthorizationFailedError.code)
        with pytest.raises(GroupAuthorizationFailedError):
            await consumer.committed(E0)
        consumer.assign([E0])
        with anyio.fail_after(20), pytest.raises(GroupAuthorizationFailedError):
            await consumer.getone()
        rule.remove()


@pytest.mark.parametrize("version", [3, 6])
async def test_a_refused_coordinator_lookup_is_raised_at_once(cluster: EmbeddedCluster, version: int) -> None:
    cluster.max_versions = {"FindCoordinator": version}
    cluster.faults.add("FindCoordinator", error_code=GroupAuthorizationFailedError.code)
    async with consumer_of(cluster, group_id="g") as consumer:
        with pytest.raises(GroupAuthorizationFailedError):
            await consumer.commit({E0: 1})


async def test_calls_end_though_nobody_answers(cluster: EmbeddedCluster) -> None:
    async with consumer_of(cluster, group_id="g") as consumer:
        await consumer.commit({E0: 1})
        cluster.faults.add("OffsetCommit", drop=True)
        with pytest.raises(RequestTimedOutError, match="group 'g'"):
            await consumer.commit({E0: 2}, timeout_ms=300)
        cluster.faults.clear()
        cluster.faults.add("FindCoordinator", drop=True)
        cluster.move_coordinator("g")
        with pytest.raises(RequestTimedOutError, match="'g'"):
            await consumer.committed(E0, timeout_ms=300)


async def test_a_cancelled_commit_leaves_the_consumer_usable(cluster: EmbeddedCluster) -> None:
    async with consumer_of(cluster, group_id="g") as consumer:
        cluster.faults.add("FindCoordinator", delay_ms=200, count=1)
        with anyio.move_on_after(0.02):
            await consumer.commit({E0: 1})
        with anyio.fail_after(20):
            await consumer.commit({E0: 2})
        assert await consumer.committed(E0) == OffsetAndMetadata(2, "", None)


async def test_a_group_that_is_not_there_has_committed_nothing(cluster: EmbeddedCluster) -> None:
    """The answer of other brokers than Apache Kafka."""
    await fill(cluster, values(3))
    cluster.faults.add("OffsetFetch", error_code=GroupIdNotFoundError)
    consumer = consumer_of(cluster, group_id="g")
    consumer.assign([E0])
    async with consumer:
        assert await consumer.committed(E0) is None
        assert numbers(await take(consumer, 3)) == [0, 1, 2]
