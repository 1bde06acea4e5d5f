"""Cost of Avro with a schema registry, compared with confluent-kafka.

``python -m benchmarks schema [--records 1000000]`` prints the CPU time per record in microseconds, in one process, and
the number of requests to the registry. Records with five fields are serialized and deserialized one by one. They are
also read in batches from a topic of an embedded cluster, as bytes, dicts, and Arrow columns. The figures for batches
include the CPU time of the cluster.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import anyio
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from aiokafka_lead import Consumer, Producer, TopicPartition
from aiokafka_lead.schema import SchemaRegistry
from aiokafka_lead.testing import EmbeddedCluster, EmbeddedSchemaRegistry
from aiokafka_lead.types import SerializationContext as OurContext

from .stats import table

TURNS = 20_000
TRIES = 5
O0 = TopicPartition("orders", 0)
SCHEMA = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "cents", "type": "int"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def order(number: int) -> dict[str, Any]:
    """Return the value of a record."""
    note = "gift" if number % 2 else None
    return {"id": number, "customer": f"customer-{number}", "cents": number % 10_000, "note": note, "at": number}


def main(arguments: list[str]) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks schema", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="number of records in the topic")
    rows = anyio.run(measured, parser.parse_args(arguments).records)
    print(table(["", "us per record", "requests"], rows))


async def measured(records: int) -> list[list[str]]:
    """Measure, and return the rows of the table."""
    rows: list[list[str]] = []

    def note(what: str, seconds: float, count: int, asked: int) -> None:
        rows.append([what, f"{seconds / count * 1e6:.2f}", str(asked)])

    with EmbeddedSchemaRegistry() as server:
        values = [order(number) for number in range(TURNS)]
        for name, make in (("aiokafka-lead", ours), ("confluent-kafka", theirs)):
            server.requests.clear()
            encode, decode = await make(server.url)
            written = [encode(value) for value in values]
            note(f"{name}: write", best(encode, values), TURNS, len(server.requests))
            server.requests.clear()
            note(f"{name}: read", best(decode, written), TURNS, len(server.requests))
        async with EmbeddedCluster(brokers=1) as cluster:
            cluster.create_topic("orders", partitions=1)
            async with Producer(cluster.bootstrap_servers) as producer:
                for start in range(0, records, TURNS):
                    await (await producer.send_many("orders", written[: records - start]))
            for what, read in (("bytes", read_bytes), ("dicts", read_dicts), ("columns", read_columns)):
                server.requests.clear()
                seconds = await read(cluster, server.url, records)
                note(f"aiokafka-lead: a topic's batches, {what}", seconds, records, len(server.requests))
    return rows


def best(work: Callable[[Any], Any], contents: list[Any]) -> float:
    """Return the minimum CPU time of ``work`` per item of ``contents``."""
    found: list[float] = []
    for _ in range(TRIES):
        began = time.process_time()
        for content in contents:
            work(content)
        found.append(time.process_time() - began)
    return min(found)


Pair = tuple[Callable[[Any], bytes], Callable[[bytes], Any]]


async def ours(url: str) -> Pair:
    """Return this client's serializer and deserializer, ready to use."""
    registry = SchemaRegistry(url)
    serializer = registry.avro_serializer(SCHEMA, auto_register=True)
    deserializer = SchemaRegistry(url).deserializer()
    await deserializer.decode(await serializer.encode(order(1), "orders"))
    context = OurContext("orders", (), False)
    return lambda value: serializer(value, context), lambda content: deserializer(content, context)  # type: ignore[return-value]


async def theirs(url: str) -> Pair:
    """Return the serializer and deserializer of confluent-kafka, ready to use."""
    client: Any = SchemaRegistryClient({"url": url})
    context = SerializationContext("orders", MessageField.VALUE)
    serializer: Any = AvroSerializer(client, json.dumps(SCHEMA))  # pyright: ignore[reportCallIssue]
    deserializer: Any = AvroDeserializer(client)  # pyright: ignore[reportCallIssue]
    deserializer(serializer(order(1), context), context)
    return lambda value: serializer(value, context), lambda content: deserializer(content, context)


async def _reading(cluster: EmbeddedCluster, records: int, look: Callable[[Any], Any], **options: Any) -> float:
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:
        consumer.assign([O0])
        consumer.seek(O0, 0)
        seen = 0
        began = time.process_time()
        async for batch in consumer.batches():
            made = look(batch)
            seen += len(await made) if hasattr(made, "__await__") else len(made)
            if seen >= records:
                break
        return time.process_time() - began


async def read_bytes(cluster: EmbeddedCluster, url: str, records: int) -> float:
    """Return the cost of reading without schemas."""
    return await _reading(cluster, records, lambda batch: batch.values)


async def read_dicts(cluster: EmbeddedCluster, url: str, records: int) -> float:
    """Return the cost of reading each value as a dict."""
    deserializer = SchemaRegistry(url).deserializer()
    return await _reading(cluster, records, lambda batch: batch.values, value_deserializer=deserializer)


async def read_columns(cluster: EmbeddedCluster, url: str, records: int) -> float:
    """Return the cost of reading typed columns."""
    return await _reading(cluster, records, SchemaRegistry(url).columns().to_arrow)
