"""The fixture ``kafka_cluster``, in separate runs of pytest, for each kind of test."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]

INSTALLED = any(entry.value == "aiokafka_lead.testing.pytest_plugin" for entry in entry_points(group="pytest11"))
"""In an installation, pytest finds the plugin automatically."""


def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, source: str, *arguments: str, passed: int) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(source)
    if not INSTALLED:
        arguments = ("-p", "aiokafka_lead.testing.pytest_plugin", *arguments)
    if "no:anyio" not in arguments:
        arguments = ("-p", "no:asyncio", *arguments)
    result = pytester.runpytest_subprocess("-W", "error", "--strict-markers", *arguments, timeout=60)
    result.assert_outcomes(passed=passed)


CLIENT = """
    import asyncio
    import pytest
    from aiokafka import AIOKafkaProducer

    async def use(cluster):
        cluster.create_topic("events", partitions=3)
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, retry_backoff_ms=10) as producer:
            await producer.send_and_wait("events", b"one", partition=0)
            await cluster.kill_broker(cluster.leader("events"), failover_delay_ms=0)
            await producer.send_and_wait("events", b"two", partition=0)
        assert [record.value for record in cluster.records("events", 0)] == [b"one", b"two"]
"""


def test_plain_tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
        import confluent_kafka
        import pytest

        def test_default(kafka_cluster):
            kafka_cluster.create_topic("events")
            producer = confluent_kafka.Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
            producer.produce("events", b"one")
            assert producer.flush(20) == 0
            kafka_cluster.stop_broker(2)
            assert not kafka_cluster.is_running(2)
            assert [record.value for record in kafka_cluster.records("events")] == [b"one"]

        def test_each_test_has_its_own(kafka_cluster):
            assert kafka_cluster.topic_names() == []
            assert kafka_cluster.broker_ids == [1, 2, 3]

        @pytest.mark.kafka_cluster(brokers=1, auto_create_topics=False)
        def test_options(kafka_cluster):
            assert kafka_cluster.broker_ids == [1]
    """
    run(pytester, monkeypatch, source, passed=3)


def test_options_of_a_project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
        import pytest

        @pytest.fixture(scope="session")
        def kafka_cluster_options():
            return {"brokers": 2, "cluster_id": "mine"}

        @pytest.mark.kafka_cluster(brokers=1)
        class TestMarked:
            def test_class(self, kafka_cluster):
                assert (kafka_cluster.broker_ids, kafka_cluster.cluster_id) == ([1], "mine")

            @pytest.mark.kafka_cluster(cluster_id="another")
            def test_nearest_wins(self, kafka_cluster):
                assert (kafka_cluster.broker_ids, kafka_cluster.cluster_id) == ([1], "another")

        def test_project(kafka_cluster):
            assert kafka_cluster.broker_ids == [1, 2]
    """
    run(pytester, monkeypatch, source, passed=3)


def test_pytest_asyncio(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pytest_asyncio")
    source = f"""{CLIENT}
    pytestmark = pytest.mark.asyncio

    async def test_function(kafka_cluster):
        await asyncio.wait_for(use(kafka_cluster), 30)

    @pytest.mark.asyncio(loop_scope="module")
    async def test_shared_loop(kafka_cluster):
        await asyncio.wait_for(use(kafka_cluster), 30)
    """
    run(pytester, monkeypatch, source, "-p", "no:anyio", "-o", "asyncio_default_fixture_loop_scope=function", passed=2)


def test_async_fixtures_of_pytest_asyncio(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest-asyncio runs the setup and the teardown of a fixture in two tasks."""
    pytest.importorskip("pytest_asyncio")
    source = """
        import pytest
        import pytest_asyncio
        from fastapi import FastAPI
        from aiokafka_lead import Producer
        from aiokafka_lead.fastapi import Kafka
        from aiokafka_lead.testing import EmbeddedCluster

        pytestmark = pytest.mark.asyncio
        handled = []

        @pytest_asyncio.fixture
        async def cluster():
            async with EmbeddedCluster(brokers=2) as embedded:
                embedded.create_topic("events")
                yield embedded
            assert not embedded.is_running(1)

        @pytest_asyncio.fixture
        async def app(cluster):
            kafka = Kafka(cluster.bootstrap_servers)

            @kafka.consumer("events", group_id="g", auto_offset_reset="earliest")
            async def handle(record):
                handled.append(record.value)

            app = FastAPI(lifespan=kafka.lifespan)
            async with app.router.lifespan_context(app):
                yield app

        async def test_it(cluster, app):
            async with Producer(cluster.bootstrap_servers) as producer:
                await producer.send_and_wait("events", b"one")
            await cluster.wait_for_requests("OffsetCommit")
            assert handled == [b"one"]
    """
    run(pytester, monkeypatch, source, "-p", "no:anyio", "-o", "asyncio_default_fixture_loop_scope=function", passed=1)


def test_anyio_on_asyncio_and_trio(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
        import anyio
        import pytest
        from aiokafka_lead.testing import EmbeddedCluster

        pytestmark = pytest.mark.anyio

        @pytest.fixture(params=["asyncio", "trio"])
        def anyio_backend(request):
            return request.param

        async def test_calls(kafka_cluster):
            kafka_cluster.create_topic("events", partitions=3)
            moved = kafka_cluster.move_leader("events", 0)
            assert kafka_cluster.leader("events", 0) == moved
            await kafka_cluster.stop_broker(1)
            host, _, port = kafka_cluster.address(1).rpartition(":")
            with pytest.raises(OSError):
                await anyio.connect_tcp(host, int(port))
            await kafka_cluster.start_broker(1)
            await (await anyio.connect_tcp(host, int(port))).aclose()

        async def test_beside_a_cluster_in_the_test_s_own_loop(kafka_cluster):
            async with EmbeddedCluster(brokers=1) as mine:
                assert mine.bootstrap_servers not in kafka_cluster.bootstrap_servers
    """
    run(pytester, monkeypatch, source, passed=4)


def test_anyio_with_a_client(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    source = f"""{CLIENT}
    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend():
        return "asyncio"

    async def test_function(kafka_cluster):
        await asyncio.wait_for(use(kafka_cluster), 30)
    """
    run(pytester, monkeypatch, source, passed=1)


def test_the_plugin_costs_nothing_where_it_is_not_used(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
        import sys

        def test_nothing_is_imported():
            assert "aiokafka_lead.testing.cluster" not in sys.modules
            assert "aiokafka_lead.testing._server" not in sys.modules
    """
    run(pytester, monkeypatch, source, passed=1)
