"""The root of the package: the names that users import, including the types of all arguments and results."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, assert_type, get_type_hints

import pytest

import aiokafka_lead
import aiokafka_lead.errors
from aiokafka_lead import (
    AdminClient,
    Client,
    Consumer,
    ConsumerHealth,
    ConsumerLag,
    ConsumerMetrics,
    ConsumerOptions,
    ConsumerRecord,
    Producer,
    ProducerMetrics,
    ProducerOptions,
    RunOptions,
    SerializationContext,
    ShareConsumer,
    ShareRecord,
    ShareRunOptions,
    TopicPartition,
)

PUBLIC_MODULES = ("admin", "config", "errors", "oidc", "security", "types")
"""Other modules with public names."""


def as_typed(consumer: Consumer, producer: Producer) -> tuple[ConsumerHealth, ConsumerLag, ConsumerMetrics, int | None]:
    """Only read by type checkers, never called."""
    written: ProducerMetrics = producer.metrics()
    assert written is not None
    lag: ConsumerLag = consumer.lag()
    behind: int | None = lag.partitions[TopicPartition("events", 0)]
    return consumer.health(), lag, consumer.metrics(), behind


class Order:
    """A value of an application."""


def key_of(content: bytes) -> str:
    return content.decode()


def order_bytes(order: Order) -> bytes:
    return b""


async def order_bytes_later(order: Order, context: SerializationContext) -> bytes:
    return b""


def order_of(content: bytes) -> Order:
    return Order()


def order_of_both(content: bytes, context: SerializationContext) -> Order:
    return Order()


async def order_later(content: bytes) -> Order:
    return Order()


async def order_of_both_later(content: bytes, context: SerializationContext) -> Order:
    return Order()


class OrderWriter:
    """A serializer that is an object."""

    def __call__(self, order: Order, context: SerializationContext) -> bytes:
        return b""


def typed_children(client: Client) -> None:
    """The clients that a shared client creates have the same types. Never called."""
    assert_type(client.producer(linger_ms=0), Producer[bytes, bytes])
    assert_type(client.producer(value_serializer=order_bytes), Producer[bytes, Order])
    assert_type(client.producer(key_serializer=str.encode, value_serializer=order_bytes_later), Producer[str, Order])
    assert_type(client.consumer("t"), Consumer[bytes | None, bytes | None])
    assert_type(client.consumer("t", value_deserializer=order_of), Consumer[bytes | None, Order])
    assert_type(client.consumer("t", value_deserializer=order_later), Consumer[bytes | None, Order])
    assert_type(client.consumer(key_deserializer=key_of, value_deserializer=order_of_both), Consumer[str, Order])
    assert_type(client.consumer(key_deserializer=key_of, group_id="g"), Consumer[str, bytes | None])
    assert_type(client.admin(), AdminClient)


def typed_producers() -> None:
    """Serializers set K and V; without one they are bytes. Never called."""
    assert_type(Producer("h"), Producer[bytes, bytes])
    assert_type(Producer("h", linger_ms=0, value_serializer=order_bytes), Producer[bytes, Order])
    assert_type(Producer("h", key_serializer=str.encode, value_serializer=order_bytes), Producer[str, Order])
    assert_type(Producer("h", key_serializer=str.encode), Producer[str, bytes])
    assert_type(Producer("h", value_serializer=order_bytes_later), Producer[bytes, Order])
    assert_type(Producer("h", value_serializer=OrderWriter()), Producer[bytes, Order])
    Producer("h", value_serializer=lambda order: repr(order).encode())
    Producer[str, Order]("h", key_serializer=str.encode, value_serializer=lambda order: repr(order).encode())
    options: ProducerOptions = {"linger_ms": 0}
    kept: Producer = Producer("h", **options)
    assert kept is not None


async def typed_consumers() -> None:
    """Deserializers set K and V. Never called."""
    assert_type(Consumer("t", bootstrap_servers="h"), Consumer[bytes | None, bytes | None])
    assert_type(
        Consumer("t", bootstrap_servers="h", group_id="g", key_deserializer=key_of, value_deserializer=order_of),
        Consumer[str, Order],
    )
    assert_type(Consumer("t", bootstrap_servers="h", value_deserializer=order_later), Consumer[bytes | None, Order])
    assert_type(
        Consumer("t", bootstrap_servers="h", key_deserializer=order_of_both, value_deserializer=order_of_both_later),
        Consumer[Order, Order],
    )
    assert_type(Consumer(bootstrap_servers="h", key_deserializer=bytes.decode), Consumer[str, bytes | None])
    assert_type(Consumer(bootstrap_servers="h", value_deserializer=int), Consumer[bytes | None, int])
    Consumer(bootstrap_servers="h", value_deserializer=lambda content: content.decode())
    consumer = Consumer("t", bootstrap_servers="h", value_deserializer=order_of)
    async for record in consumer:
        assert_type(record.value, Order)
    async for batch in consumer.batches():
        for each in batch:
            assert_type(each, ConsumerRecord[bytes | None, Order])


async def typed_share_consumers() -> None:
    """Deserializers set K and V. Never called."""
    jobs = ShareConsumer("t", bootstrap_servers="h", group_id="g", value_deserializer=order_of)
    async for record in jobs:
        assert_type(record, ShareRecord[bytes | None, Order])


def typed_options() -> tuple[RunOptions, ConsumerOptions]:
    """Options that an application keeps in one place."""
    return {"concurrency": 8, "order": "key"}, {"group_id": "g"}


@pytest.mark.parametrize("name", aiokafka_lead.__all__)
def test_what_is_listed_is_there(name: str) -> None:
    assert getattr(aiokafka_lead, name) is not None
    assert name in dir(aiokafka_lead)


@pytest.mark.parametrize(
    "name", ["", ".admin", ".config", ".consumer", ".errors", ".producer", ".security", ".spark", ".testing", ".types"]
)
def test_an_import_of_everything_brings_what_is_listed_and_overwrites_nothing_else(name: str) -> None:
    """``import *`` overwrites neither submodules (``log``, ``run``, ``client``) nor imports of the module itself."""
    module = importlib.import_module(f"aiokafka_lead{name}")
    taken: dict[str, Any] = {}
    exec(f"from {module.__name__} import *", taken)
    del taken["__builtins__"]
    assert taken.keys() == set(module.__all__)
    assert len(module.__all__) == len(set(module.__all__))
    assert [each for each, value in taken.items() if each.startswith("_") or inspect.ismodule(value)] == []


def test_every_error_is_listed() -> None:
    found = {each for each, value in vars(aiokafka_lead.errors).items() if isinstance(value, type)}
    assert found <= set(aiokafka_lead.errors.__all__)


def public_modules(package: Any) -> Iterator[Any]:
    """Yield the package and the public modules in it, except the interfaces of other libraries."""
    yield package
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if "._" not in found.name and found.name not in ("aiokafka_lead.compat", "aiokafka_lead.spark"):
            module = importlib.import_module(found.name)
            yield from public_modules(module) if found.ispkg else [module]


def test_public_classes_show_public_modules() -> None:
    private = {
        f"{kind.__module__}.{kind.__qualname__} of {module.__name__}"
        for module in public_modules(aiokafka_lead)
        for name in getattr(module, "__all__", ())
        if isinstance(kind := getattr(module, name), type) and "._" in kind.__module__
    }
    assert private == set()


@pytest.mark.parametrize("options", [ConsumerOptions, ProducerOptions, RunOptions, ShareRunOptions])
def test_types_of_options_can_be_evaluated(options: type[Any]) -> None:
    """Libraries such as pydantic resolve an application's annotations in this way."""
    assert get_type_hints(options).keys() >= options.__annotations__.keys()


