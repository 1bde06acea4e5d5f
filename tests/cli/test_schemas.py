"""``produce`` and ``consume`` with a schema registry."""

from __future__ import annotations

import json
import ssl
from base64 import b64encode
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
import fastavro
import pytest
import trustme

from aiokafka_lead.schema import Schema, SchemaReference, SchemaRegistry
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
    assert "pass --register" in ran.err
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
    assert "line 1: the value does not match its schema" in wrong.err
    cli.fine("produce", "avro", stdin="plain")
    wrong = cli("consume", "avro", *ALL, "--value-as", "schema")
    assert wrong.code != 0
    assert "avro-0 at offset 3" in wrong.err


def test_text_of_protobuf_that_is_not_utf_8(with_registry: CommandLine, cluster: ClusterThread, tmp_path: Path) -> None:
    """It is shown as what it is, and nothing else is written in its place."""
    cli = with_registry
    cluster.create_topic("odd-text", 1)
    schema = tmp_path / "odd.proto"
    schema.write_text(
        'syntax = "proto2"; message Odd { optional string one = 01; repeated string many = 2; map<bool, string> by = 3;'
        " map<int32, Odd> inner = 4; optional bytes seal = 5; optional int32 number = 6; }"
    )
    cli.fine("produce", "odd-text", "--value-schema", str(schema), "--register", stdin='{"one": "a", "number": 1}')
    (good,) = cluster.records("odd-text")
    assert good.value is not None
    bad = good.value[:6] + bytes.fromhex("0a01ff 120162 1201fe 1a05 0801 1201fc 2207 0802 1203 0a01fb 2a01fa")
    cli.fine("produce", "odd-text", "--input-json", stdin=json.dumps({"value_base64": b64encode(bad).decode()}))
    lines = cli.fine("consume", "odd-text", *ALL, "--value-as", "schema").lines
    assert [json.loads(line) for line in lines] == [
        {"one": "a", "many": [], "by": {}, "inner": {}, "number": 1},
        {
            "one": {"base64": "/w=="},
            "many": ["b", {"base64": "/g=="}],
            "by": {"true": {"base64": "/A=="}},
            "inner": {"2": {"one": {"base64": "+w=="}}},
            "seal": "+g==",
        },
    ]
    ran = cli("produce", "odd-text", "--value-schema", "latest", stdin=lines[1])
    assert (ran.code, "line 1: the value does not match its schema" in ran.err) == (1, True)


def test_a_registry_of_several_nodes_tokens_and_certificates(
    cli: CommandLine, cluster: ClusterThread, tmp_path: Path
) -> None:
    cluster.create_topic("nodes", 1)
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    own = authority.issue_cert("orders.example.org")
    files = {"cafile": authority.cert_pem, "certfile": own.cert_chain_pems[0], "keyfile": own.private_key_pem}
    for name, pem in files.items():
        pem.write_to_path(str(tmp_path / name))
        cli.environment[f"AIOKAFKA_LEAD_SCHEMA_REGISTRY_{name.upper()}"] = str(tmp_path / name)
    schema = tmp_path / "word.avsc"
    schema.write_text("string")
    with EmbeddedSchemaRegistry(tokens={SECRET}, ssl_context=context) as node:
        cli.environment["AIOKAFKA_LEAD_SCHEMA_REGISTRY_URL"] = f"https://127.0.0.1:1, {node.url}"
        ran = cli("produce", "nodes", "--value-schema", str(schema), "--register", stdin='"a"')
        assert ran.code == 4
        cli.environment["AIOKAFKA_LEAD_SCHEMA_REGISTRY_TOKEN"] = SECRET
        cli.fine("produce", "nodes", "--value-schema", str(schema), "--register", stdin='"a"')
        assert cli.fine("consume", "nodes", *ALL, "--value-as", "schema").lines == ["a"]


