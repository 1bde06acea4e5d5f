"""Going back to the committed offsets discards earlier records and pending requests."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from aiokafka_lead.errors import IllegalStateError, UnstableOffsetCommitError
from aiokafka_lead.testing import EmbeddedCluster

from .support import E0, E1, consumer_of, fill, numbers, take, values

pytestmark = pytest.mark.anyio

BY_HAND: dict[str, Any] = {"group_id": "g", "enable_auto_commit": False}


async def test_records_come_again_from_the_committed_offset(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(20))
    async with consumer_of(cluster, **BY_HAND) as consumer:
        consumer.assign([E0])
        assert numbers(await take(consumer, 5)) == [0, 1, 2, 3, 4]
        await consumer.commit()
        assert numbers(await take(consumer, 7)) == [5, 6, 7, 8, 9, 10, 11]
        await consumer.seek_to_committed()
        assert await consumer.position(E0) == 5
        assert numbers(await take(consumer, 15)) == list(range(5, 20))


async def test_where_nothing_is_committed_they_come_again_from_where_reading_began(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(3))
    async with consumer_of(cluster, **BY_HAND, auto_offset_reset="latest") as consumer:
        consumer.assign([E0, E1])
        assert await consumer.position(E0) == 3
        await fill(cluster, values(4, start=3))
        assert numbers(await take(consumer, 4)) == [3, 4, 5, 6]
        await consumer.seek_to_committed(E0)
        assert numbers(await take(consumer, 4)) == [3, 4, 5, 6]
        consumer.seek(E0, 5)
        assert numbers(await take(consumer, 2)) == [5, 6]
        await consumer.seek_to_committed(E0)
        assert await consumer.position(E0) == 5


async def test_an_answer_that_comes_late_does_not_undo_a_seek(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(20))
    async with consumer_of(cluster, **BY_HAND) as consumer:
        consumer.assign([E0])
        assert numbers(await take(consumer, 10)) == list(range(10))
        await consumer.commit({E0: 4})
        cluster.faults.add("OffsetFetch", delay_ms=100, count=1)
        asked = cluster.requests.count("OffsetFetch")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.seek_to_committed)
            await cluster.wait_for_requests("OffsetFetch", count=asked + 1)
            consumer.seek(E0, 15)
        assert numbers(await take(consumer, 1)) == [15]
        assert await consumer.committed(E0) is not None  # answered after the late one
        assert numbers(await take(consumer, 4)) == [16, 17, 18, 19]


async def test_records_that_were_asked_for_before_are_not_handed_out(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(10))
    async with consumer_of(cluster, **BY_HAND, fetch_max_wait_ms=100) as consumer:
        consumer.assign([E0])
        assert numbers(await take(consumer, 10)) == list(range(10))
        await consumer.commit({E0: 8})
        cluster.faults.add(
            "OffsetFetch", error_code=UnstableOffsetCommitError.code, count=2
        )  # UNSTABLE_OFFSET_COMMIT: a transaction is open
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consumer.seek_to_committed)
                await anyio.lowlevel.checkpoint()
                await fill(cluster, values(3, start=10))
            assert numbers(await take(consumer, 5)) == [8, 9, 10, 11, 12]


async def test_it_is_for_groups(cluster: EmbeddedCluster) -> None:
    async with consumer_of(cluster, "events") as consumer:
        with pytest.raises(IllegalStateError, match="set group_id"):
            await consumer.seek_to_committed()
