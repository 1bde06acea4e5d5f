"""Records of each codec between this client and two others: the Java tools, and confluent-kafka (librdkafka)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import confluent_kafka
import pytest

from aiokafka_lead.types import Header

from .harness import KafkaCluster
from .support import confluent_read, in_thread, make_producer, read_topic

pytestmark = pytest.mark.anyio

TopicName = Callable[[], str]
Codec = str
Record = tuple[bytes | None, bytes | None, list[Header]]
"""Key, value, headers."""


def _numbered(value: str) -> list[Record]:
    return [(b"%d" % (i % 7), (value % i).encode(), [("i", b"%d" % i)]) for i in range(500)]


_CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
_RECORDS: list[Record] = [
    (b"key", b"value", [("first", b"1"), ("second", b"2"), ("first", b"again"), ("empty", b"")]),
    (None, b"no key", []),
    (b"", b"empty key", []),
    (b"tombstone", None, []),
    (None, None, [("no", b"body")]),
    (b"empty value", b"", []),
    ("schl\u00fcssel".encode(), "\u65e5\u672c\u8a9e".encode(), [("\u00e9", "\u00fc".encode())]),
    (b"large", b"all work and no play " * 20_000, []),
    *_numbered("record number %d"),
]
_BINARY: list[Record] = [
    (bytes(range(256)), bytes(reversed(range(256))), [("raw", bytes(range(256))), ("null", None)]),
    (b"\x00", b"\n\t\x00", []),
]


@pytest.fixture
def anyio_backend() -> str:
    """One event loop suffices: records do not depend on it."""
    return "asyncio"


@pytest.fixture(params=_CODECS)
def codec(request: pytest.FixtureRequest) -> Codec:
    name: str = request.param
    return name


async def _write(kafka: KafkaCluster, topic: str, codec: Codec, records: Sequence[Record]) -> None:
    async with make_producer(kafka, compression_type=codec, linger_ms=20) as producer:
        for i, (key, value, headers) in enumerate(records):
            await producer.send(topic, value, key=key, headers=headers, timestamp_ms=1_700_000_000_000 + i)
        await producer.flush()


def _console_line(offset: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> str:
    """Return the output of Java's console consumer for a record, with the options below."""
    shown = ",".join(f"{name}:{(text or b'').decode()}" for name, text in headers) or "NO_HEADERS"
    texts = ["NULL" if part is None else part.decode() for part in (key, value)]
    return "\t".join([f"CreateTime:{1_700_000_000_000 + offset}", "Partition:0", f"Offset:{offset}", shown, *texts])


def _console_input(record: Record) -> bytes:
    """Return the input of Java's console producer for a record, with the options below."""
    key, value, headers = record
    shown = b",".join(name.encode() + b":" + (text or b"") for name, text in headers)
    return b"\t".join([shown, *(b"NULL" if part is None else part for part in (key, value))]) + b"\n"


async def test_java_reads_what_we_write(kafka: KafkaCluster, topic_name: TopicName, codec: Codec) -> None:
    topic = await in_thread(kafka.create_topic, topic_name())
    await _write(kafka, topic, codec, _RECORDS)
    shown = ["timestamp", "partition", "offset", "headers", "key", "value"]
    properties = [f"print.{what}=true" for what in shown] + ["null.literal=NULL"]
    output = await in_thread(
        kafka.tools.run,
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", kafka.bootstrap(), "--topic", topic, "--from-beginning"),
        *("--max-messages", str(len(_RECORDS)), "--timeout-ms", "30000"),
        *(word for each in properties for word in ("--formatter-property", each)),
    )
    expected = [_console_line(i, *record) for i, record in enumerate(_RECORDS)]
    assert output.split("\n")[: len(expected)] == expected


async def test_the_broker_stores_what_we_write_as_it_is(
    kafka: KafkaCluster, topic_name: TopicName, codec: Codec
) -> None:
    """Kafka's own log reader finds batches of that codec, by an idempotent producer, with valid checksums."""
    topic = await in_thread(kafka.create_topic, topic_name())
    await _write(kafka, topic, codec, _RECORDS)
    [segment] = (kafka.folder / f"data-{kafka.leader(topic)}" / f"{topic}-0").glob("*.log")
    dump = await in_thread(
        kafka.tools.run, "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", str(segment)
    )
    batches = [line for line in dump.splitlines() if line.startswith("baseOffset:")]
    assert batches
    for line in batches:
        assert f"compresscodec: {codec} " in line
        assert "isvalid: true" in line
        assert "producerId: -1 " not in line


async def test_we_read_what_java_writes(kafka: KafkaCluster, topic_name: TopicName, codec: Codec) -> None:
    topic = await in_thread(kafka.create_topic, topic_name())
    records: list[Record] = [
        (b"key", b"value", [("first", b"1"), ("second", b"2"), ("first", b"again")]),
        (None, b"no key", [("h", b"v")]),
        (b"tombstone", None, [("h", b"v")]),
        (b"", b"", [("h", b"")]),
        (b"large", b"all work and no play " * 20_000, [("h", b"v")]),
        *_numbered("\u65e5\u672c\u8a9e %d"),
    ]
    properties = ["parse.headers=true", "parse.key=true", "null.marker=NULL"]
    await in_thread(
        kafka.tools.run,
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", kafka.bootstrap(), "--topic", topic, "--compression-codec", codec),
        *(word for each in properties for word in ("--reader-property", each)),
        stdin=b"".join(map(_console_input, records)),
    )
    received = await read_topic(kafka, topic, 1, len(records))
    assert [(r.key, r.value, list(r.headers)) for r in received] == records


async def test_confluent_reads_what_we_write(kafka: KafkaCluster, topic_name: TopicName, codec: Codec) -> None:
    topic = await in_thread(kafka.create_topic, topic_name())
    await _write(kafka, topic, codec, _RECORDS + _BINARY)
    messages = await in_thread(confluent_read, kafka, topic, 1)
    assert [(m.key(), m.value(), m.headers() or []) for m in messages] == _RECORDS + _BINARY
    assert [m.timestamp()[1] for m in messages] == [1_700_000_000_000 + i for i in range(len(messages))]


async def test_we_read_what_confluent_writes(kafka: KafkaCluster, topic_name: TopicName, codec: Codec) -> None:
    topic = await in_thread(kafka.create_topic, topic_name())

    def write() -> None:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": kafka.bootstrap(), "compression.type": codec, "linger.ms": 20, "log_level": 0}
        )
        for i, (key, value, headers) in enumerate(_RECORDS + _BINARY):
            producer.produce(topic, value, key, headers=[*headers], timestamp=1_700_000_000_000 + i, partition=0)
        assert producer.flush(30) == 0

    await in_thread(write)
    received = await read_topic(kafka, topic, 1, len(_RECORDS + _BINARY))
    assert [(r.key, r.value, list(r.headers)) for r in received] == _RECORDS + _BINARY
    assert [r.timestamp_ms for r in received] == [1_700_000_000_000 + i for i in range(len(received))]
