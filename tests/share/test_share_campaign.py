"""Random members of a share group, while leaders move, locks expire and brokers die: all records get done in the end.

Each run is drawn from a seed; timing depends on the machine. ``SHARE_RUNS=100`` runs that many.
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import anyio
import anyio.abc
import pytest

from aiokafka_lead import AcknowledgeType, AdminClient, Producer, ShareConsumer
from aiokafka_lead.errors import KafkaError, ShareSessionNotFoundError
from aiokafka_lead.testing import EmbeddedCluster, GroupOptions

pytestmark = pytest.mark.anyio

GROUP, TOPIC = "workers", "jobs"
PARTITIONS, RECORDS, MEMBERS = 3, 240, 5
TROUBLES = 25
LIMIT_S = 150
OPTIONS = GroupOptions(
    share_record_lock_duration_ms=1000,
    share_heartbeat_interval_ms=100,
    # Faults count as deliveries, and must not exhaust a record's attempts.
    share_delivery_count_limit=1000,
)


class Campaign:
    """One run."""

    def __init__(self, seed: int, cluster: EmbeddedCluster, tasks: anyio.abc.TaskGroup) -> None:
        self.rng = Random(seed)
        self.cluster = cluster
        self.tasks = tasks
        self.handled: Counter[bytes] = Counter()
        self.accepted: Counter[bytes] = Counter()
        """Acknowledgements that brokers have confirmed."""

    async def fill(self) -> None:
        async with Producer(self.cluster.bootstrap_servers, linger_ms=0) as producer:
            for number in range(0, RECORDS, 8):
                values = [b"%d" % each for each in range(number, number + 8)]
                await (await producer.send_many(TOPIC, values, partition=number % PARTITIONS))

    async def work(self) -> None:
        """Join as a member, leave, and join as another one."""
        while True:
            consumer = ShareConsumer(
                TOPIC,
                bootstrap_servers=self.cluster.bootstrap_servers,
                group_id=GROUP,
                share_acknowledgement_mode="explicit",
                retry_backoff_ms=10,
                retry_backoff_max_ms=50,
                request_timeout_ms=3000,
                fetch_max_wait_ms=50,
            )
            async with consumer as jobs:
                for _ in range(self.rng.randrange(5, 40)):
                    await self._take(jobs)

    async def _take(self, jobs: ShareConsumer) -> None:
        found = await jobs.getmany(timeout_ms=50, max_records=self.rng.randrange(1, 20))
        for record in (record for records in found.values() for record in records):
            assert record.value is not None
            self.handled[record.value] += 1
            chance = self.rng.random()
            if chance < 0.05:
                continue  # its lock expires
            if chance < 0.2:
                jobs.acknowledge(record, AcknowledgeType.RELEASE)
                continue
            if chance < 0.3:
                jobs.acknowledge(record, AcknowledgeType.RENEW)
            outcome = jobs.acknowledge(record)

            async def note(value: bytes = record.value, outcome: object = outcome) -> None:
                try:
                    await outcome  # type: ignore[misc]
                except KafkaError:
                    return
                self.accepted[value] += 1

            self.tasks.start_soon(note)

    async def trouble(self) -> None:
        cluster, rng = self.cluster, self.rng
        for _ in range(TROUBLES):
            await anyio.sleep(rng.uniform(0.01, 0.08))
            match rng.randrange(8):
                case 0 | 1 | 2:
                    cluster.move_leader(TOPIC, rng.randrange(PARTITIONS), gap_ms=rng.choice([0, 20]))
                case 3:
                    cluster.shares.expire_locks(GROUP)
                case 4:
                    api = rng.choice(["ShareFetch", "ShareAcknowledge"])
                    cluster.faults.add(api, disconnect=True, after=rng.random() < 0.5, count=1)
                case 5:
                    cluster.faults.add("ShareFetch", error_code=ShareSessionNotFoundError, whole=True, count=1)
                case 6:
                    cluster.move_coordinator(GROUP)
                case 7:
                    broker = rng.choice([node for node in cluster.broker_ids if cluster.is_running(node)])
                    await cluster.kill_broker(broker, failover_delay_ms=20)
                    await anyio.sleep(0.1)
                    await cluster.start_broker(broker)

    async def done(self) -> None:
        """Wait until the brokers report that all records are done."""
        async with AdminClient(self.cluster.bootstrap_servers) as admin:
            while True:
                offsets = (await admin.list_share_group_offsets(GROUP)).values()
                if len(offsets) == PARTITIONS and all(each is not None and each.lag == 0 for each in offsets):
                    return
                await anyio.sleep(0.05)


@pytest.mark.parametrize("seed", range(int(os.environ.get("SHARE_RUNS", "1"))))
async def test_every_record_is_done_in_the_end(seed: int) -> None:
    async with EmbeddedCluster(brokers=3, groups=OPTIONS) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, 3)
        cluster.shares.configure(GROUP, {"share.auto.offset.reset": "earliest"})
        tasks = anyio.create_task_group()
        campaign = Campaign(seed, cluster, tasks)
        with anyio.fail_after(LIMIT_S):
            async with tasks:
                await campaign.fill()
                for _ in range(MEMBERS):
                    tasks.start_soon(campaign.work)
                await campaign.trouble()
                await campaign.done()
                tasks.cancel_scope.cancel()
        assert campaign.handled.keys() == {b"%d" % number for number in range(RECORDS)}
        assert campaign.accepted <= campaign.handled
        assert not any(cluster.shares.deliveries(GROUP, TOPIC, index) for index in range(PARTITIONS))
