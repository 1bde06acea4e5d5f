"""Share consumers leave leaders that always refuse, once they are in doubt (rule 33)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from aiokafka_lead import AcknowledgeType, ShareConsumer, TopicPartition
from aiokafka_lead._core.trust import DOUBT_AFTER
from aiokafka_lead._wire import decode_response, encode_response
from aiokafka_lead._wire.messages.share_fetch import ShareFetchResponse
from aiokafka_lead.errors import InvalidRecordStateError
from aiokafka_lead.testing import EmbeddedCluster
from tests.group.support import until
from tests.patience import started

from .support import Handled, consumer, fill, take, values

pytestmark = pytest.mark.anyio

ALWAYS = 1_000_000
QUICK: dict[str, Any] = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 100}
COUNTED: dict[str, Any] = {"retry_backoff_ms": 100, "retry_backoff_max_ms": 10_000}
"""For tests that count: a busy machine needs many backoffs of 20 ms to connect and ask another broker."""
WHOLE = pytest.mark.parametrize("whole", [False, True], ids=["of the partition", "of the request"])


def isolate(cluster: EmbeddedCluster, broker: int) -> None:
    """Move the leadership to another broker, unnoticed by the old leader."""
    cluster.freeze_metadata(ALWAYS, broker=broker)
    cluster.move_leader("single", to=broker % 3 + 1)


def single(cluster: EmbeddedCluster, **options: Any) -> ShareConsumer:
    return consumer(cluster.bootstrap_servers, "single", **{**QUICK, **options})


@WHOLE
@pytest.mark.parametrize("code", [75, 78, -1, 7, 15])
async def test_records_come_from_another_leader(cluster: EmbeddedCluster, code: int, whole: bool) -> None:
    old = cluster.leader("single", 0)
    await fill(cluster.bootstrap_servers, "single", 1)
    async with single(cluster, **COUNTED) as jobs:
        assert values(await take(jobs, 1)) == [0]
        rule = cluster.faults.add("ShareFetch", broker=old, error_code=code, whole=whole)
        isolate(cluster, old)
        await fill(cluster.bootstrap_servers, "single", 1, first=1)
        found = set[int]()
        while 1 not in found:  # and the first again, unless its acknowledgement was quicker than the new leader
            found |= set(values(await take(jobs, 1)))
        assert rule.struck <= DOUBT_AFTER + 2


@pytest.mark.parametrize("code", [75, -1])
async def test_a_run_goes_on_at_another_leader(cluster: EmbeddedCluster, code: int) -> None:
    old = cluster.leader("single", 0)
    handled = Handled()
    async with single(cluster) as jobs, anyio.create_task_group() as tasks:
        tasks.start_soon(jobs.run, handled)
        cluster.faults.add("ShareFetch", broker=old, error_code=code)
        isolate(cluster, old)
        await fill(cluster.bootstrap_servers, "single", 1)
        await handled.until(1)
        await jobs.stop()


@WHOLE
@pytest.mark.parametrize("code", [75, -1])
async def test_acknowledgements_do_not_wait_for_their_locks_to_run_out(
    cluster: EmbeddedCluster, code: int, whole: bool
) -> None:
    old = cluster.leader("single", 0)
    await fill(cluster.bootstrap_servers, "single", 1)
    async with single(cluster, share_acknowledgement_mode="explicit") as jobs:
        (record,) = await take(jobs, 1)
        for api in ("ShareAcknowledge", "ShareFetch"):
            cluster.faults.add(api, broker=old, error_code=code, whole=whole)
        isolate(cluster, old)
        with anyio.fail_after(20), pytest.raises(InvalidRecordStateError, match="another leader"):
            await jobs.acknowledge(record, AcknowledgeType.ACCEPT)
        (again,) = await take(jobs, 1)
        assert again.value == record.value
        assert again.delivery_count == 1  # by the new leader's count
        await jobs.acknowledge(again, AcknowledgeType.ACCEPT)


async def test_acknowledgements_are_sent_again_after_an_error_without_an_explanation(cluster: EmbeddedCluster) -> None:
    async with single(cluster) as jobs:
        rule = cluster.faults.add("ShareAcknowledge", error_code=-1, count=1)
        with anyio.fail_after(20):
            while not rule.struck:  # an acknowledgement may also go with the next fetch
                await fill(cluster.bootstrap_servers, "single", 1)
                await take(jobs, 1)
                assert (await jobs.commit())[TopicPartition("single", 0)] is None
        assert rule.struck == 1


async def test_health_names_partitions_that_are_refused_for_long(cluster: EmbeddedCluster) -> None:
    async with started(single(cluster, request_timeout_ms=300)) as jobs, anyio.create_task_group() as tasks:
        tasks.start_soon(jobs.run, Handled())
        rule = cluster.faults.add("ShareFetch", error_code=75)
        stuck = TopicPartition("single", 0)
        # On a busy machine, a broker may take longer than the timeout for some answers, which is another problem.
        await until(lambda: stuck in (now := jobs.health()).stuck and not now.own_problems)
        health = jobs.health()
        assert "the last time with UnknownLeaderEpochError" in health.stuck[stuck]
        assert health.stuck[stuck] in health.problems
        rule.remove()
        await until(lambda: jobs.health().healthy)
        await jobs.stop()


def without_records(whole: bytes) -> bytes:
    """Return the same answer with null in place of missing records, which its version does not allow."""
    correlation_id, response = decode_response(ShareFetchResponse, 2, memoryview(whole)[4:])
    marker = b"no records at all"
    for topic in response.responses:
        for data in topic.partitions:
            data.records = data.records or marker  # type: ignore[assignment]
    frame = b"".join(encode_response(response, 2, correlation_id))[4:]
    frame = frame.replace(bytes((len(marker) + 1,)) + marker, b"\0")
    return len(frame).to_bytes(4) + frame


async def test_null_is_no_records(cluster: EmbeddedCluster) -> None:
    handled = Handled()
    cluster.faults.add("ShareFetch", garbage=without_records, after=True)
    async with single(cluster, request_timeout_ms=5_000) as jobs, anyio.create_task_group() as tasks:
        tasks.start_soon(jobs.run, handled)
        await fill(cluster.bootstrap_servers, "single", 2)
        await handled.until(2)
        await jobs.stop()
