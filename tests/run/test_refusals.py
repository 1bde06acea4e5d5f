"""`Consumer.run` and `ShareConsumer.run` while brokers refuse requests that they used to grant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from aiokafka_lead import Consumer, Handlers, Producer, ShareConsumer, TransactionPipeline
from aiokafka_lead.errors import (
    ConfigError,
    GroupAuthorizationFailedError,
    HandlerError,
    KafkaError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
)
from aiokafka_lead.testing import EmbeddedCluster, Fault, GroupOptions

from ..patience import started

pytestmark = pytest.mark.anyio

TOPIC, GROUP, TRANSACTIONAL_ID = 29, 30, 53
QUICK: dict[str, Any] = {"auto_offset_reset": "earliest", "retry_backoff_ms": 20, "retry_backoff_max_ms": 50}
CLASSIC: dict[str, Any] = {
    **QUICK,
    "group_protocol": "classic",
    "heartbeat_interval_ms": 100,
    "auto_commit_interval_ms": 50,
}
COMMITTED: dict[str, Any] = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
PATIENT: dict[str, Any] = {"refusal_patience_ms": 60_000}


@pytest.fixture(name="cluster")
async def with_quick_heartbeats() -> AsyncIterator[EmbeddedCluster]:
    groups = GroupOptions(consumer_heartbeat_interval_ms=100, share_heartbeat_interval_ms=100)
    async with EmbeddedCluster(brokers=1, groups=groups) as embedded:
        embedded.create_topic("events")
        embedded.create_topic("copies")
        embedded.create_topic("letters")
        embedded.shares.configure("g", {"share.auto.offset.reset": "earliest"})
        yield embedded


class Values:
    """Values passed to handlers."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self.count = 0
        self._news = anyio.Event()

    async def handle(self, record: Any, *_: Any) -> None:
        self.seen.add(record.value)
        self.count += 1
        news, self._news = self._news, anyio.Event()
        news.set()

    async def until(self, value: bytes) -> None:
        with anyio.fail_after(40):
            while value not in self.seen:
                await self._news.wait()


Run = Callable[[Values], Coroutine[Any, Any, None]]


