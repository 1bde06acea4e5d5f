"""Rule 33 for offset queries: a leader keeps refusing them, while another broker leads already."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient, Consumer, TopicPartition
from aiokafka_lead._core.trust import DOUBT_AFTER
from aiokafka_lead._wire.messages.list_offsets import ListOffsetsResponse
from aiokafka_lead.admin import OffsetSpec
from aiokafka_lead.errors import UnknownServerError
from aiokafka_lead.testing import EmbeddedCluster, Fault, RequestRecord

from ..hostile.answers import changed
from ..patience import again_if_late
from .support import ALWAYS, NOT_LEADER, assert_spaced, consumer_of, fill, next_number, until

pytestmark = pytest.mark.anyio

T0 = TopicPartition("t", 0)
QUICK: dict[str, Any] = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 100}
CODES = pytest.mark.parametrize("code", [75, -1, 78, 7, NOT_LEADER])
SHARED = pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared client"])


def isolate(cluster: EmbeddedCluster, api: str, code: int) -> None:
    """Move the leadership to another broker; broker 1 does not know, and refuses."""
    cluster.faults.add(api, broker=1, error_code=code)
    cluster.freeze_metadata(ALWAYS, broker=1)
    cluster.move_leader("t", to=2)


async def ends(consumer: Consumer) -> Any:
    return await consumer.end_offsets([T0])


async def begins(consumer: Consumer) -> Any:
    return await consumer.beginning_offsets([T0])


async def first_since_1970(consumer: Consumer) -> Any:
    return await consumer.offsets_for_times({T0: 0})


@CODES
@SHARED
async def test_rule_33_reading_begins_at_another_leader(cluster: EmbeddedCluster, code: int, shared: bool) -> None:
    await fill(cluster, 1)
    async with consumer_of(cluster, shared=shared, **QUICK) as consumer:
        await consumer.partitions_for_topic("t")
        isolate(cluster, "ListOffsets", code)
        consumer.assign([T0])
        assert await next_number(consumer) == 0


@CODES
@SHARED
@pytest.mark.parametrize("ask", [ends, begins, first_since_1970])
async def test_rule_33_offsets_come_from_another_leader(
    cluster: EmbeddedCluster, code: int, shared: bool, ask: Callable[[Consumer], Awaitable[Any]]
) -> None:
    await fill(cluster, 1)
    async with consumer_of(cluster, shared=shared, **QUICK) as consumer:
        expected = await ask(consumer)
        isolate(cluster, "ListOffsets", code)
        with anyio.fail_after(20):
            assert await ask(consumer) == expected


@pytest.mark.parametrize("code", [75, -1, 78])
async def test_rule_33_an_administrator_asks_another_leader(cluster: EmbeddedCluster, code: int) -> None:
    await fill(cluster, 1)
    async with AdminClient(cluster.bootstrap_servers, **QUICK) as admin:
        isolate(cluster, "ListOffsets", code)
        with anyio.fail_after(20):
            found = (await admin.list_offsets({T0: OffsetSpec.LATEST}))[T0]
    assert found is not None
    assert found.offset == 1


@CODES
async def test_rule_33_positions_are_confirmed_by_another_leader(cluster: EmbeddedCluster, code: int) -> None:
    cluster.max_versions["Fetch"] = 11  # checks positions by OffsetForLeaderEpoch (KIP-320)
    await fill(cluster, 1)
    async with consumer_of(cluster, "t", **QUICK) as consumer:
        assert await next_number(consumer) == 0
        rule = cluster.faults.add("OffsetForLeaderEpoch", broker=1, error_code=code)
        cluster.move_leader("t", to=3)
        cluster.move_leader("t", to=1)
        await until(lambda: rule.struck)
        cluster.freeze_metadata(ALWAYS, broker=1)
        cluster.move_leader("t", to=2)
        await fill(cluster, 1, first=1)
        assert await next_number(consumer) == 1


async def test_rule_22_a_leader_that_does_not_know_the_epoch_shows_no_loss(cluster: EmbeddedCluster) -> None:
    """Nothing is read again, and nothing is raised without a reset policy."""
    cluster.max_versions |= {"Fetch": 11, "OffsetForLeaderEpoch": 3}
    await fill(cluster, 2)
    async with consumer_of(cluster, "t", auto_offset_reset="none", **QUICK) as consumer:
        consumer.seek(T0, 0)
        assert [await next_number(consumer) for _ in range(2)] == [0, 1]
        # Leader epoch and end offset are the last fields.
        rule = cluster.faults.add(
            "OffsetForLeaderEpoch", after=True, garbage=lambda answer: answer[:-12] + b"\xff" * 12
        )
        cluster.move_leader("t", to=2)
        await fill(cluster, 1, first=2)
        assert await next_number(consumer) == 2
        assert rule.struck


def without_offset(response: ListOffsetsResponse) -> None:
    for topic in response.topics:
        for partition in topic.partitions:
            partition.offset = -1


def without_partition(response: ListOffsetsResponse) -> None:
    response.topics = []


def changing(cluster: EmbeddedCluster, api: str, change: Callable[[Any], None], count: int) -> Fault:
    """Change the next answers. No two of these requests are in flight at the same time."""
    requested: list[RequestRecord] = []

    def concerns(record: RequestRecord) -> bool:
        requested[:] = [record]
        return True

    return cluster.faults.add(
        api, when=concerns, count=count, after=True, garbage=lambda answer: changed(requested[0], answer, change)
    )


@pytest.mark.parametrize("change", [without_offset, without_partition])
@pytest.mark.parametrize(("policy", "expected"), [("earliest", 0), ("latest", 2)])
async def test_a_start_or_end_that_the_leader_does_not_tell_is_asked_for_again(
    cluster: EmbeddedCluster, policy: str, expected: int, change: Callable[[Any], None]
) -> None:
    """No record is skipped, nothing is raised, and the requests are spaced."""
    await fill(cluster, 2)
    async with consumer_of(cluster, auto_offset_reset=policy, **QUICK) as consumer:
        rule = changing(cluster, "ListOffsets", change, DOUBT_AFTER + 1)
        consumer.assign([T0])
        with anyio.fail_after(20):
            assert await consumer.position(T0) == expected
        assert rule.struck == DOUBT_AFTER + 1
        assert_spaced(cluster.requests.select("ListOffsets"), 20, 100)


@pytest.mark.parametrize("change", [without_offset, without_partition])
async def test_queries_ask_again_for_a_start_or_end_that_the_leader_does_not_tell(
    cluster: EmbeddedCluster, change: Callable[[Any], None]
) -> None:
    await fill(cluster, 2)
    async with consumer_of(cluster, **QUICK) as consumer:
        for ask, expected in (begins, 0), (ends, 2):
            rule = changing(cluster, "ListOffsets", change, 2)
            with anyio.fail_after(20):
                assert await ask(consumer) == {T0: expected}
            assert rule.struck == 2


async def test_an_administrator_asks_again_for_an_end_that_the_leader_does_not_tell(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 2)
    async with AdminClient(cluster.bootstrap_servers, **QUICK) as admin:
        rule = changing(cluster, "ListOffsets", without_offset, 2)
        with anyio.fail_after(20):
            found = (await admin.list_offsets({T0: OffsetSpec.LATEST}))[T0]
        assert found is not None
        assert found.offset == 2
        assert rule.struck == 2


@again_if_late(20, 200)
async def test_an_error_without_explanation_is_raised_once_the_others_have_nothing_to_say(
    backoff_ms: int, cluster: EmbeddedCluster
) -> None:
    cluster.faults.clear()  # from the first attempt
    rule = cluster.faults.add("ListOffsets", error_code=-1)
    backoffs: dict[str, Any] = {"retry_backoff_ms": backoff_ms, "retry_backoff_max_ms": 5 * backoff_ms}
    servers = cluster.bootstrap_servers
    async with consumer_of(cluster, **backoffs) as consumer, AdminClient(servers, **backoffs) as admin:
        with anyio.fail_after(20), pytest.raises(UnknownServerError):
            await consumer.end_offsets([T0])
        assert rule.struck == 2 * DOUBT_AFTER
        with anyio.fail_after(20), pytest.raises(UnknownServerError):
            await admin.list_offsets({T0: OffsetSpec.LATEST})
        assert rule.struck == 4 * DOUBT_AFTER
