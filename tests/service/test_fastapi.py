"""`aiokafka_lead.fastapi`: the clients of an app."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from fastapi import Depends, FastAPI, Request, WebSocket

from aiokafka_lead import AdminClient, Consumer, ConsumerRecord, Handlers, Producer, ShareRecord
from aiokafka_lead.errors import (
    ConfigError,
    ConfigTypeError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    KafkaConnectionError,
    TopicAuthorizationFailedError,
)
from aiokafka_lead.fastapi import Kafka
from aiokafka_lead.schema import Schema, SchemaRegistry
from aiokafka_lead.testing import EmbeddedCluster, EmbeddedSchemaRegistry
from tests.share.support import configure

from ..ports import PortPool

pytestmark = pytest.mark.anyio


@pytest.fixture(name="cluster")
async def two_brokers() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(2) as cluster:
        cluster.create_topic("orders", 2, replication_factor=2)
        yield cluster


@asynccontextmanager
async def running(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Run the app as a server does, with its lifespan."""
    with anyio.fail_after(30):
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as http,
        ):
            yield http


class App:
    """An app that publishes orders, and handles them."""

    def __init__(self, kafka: Kafka, fails_at: bytes = b"") -> None:
        orders, admin = kafka.producer(linger_ms=0), kafka.admin()
        with_orders: Any = Depends(orders)
        with_admin: Any = Depends(admin)
        self._put, self.handled = anyio.create_memory_object_stream[bytes | None](100)
        self.app = app = FastAPI(lifespan=kafka.lifespan)
        app.include_router(kafka.router())
        kafka.handle_errors(app)

        @kafka.consumer("orders", group_id="audit", auto_offset_reset="earliest", run={"retries": 0})
        async def audit(record: ConsumerRecord[Any, Any]) -> None:
            if record.value == fails_at:
                raise ValueError("cannot be handled")
            await self._put.send(record.value)

        @app.post("/orders")
        async def accept(request: Request, producer: Producer[Any, Any] = with_orders) -> int:
            return (await producer.send_and_wait("orders", await request.body(), partition=0)).offset

        @app.get("/topics")
        async def topics(client: AdminClient = with_admin) -> list[str]:
            return sorted(await client.list_topics())

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._put.close()
        self.handled.close()