def test_protobuf_in_and_out_without_generated_modules(
    with_registry: CommandLine, cluster: ClusterThread, tmp_path: Path
) -> None:
    cli = with_registry
    schema = tmp_path / "order.proto"
    schema.write_text(
        'syntax = "proto3"; package mart; import "google/protobuf/timestamp.proto"; option java_package = "x";'
        "message Order { int64 id = 1; bytes seal = 2; google.protobuf.Timestamp at = 3; }"
        "message Gone { message Why { string text = 1; } Why why = 1; }"
    )
    lines = ['{"id": "1", "seal": "/wA=", "at": "2025-01-01T00:00:00Z"}', '{"id": "9007199254740993", "seal": ""}']
    for topic in ("proto", "proto-again"):
        cluster.create_topic(topic, 1)
        cli.fine("produce", topic, "--value-schema", str(schema), "--register", stdin="\n".join(lines))
    assert cli.fine("consume", "proto", *ALL, "--value-as", "schema").lines == lines
    gone = '{"why": {"text": "late"}}'
    cli.fine("produce", "proto", "--value-schema", "latest#mart.Gone", stdin=gone)
    why = '{"text": "odd"}'
    cli.fine("produce", "proto", "--value-schema", f"{schema}#mart.Gone.Why", stdin=why)
    shown = cli.fine("consume", "proto", *ALL, "--value-as", "schema", "--json")
    assert [json.loads(line)["value"] for line in shown.lines] == [json.loads(line) for line in (*lines, gone, why)]
    first = "\n".join(shown.lines[:2])
    cli.fine("produce", "proto-again", "--input-json", "--value-schema", "latest", stdin=first)
    values = [record.value for record in cluster.records("proto-again")]
    assert values == [record.value for record in cluster.records("proto")][:2] * 2
    for options, line, said in (
        (("latest#mart.Nothing",), gone, "mart.Order, mart.Gone, mart.Gone.Why"),
        (("latest",), '{"id": "x"}', "line 1: the value does not match its schema"),
        (("latest",), '{"nope": 1}', "nope"),
        (("latest",), "[]", "line 1: the value does not match its schema: a message must be a JSON object"),
    ):
        ran = cli("produce", "proto", "--value-schema", *options, stdin=line)
        assert ran.code in (1, 2)
        assert said in ran.err.replace("\n", " ")
    filtered = cli.fine("consume", "proto", *ALL, "--value-as", "schema", "--where", "value.id > 9007199254740992")
    assert filtered.lines == lines[1:]
    filtered = cli.fine("consume", "proto-again", *ALL, "--value-as", "schema", "--where", 'value.seal == ""')
    assert filtered.lines == lines[1:] * 2


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("mark.avsc", '\ufeff"string"', '"x"'),
        ("lines.avsc", '{\r\n"type": "string"\r\n}', '"x"'),
        ("word.avsc", "string", '"x"'),
        ("mark.json", '\ufeff{"type": "string"}', '"x"'),
        ("mark.proto", '\ufeffsyntax = "proto3"; message A { string s = 1; }', '{"s": "x"}'),
    ],
)
def test_schema_files_of_any_editor(
    with_registry: CommandLine, cluster: ClusterThread, tmp_path: Path, name: str, text: str, line: str
) -> None:
    cluster.create_topic(name, 1)
    (tmp_path / name).write_text(text, "utf-8")
    with_registry.fine("produce", name, "--value-schema", str(tmp_path / name), "--register", stdin=line)
    (shown,) = with_registry.fine("consume", name, *ALL, "--value-as", "schema", "--json").lines
    assert json.loads(shown)["value"] == json.loads(line)


def test_references_and_named_branches_of_avro(with_registry: CommandLine, cluster: ClusterThread) -> None:
    cli = with_registry
    registry = SchemaRegistry(
        cli.environment["AIOKAFKA_LEAD_SCHEMA_REGISTRY_URL"] or "", basic_auth=("orders", SECRET), allow_http=True
    )
    money = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    part = {"type": "record", "name": "Part", "namespace": "ns", "fields": [{"name": "cost", "type": money}]}
    fields = [{"name": "part", "type": "Part"}, {"name": "note", "type": ["null", "string", "bytes"]}]
    whole = {"type": "record", "name": "Whole", "namespace": "ns", "fields": fields}

    async def registered() -> None:
        await registry.register("part", Schema(json.dumps(part)))
        references = (SchemaReference("ns.Part", "part", 1),)
        await registry.register("whole-value", Schema(json.dumps(whole), "AVRO", references))

    anyio.run(registered)
    cluster.create_topic("whole", 1)
    lines = ['{"part": {"cost": "1.50"}, "note": null}', '{"part": {"cost": 2}, "note": {"string": "n"}}']
    cli.fine("produce", "whole", "--value-schema", "latest", stdin="\n".join(lines))
    shown = cli.fine("consume", "whole", *ALL, "--value-as", "schema").lines
    assert shown == [lines[0], '{"part": {"cost": "2.00"}, "note": "n"}']


