"""Columns of Avro by a schema registry: as Spark's Python workers read and write them, and through Spark itself."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pickle
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceArrowWriter
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from aiokafka_lead import Producer
from aiokafka_lead.errors import UnknownTopicOrPartitionError
from aiokafka_lead.schema import Schema, SchemaReference, SchemaRegistry
from aiokafka_lead.spark.schemas import typed_columns
from aiokafka_lead.spark.sink.task import WriteError
from aiokafka_lead.spark.source.bad_records import BadRecordError
from aiokafka_lead.testing import EmbeddedSchemaRegistry
from aiokafka_lead.testing.thread import ClusterThread

from .support import batch_reader, batches, fill, read, rows, source, stream_reader

NewTopic = Callable[..., str]
AT = datetime(2026, 11, 23, 4, 5, 6, 789_000, tzinfo=UTC)
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
    ],
}
LATER: dict[str, Any] = {**ORDER, "fields": [*ORDER["fields"], {"name": "paid", "type": "boolean", "default": False}]}
ROWS: list[dict[str, Any]] = [
    {"id": 1, "customer": "ada", "at": AT, "price": Decimal("1.50"), "tags": {"a": 1}},
    {"id": 2, "customer": None, "at": AT, "price": Decimal("-2.00"), "tags": {}},
]
SECRET = "MARKED secret"


@pytest.fixture
def registry() -> Iterator[EmbeddedSchemaRegistry]:
    with EmbeddedSchemaRegistry(basic_auth=("orders", SECRET)) as made:
        yield made


@pytest.fixture
def given(registry: EmbeddedSchemaRegistry, tmp_path: Path) -> dict[str, str]:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text(f"registry={SECRET}")
    return {
        "schema.registry.url": registry.url,
        "kafka.config.providers": "file",
        "kafka.config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "schema.registry.user": "orders",
        "schema.registry.password": f"${{file:{secrets}:registry}}",
        "valueSchema": "latest",
    }


def register(registry: EmbeddedSchemaRegistry, subject: str, schema: Any) -> None:
    client = SchemaRegistry(registry.url, basic_auth=("orders", SECRET))
    asyncio.run(client.register(subject, Schema(json.dumps(schema))))


def write_values(registry: EmbeddedSchemaRegistry, topic: str) -> list[bytes]:
    serializer = SchemaRegistry(registry.url, basic_auth=("orders", SECRET)).avro_serializer(ORDER)

    async def encode() -> list[bytes]:
        return [await serializer.encode(row, topic) for row in ROWS]

    return asyncio.run(encode())


def write(cluster: ClusterThread, batch: pa.RecordBatch, **options: str) -> int:
    writer = source(cluster, **options).writer(from_arrow_schema(batch.schema), overwrite=False)
    task = pickle.loads(pickle.dumps(writer))
    assert isinstance(task, DataSourceArrowWriter)
    message: Any = task.write(iter([batch]))
    return int(message.rows)


def typed_rows(**more: Any) -> list[dict[str, Any]]:
    return [{**row, "tags": list(row["tags"].items()), **more} for row in ROWS]


def test_values_are_read_by_the_schemas_they_were_written_with(
    cluster: ClusterThread, new_topic: NewTopic, registry: EmbeddedSchemaRegistry, given: dict[str, str]
) -> None:
    topic = new_topic(1)
    register(registry, f"{topic}-value", ORDER)
    contents = write_values(registry, topic)
    register(registry, f"{topic}-value", LATER)
    fill(cluster, topic, [*contents, None])
    reader = pickle.loads(pickle.dumps(batch_reader(cluster, subscribe=topic, **given)))
    registry.requests.clear()
    found = [row["value"] for row in rows(reader, reader.partitions())]
    assert found == [*typed_rows(paid=False), None]
    assert [row["value"] for row in rows(reader, reader.partitions())] == found
    assert [each.path for each in registry.requests] == ["/schemas/ids/1"], "once for all tasks of the process"
    as_written = read(cluster, subscribe=topic, **{**given, "valueSchema": json.dumps(ORDER)})
    assert [row["value"] for row in as_written] == [*typed_rows(), None]
    streamed = stream_reader(cluster, subscribe=topic, **given)
    assert isinstance(streamed.schema["value"].dataType, StructType)  # type: ignore[attr-defined]


def test_a_schema_that_was_missing_is_found_by_the_next_task(
    cluster: ClusterThread, new_topic: NewTopic, registry: EmbeddedSchemaRegistry, given: dict[str, str]
) -> None:
    topic = new_topic(1)
    register(registry, f"{topic}-value", ORDER)
    fill(cluster, topic, [b"\0\0\0\0\x02" + content[5:] for content in write_values(registry, topic)])
    reader = batch_reader(cluster, subscribe=topic, **given)
    with pytest.raises(BadRecordError):
        rows(reader, reader.partitions())
    register(registry, "another", {**ORDER, "doc": "the same"})
    assert [row["value"] for row in rows(reader, reader.partitions())] == typed_rows()


def test_rows_are_written_by_the_latest_schema(
    cluster: ClusterThread, new_topic: NewTopic, registry: EmbeddedSchemaRegistry, given: dict[str, str]
) -> None:
    topic = new_topic(1)
    register(registry, f"{topic}-value", ORDER)
    register(registry, f"{topic}-key", "long")
    kinds = pa.struct(
        [
            ("id", pa.int64()),
            ("customer", pa.string()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("price", pa.decimal128(9, 2)),
            ("tags", pa.map_(pa.string(), pa.int32())),
        ]
    )
    values = pa.array(typed_rows(), kinds)
    batch = pa.record_batch({"key": pa.array([7, None], pa.int64()), "value": values})
    assert write(cluster, batch, topic=topic, keySchema="latest", **given) == 2
    records = cluster.records(topic, 0)
    assert [record.value for record in records] == write_values(registry, topic)
    assert [record.key for record in records] == [b"\x00\x00\x00\x00\x02\x0e", None]
    wrong = pa.record_batch({"value": pa.array([{"id": 1}], pa.struct([("id", pa.int64())]))})
    with pytest.raises(WriteError, match=r"row 0: the value does not match its schema: .*Order"):
        write(cluster, wrong, topic=topic, **given)
    with pytest.raises(WriteError, match=rf"row 0: not written to {topic}, because the schema of the value cannot be"):
        write(cluster, wrong, topic=topic, **{**given, "schema.registry.user": "other"})
    by_struct = pa.array([[({"a": 1}, 1)]], pa.map_(pa.struct([("a", pa.int32())]), pa.int32()))
    with pytest.raises(WriteError, match="row 0: a typed column cannot be converted: unhashable"):
        write(cluster, pa.record_batch({"value": by_struct}), topic=topic, **given)
    rows = [*typed_rows(), {**typed_rows()[0], "tags": [("a", 1), ("a", 2)]}]
    with pytest.raises(WriteError, match=r"row 2: a typed column cannot be converted: .*duplicate"):
        write(cluster, pa.record_batch({"value": pa.array(rows, kinds)}), topic=topic, **given)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schema.registry.url": ""}, "schema.registry.url"),
        ({"schema.registry.user": "other"}, "401"),
        ({"schema.registry.password": "wrong"}, "401"),
        ({"schema.registry.url": "registry"}, "schema.registry.url"),
        (
            {"schema.registry.password": "${file:/none:registry}"},
            "option 'schema.registry.password': .* cannot be read",
        ),
        ({"subscribe": "one,two"}, "valueSubject"),
        ({"valueSubject": "none"}, "none"),
        ({"valueSchema": '["int", "string"]'}, "union"),
    ],
)
def test_wrong_options_are_named(
    cluster: ClusterThread, given: dict[str, str], changes: dict[str, str], said: str
) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        source(cluster, **{"subscribe": "orders", **given, **changes}).schema()
    assert SECRET not in str(raised.value)


PART: dict[str, Any] = {
    "type": "record",
    "name": "Part",
    "fields": [{"name": "sizes", "type": ["null", {"type": "map", "values": {"type": "map", "values": "int"}}]}],
}
EVERY: dict[str, Any] = {
    "type": "record",
    "name": "Every",
    "fields": [
        {"name": "dec", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}},
        {"name": "fix", "type": {"type": "fixed", "name": "F9", "size": 9, "logicalType": "decimal", "precision": 20}},
        {"name": "us", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "raw", "type": "bytes"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "list", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "parts", "type": {"type": "array", "items": PART}},
    ],
}


def test_every_kind_of_value_goes_both_ways(
    cluster: ClusterThread, new_topic: NewTopic, registry: EmbeddedSchemaRegistry, given: dict[str, str]
) -> None:
    topic = new_topic(1)
    register(registry, f"{topic}-value", EVERY)
    row = {
        "dec": Decimal("12345678901234.5678"),
        "fix": Decimal(-15),
        "us": AT,
        "local": AT.replace(tzinfo=None),
        "day": AT.date(),
        "uuid": "12345678-1234-5678-1234-567812345678",
        "raw": b"\x00\xff",
        "kind": "B",
        "list": ["a", None],
        "parts": [{"sizes": [("a", [("b", 1)]), ("c", [])]}, {"sizes": None}],
    }
    kinds = to_arrow_schema(source(cluster, subscribe=topic, **given).schema(), timezone="UTC").field("value").type
    batch = pa.record_batch({"value": pa.array([row, None], kinds)})
    assert write(cluster, batch, topic=topic, **given) == 2
    assert [found["value"] for found in read(cluster, subscribe=topic, **given)] == [row, None]


def logical(kind: str) -> dict[str, str]:
    return {"type": "long", "logicalType": kind}


NANOS: dict[str, Any] = {
    "type": "record",
    "name": "Nanos",
    "fields": [
        {"name": "at", "type": logical("timestamp-nanos")},
        {"name": "local", "type": ["null", logical("local-timestamp-nanos")]},
        {"name": "many", "type": {"type": "array", "items": ["null", logical("timestamp-nanos")]}},
        {"name": "by", "type": {"type": "map", "values": {"type": "array", "items": logical("timestamp-nanos")}}},
        {"name": "ids", "type": {"type": "array", "items": {"type": "string", "logicalType": "uuid"}}},
    ],
}


def test_nanoseconds_are_cut_to_sparks_microseconds(
    cluster: ClusterThread, new_topic: NewTopic, registry: EmbeddedSchemaRegistry, given: dict[str, str]
) -> None:
    topic, copy = new_topic(1), new_topic(1)
    for name in (topic, copy):
        register(registry, f"{name}-value", NANOS)
        register(registry, f"{name}-key", logical("timestamp-nanos"))
    client = SchemaRegistry(registry.url, basic_auth=("orders", SECRET))
    ids = ["12345678-1234-5678-1234-567812345678"]
    counts = {"at": 1_700_000_000_123_456_789, "local": -1, "many": [None, 1999], "by": {"a": [1], "b": []}, "ids": ids}

    async def encoded() -> tuple[bytes, bytes]:
        value = await client.avro_serializer(NANOS).encode(counts, topic)
        return value, await client.avro_serializer(logical("timestamp-nanos")).encode(-1001, topic, is_key=True)

    value, key = asyncio.run(encoded())
    fill(cluster, topic, [value], keys=[key])
    typed = {**given, "keySchema": "latest"}
    (row,) = read(cluster, subscribe=topic, **typed)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert row["key"] == epoch - timedelta(microseconds=2)
    assert row["value"] == {
        "at": datetime(2023, 11, 14, 22, 13, 20, 123_456, tzinfo=UTC),
        "local": datetime(1969, 12, 31, 23, 59, 59, 999_999),
        "many": [None, epoch + timedelta(microseconds=1)],
        "by": [("a", [epoch]), ("b", [])],
        "ids": ids,
    }
    for batch in batches(reader := batch_reader(cluster, subscribe=topic, **typed), reader.partitions()[0]):
        write(cluster, batch.select(["key", "value"]), topic=copy, **typed)
    assert [(found["key"], found["value"]) for found in read(cluster, subscribe=copy, **typed)] == [
        (row["key"], row["value"])
    ]


TIMES: dict[str, Any] = {
    "type": "record",
    "name": "Times",
    "fields": [
        {"name": "at", "type": ["null", logical("timestamp-micros")]},
        {"name": "many", "type": {"type": "array", "items": logical("timestamp-micros")}},
        {"name": "by", "type": {"type": "map", "values": logical("timestamp-micros")}},
    ],
}


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+01:00", "+08", "Z", "GMT+1", "PST"])
def test_times_are_written_in_every_time_zone_of_a_session(
    cluster: ClusterThread, new_topic: NewTopic, registry: EmbeddedSchemaRegistry, given: dict[str, str], zone: str
) -> None:
    topic = new_topic(1)
    register(registry, f"{topic}-value", TIMES)
    time = pa.timestamp("us", tz=zone)
    kind = pa.struct([("at", time), ("many", pa.list_(time)), ("by", pa.map_(pa.string(), time))])
    rows = [{"at": 5, "many": [-1, 1_700_000_000_123_456], "by": [("a", 0)]}, {"at": None, "many": [], "by": []}]
    write(cluster, pa.record_batch({"value": pa.array(rows, kind)}), topic=topic, **given)
    found = [row["value"] for row in read(cluster, subscribe=topic, **given)]
    assert pa.array(found, kind) == pa.array(rows, kind)


TOO_LATE_MS = 1_700_000_000_123_456_789
"""A time in nanoseconds in a field of milliseconds."""


@pytest.mark.parametrize(
    "schema",
    [
        logical("timestamp-millis"),
        {"type": "array", "items": logical("local-timestamp-millis")},
        {"type": "map", "values": logical("time-micros")},
    ],
)
def test_times_beyond_sparks_are_bad_records(
    cluster: ClusterThread,
    new_topic: NewTopic,
    registry: EmbeddedSchemaRegistry,
    given: dict[str, str],
    schema: dict[str, Any],
) -> None:
    topic = new_topic(1)
    register(registry, f"{topic}-value", schema)
    counts = json.loads(json.dumps(schema).replace("logicalType", "counts"))

    def framed(count: int) -> bytes:
        content = io.BytesIO()
        found = {"array": [count], "map": {"a": count}}.get(schema["type"], count)
        fastavro.schemaless_writer(content, counts, found)
        return b"\0\0\0\0\x01" + content.getvalue()

    fill(cluster, topic, [framed(1), framed(TOO_LATE_MS), framed(2)])
    with pytest.raises(
        BadRecordError, match=rf"record of {topic}-0 at offset 1: cannot decode its value: .* out of bounds"
    ):
        read(cluster, subscribe=topic, **given)
    found = read(cluster, subscribe=topic, onBadRecord="null", **given)
    assert [row["value"] is None for row in found] == [False, True, False]
    assert "out of bounds" in found[1]["_corrupt"]["error"]


def test_schemas_with_references(
    cluster: ClusterThread, new_topic: NewTopic, registry: EmbeddedSchemaRegistry, given: dict[str, str]
) -> None:
    topic = new_topic(1)
    register(registry, "order", ORDER)
    schema = Schema(json.dumps({"type": "array", "items": "Order"}), references=(SchemaReference("Order", "order", 1),))
    asyncio.run(SchemaRegistry(registry.url, basic_auth=("orders", SECRET)).register(f"{topic}-value", schema))
    kinds = to_arrow_schema(source(cluster, subscribe=topic, **given).schema(), timezone="UTC").field("value").type
    write(cluster, pa.record_batch({"value": pa.array([typed_rows()], kinds)}), topic=topic, **given)
    assert [found["value"] for found in read(cluster, subscribe=topic, **given)] == [typed_rows()]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "int", "logicalType": "time-millis"},
        {"type": "bytes", "logicalType": "decimal", "precision": 60},
        ["int", "string"],
    ],
)
def test_schemas_for_which_spark_has_no_type(
    cluster: ClusterThread, new_topic: NewTopic, given: dict[str, str], schema: Any
) -> None:
    with pytest.raises(ValueError, match="option 'valueSchema': "):
        source(cluster, subscribe=new_topic(1), **{**given, "valueSchema": json.dumps(schema)}).schema()


def test_no_secret_in_what_goes_to_tasks_shows(given: dict[str, str]) -> None:
    assert SECRET not in repr(typed_columns(given))


def test_a_users_own_schema_for_a_typed_column_is_refused(
    cluster: ClusterThread, new_topic: NewTopic, registry: EmbeddedSchemaRegistry, given: dict[str, str]
) -> None:
    found = source(cluster, subscribe=new_topic(1), **given)
    wrong = StructType([StructField("value", StructType([StructField("id", BinaryType())]))])
    with pytest.raises(ValueError, match="'value' must have the type binary"):
        found.reader(wrong)
    raw = StructType([StructField("offset", LongType()), StructField("value", BinaryType())])
    for reader in (found.reader, found.streamReader):
        with pytest.raises(ValueError, match="option 'valueSchema' conflicts with the given schema"):
            reader(raw)
    found.reader(StructType(raw.fields[:1]))
    corrupt = source(cluster, **{"subscribe": "t", "onBadRecord": "null", **given, "valueSchema": '"string"'}).schema()
    assert isinstance(corrupt, StructType)
    with pytest.raises(ValueError, match="column '_corrupt' needs the option 'onBadRecord'='null'"):
        source(cluster, subscribe="t").reader(corrupt)


BAD = b"oops"


def _with_bad_ones(cluster: ClusterThread, registry: EmbeddedSchemaRegistry, topic: str, **more: Any) -> list[bytes]:
    """Write records of which three are unreadable: no schema at 3, an unknown one at 4, cut short at 9."""
    register(registry, f"{topic}-value", ORDER)
    good = write_values(registry, topic)[0]
    contents = [good] * 10
    contents[3], contents[4], contents[9] = BAD, b"\0\0\0\0\x63" + good[5:], good[:7]
    fill(cluster, topic, contents, headers=[[("n", b"1")]] * 10, **more)
    return contents


def test_an_error_names_the_record(
    cluster: ClusterThread, new_topic: NewTopic, registry: EmbeddedSchemaRegistry, given: dict[str, str]
) -> None:
    topic = new_topic(1)
    _with_bad_ones(cluster, registry, topic)
    with pytest.raises(BadRecordError, match=rf"record of {topic}-0 at offset 3: cannot decode its value: .*6f6f7073"):
        read(cluster, subscribe=topic, **given)
    until = {"untilOffset": "3"}
    assert len(read(cluster, subscribe=topic, **given, **until)) == 3, "what is not read does not matter"
    with pytest.raises(BadRecordError, match="at offset 9"):
        read(cluster, subscribe=topic, fromOffset="5", **given)


def test_bad_records_are_null(
    cluster: ClusterThread, new_topic: NewTopic, registry: EmbeddedSchemaRegistry, given: dict[str, str]
) -> None:
    topic = new_topic(1)
    contents = _with_bad_ones(cluster, registry, topic)
    found = read(cluster, subscribe=topic, onBadRecord="NULL", **given)
    assert [row["offset"] for row in found if row["value"] is None] == [3, 4, 9]
    assert {row["offset"]: row["_corrupt"]["value"] for row in found if row["_corrupt"]} == {
        offset: contents[offset] for offset in (3, 4, 9)
    }
    assert found[3]["_corrupt"]["error"].startswith("cannot decode its value: the bytes begin with")


def test_a_key_and_a_value_that_cannot_be_read(
    cluster: ClusterThread, new_topic: NewTopic, registry: EmbeddedSchemaRegistry, given: dict[str, str]
) -> None:
    """The only topic gives the subjects, however the options name it."""
    topic = new_topic(1)
    register(registry, f"{topic}-value", ORDER)
    register(registry, f"{topic}-key", "long")
    fill(cluster, topic, [b"bad"], keys=[b"worse"])
    for selection in ({"subscribe": f"{topic}, "}, {"assign": json.dumps({topic: [0]})}):
        (row,) = read(cluster, **selection, onBadRecord="null", keySchema="latest", **given)
        assert (row["_corrupt"]["key"], row["_corrupt"]["value"]) == (b"worse", b"bad")
        assert re.match("cannot decode its key: .*; cannot decode its value", row["_corrupt"]["error"])


def test_bad_records_are_dead_letters(
    cluster: ClusterThread, new_topic: NewTopic, registry: EmbeddedSchemaRegistry, given: dict[str, str]
) -> None:
    topic, dead = new_topic(1, {"message.timestamp.after.max.ms": str(2**63 - 1)}), new_topic(1)
    after_9999_ms = 253402300800000
    contents = _with_bad_ones(cluster, registry, topic, timestamps_ms=[after_9999_ms] * 10)
    options = {"onBadRecord": "deadletter", "deadLetterTopic": dead, **given}
    found_source = source(cluster, subscribe=topic, untilOffset="9", **options)
    reader = found_source.reader(StructType([field for field in found_source.schema() if field.name != "timestamp"]))
    found = rows(reader, reader.partitions())
    assert [row["offset"] for row in found] == [0, 1, 2, 5, 6, 7, 8]
    letters = cluster.records(dead)
    assert [letter.value for letter in letters] == [contents[3], contents[4]], "those of the range"
    headers = dict(letters[0].headers)
    assert (headers["n"], headers["dead_letter.topic"], headers["dead_letter.offset"]) == (b"1", topic.encode(), b"3")
    assert headers["dead_letter.timestamp_ms"] == b"%d" % after_9999_ms


def test_large_bad_records_are_dead_letters(
    cluster: ClusterThread, new_topic: NewTopic, registry: EmbeddedSchemaRegistry, given: dict[str, str]
) -> None:
    """A producer's default limit does not apply. The text of the error is left out if the topic's limit requires it."""
    topic, roomy = new_topic(1, {"max.message.bytes": str(8 << 20)}), new_topic(1)
    register(registry, f"{topic}-value", ORDER)
    contents = [bytes(3 << 20), os.urandom(100_000)]

    async def write() -> None:
        async with Producer(cluster.bootstrap_servers, max_request_size=8 << 20) as producer:
            for content in contents:
                await (await producer.send(topic, content))

    asyncio.run(write())
    options = {"subscribe": topic, "onBadRecord": "deadletter", **given}
    assert read(cluster, deadLetterTopic=roomy, **options) == []
    letters = cluster.records(roomy)
    assert [letter.value for letter in letters] == contents
    headers = dict(letters[1].headers)
    assert headers["dead_letter.exception"] == b"aiokafka_lead.spark.source.bad_records.BadRecordError"
    message = headers["dead_letter.message"] or b""
    size = len(contents[1]) + sum(len(name) + len(content or b"") + 3 for name, content in letters[1].headers)
    narrow = new_topic(1, {"max.message.bytes": str(size + 80 - len(message) // 2)})
    options |= {"fromOffset": "1", "kafka.compression.type": "none"}
    assert read(cluster, deadLetterTopic=narrow, **options) == []
    (letter,) = cluster.records(narrow)
    assert letter.value == contents[1]
    assert dict(letter.headers) == {**headers, "dead_letter.message": b""}
    with pytest.raises(RuntimeError, match="1 bad records could not be written to deadLetterTopic"):
        read(cluster, deadLetterTopic=new_topic(1, {"max.message.bytes": "99999"}), **options)


def test_a_topic_of_dead_letters_that_is_gone(
    cluster: ClusterThread, new_topic: NewTopic, registry: EmbeddedSchemaRegistry, given: dict[str, str]
) -> None:
    topic = new_topic(1)
    _with_bad_ones(cluster, registry, topic)
    gone = cluster.faults.add("Metadata", topic="gone", error_code=UnknownTopicOrPartitionError)
    options = {"onBadRecord": "deadletter", "deadLetterTopic": "gone", "kafka.max.block.ms": "100", **given}
    with pytest.raises(RuntimeError, match=r"3 bad records could not be written to deadLetterTopic 'gone'"):
        read(cluster, subscribe=topic, **options)
    gone.remove()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"onBadRecord": "drop"}, "'onBadRecord' must be fail, null or deadletter, not 'drop'"),
        ({"onBadRecord": "deadletter"}, "must be given together"),
        ({"deadLetterTopic": "t"}, "must be given together"),
        ({"onBadRecord": "null", "valueSchema": ""}, "needs 'valueSchema' or 'keySchema'"),
        ({"onBadRecord": "deadletter", "deadLetterTopic": "orders"}, "a topic that the query does not read, not 'ord"),
        (
            {"onBadRecord": "deadletter", "deadLetterTopic": "orders.dead", "subscribePattern": "orders"},
            "a topic that the query does not read, not 'orders.dead'",
        ),
        ({"mode": "PERMISSIVE"}, "option 'mode' is not supported; use 'onBadRecord'"),
    ],
)
def test_what_becomes_of_bad_records_is_said_clearly(
    cluster: ClusterThread, given: dict[str, str], changes: dict[str, str], said: str
) -> None:
    topics = {} if "subscribePattern" in changes else {"subscribe": "orders"}
    with pytest.raises(ValueError, match=said):
        source(cluster, **topics, **given | changes).schema()


def test_through_spark(
    spark: SparkSession,
    cluster: ClusterThread,
    new_topic: NewTopic,
    registry: EmbeddedSchemaRegistry,
    given: dict[str, str],
) -> None:
    first, second = new_topic(1), new_topic(1)
    for topic in (first, second):
        register(registry, f"{topic}-value", ORDER)
    contents = write_values(registry, first)
    fill(cluster, first, contents)
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, **given}
    frame = spark.read.format("aiokafka_lead").options(subscribe=first, **options).load()
    writer = frame.where("value.id > 0").select("value").write.format("aiokafka_lead").options(topic=second, **options)
    spark.conf.set("spark.sql.session.timeZone", "PST")  # a name of Java
    try:
        writer.mode("append").save()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert [record.value for record in cluster.records(second, 0)] == contents
