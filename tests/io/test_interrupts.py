"""Ctrl-C on trio raises KeyboardInterrupt in the running task, but never in a background task of ours."""

from __future__ import annotations

import signal

import anyio
import pytest

from aiokafka_lead import Consumer, Producer, ShareConsumer
from aiokafka_lead.errors import BackgroundTaskError
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster

from .metadata_support import make_client, running

# trio replaces only Python's own handler.
pytestmark = pytest.mark.usefixtures("handler_of_python")


def test_the_main_task_gets_what_arrives_while_a_background_task_runs() -> None:
    went_on: list[str] = []

    async def main(servers: str) -> None:
        async with Producer(servers) as producer:
            client = make_client(servers)
            await client.start()

            async def background() -> None:
                signal.raise_signal(signal.SIGINT)
                went_on.append("the background task")

            client.spawn(background, name="background")
            try:
                await anyio.sleep(60)
            finally:
                with anyio.CancelScope(shield=True):
                    await client.stop()
                    await producer.send_and_wait("events", b"v")
                    went_on.append("the producer")

    with ClusterThread(EmbeddedCluster(brokers=1)) as cluster:
        cluster.create_topic("events")
        with pytest.raises(KeyboardInterrupt):
            anyio.run(main, cluster.bootstrap_servers, backend="trio")
    assert went_on == ["the background task", "the producer"]


@pytest.mark.parametrize("kind", [Consumer, ShareConsumer])
def test_run_raises_it_as_itself(kind: type[Consumer] | type[ShareConsumer]) -> None:
    async def handle(record: object) -> None:
        raise AssertionError("there are no records")

    async def main(servers: str) -> None:
        import trio

        async with kind("events", bootstrap_servers=servers, group_id="g") as consumer:
            trio.lowlevel.current_trio_token().run_sync_soon(signal.raise_signal, signal.SIGINT)
            await consumer.run(handle)

    with ClusterThread(EmbeddedCluster(brokers=1)) as cluster:
        cluster.create_topic("events")
        with pytest.raises(KeyboardInterrupt):
            anyio.run(main, cluster.bootstrap_servers, backend="trio")


@pytest.mark.anyio
async def test_what_is_no_exception_but_ends_a_background_task_reaches_every_caller() -> None:
    """For example, `pytest.fail` in a callback."""

    class ExitError(BaseException):
        pass

    async def background() -> None:
        raise ExitError

    async with EmbeddedCluster(1) as cluster, running(cluster) as client:
        client.spawn(background, name="background")
        with pytest.raises(BackgroundTaskError, match="background ended with ExitError"), anyio.fail_after(20):
            await client.metadata.topic("nowhere", 60_000)
        with pytest.raises(BackgroundTaskError):
            client.check()