def test_json_schema_of_keys(with_registry: CommandLine, cluster: ClusterThread, tmp_path: Path) -> None:
    cluster.create_topic("keyed", 1)
    schema = tmp_path / "key.json"
    schema.write_text('{"type": "integer"}')
    with_registry.fine("produce", "keyed", "-K", ":", "--key-schema", str(schema), "--register", stdin="7:v")
    assert with_registry.fine("consume", "keyed", *ALL, "--key-as", "schema", "-f", "%k=%v\\n").lines == ["7=v"]


def test_json_schema_shows_and_keeps_the_text_itself(
    with_registry: CommandLine, cluster: ClusterThread, tmp_path: Path
) -> None:
    cli = with_registry
    schema = tmp_path / "any.json"
    schema.write_text('{"type": ["number", "object", "string", "null"]}')
    options = ("--value-schema", str(schema), "--register")
    texts = ['{"n": 0.12345678901234567891, "n": 1.50}', "1e400", '{"cut": "\\ud83d"}', "null", '"\\u00e9"']
    for topic in ("exact", "exact-again"):
        cluster.create_topic(topic, 1)
    cli.fine("produce", "exact", *options, stdin="5\n")
    (first,) = cluster.records("exact")
    assert first.value is not None
    lines = [json.dumps({"value_base64": b64encode(first.value[:5] + text.encode()).decode()}) for text in texts]
    cli.fine("produce", "exact", "--input-json", stdin="\n".join(lines))
    plain = cli.fine("consume", "exact", "-o", "1", "--until", "end", "--value-as", "schema")
    assert plain.lines == [*texts[:-1], "\u00e9"]
    shown = cli.fine("consume", "exact", "-o", "1", "--until", "end", "--value-as", "schema", "--json")
    assert json.loads(shown.lines[2])["value"] == {"cut": "\ud83d"}
    keepable = [line for line in shown.lines if "1e400" not in line and "cut" not in line]
    cli.fine("produce", "exact-again", "--input-json", *options, stdin="\n".join(keepable))
    again = [record.value for record in cluster.records("exact-again")]
    assert again == [first.value[:5] + texts[at].encode() for at in (0, 3, 4)]


def test_what_is_missing_is_named(cli: CommandLine, cluster: ClusterThread, tmp_path: Path) -> None:
    cluster.create_topic("missing", 1)
    ran = cli("consume", "missing", *ALL, "--value-as", "schema")
    assert ran.code != 0
    assert "schema_registry_url" in ran.err
    url = ("-X", "schema_registry_url=http://127.0.0.1:1")
    for given, said in (("order.txt", ".avsc"), (str(tmp_path / "none.avsc"), "cannot read")):
        ran = cli("produce", "missing", *url, "--value-schema", given)
        assert ran.code != 0
        assert said in ran.err
    ran = cli("consume", "missing", "-X", f"schema_registry_password={SECRET}")
    assert ran.code != 0
    assert "secret" in ran.err
    assert SECRET not in ran.err


@pytest.mark.parametrize(("status", "code"), [(401, 4), (403, 4), (400, 1), (503, 3)])
def test_a_registry_that_refuses_makes_no_bad_records(
    with_registry: CommandLine, cluster: ClusterThread, registry: EmbeddedSchemaRegistry, status: int, code: int
) -> None:
    cli, topic = with_registry, f"refused-{status}"
    cluster.create_topic(topic, 1)
    path = Path(cli.environment["AIOKAFKA_LEAD_CONFIG"] or "").parent / "word.avsc"
    path.write_text('"string"')
    cli.fine("produce", topic, "--value-schema", str(path), "--register", stdin='"a"')
    reading = ("consume", topic, "-g", topic, "-n", "1", "--value-as", "schema", "--on-error", "skip")
    registry.fail(status, 1000)
    ran = cli(*reading, "-X", f"request_timeout_ms={1_000 if status == 503 else 20_000}")  # 503 is asked again
    assert (ran.code, ran.out, "skipped" in ran.err) == (code, "", False), ran.err
    registry.fail(status, 0)
    assert cli.fine(*reading).lines == ["a"]