@asynccontextmanager
async def running(consumer: Any, run: Run, values: Values) -> AsyncIterator[None]:
    """Run in the background until the block ends."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, values)
        yield
        await consumer.stop()


async def until(happened: Callable[[], object]) -> None:
    """Poll until the condition holds, in the absence of an event."""
    with anyio.fail_after(40):
        while not happened():  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def struck(fault: Fault) -> None:
    await until(lambda: fault.struck)


async def survives(cluster: EmbeddedCluster, consumer: Any, run: Run, refuse: Callable[[], Fault]) -> None:
    values = Values()
    async with Producer(cluster.bootstrap_servers, linger_ms=0) as producer, running(consumer, run, values):
        await producer.send_and_wait("events", b"before")
        await values.until(b"before")
        fault = refuse()
        await producer.send_and_wait("events", b"meanwhile")
        await struck(fault)
        await producer.send_and_wait("events", b"after")
        await values.until(b"after")
        assert consumer.health().live


@pytest.mark.parametrize(
    ("api", "code"),
    [("Heartbeat", GROUP), ("JoinGroup", GROUP), ("OffsetCommit", GROUP), ("OffsetCommit", TOPIC), ("Fetch", TOPIC)],
)
async def test_a_member_of_a_classic_group(cluster: EmbeddedCluster, api: str, code: int) -> None:
    def refuse() -> Fault:
        if api == "JoinGroup":
            cluster.faults.add("Heartbeat", error_code=27, count=1)
        return cluster.faults.add(api, error_code=code, count=2)

    async with Consumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id="g", **CLASSIC) as consumer:
        await survives(cluster, consumer, lambda values: consumer.run(values.handle, **PATIENT), refuse)


@pytest.mark.parametrize(("api", "code"), [("ConsumerGroupHeartbeat", GROUP), ("Fetch", TOPIC), ("Metadata", TOPIC)])
async def test_a_member_that_the_coordinator_assigns(cluster: EmbeddedCluster, api: str, code: int) -> None:
    options = {**QUICK, "group_protocol": "consumer", "metadata_max_age_ms": 100}

    def refuse() -> Fault:
        return cluster.faults.add(api, error_code=code, count=2, topic="events" if api == "Metadata" else None)

    async with Consumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id="g", **options) as consumer:
        await survives(cluster, consumer, lambda values: consumer.run(values.handle, **PATIENT), refuse)


@pytest.mark.parametrize(
    ("api", "code"), [("ShareGroupHeartbeat", GROUP), ("ShareFetch", TOPIC), ("ShareFetch", GROUP)]
)
async def test_a_share_consumer(cluster: EmbeddedCluster, api: str, code: int) -> None:
    options: dict[str, Any] = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 50, "fetch_max_wait_ms": 50}

    def refuse() -> Fault:
        return cluster.faults.add(api, error_code=code, count=2, whole=api == "ShareFetch" and code == GROUP)

    async with ShareConsumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id="g", **options) as jobs:
        await survives(cluster, jobs, lambda values: jobs.run(values.handle, **PATIENT), refuse)


@pytest.mark.parametrize(
    ("version", "api", "code"),
    [
        (2, "Heartbeat", GROUP),
        (2, "Fetch", TOPIC),
        (2, "TxnOffsetCommit", GROUP),
        (2, "EndTxn", TRANSACTIONAL_ID),
        (2, "Produce", TOPIC),
        (1, "AddPartitionsToTxn", TRANSACTIONAL_ID),
        (1, "AddPartitionsToTxn", TOPIC),
        (1, "AddOffsetsToTxn", GROUP),
        (1, "EndTxn", TRANSACTIONAL_ID),
    ],
)
@pytest.mark.parametrize("pipelined", [False, True])
async def test_exactly_once(cluster: EmbeddedCluster, version: int, api: str, code: int, pipelined: bool) -> None:
    cluster.set_feature("transaction.version", version)
    where: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 20, "retry_backoff_max_ms": 50}
    own = (
        TransactionPipeline(cluster.bootstrap_servers, transactional_id="t", **where)
        if pipelined
        else Producer(cluster.bootstrap_servers, transactional_id="t", **where)
    )
    values = Values()

    options: dict[str, Any] = {"max_transaction_ms": 20, **PATIENT}
    if api == "Produce":
        options["transaction_retries"] = 0

    async def copy(record: Any, txn: Any) -> None:
        await txn.send("copies", record.value)

    async with (
        own,
        Producer(cluster.bootstrap_servers, linger_ms=0) as producer,
        Consumer(
            "events", bootstrap_servers=cluster.bootstrap_servers, client_id="c", group_id="g", **CLASSIC
        ) as consumer,
        Consumer("copies", bootstrap_servers=cluster.bootstrap_servers, **COMMITTED) as looks,
        running(looks, lambda values: looks.run(values.handle), values),
        running(consumer, lambda _: consumer.run(copy, exactly_once=own, **options), values),
    ):
        await producer.send_and_wait("events", b"before")
        await values.until(b"before")
        only: dict[str, Any] = {"client_id": consumer.client_id} if api == "Fetch" else {}
        if api == "Produce":
            only["topic"] = "copies"
        fault = cluster.faults.add(api, error_code=code, count=2, **only)
        await producer.send_and_wait("events", b"meanwhile")
        await values.until(b"meanwhile")
        await struck(fault)
        await producer.send_and_wait("events", b"after")
        await values.until(b"after")
        assert values.count == 3


@pytest.mark.parametrize(
    ("api", "code", "kind"),
    [("Heartbeat", GROUP, GroupAuthorizationFailedError), ("Fetch", TOPIC, TopicAuthorizationFailedError)],
)
@pytest.mark.parametrize("options", [{}, {"refusal_patience_ms": 300}])
async def test_it_ends_without_patience_and_when_that_is_used_up(
    cluster: EmbeddedCluster, api: str, code: int, kind: type[KafkaError], options: dict[str, Any]
) -> None:
    """JoinGroup is refused as well, like on real brokers."""
    async with Consumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id="g", **CLASSIC) as consumer:
        cluster.faults.add(api, error_code=code)
        if api == "Heartbeat":
            cluster.faults.add("JoinGroup", error_code=code)
        with anyio.fail_after(30), pytest.raises(kind):
            await consumer.run(Values().handle, **options)


async def test_health_says_so_meanwhile(cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    values = Values()
    async with (
        Consumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id="g", **CLASSIC) as consumer,
        running(consumer, lambda values: consumer.run(values.handle, **PATIENT), values),
    ):
        fault = cluster.faults.add("Fetch", error_code=TOPIC)
        await until(lambda: consumer.health().problems)
        health = consumer.health()
        fault.remove()
        assert "brokers have refused requests of run() for" in health.problems[0]
        assert "events-0 cannot be read" in health.problems[0]
        assert not health.healthy
        assert health.live
    assert caplog.text.count("which retries for up to 60 s") == 1


async def test_a_login_that_a_broker_refuses_for_longer_than_a_request_may_take() -> None:
    login: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "top-secret",
    }
    options = {**login, **QUICK, "request_timeout_ms": 300, "fetch_max_wait_ms": 50, "reconnect_backoff_max_ms": 50}
    async with EmbeddedCluster(brokers=1, sasl_users={"alice": "top-secret"}) as cluster:
        cluster.create_topic("events")
        values = Values()
        async with (
            Producer(cluster.bootstrap_servers, linger_ms=0, **login) as producer,
            started(
                Consumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id="g", **options)
            ) as consumer,
            running(consumer, lambda values: consumer.run(values.handle, **PATIENT), values),
        ):
            await producer.send_and_wait("events", b"before")
            await values.until(b"before")
            await cluster.stop_broker(1)
            fault = cluster.faults.add(
                "SaslAuthenticate", error_code=SaslAuthenticationFailedError, client_id=consumer.client_id
            )
            await cluster.start_broker(1)
            await until(lambda: "refused the login" in " ".join(consumer.health().problems))
            fault.remove()
            await producer.send_and_wait("events", b"after")
            await values.until(b"after")


async def test_a_dead_letter_that_is_refused_is_sent_again(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers, linger_ms=0) as producer:
        await producer.send_and_wait("events", b"bad")
        options: dict[str, Any] = {"retries": 0, "dead_letter_topic": "letters", "dead_letter_producer": producer}

        async def fail(record: Any) -> None:
            raise ValueError(record.value)

        async with Consumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id="g", **CLASSIC) as consumer:
            cluster.faults.add("Produce", topic="letters", error_code=TOPIC, count=1)
            with anyio.fail_after(30), pytest.raises(HandlerError, match="its dead letter was not accepted"):
                await consumer.run(fail, **options)
            fault = cluster.faults.add("Produce", topic="letters", error_code=TOPIC, count=2)
            async with running(consumer, lambda _: consumer.run(fail, **options, **PATIENT), Values()):
                await cluster.wait_for_requests("OffsetCommit", count=cluster.requests.count("OffsetCommit") + 1)
        assert fault.struck == 2
    assert [record.value for record in cluster.records("letters")] == [b"bad"]


@pytest.mark.parametrize("batches", [{}, {"max_records": 5}])
async def test_results_that_are_refused_are_not_the_record_s_fault(
    cluster: EmbeddedCluster, batches: dict[str, Any]
) -> None:
    handlers = Handlers()

    @handlers.on("events", to="copies", **batches)
    async def copy(given):  # type: ignore[no-untyped-def]
        return b"copied"

    options: dict[str, Any] = {"retries": 1, "retry_backoff_ms": 5, "dead_letter_topic": "letters"}
    async with (
        Producer(cluster.bootstrap_servers, linger_ms=0) as producer,
        Consumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id="g", **CLASSIC) as consumer,
    ):
        fault = cluster.faults.add("Produce", topic="copies", error_code=TOPIC, count=5)
        async with running(consumer, lambda _: consumer.run(handlers, **options, **PATIENT), Values()):
            await producer.send_and_wait("events", b"1")
            await until(lambda: cluster.records("copies"))
        assert fault.struck == 5
        assert [record.value for record in cluster.records("copies")] == [b"copied"]
        assert cluster.records("letters") == []
        cluster.faults.add("Produce", topic="copies", error_code=TOPIC)
        await producer.send_and_wait("events", b"2")
    options["refusal_patience_ms"] = 100
    async with (
        Consumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id="g", **CLASSIC) as consumer,
        running(consumer, lambda _: consumer.run(handlers, **options), Values()),
    ):
        await until(lambda: cluster.records("letters"))
    assert [record.value for record in cluster.records("letters")] == [b"2"]


@pytest.mark.parametrize(
    ("api", "topic", "options"),
    [
        ("Metadata", "letters", {"dead_letter_topic": "letters"}),
        ("CreateTopics", None, {"retry_topics": ["1s"]}),
        ("Metadata", "letters", {"dead_letter_topic": "letters", "exactly_once": True}),
    ],
)
async def test_the_beginning_of_a_run(
    cluster: EmbeddedCluster, api: str, topic: str | None, options: dict[str, Any]
) -> None:
    values = Values()
    async with (
        Producer(cluster.bootstrap_servers, linger_ms=0) as producer,
        Producer(cluster.bootstrap_servers, transactional_id="t") as own,
        Consumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id="g", **CLASSIC) as consumer,
    ):
        if "exactly_once" in options:
            options = {**options, "exactly_once": own}
        fault = cluster.faults.add(api, topic=topic, error_code=TOPIC, count=2)
        async with running(consumer, lambda values: consumer.run(values.handle, **options, **PATIENT), values):
            await producer.send_and_wait("events", b"1")
            await values.until(b"1")
        assert fault.struck == 2


async def test_the_option_is_checked(cluster: EmbeddedCluster) -> None:
    async with Consumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id="g") as consumer:
        with pytest.raises(ConfigError, match="refusal_patience_ms"):
            await consumer.run(Values().handle, refusal_patience_ms=-1)