def test_what_is_not_there_is_told() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Cosumer'"):
        aiokafka_lead.Cosumer  # noqa: B018


def test_the_root_alone_imports_no_client() -> None:
    """A program that only produces does not import the other clients."""
    code = "import sys, aiokafka_lead; print([m for m in sys.modules if m.endswith(('producer', 'consumer', 'admin'))])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "[]"


def test_two_clients_are_imported_and_created_without_what_they_may_never_need() -> None:
    code = """
import asyncio, sys
before = set(sys.modules)
from aiokafka_lead import Consumer, Producer
Producer("localhost:9092"), Consumer("topic", bootstrap_servers="localhost:9092")
late = {"metrics", "health", "_records.compression.zstd", "_io.connection.tls", "_io.group", "_io.transactions"}
late = {"urllib.parse", "importlib.metadata", *(f"aiokafka_lead.{name}" for name in late)}
print(sorted(late & set(sys.modules) - before))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "[]"


def named(function: Any) -> Iterator[str]:
    """Yield the identifiers in a function's annotations."""
    for annotation in inspect.get_annotations(function).values():
        yield from re.findall(r"\w+", str(annotation))


@pytest.mark.parametrize("client", [Producer, Consumer, ShareConsumer, AdminClient])
def test_types_of_public_methods_are_public(client: type[Any]) -> None:
    public = {getattr(aiokafka_lead, name) for name in aiokafka_lead.__all__ if name != "DEAD_LETTER_HEADERS"}
    for name in PUBLIC_MODULES:
        module = importlib.import_module(f"aiokafka_lead.{name}")
        names = [each for each in vars(module) if not each.startswith("_")]
        public |= {found for each in names if isinstance(found := getattr(module, each), type)}
    methods = [
        method
        for name, method in inspect.getmembers(client, inspect.isfunction)
        if method.__module__.startswith("aiokafka_lead") and (name == "__init__" or not name.startswith("_"))
    ]
    used = set()
    for method in methods:
        here = vars(importlib.import_module(method.__module__))
        used |= {here[name] for name in named(method) if isinstance(here.get(name), type)}
    ours = {kind for kind in used if kind.__module__.startswith("aiokafka_lead")}
    assert ours - public == set()
    assert len(methods) > 5
