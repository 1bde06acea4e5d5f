"""Log lines: plain logger names, and the client's id at the start of every line."""

from __future__ import annotations

import logging

import pytest

from aiokafka_lead import Consumer, ConsumerOptions, Producer, TopicPartition
from aiokafka_lead._core.backoff import Sparingly
from aiokafka_lead._options.logs import FIELDS, client_log
from aiokafka_lead.errors import RequestTimedOutError, TopicAuthorizationFailedError
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import started

pytestmark = pytest.mark.anyio

PLAIN_NAMES = {f"aiokafka_lead.{area}" for area in ("client", "connection", "consumer", "metadata", "producer")}


def lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name.startswith("aiokafka_lead")]


async def test_every_line_begins_with_the_client_id(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "aiokafka_lead")
    async with EmbeddedCluster(2) as cluster:
        cluster.create_topic("events", replication_factor=2)
        options: ConsumerOptions = {
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "reconnect_backoff_ms": 10,
            "client_id": "con sumer",
        }
        async with (
            Producer(cluster.bootstrap_servers, client_id="pro%ducer", reconnect_backoff_ms=10) as producer,
            Consumer("events", bootstrap_servers=cluster.bootstrap_servers, **options) as consumer,
        ):
            await producer.send_and_wait("events", b"1")
            assert (await consumer.getone()).value == b"1"
            await cluster.kill_broker(cluster.leader("events"), failover_delay_ms=0)
            await producer.send_and_wait("events", b"2")
            assert (await consumer.getone()).value == b"2"
    found = lines(caplog)
    assert {record.name for record in found} <= PLAIN_NAMES
    assert {record.name for record in found} >= {"aiokafka_lead.connection", "aiokafka_lead.consumer"}
    for record in found:
        assert record.getMessage().startswith(("pro%ducer: ", "con sumer: ")), record.getMessage()
    for client_id in ("pro%ducer", "con sumer"):
        lost = [record for record in found if "onnection" in record.getMessage()]
        assert any(record.getMessage().startswith(client_id) for record in lost)


def test_a_line_is_its_caller_s(caplog: pytest.LogCaptureFixture) -> None:
    log = client_log("producer", "50%")
    log.warning("%d%% of %s", 10, "all")
    log.warning("100%")
    log.debug("not seen")
    first, second = lines(caplog)
    assert (first.getMessage(), second.getMessage()) == ("50%: 10% of all", "50%: 100%")
    assert (first.name, first.filename, first.funcName) == (
        "aiokafka_lead.producer",
        "test_logs.py",
        "test_a_line_is_its_caller_s",
    )


def test_what_a_line_is_about(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aiokafka_lead")
    log = client_log("consumer", "me")
    late = RequestTimedOutError("late", broker="1 (host:9092)")
    late.api = "Produce"
    log.info("%s: %s", TopicPartition("t", 3), late)
    log.info("nothing in particular")
    log.info("gave up %d", 3, extra={"topic": "u"})
    found = [tuple(getattr(record, field) for field in FIELDS) for record in lines(caplog)]
    assert found == [
        ("me", "1 (host:9092)", "t", 3, "Produce"),
        ("me", None, None, None, None),
        ("me", None, "u", None, None),
    ]


async def test_every_line_has_the_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "aiokafka_lead")
    async with EmbeddedCluster(1) as cluster:
        cluster.create_topic("events")
        options: ConsumerOptions = {"request_timeout_ms": 1500, "default_api_timeout_ms": 2500}
        async with started(Consumer("events", bootstrap_servers=cluster.bootstrap_servers, **options)) as consumer:
            cluster.faults.add("ListOffsets", drop=True)
            with pytest.raises(RequestTimedOutError):
                await consumer.end_offsets([TopicPartition("events", 0)])
    for record in lines(caplog):
        assert all(hasattr(record, field) for field in FIELDS)
    about = {(record.broker, record.api) for record in lines(caplog)}  # type: ignore[attr-defined]
    assert (f"1 ({cluster.address(1)})", "ListOffsets") in about


async def test_records_for_a_topic_that_stays_unknown_are_not_given_up_silently(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with EmbeddedCluster(1, auto_create_topics=False) as cluster:
        cluster.faults.add("Metadata", topic="secret", error_code=TopicAuthorizationFailedError)
        async with Producer(cluster.bootstrap_servers, client_id="me", max_block_ms=300) as producer:
            for topic in ("nowhere", "secret", "secret"):
                deliveries = [producer.send_nowait(topic, b"v") for _ in range(3)]
                for delivery in deliveries:
                    with pytest.raises(Exception, match="never sent"):
                        await delivery
    texts = [record.getMessage() for record in lines(caplog) if record.levelno == logging.WARNING]
    assert len(texts) == 2
    assert texts[0].startswith("me: dropped 3 records for the unknown topic nowhere: ")
    assert texts[1].startswith("me: dropped 3 records for the unknown topic secret: ")


def test_what_is_said_sparingly() -> None:
    sparing = Sparingly(60)
    assert [sparing.allow(topic, now) for topic, now in (("a", 0), ("b", 1), ("a", 59), ("a", 60), ("b", 60))] == [
        True,
        True,
        False,
        True,
        False,
    ]
