"""A worker that runs the jobs of a topic concurrently, together with any number of other workers.

    python examples/worker.py [HOST:PORT]        # default localhost:9092; Ctrl-C or SIGTERM ends it

This needs Apache Kafka 4.2 or newer (share groups, KIP-932); ``python -m aiokafka_lead.testing --port 9092`` serves
such a cluster. Any worker may get any job, whatever the topic's number of partitions, and a slow job does not delay
others. A failed job is tried again after a backoff, by this or another worker. After its last retry, it goes to
``images.failed``, with the cause in its headers. The lock of a long job is renewed. At the first signal, running jobs
are finished within 10 s, and other jobs go to other workers. At a second signal, the running jobs go to other workers,
too. If HEALTH_PORT is set, the worker answers an orchestrator's probes at ``/health/live`` and ``/health/ready``.
"""

from __future__ import annotations

import json
import os
import sys

import anyio

from aiokafka_lead import AdminClient, ShareConsumer, ShareRecord
from aiokafka_lead.admin import ConfigChange, ConfigResource, ConfigResourceType

TOPIC, GROUP = "images", "resizers"


async def resize(record: ShareRecord[bytes | None, bytes | None]) -> None:
    """Run one job. It is retried after an error, so it must tolerate being run twice."""
    job = json.loads(record.value or b"")
    await anyio.sleep(job.get("seconds", 0.1))  # stands for the work
    print(f"{job['image']} resized to {job['width']} (delivery {record.delivery_count})")


async def begin_at_the_first_job(servers: str) -> None:
    """Set up the group: a new group would skip jobs enqueued before its first worker joined."""
    group = ConfigResource(ConfigResourceType.GROUP, GROUP)
    async with AdminClient(servers) as admin:
        await admin.incremental_alter_configs({group: [ConfigChange("share.auto.offset.reset", "earliest")]})


async def main() -> None:
    """Work until SIGTERM, which an orchestrator sends, or Ctrl-C."""
    servers = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
    port = os.environ.get("HEALTH_PORT")
    await begin_at_the_first_job(servers)
    async with ShareConsumer(TOPIC, bootstrap_servers=servers, group_id=GROUP, close_timeout_ms=20_000) as jobs:
        print(f"running jobs from {TOPIC} at {servers}")
        # Returns after a signal, when running jobs have ended and are acknowledged.
        await jobs.run(
            resize,
            concurrency=32,
            retries=3,
            retry_backoff_ms=500,
            retry_backoff_max_ms=30_000,
            dead_letter_topic=f"{TOPIC}.failed",
            stop_on_signals=True,
            health_port=None if port is None else int(port),
        )
    print("stopped")


if __name__ == "__main__":
    anyio.run(main)