async def test_a_value_that_does_not_fit_is_no_outage(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with EmbeddedSchemaRegistry() as embedded:
        registry = SchemaRegistry(embedded.url, timeout_ms=2_000, request_timeout_ms=2_000, retry_backoff_ms=1)
        await registry.register("orders-value", Schema('"int"'))
        kafka = Kafka(cluster.bootstrap_servers, client_id="api")
        orders = kafka.producer(linger_ms=0, value_serializer=registry.avro_serializer('"int"'))
        with_orders: Any = Depends(orders)
        app = FastAPI(lifespan=kafka.lifespan)
        kafka.handle_errors(app)

        @app.post("/orders")
        async def accept(request: Request, producer: Producer[Any, Any] = with_orders) -> int:
            body = (await request.body()).decode()
            return (await producer.send_and_wait("orders", int(body) if body.isdecimal() else body)).offset

        async with running(app) as http:
            embedded.stop()
            away = await http.post("/orders", content="1")
            assert (away.status_code, away.headers["retry-after"]) == (503, "5")
            embedded.start()
            assert (await http.post("/orders", content="1")).status_code == 200
            refused = await http.post("/orders", content="PRIVATE")
            assert (refused.status_code, "retry-after" in refused.headers) == (500, False)
    assert "PRIVATE" not in caplog.text


async def test_mistakes_of_the_program_are_no_outage(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = Kafka(cluster.bootstrap_servers, client_id="api")
    with_orders: Any = Depends(kafka.producer(linger_ms=0))
    app = FastAPI(lifespan=kafka.lifespan)
    kafka.handle_errors(app)
    values: dict[str, Any] = {"text": "text", "stopped": b"1"}

    @app.post("/{topic}/{value}")
    async def put(topic: str, value: str, producer: Producer[Any, Any] = with_orders) -> None:
        if value == "stopped":
            await producer.stop()
        await producer.send_and_wait(topic, values[value])

    async with running(app) as http:
        for path in ("/orders/text", "/no topic/text"):
            caplog.clear()
            answer = await http.post(path)
            assert (answer.status_code, answer.json()) == (500, {"detail": "internal error"})
            (logged,) = [record for record in caplog.records if record.name == "aiokafka_lead.fastapi"]
            assert logged.levelname == "ERROR"
            assert logged.exc_info
        assert (await http.post("/orders/stopped")).status_code == 503
    with pytest.raises(httpx.HTTPStatusError, match="500"):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as http:
            (await http.post("/orders/stopped")).raise_for_status()


@pytest.mark.parametrize(
    ("path", "code", "level"), [("/orders", 1009, ""), ("/no topic", 1011, "ERROR"), ("/missing", 1013, "WARNING")]
)
async def test_a_websocket_is_closed_with_a_code(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture, path: str, code: int, level: str
) -> None:
    cluster.faults.add("Metadata", topic="missing", error_code=TopicAuthorizationFailedError)
    kafka = Kafka(cluster.bootstrap_servers, client_id="api")
    block_ms = 100 if path == "/missing" else 20_000
    with_orders: Any = Depends(kafka.producer(linger_ms=0, max_request_size=500, max_block_ms=block_ms))
    app = FastAPI(lifespan=kafka.lifespan)
    kafka.handle_errors(app)

    @app.websocket("/{topic}")
    async def put(websocket: WebSocket, topic: str, producer: Producer[Any, Any] = with_orders) -> None:
        await websocket.accept()
        await producer.send_and_wait(topic, b"1" * 1_000 if topic == "orders" else b"1")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": path, "headers": [], "query_string": b"", "subprotocols": []}
    async with running(app):
        await app(scope, receive, send)
    assert [message["type"] for message in sent] == ["websocket.accept", "websocket.close"]
    assert sent[1]["code"] == code
    logged = [(each.levelname, each.message) for each in caplog.records if each.name == "aiokafka_lead.fastapi"]
    assert [each[0] for each in logged] == [level] * bool(level)
    assert all(text.startswith(f"WebSocket {path}: ") for _, text in logged)


async def test_handlers_of_several_topics(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("refunds")
    cluster.create_topic("totals")
    kafka = Kafka(cluster.bootstrap_servers, client_id="api")
    orders = kafka.producer(linger_ms=0)
    handlers = Handlers()

    @handlers.on("orders", max_records=2, max_wait_ms=20_000, to="totals")
    async def add(numbers: list[int]) -> int:
        return sum(numbers)

    @handlers.on("refunds", to="totals")
    async def negate(number: int) -> int:
        return -number

    assert kafka.consumer(group_id="sums", auto_offset_reset="earliest")(handlers) is handlers
    with pytest.raises(ConfigError, match="refunds"):
        kafka.consumer("orders", group_id="sums")(handlers)
    async with (
        running(FastAPI(lifespan=kafka.lifespan)),
        Consumer("totals", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as totals,
    ):
        producer = await orders()
        for number in (b"1", b"2"):
            await producer.send_and_wait("orders", number, partition=0)
        assert (await totals.getone()).value == b"3"
        await producer.send_and_wait("refunds", b"4")
        assert (await totals.getone()).value == b"-4"


async def test_a_share_group_does_what_requests_enqueue(cluster: EmbeddedCluster) -> None:
    kafka = Kafka(cluster.bootstrap_servers, client_id="api")
    jobs = kafka.producer(linger_ms=0)
    with_jobs: Any = Depends(jobs)
    app = FastAPI(lifespan=kafka.lifespan)
    app.include_router(kafka.router())
    put, done = anyio.create_memory_object_stream[bytes](10)

    @kafka.share_consumer("orders", group_id="workers", run={"retries": 1, "retry_backoff_ms": 1})
    async def work(record: ShareRecord[Any, Any]) -> None:
        if record.delivery_count == 1:
            raise ValueError("not yet")
        await put.send(record.value)

    with pytest.raises(ConfigTypeError, match="order"):
        kafka.share_consumer("orders", group_id="workers", run={"order": "key"})  # type: ignore[arg-type]

    @app.post("/jobs")
    async def enqueue(request: Request, producer: Producer[Any, Any] = with_jobs) -> None:
        await producer.send_and_wait("orders", await request.body())

    await configure(cluster.bootstrap_servers, "workers")
    with put, done:
        async with running(app) as http:
            assert (await http.post("/jobs", content=b"1")).status_code == 200
            assert await done.receive() == b"1"
            assert (await http.get("/health/ready")).json()["problems"] == []
            assert (
                'kafka_share_consumer_records_total{client_id="api",topic="orders"} 2'
                in (await http.get("/metrics")).text
            )


async def test_routes_and_handlers_have_the_app_s_clients_each_time_that_it_runs(cluster: EmbeddedCluster) -> None:
    app = App(Kafka(cluster.bootstrap_servers))
    with app:
        for run in range(2):
            async with running(app.app) as http:
                assert (await http.post("/orders", content=b"%d" % run)).json() == run
                assert await app.handled.receive() == b"%d" % run  # earlier records are committed
                assert (await http.get("/topics")).json() == ["orders"]
                assert (await http.get("/health/ready")).json() == {"healthy": True, "problems": []}
                assert (await http.get("/health/live")).status_code == 200
                assert 'kafka_consumer_records_total{client_id="aiokafka-lead"' in (await http.get("/metrics")).text
                too_large = await http.post("/orders", content=b"x" * 2_000_000)
                assert (too_large.status_code, too_large.json()) == (413, {"detail": "too large"})
            assert cluster.requests.count("LeaveGroup") == run + 1


async def test_a_handler_s_failure_ends_the_app_s_life(cluster: EmbeddedCluster) -> None:
    app = App(Kafka(cluster.bootstrap_servers), fails_at=b"bad")
    with app:
        async with running(app.app) as http:
            await http.post("/orders", content=b"good")
            assert await app.handled.receive() == b"good"
            await http.post("/orders", content=b"bad")
            answer = await http.get("/health/live")
            while answer.status_code == 200:
                await anyio.sleep(0.02)
                answer = await http.get("/health/live")
            (problem,) = answer.json()["problems"]
            assert problem == "records are no longer handled: the record at offset 1 of orders-0: ValueError"


@pytest.mark.parametrize("topics", [(), ("orders",)])
async def test_handlers_of_an_app_that_starts_before_kafka(ports: PortPool, topics: tuple[str, ...]) -> None:
    """They may have no topics when they are registered."""
    port = ports.take()
    kafka = Kafka(f"127.0.0.1:{port}", reconnect_backoff_max_ms=50)
    handlers, handled = Handlers(), anyio.Event()

    async def handle(record: ConsumerRecord[Any, Any]) -> None:
        handled.set()

    if topics:
        handlers.on("orders")(handle)
    kafka.consumer(*topics, group_id="g", auto_offset_reset="earliest", max_poll_interval_ms=100)(handlers)
    if not topics:
        handlers.on("orders")(handle)
    app = FastAPI(lifespan=kafka.lifespan)
    app.include_router(kafka.router())
    async with running(app) as http:
        await anyio.sleep(0.2)  # longer than max_poll_interval_ms
        assert (await http.get("/health/live")).json()["problems"] == []
        async with EmbeddedCluster(1, ports=[port]) as cluster:
            cluster.create_topic("orders")
            async with Producer(cluster.bootstrap_servers) as producer:
                await producer.send_and_wait("orders", b"1")
            await handled.wait()


async def test_a_cluster_that_is_away_has_no_app_started_anew(cluster: EmbeddedCluster) -> None:
    app = App(Kafka(cluster.bootstrap_servers, request_timeout_ms=1000))
    with app:
        async with running(app.app) as http:
            await http.post("/orders", content=b"1")
            await app.handled.receive()
            for broker in cluster.broker_ids:
                await cluster.kill_broker(broker)
            away = 'kafka_consumer_healthy{client_id="aiokafka-lead"} 0'
            while away not in (await http.get("/metrics")).text:  # noqa: ASYNC110 (no event)
                await anyio.sleep(0.02)
            for path in ("/health/live", "/health/ready"):
                answer = await http.get(path)
                assert (answer.status_code, answer.json()) == (200, {"healthy": True, "problems": []})
            for broker in cluster.broker_ids:
                await cluster.start_broker(broker)
            await http.post("/orders", content=b"2")
            assert await app.handled.receive() == b"2"


@pytest.mark.parametrize("pipeline", [False, True])
async def test_handlers_whose_records_count_once(cluster: EmbeddedCluster, pipeline: bool) -> None:
    cluster.create_topic("copies")
    kafka = Kafka(cluster.bootstrap_servers, client_id="api")
    make: Any = kafka.transaction_pipeline if pipeline else kafka.producer
    orders, copies = kafka.producer(linger_ms=0), make(transactional_id="copier", linger_ms=0, client_id="copier")
    failures = iter([True])

    @kafka.consumer("orders", group_id="copiers", auto_offset_reset="earliest", exactly_once=copies)
    async def copy(record: ConsumerRecord[Any, Any], txn: Any) -> None:
        await txn.send("copies", record.value)
        if record.value == b"3" and next(failures, False):
            raise ValueError("once")

    app = FastAPI(lifespan=kafka.lifespan)
    app.include_router(kafka.router())
    read: Any = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    async with running(app) as http, Consumer("copies", bootstrap_servers=cluster.bootstrap_servers, **read) as reader:
        producer = await orders()
        for number in range(6):
            await producer.send_and_wait("orders", b"%d" % number, partition=0)
        assert [(await reader.getone()).value for _ in range(6)] == [b"%d" % number for number in range(6)]
        name = "copier-0" if pipeline else "copier"
        assert f'kafka_producer_healthy{{client_id="{name}"}} 1' in (await http.get("/metrics")).text
        assert (await http.get("/health/live")).json()["problems"] == []


async def test_an_app_that_must_not_start_without_kafka(ports: PortPool) -> None:
    kafka = Kafka(f"127.0.0.1:{ports.take()}", wait=True)
    with pytest.raises(KafkaConnectionError):
        async with running(FastAPI(lifespan=kafka.lifespan)):
            raise AssertionError


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt])
async def test_an_error_in_a_lifespan_comes_out_as_it_is(cluster: EmbeddedCluster, kind: type[BaseException]) -> None:
    kafka = Kafka(cluster.bootstrap_servers)
    app = App(kafka).app
    error = kind("the database is away")
    for _ in range(2):  # stopped clients can be started again
        with pytest.raises(kind) as caught:
            async with kafka.lifespan(app):
                raise error
        assert caught.value is error


async def test_what_ends_a_handler_and_is_no_exception_comes_out_of_the_lifespan(cluster: EmbeddedCluster) -> None:
    class Ended(BaseException):
        pass

    kafka, reached = Kafka(cluster.bootstrap_servers), anyio.Event()

    @kafka.consumer("orders", group_id="audit", auto_offset_reset="earliest")
    async def audit(record: ConsumerRecord[Any, Any]) -> None:
        reached.set()
        raise Ended

    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("orders", b"1")
    with pytest.raises(Ended):
        async with running(FastAPI(lifespan=kafka.lifespan)):
            await reached.wait()


async def test_a_consumer_that_cannot_start_says_so_itself(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("JoinGroup", error_code=GroupAuthorizationFailedError.code)
    kafka = Kafka(cluster.bootstrap_servers, wait=True)
    with pytest.raises(GroupAuthorizationFailedError):
        async with running(App(kafka).app):
            raise AssertionError


async def test_nothing_is_added_to_a_running_app(cluster: EmbeddedCluster) -> None:
    kafka = Kafka(cluster.bootstrap_servers)
    consumer = kafka.consumer("orders", group_id="g")
    async with running(FastAPI(lifespan=kafka.lifespan)):
        with pytest.raises(IllegalStateError, match="before it starts"):
            consumer(anyio.sleep)
        with pytest.raises(IllegalStateError, match="before it starts"):
            kafka.producer()


async def test_what_cannot_be_right_raises_at_once(cluster: EmbeddedCluster) -> None:
    with pytest.raises(ConfigTypeError, match="client_idd"):
        Kafka("localhost:9092", client_idd="x")  # type: ignore[call-arg]
    with pytest.raises(ConfigTypeError, match="wait"):
        Kafka("localhost:9092", wait=1)  # type: ignore[arg-type]
    kafka = Kafka(cluster.bootstrap_servers)
    with pytest.raises(ConfigTypeError, match="lingerms"):
        kafka.producer(lingerms=1)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="retry_backoff_ms differs from the value of the shared Client"):
        kafka.admin(retry_backoff_ms=7)
    with pytest.raises(ConfigError, match="group_instance_id"):
        kafka.consumer("orders", group_instance_id="a")
    with pytest.raises(ConfigTypeError, match="retriess"):
        kafka.consumer("orders", run={"retriess": 1})  # type: ignore[arg-type]
    for make in (kafka.consumer, kafka.share_consumer):
        with pytest.raises(ConfigError, match="server of the app handles signals"):
            make("orders", group_id="g", run={"stop_on_signals": True})
    with pytest.raises(ConfigError, match="the consumer has no topics"):
        kafka.consumer(group_id="g")(anyio.sleep)
    copies, once = kafka.producer(transactional_id="copier"), anyio.sleep_until
    kafka.consumer("orders", group_id="g", exactly_once=copies)(once)
    with pytest.raises(ConfigError, match="another consumer already uses this exactly_once client"):
        kafka.consumer("orders", group_id="h", exactly_once=copies)(once)
    with pytest.raises(ConfigTypeError, match="exactly_once must be a result of"):
        kafka.consumer("orders", group_id="g", exactly_once="copier")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="transactional_id"):
        kafka.consumer("orders", group_id="g", exactly_once=kafka.producer())
    with pytest.raises(ConfigError, match="transactional_id"):
        kafka.transaction_pipeline()
    dependency = kafka.producer()
    with pytest.raises(IllegalStateError, match="lifespan"):
        await dependency()
    async with running(FastAPI(lifespan=kafka.lifespan)):
        with pytest.raises(IllegalStateError, match="another running app"):
            async with running(FastAPI(lifespan=kafka.lifespan)):
                raise AssertionError
