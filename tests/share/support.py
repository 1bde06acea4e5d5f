"""A topic of jobs, and helpers that fill and read it, for the embedded cluster and real Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient, Producer, ShareConsumer, ShareRecord
from aiokafka_lead.admin import ConfigChange, ConfigResource, ConfigResourceType
from aiokafka_lead.testing import EmbeddedCluster, GroupOptions

Record = ShareRecord[bytes | None, bytes | None]

SHORT_LOCKS = pytest.mark.parametrize("lock_ms", [1_000])


@asynccontextmanager
async def cluster_with_locks(lock_ms: int) -> AsyncIterator[EmbeddedCluster]:
    """Yield three brokers with locks of this duration, topics of jobs, and a group that begins at the first records."""
    groups = GroupOptions(share_record_lock_duration_ms=lock_ms, share_heartbeat_interval_ms=200)
    async with EmbeddedCluster(brokers=3, groups=groups) as embedded:
        embedded.create_topic("jobs", partitions=3, replication_factor=3)
        embedded.create_topic("single", partitions=1, replication_factor=3)
        embedded.create_topic("jobs.failed", partitions=1, replication_factor=3)
        await configure(embedded.bootstrap_servers, "workers")
        yield embedded


async def configure(servers: str, group: str, **configs: str) -> None:
    """Set a group's configurations; it begins at its topics' first records."""
    configs = {"share_auto_offset_reset": "earliest", **configs}
    changes = [ConfigChange(name.replace("_", "."), value) for name, value in configs.items()]
    async with AdminClient(servers) as admin:
        await admin.incremental_alter_configs({ConfigResource(ConfigResourceType.GROUP, group): changes})


async def fill(servers: str, topic: str, count: int, *, first: int = 0, partition: int | None = None) -> None:
    """Write numbered records."""
    values = [b"%d" % number for number in range(first, first + count)]
    async with Producer(servers) as producer:
        for outcome in await (await producer.send_many(topic, values, partition=partition)):
            assert not isinstance(outcome, BaseException), outcome


def consumer(servers: str, topic: str = "jobs", **options: Any) -> ShareConsumer:
    """Return a member of the group "workers", not started."""
    options = {"group_id": "workers", "retry_backoff_ms": 20, "fetch_max_wait_ms": 50, **options}
    return ShareConsumer(topic, bootstrap_servers=servers, **options)


async def take(jobs: ShareConsumer, count: int) -> list[Record]:
    """Take this many records. In implicit mode, asking for more accepts them."""
    found: list[Record] = []
    with anyio.fail_after(60):
        while len(found) < count:
            for records in (await jobs.getmany(timeout_ms=5_000, max_records=count - len(found))).values():
                found += records
    return found


def values(records: list[Record]) -> list[int]:
    return sorted(int(record.value or b"-1") for record in records)


class Handled:
    """A handler that records its calls, and lets a test wait for them."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._news = anyio.Event()

    def note(self, record: Record) -> None:
        self.records.append(record)
        news, self._news = self._news, anyio.Event()
        news.set()

    async def __call__(self, record: Record) -> None:
        self.note(record)

    async def until(self, count: int) -> None:
        """Return once this many different records have been handled."""
        with anyio.fail_after(30):
            while len({record.value for record in self.records}) < count:
                await self._news.wait()
