"""confluent-kafka's client of a registry and its serializers, with types that match the arguments they take."""

from __future__ import annotations

from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

client: Any = SchemaRegistryClient
schema: Any = Schema
header_ids: Any = header_schema_id_serializer
avro_serializer: Any = AvroSerializer
avro_deserializer: Any = AvroDeserializer
json_serializer: Any = JSONSerializer
json_deserializer: Any = JSONDeserializer
protobuf_serializer: Any = ProtobufSerializer
protobuf_deserializer: Any = ProtobufDeserializer


def context(topic: str, headers: Any = None) -> Any:
    """Return the context of a value."""
    return SerializationContext(topic, MessageField.VALUE, headers)
