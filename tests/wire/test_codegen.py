"""Generated files are up to date: modules with the facts, and the facts with Kafka's jar if it is present."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lead._wire.codegen.__main__ import (
    PROTOCOL_FILE,
    generated_files,
    parse,
    read_jar,
    render,
    snake_case,
    stale_files,
)
from aiokafka_lead._wire.message import Field, Versions

RELEASE = PROTOCOL_FILE.read_text().split()[1]
JAR = os.environ.get(
    "KAFKA_CLIENTS_JAR",
    Path.home() / f".m2/repository/org/apache/kafka/kafka-clients/{RELEASE}/kafka-clients-{RELEASE}.jar",
)


def test_modules_follow_from_the_facts() -> None:
    assert stale_files() == []


@pytest.mark.skipif(not Path(JAR).exists(), reason="kafka-clients' jar is not on this machine")
def test_facts_follow_from_the_jar() -> None:
    assert render(*read_jar(Path(JAR))) == PROTOCOL_FILE.read_text()


def test_notation_survives() -> None:
    text = PROTOCOL_FILE.read_text()
    assert render(*parse(text)) == text


def test_every_module_can_be_imported_under_its_name() -> None:
    for path, source in generated_files(PROTOCOL_FILE.read_text()).items():
        compile(source, str(path), "exec")
        assert path.stem.isidentifier()


@pytest.mark.parametrize(
    "line",
    [
        "name string 0-12 ignorable",
        "partitions []int32 0+",
        "current_leader LeaderIdAndEpoch 10+ tag 0",
        "cluster_id string 12+ null 12+ tag 0 = null ignorable",
        "timeout_ms int32 1 = 60000",
    ],
)
def test_field_notation(line: str) -> None:
    assert str(Field.parse(line)) == line


def test_field_notation_with_an_unknown_word() -> None:
    with pytest.raises(ValueError, match="unknown word 'maybe'"):
        Field.parse("name string 0+ maybe")


@pytest.mark.parametrize("text", ["0+", "3-7", "4", "none"])
def test_versions(text: str) -> None:
    assert str(Versions.parse(text)) == text


@pytest.mark.parametrize(
    ("name", "expected"),
    [("NodeId", "node_id"), ("timeoutMs", "timeout_ms"), ("ISRNodes", "isr_nodes"), ("V2Topic", "v2_topic")],
)
def test_snake_case(name: str, expected: str) -> None:
    assert snake_case(name) == expected


def make_jar(path: Path, request: dict[str, Any], response: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("kafka/kafka-version.properties", "commitId=abc\nversion=9.9.9\n")
        for schema in (request, response):
            jar.writestr(f"common/message/{schema['name']}.json", "// a comment\n" + json.dumps(schema))
    return path


def schema(kind: str, **changes: Any) -> dict[str, Any]:
    name = f"Try{kind.capitalize()}"
    base = {"apiKey": 900, "type": kind, "name": name, "validVersions": "0-3", "flexibleVersions": "2+", "fields": []}
    return base | ({"listeners": ["broker"]} if kind == "request" else {}) | changes


def test_an_unstable_version_is_left_out(tmp_path: Path) -> None:
    jar = make_jar(tmp_path / "k.jar", schema("request", latestVersionUnstable=True), schema("response"))
    with pytest.raises(KeyError, match="ConsumerProtocolAssignment"):
        read_jar(jar)  # not one of Kafka's jars
    with zipfile.ZipFile(jar, "a") as more:
        for name in (
            "ConsumerProtocolAssignment",
            "ConsumerProtocolSubscription",
            "ControlRecordTypeSchema",
            "EndTxnMarker",
        ):
            data: dict[str, Any] = {
                "type": "data",
                "name": name,
                "validVersions": "0",
                "flexibleVersions": "none",
                "fields": [],
            }
            more.writestr(f"common/message/{name}.json", json.dumps(data))
    release, apis = read_jar(jar)
    assert release == "9.9.9"
    assert (apis[0].name, str(apis[0].versions), str(apis[0].flexible)) == ("Try", "0-2", "2+")


def test_schemas_that_the_notation_cannot_say(tmp_path: Path) -> None:
    jar = make_jar(tmp_path / "one.jar", schema("request"), schema("response", validVersions="0-2"))
    with pytest.raises(ValueError, match="disagree about versions"):
        read_jar(jar)
    field = {"name": "A", "type": "int32", "versions": "0+", "taggedVersions": "2+", "tag": 0}
    jar = make_jar(tmp_path / "two.jar", schema("request", fields=[field]), schema("response"))
    with pytest.raises(ValueError, match="A is tagged in some of its versions only"):
        read_jar(jar)