def test_times_beyond_those_of_python_are_numbers(with_registry: CommandLine, cluster: ClusterThread) -> None:
    kinds = ["timestamp-millis", "timestamp-micros", "local-timestamp-millis", "time-micros"]
    fields = [{"name": each.replace("-", "_"), "type": {"type": "long", "logicalType": each}} for each in kinds]
    value = {field["name"]: 2**61 for field in fields} | {"day": 2**30}
    fields.append({"name": "day", "type": {"type": "int", "logicalType": "date"}})
    for topic in ("odd", "odd-again"):
        cluster.create_topic(topic, 1)
    written = BytesIO()
    schema = {"type": "record", "name": "Odd", "fields": fields}
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), value)
    path = Path(with_registry.environment["AIOKAFKA_LEAD_CONFIG"] or "").parent / "odd.avsc"
    path.write_text(json.dumps(schema))
    cli = with_registry
    cli.fine("produce", "odd", "--value-schema", str(path), "--register", stdin=json.dumps(value))
    shown = cli.fine("consume", "odd", *ALL, "--value-as", "schema", "--json")
    assert shown.json["value"] == value
    cli.fine("produce", "odd-again", "--input-json", "--value-schema", str(path), "--register", stdin=shown.out)
    (first,), (again,) = cluster.records("odd"), cluster.records("odd-again")
    assert first.value == again.value
    assert first.value is not None
    assert first.value[5:] == written.getvalue()


def test_times_of_records_beyond_the_year_9999(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("late", 1, configs={"message.timestamp.after.max.ms": str(2**63 - 1)})
    times = [0, 1, 253402300799999, 253402300800000, 2**62]
    cli.fine("produce", "late", "--input-json", stdin="\n".join(f'{{"timestamp_ms": {each}}}' for each in times))
    shown = cli.fine("consume", "late", *ALL, "-f", "%D\\n").lines
    assert shown[:2] == ["1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.001Z"]
    assert shown[2:] == ["9999-12-31T23:59:59.999Z", "253402300800000ms", f"{2**62}ms"]
    found = [json.loads(line)["timestamp_ms"] for line in cli.fine("consume", "late", *ALL, "--json").lines]
    assert found == times


def test_strings_nulls_and_tombstones_by_a_schema(
    with_registry: CommandLine, cluster: ClusterThread, tmp_path: Path
) -> None:
    cli = with_registry
    for topic in ("words-there", "words-back"):
        cluster.create_topic(topic, 1)
    path = tmp_path / "word.avsc"
    path.write_text('["null", "string", "double"]')
    lines = ['{"value": "a"}', '{"value": "null"}', '{"value": null, "value_as": "json"}', '{"value": null}']
    lines += ['{"value": 1.5}', '{"value": "\\"b\\""}']
    schema = ("--input-json", "--value-schema", str(path), "--register")
    cli.fine("produce", "words-there", *schema, stdin="\n".join(lines))
    shown = cli.fine("consume", "words-there", *ALL, "--json", "--value-as", "schema").out
    assert [json.loads(line)["value"] for line in shown.splitlines()] == ["a", None, None, None, 1.5, "b"]
    cli.fine("produce", "words-back", *schema, stdin=shown)
    there = [record.value for record in cluster.records("words-there")]
    assert [value and value[5:] for value in there] == [
        value and value[5:] for value in [record.value for record in cluster.records("words-back")]
    ]
    assert there[3] is None


def test_a_string_of_digits_is_a_key_like_any_other(with_registry: CommandLine, cluster: ClusterThread) -> None:
    cli = with_registry
    cluster.create_topic("digits", 1)
    path = Path(str(cli.environment["AIOKAFKA_LEAD_CONFIG"])).with_name("text.avsc")
    path.write_text('"string"')
    schema = ("--input-json", "--key-schema", str(path), "--register")
    keys = ["ada", "42", "true", '{"a": 1}', '"quoted"']
    cli.fine("produce", "digits", *schema, stdin="\n".join(json.dumps({"key": key, "value": "v"}) for key in keys))
    shown = cli.fine("consume", "digits", *ALL, "--json", "--key-as", "schema").lines
    assert [json.loads(line)["key"] for line in shown] == [*keys[:4], "quoted"]
    ran = cli("produce", "digits", *schema, stdin='{"key": "3432", "key_as": "hex"}')
    assert (ran.code, "line 1: the key does not match its schema" in ran.err) == (1, True), ran.err
