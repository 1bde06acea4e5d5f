"""The guides from other clients cover each of their calls and options."""

from __future__ import annotations

import inspect
import re
import warnings
from pathlib import Path
from typing import Any

import aiokafka.admin
import confluent_kafka.admin
import confluent_kafka.aio
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

with warnings.catch_warnings():  # It reads its schemas in a way that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

GUIDES = Path(__file__).parents[1] / "docs" / "migration"
FIRST_COLUMN = re.compile(r"^\|([^|]*)\|", re.MULTILINE)
CONSTANT = re.compile(r"[A-Z_]+")
KAFKA_PYTHON = (kafka.KafkaProducer, kafka.KafkaConsumer, kafka.KafkaAdminClient)
AIOKAFKA = (aiokafka.AIOKafkaProducer, aiokafka.AIOKafkaConsumer, aiokafka.admin.AIOKafkaAdminClient)
CONFLUENT = (
    confluent_kafka.Producer,
    confluent_kafka.Consumer,
    confluent_kafka.Message,
    confluent_kafka.admin.AdminClient,
    confluent_kafka.aio.AIOProducer,
    confluent_kafka.aio.AIOConsumer,
    SchemaRegistryClient,
    *(getattr(confluent_kafka, name) for name in ("ShareConsumer",) if hasattr(confluent_kafka, name)),  # from 2.14 on
)
REGISTRY = (
    SchemaRegistryClient,
    AvroSerializer,
    AvroDeserializer,
    JSONSerializer,
    JSONDeserializer,
    ProtobufSerializer,
    ProtobufDeserializer,
)
REGISTRY_SECTION = re.compile(r"^## Schema registry$.*?(?=^## )", re.MULTILINE | re.DOTALL)
DOTTED = re.compile(r"[a-z]+(?:\.[a-z]+)+")


def theirs(client: str, text: str | None = None) -> list[str]:
    """Return the spans between backticks in the first columns of a guide's tables, or of a part of it."""
    text = (GUIDES / f"from-{client}.md").read_text() if text is None else text
    return [span for column in FIRST_COLUMN.findall(text) for span in re.findall(r"`([^`]+)`", column)]


def named(client: str) -> set[str]:
    return {word for span in theirs(client) for word in re.findall(r"[A-Za-z_]\w*", span)}


def calls(kind: type[object]) -> set[str]:
    """Return a class's public methods, without constants."""
    public = {name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))}
    return {name for name in public if not CONSTANT.fullmatch(name)}


@pytest.mark.parametrize(
    ("client", "kind"),
    [("aiokafka", kind) for kind in AIOKAFKA]
    + [("confluent-kafka", kind) for kind in CONFLUENT]
    + [("kafka-python", kind) for kind in KAFKA_PYTHON],
)
def test_every_call_has_its_row(client: str, kind: type[object]) -> None:
    assert calls(kind) - named(client) == set()


@pytest.mark.parametrize("kind", KAFKA_PYTHON)
def test_every_option_of_kafka_python_has_its_row(kind: Any) -> None:
    assert set(kind.DEFAULT_CONFIG) - named("kafka-python") == set()


@pytest.mark.parametrize("kind", AIOKAFKA)
def test_every_option_of_aiokafka_has_its_row(kind: type[object]) -> None:
    assert set(inspect.signature(kind).parameters) - {"topics"} - named("aiokafka") == set()


def test_every_option_of_librdkafka_that_is_named_exists() -> None:
    text = REGISTRY_SECTION.sub("", (GUIDES / "from-confluent-kafka.md").read_text())
    options = {span for span in theirs("confluent-kafka", text) if DOTTED.fullmatch(span)}
    assert len(options) > 140
    assert {name for name in options if not is_option(name)} == set()
    assert not is_option("no.such.option")


@pytest.mark.parametrize("kind", REGISTRY)
def test_every_option_of_confluents_registry_has_its_row(kind: type[object]) -> None:
    options = set(re.findall(rf"``({DOTTED.pattern})``", kind.__doc__ or ""))
    section = REGISTRY_SECTION.search((GUIDES / "from-confluent-kafka.md").read_text())
    assert section is not None
    assert options
    assert options - set(theirs("confluent-kafka", section[0])) == set()


def is_option(name: str) -> bool:
    """Return True if librdkafka has the option.

    No client is created: options are checked in order, and the last one is invalid.
    """
    with pytest.raises((confluent_kafka.KafkaException, TypeError)) as refused:
        confluent_kafka.Producer({name: "\0", "none.such": ""})
    return f'No such configuration property: "{name}"' not in str(refused.value)
