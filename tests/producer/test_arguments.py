"""Mistakes of the caller: an error names each at once, before any request."""

from __future__ import annotations

from enum import Enum
from typing import Any

import anyio
import pytest

from aiokafka_lead._records import murmur2
from aiokafka_lead.errors import (
    ClientClosedError,
    ConfigError,
    ConfigTypeError,
    KafkaConnectionError,
    MessageTooLargeError,
    NotStartedError,
)
from aiokafka_lead.producer import Producer
from aiokafka_lead.testing import EmbeddedCluster

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"topic": None}, ConfigTypeError, "topic must be a str, not NoneType"),
        ({"topic": 5}, ConfigTypeError, "topic must be a str, not int"),
        ({"topic": ""}, ConfigError, "topic must not be empty"),
        ({"topic": "a b"}, ConfigError, "topic must be .*'a b'"),
        ({"topic": ".."}, ConfigError, "topic must be"),
        ({"topic": "t" * 250}, ConfigError, "topic must be up to 249"),
        ({"value": "text"}, ConfigTypeError, "value must be bytes or None, not str; is value_serializer missing"),
        ({"key": 5}, ConfigTypeError, "key must be bytes or None, not int"),
        ({"partition": -1}, ConfigError, "partition must be from 0 to"),
        ({"partition": "0"}, ConfigTypeError, "partition must be an int or None, not str"),
        ({"partition": True}, ConfigTypeError, "partition must be an int or None, not bool"),
        ({"partition": 3}, ConfigError, "partition must be from 0 to 2 in topic 'events', not 3"),
        ({"timestamp_ms": 1.5}, ConfigTypeError, "timestamp_ms must be an int or None, not float"),
        ({"timestamp_ms": -1}, ConfigError, "timestamp_ms must be from 0"),
        ({"headers": {"h": b"1"}}, ConfigTypeError, "headers must be a list"),
        ({"headers": ["h"]}, ConfigTypeError, "headers must contain"),
        ({"headers": [(b"h", b"1")]}, ConfigTypeError, "headers must have str names, not bytes"),
        ({"headers": [("h", "1")]}, ConfigTypeError, "headers must have bytes or None as values, not str"),
    ],
)
async def test_wrong_arguments(
    cluster: EmbeddedCluster, arguments: dict[str, Any], kind: type[Exception], text: str
) -> None:
    given = {"topic": "events", "value": b"v", **arguments}
    async with Producer(cluster.bootstrap_servers) as producer:
        for _ in range(2):  # the second time with a batch open
            with pytest.raises(kind, match=text) as caught:
                await producer.send(**given)
            assert isinstance(caught.value, (ValueError, TypeError))
            with pytest.raises(kind, match=text):
                producer.send_nowait(**given)
            await producer.send_and_wait("events", b"right", partition=0)
        await producer.flush()
    assert sum(len(cluster.records("events", partition)) for partition in range(3)) == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"values": [b"a", 5]}, "value must be bytes or None, not int"),
        ({"keys": [b"a"]}, "keys must have one entry for each of the 2 values, not 1"),
        ({"timestamps_ms": [1, 2, 3]}, "timestamps_ms must have one entry"),
        ({"headers": [None]}, "headers must have one entry"),
        ({"headers": [None, [("h", 1)]]}, "headers must have bytes or None"),
        ({"partition": 9}, "partition must be from 0 to 2"),
    ],
)
async def test_wrong_arguments_of_send_many(cluster: EmbeddedCluster, arguments: dict[str, Any], text: str) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        given = {"topic": "events", "values": [b"a", b"b"], **arguments}
        with pytest.raises((ValueError, TypeError), match=text):
            await producer.send_many(**given)
        await producer.flush()
    assert not any(cluster.records("events", partition) for partition in range(3))


async def test_record_too_large_for_a_request_or_for_the_buffer(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers, max_request_size=1000, buffer_memory=900) as producer:
        with pytest.raises(MessageTooLargeError, match=r"exceeds max_request_size \(1000\)"):
            await producer.send("events", b"x" * 1000)
        with pytest.raises(MessageTooLargeError, match=r"exceeds buffer_memory \(900\)"):
            producer.send_nowait("events", b"x" * 850)
        await producer.send_and_wait("events", b"x" * 700)


async def test_own_partitioner_that_is_wrong(cluster: EmbeddedCluster) -> None:
    choices: list[Any] = ["0", 7, True]

    def partitioner(key: object, everything: object, available: object) -> Any:
        return choices[0]

    async with Producer(cluster.bootstrap_servers, partitioner=partitioner) as producer:
        with pytest.raises(TypeError, match="partitioner must return an int, not str"):
            await producer.send("events", b"v")
        del choices[0]
        with pytest.raises(ValueError, match="partitioner chose partition 7: topic 'events' has 3"):
            await producer.send("events", b"v")


