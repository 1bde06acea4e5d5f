"""Serializers and deserializers for Avro, JSON Schema and Protobuf, with a schema registry.

    registry = SchemaRegistry("https://registry.example.org", basic_auth=("orders", secret))
    Producer(servers, value_serializer=registry.avro_serializer(ORDER))
    Consumer("orders", bootstrap_servers=servers, value_deserializer=registry.deserializer())

The bytes have Confluent's wire format. Each type of schema needs its extra: ``avro``, ``jsonschema`` or ``protobuf``.
"""

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
