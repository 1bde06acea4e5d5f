"""A consumer that is stopped while `run` still looks for its dead-letter topic: the run ends in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from aiokafka_lead import Producer, ShareConsumer
from aiokafka_lead.testing import EmbeddedCluster, RequestRecord

from .support import fill, runner_of

pytestmark = pytest.mark.anyio


async def never(record: object, txn: object = None) -> None:
    raise AssertionError("nothing is handed out")


class Held:
    """Holds every request of an API, or of one client, from now on."""

    def __init__(self, cluster: EmbeddedCluster, api: str, client_id: str | None = None) -> None:
        self.one_came = anyio.Event()
        cluster.faults.add(api, client_id=client_id, when=self._note, hold=True)

    def _note(self, record: RequestRecord) -> bool:
        self.one_came.set()
        return True


async def stop_while_it_begins(run: Callable[[], Any], held: Held, stop: Callable[[], Any]) -> None:
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await held.one_came.wait()
            await stop()


async def test_its_own_producer_is_given_up(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 1)
    async with runner_of(cluster, group_id=None) as consumer:
        await consumer.getone()  # all connections of the consumer are open
        held = Held(cluster, "ApiVersions")
        await stop_while_it_begins(lambda: consumer.run(never, dead_letter_topic="failed"), held, consumer.stop)


async def test_the_question_for_the_topic_is_given_up(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers, client_id="letters") as producer, runner_of(cluster) as consumer:
        held = Held(cluster, "Metadata", "letters")

        async def run() -> None:
            await consumer.run(never, dead_letter_topic="failed", dead_letter_producer=producer)

        await stop_while_it_begins(run, held, consumer.stop)
        assert producer.health().healthy


async def test_exactly_once_too(cluster: EmbeddedCluster) -> None:
    options: dict[str, Any] = {"client_id": "letters", "transactional_id": "t"}
    async with Producer(cluster.bootstrap_servers, **options) as producer, runner_of(cluster) as consumer:
        held = Held(cluster, "Metadata", "letters")

        async def run() -> None:
            await consumer.run(never, exactly_once=producer, dead_letter_topic="failed")

        await stop_while_it_begins(run, held, consumer.stop)


async def test_a_share_consumer_too(cluster: EmbeddedCluster) -> None:
    servers = cluster.bootstrap_servers
    async with (
        Producer(servers, client_id="letters") as producer,
        ShareConsumer("events", bootstrap_servers=servers, group_id="g") as consumer,
    ):
        held = Held(cluster, "Metadata", "letters")

        async def run() -> None:
            await consumer.run(never, dead_letter_topic="failed", dead_letter_producer=producer)

        await stop_while_it_begins(run, held, consumer.stop)


@pytest.mark.parametrize("fault", [{"disconnect": True}, {"error_code": 3, "topic": "events"}], ids=["lost", "lagging"])
@pytest.mark.parametrize("options", [{"retry_topics": ["1s"]}, {"dead_letter_topic": "failed"}])
async def test_one_failure_does_not_end_a_run_that_begins(
    cluster: EmbeddedCluster, fault: dict[str, Any], options: dict[str, Any]
) -> None:
    await fill(cluster, 1)
    handled = anyio.Event()

    async def handle(record: object) -> None:
        handled.set()

    async with runner_of(cluster) as consumer, anyio.create_task_group() as tasks:
        await consumer.wait_ready()

        async def run() -> None:
            await consumer.run(handle, **options)

        cluster.faults.add("Metadata", count=1, **fault)
        tasks.start_soon(run)
        with anyio.fail_after(20):
            await handled.wait()
        await consumer.stop()