async def test_own_partitioner_that_fails_while_a_topic_is_looked_up(cluster: EmbeddedCluster) -> None:
    """No call is left to raise its error."""

    def partitioner(key: bytes | None, everything: object, available: object) -> int:
        if key is None:
            raise LookupError("no key")
        return 0

    async with Producer(cluster.bootstrap_servers, partitioner=partitioner) as producer:
        deliveries = [producer.send_nowait("another", b"v", key) for key in (b"a", None, b"b")]
        with pytest.raises(ConfigError, match=r"partitioner failed for a record of 'another': LookupError") as caught:
            await deliveries[1]
        assert isinstance(caught.value.__cause__, LookupError)
        assert [(await deliveries[number]).offset for number in (0, 2)] == [0, 1]
        assert producer.metrics().records_failed == 1
        with pytest.raises(LookupError):
            await producer.send("another", b"v")
        await producer.send_and_wait("another", b"v", b"a")


async def test_ignored_keys_stick_like_no_keys(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers, partitioner_ignore_keys=True) as producer:
        chosen = {(await producer.send_and_wait("events", b"v", b"%d" % n)).partition for n in range(10)}
    assert len(chosen) == 1
    assert len({(murmur2(b"%d" % n) & 0x7FFFFFFF) % 3 for n in range(10)}) == 3


async def test_before_start_and_after_stop(cluster: EmbeddedCluster) -> None:
    producer = Producer(cluster.bootstrap_servers)
    for error in (NotStartedError, ClientClosedError):
        with pytest.raises(error):
            await producer.send("events", b"v")
        with pytest.raises(error):
            producer.send_nowait("events", b"v")
        with pytest.raises(error):
            await producer.send_many("events", [b"v"])
        with pytest.raises(error):
            await producer.flush()
        with pytest.raises(error):
            await producer.partitions_for("events")
        if error is NotStartedError:
            await producer.start()
            delivery = await producer.send("events", b"v")
            await producer.stop()
            assert (await delivery).offset == 0
            await producer.stop()
    assert producer.metrics().records_acked == 1


async def test_stop_without_start() -> None:
    producer = Producer("127.0.0.1:1")
    await producer.stop()
    with pytest.raises(ClientClosedError):
        await producer.send("events", b"v")


async def test_nobody_listens() -> None:
    with anyio.fail_after(20):
        with pytest.raises(KafkaConnectionError, match=r"127\.0\.0\.1:1"):
            await Producer("127.0.0.1:1").start()


class Hex(bytes):
    """Bytes with another ``str()``, like HexBytes and numpy.bytes_."""

    def __bytes__(self) -> bytes:
        return Hex(b"0x" + self.hex().encode())

    def __str__(self) -> str:
        return "0x" + self.hex()


class Name(str, Enum):  # noqa: UP042 - its str() is the point
    """A str with another ``str()``."""

    TOPIC = "events"
    HEADER = "trace"


CONTENT = (Hex(b"v"), bytearray(b"v"), memoryview(b"v"))


@pytest.mark.parametrize("content", CONTENT, ids=lambda content: type(content).__name__)
@pytest.mark.parametrize("way", ["send", "send_nowait", "send_and_wait", "send_many", "serializers"])
async def test_bytes_of_every_kind_are_sent_as_they_are(cluster: EmbeddedCluster, content: Any, way: str) -> None:
    options: Any = {"linger_ms": 50}
    if way == "serializers":
        options.update(key_serializer=lambda _: content, value_serializer=lambda _: content)
    async with Producer[Any, Any](cluster.bootstrap_servers, **options) as producer:
        for _ in range(2):  # for an unknown topic, and with a batch open
            headers = [(Name.HEADER, content), ("none", None)]
            if way == "send_many":
                await producer.send_many(Name.TOPIC, [content, None], keys=[content, None], partition=0)
                await producer.send_many(Name.TOPIC, [content], keys=[content], headers=headers, partition=0)
            else:
                sent = getattr(producer, "send" if way == "serializers" else way)(
                    Name.TOPIC, content, content, 0, None, headers
                )
                if way != "send_nowait":
                    await sent
        await producer.flush()
    for record in cluster.records("events"):
        assert {record.key, record.value} <= {b"v", None}
        assert {type(record.key), type(record.value)} <= {bytes, type(None)}
        assert not record.headers or record.headers == (("trace", b"v"), ("none", None))
    assert len(cluster.records("events")) == (6 if way == "send_many" else 2)


async def test_headers_may_change_after_the_call(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        content = bytearray(b"before")
        headers: Any = [["h", content]]
        delivery = producer.send_nowait("events", b"v", partition=0, headers=headers)
        content[:] = b"behind"
        headers.clear()
        await delivery
    assert cluster.records("events")[0].headers == (("h", b"before"),)
