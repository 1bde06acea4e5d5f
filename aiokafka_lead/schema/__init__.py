"""Schemas of keys and values, kept in a registry: Avro, JSON Schema and Protobuf, in Confluent's wire format.

    registry = SchemaRegistry("https://registry.example.org", basic_auth=("orders", secret))
    Producer(servers, value_serializer=registry.avro_serializer(ORDER))
    Consumer("orders", bootstrap_servers=servers, value_deserializer=registry.deserializer())

Needs the extra ``avro``, ``jsonschema`` or ``protobuf`` for schemas of that kind.
"""

from __future__ import annotations

from .._options.serialization import WithHeaders
from .deserializer import SchemaDeserializer
from .registry import SchemaRegistry
from .serializer import SchemaSerializer
from .types import RegisteredSchema, Schema, SchemaReference, SchemaRule
from .values import NamedRecord

__all__ = [
    "NamedRecord",
    "RegisteredSchema",
    "Schema",
    "SchemaDeserializer",
    "SchemaReference",
    "SchemaRegistry",
    "SchemaRule",
    "SchemaSerializer",
    "WithHeaders",
]
