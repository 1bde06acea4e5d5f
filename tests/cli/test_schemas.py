"""``produce`` and ``consume`` with a schema registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lead.testing import ClusterThread, EmbeddedSchemaRegistry

from .conftest import CommandLine

ALL = ("-o", "beginning", "--until", "end")
SECRET = "MARKED secret"
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


@pytest.fixture
def registry() -> Iterator[EmbeddedSchemaRegistry]:
    with EmbeddedSchemaRegistry(basic_auth=("orders", SECRET)) as made:
        yield made


@pytest.fixture
def with_registry(cli: CommandLine, registry: EmbeddedSchemaRegistry) -> CommandLine:
    return CommandLine(
        {
            **cli.environment,
            "AIOKAFKA_LEAD_SCHEMA_REGISTRY_URL": registry.url,
            "AIOKAFKA_LEAD_SCHEMA_REGISTRY_USER": "orders",
            "AIOKAFKA_LEAD_SCHEMA_REGISTRY_PASSWORD": SECRET,
        }
    )


def test_avro_in_and_out(with_registry: CommandLine, cluster: ClusterThread, tmp_path: Path) -> None:
    cli = with_registry
    cluster.create_topic("avro", 1)
    schema = tmp_path / "order.avsc"
    schema.write_text(json.dumps(ORDER))
    ran = cli("produce", "avro", "--value-schema", str(schema), stdin='{"id": 1, "at": 1000}')
    assert ran.code != 0
    assert "avro-value" in ran.err
    line = '{"id": 1, "at": 1000}'
    cli.fine("produce", "avro", "--value-schema", str(schema), "--register", stdin=f"{line}\n{line}\n")
    cli.fine("produce", "avro", "-K", ":", "--value-schema", "latest", stdin='k:{"id": 2, "at": 0}')
    shown = cli.fine("consume", "avro", *ALL, "--value-as", "schema").lines
    assert [json.loads(each) for each in shown] == [
        {"id": 1, "at": "1970-01-01T00:00:01+00:00"},
        {"id": 1, "at": "1970-01-01T00:00:01+00:00"},
        {"id": 2, "at": "1970-01-01T00:00:00+00:00"},
    ]
    whole = cli.fine("consume", "avro", *ALL, "--json", "--value-as", "schema", "--value", '"id": 2').json
    assert whole["key"] == "k"
    assert whole["value"] == {"id": 2, "at": "1970-01-01T00:00:00+00:00"}
    wrong = cli("produce", "avro", "--value-schema", "latest", stdin='{"id": "x"}')
    assert wrong.code != 0
    assert "line 1: the value does not fit its schema" in wrong.err
    cli.fine("produce", "avro", stdin="plain")
    wrong = cli("consume", "avro", *ALL, "--value-as", "schema")
    assert wrong.code != 0
    assert "avro-0 at offset 3" in wrong.err


def test_json_schema_of_keys(with_registry: CommandLine, cluster: ClusterThread, tmp_path: Path) -> None:
    cluster.create_topic("keyed", 1)
    schema = tmp_path / "key.json"
    schema.write_text('{"type": "integer"}')
    with_registry.fine("produce", "keyed", "-K", ":", "--key-schema", str(schema), "--register", stdin="7:v")
    assert with_registry.fine("consume", "keyed", *ALL, "--key-as", "schema", "-f", "%k=%v\\n").lines == ["7=v"]


def test_what_is_missing_is_named(cli: CommandLine, cluster: ClusterThread, tmp_path: Path) -> None:
    cluster.create_topic("missing", 1)
    ran = cli("consume", "missing", *ALL, "--value-as", "schema")
    assert ran.code != 0
    assert "schema_registry_url" in ran.err
    url = ("-X", "schema_registry_url=http://127.0.0.1:1")
    for given, said in (("order.txt", ".avsc"), (str(tmp_path / "none.avsc"), "cannot be read")):
        ran = cli("produce", "missing", *url, "--value-schema", given)
        assert ran.code != 0
        assert said in ran.err
    ran = cli("consume", "missing", "-X", f"schema_registry_password={SECRET}")
    assert ran.code != 0
    assert "secret" in ran.err
    assert SECRET not in ran.err
