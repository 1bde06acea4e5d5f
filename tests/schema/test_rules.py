"""Schemas with rules that this client cannot apply are refused, and never a reason to give a record up."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import anyio
import pytest

from aiokafka_lead import Consumer, Producer
from aiokafka_lead.errors import RecordDeserializationError, SchemaRulesError
from aiokafka_lead.schema import SchemaRegistry, SchemaRule
from aiokafka_lead.testing import EmbeddedCluster, EmbeddedSchemaRegistry
from tests.group.support import until

from .material import ORDER, ORDER_TEXT, order

pytestmark = pytest.mark.anyio

SUBJECT = "orders-value"


def rule(mode: str, **more: Any) -> dict[str, Any]:
    return {"name": "protect", "kind": "TRANSFORM", "mode": mode, "type": "ENCRYPT", "tags": ["PII"], **more}


def register(registry: EmbeddedSchemaRegistry, rule_set: dict[str, Any]) -> None:
    body = json.dumps({"schema": ORDER_TEXT, "ruleSet": rule_set}).encode()
    urllib.request.urlopen(f"{registry.url}/subjects/{SUBJECT}/versions", body).close()


def writers(registry: SchemaRegistry) -> dict[str, Any]:
    return {
        "latest": registry.avro_serializer(),
        "use_latest": registry.avro_serializer(ORDER, use_latest=True),
        "lookup": registry.avro_serializer(ORDER),
    }


@pytest.mark.parametrize(
    ("rule_set", "writes", "reads"),
    [
        ({"domainRules": [rule("WRITEREAD")]}, False, False),
        ({"domainRules": [{"name": "protect", "type": "ENCRYPT"}]}, False, False),
        ({"domainRules": [rule("WRITE", kind="CONDITION", type="CEL", expr="message.id > 0")]}, False, True),
        ({"domainRules": [rule("READ", type="CEL_FIELD")]}, True, False),
        ({"encodingRules": [rule("WRITEREAD", type="ENCRYPT_PAYLOAD")]}, False, False),
        ({"domainRules": [rule("WRITEREAD", disabled=True)]}, True, True),
        ({"migrationRules": [rule("UPGRADE", type="JSONATA")], "domainRules": None}, True, True),
    ],
    ids=["encrypted", "without a mode", "checked", "read", "encoding", "disabled", "migration"],
)
async def test_rules_are_refused_where_they_count(
    schema_registry: EmbeddedSchemaRegistry, rule_set: dict[str, Any], writes: bool, reads: bool
) -> None:
    register(schema_registry, rule_set)
    lax = SchemaRegistry(schema_registry.url, ignore_rules=True)
    registry = SchemaRegistry(schema_registry.url)
    written = b""
    for name, serializer in writers(registry).items():
        written = await writers(lax)[name].encode(order(1), "orders")
        if writes:
            assert await serializer.encode(order(1), "orders") == written
        else:
            with pytest.raises(SchemaRulesError, match=r"orders-value.*protect.*ignore_rules"):
                await serializer.encode(order(1), "orders")
    assert await lax.deserializer().decode(written) == order(1)
    if reads:
        assert await registry.deserializer().decode(written) == order(1)
    else:
        with pytest.raises(SchemaRulesError, match="protect"):
            await registry.deserializer().decode(written)


async def test_they_are_shown(schema_registry: EmbeddedSchemaRegistry) -> None:
    register(schema_registry, {"domainRules": [rule("WRITEREAD")], "migrationRules": [rule("UPGRADE")]})
    latest = await SchemaRegistry(schema_registry.url).latest(SUBJECT)
    assert latest.rules == (SchemaRule("protect", "ENCRYPT", "WRITEREAD"),)


@pytest.mark.parametrize("fate", ["skip", "dead_letter"])
async def test_no_record_is_left_out_for_them(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry, fate: Any
) -> None:
    register(schema_registry, {"domainRules": [rule("WRITEREAD")]})
    cluster.create_topic("dead", partitions=1)
    serializer = SchemaRegistry(schema_registry.url, ignore_rules=True).avro_serializer(ORDER)
    servers = cluster.bootstrap_servers
    async with Producer(servers, value_serializer=serializer) as producer:
        await producer.send_and_wait("orders", order(1))
    registry = SchemaRegistry(schema_registry.url)
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "on_bad_record": fate, "dead_letter_topic": "dead"}
    consumer: Consumer[Any, Any] = Consumer(
        "orders", bootstrap_servers=servers, value_deserializer=registry.deserializer(), **options
    )
    raw: Consumer[Any, Any] = Consumer("orders", bootstrap_servers=servers, **options)
    async with consumer, raw:
        with anyio.fail_after(20):
            for read in (consumer.getone, lambda: anext(consumer.batches())):
                with pytest.raises(RecordDeserializationError) as raised:
                    await read()
                assert isinstance(raised.value.__cause__, SchemaRulesError)
            with pytest.raises(SchemaRulesError):
                await registry.columns().to_arrow(await anext(raw.batches()))

            async def handle(record: Any) -> None:
                raise AssertionError(record)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consumer.run, handle)
                await until(lambda: any("protect" in each for each in consumer.health().problems))
                await consumer.stop()
    assert not cluster.records("dead")
