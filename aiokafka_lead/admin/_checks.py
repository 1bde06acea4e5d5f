"""What admin calls are given, checked before anything is sent."""

from __future__ import annotations

from typing import Any

from .._options.arguments import INT64_MAX, list_of, map_of, string, topic_name, topic_partition
from .._options.checks import INT16_MAX, Check, boolean, instance, integer, milliseconds, optional, text
from ..errors import ConfigError
from .types import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ElectionType,
    NewPartitions,
    NewTopic,
    TransactionState,
)

__all__ = [
    "BROKER",
    "CHANGES",
    "COORDINATOR_EPOCH",
    "DELETE_BEFORE",
    "DURATION",
    "ELECTION",
    "NAMED_PARTITIONS",
    "NAMES",
    "NEW_PARTITIONS",
    "NEW_TOPICS",
    "OFFSETS_AT",
    "PAGE_SIZE",
    "PARTITIONS",
    "PATTERN",
    "PRODUCER_EPOCH",
    "PRODUCER_ID",
    "PRODUCER_IDS",
    "REPLICAS",
    "RESOURCES",
    "START_OFFSET",
    "STATES",
    "TOPICS",
    "TRANSACTIONAL_IDS",
    "boolean",
    "milliseconds",
    "topic_partition",
]

_NOT_GIVEN = -1

_BROKERS = list_of("broker ids", integer(0))


def _new_topic(name: str, value: Any) -> NewTopic:
    topic: NewTopic = instance(NewTopic, "a NewTopic")(name, value)
    numbers = topic.num_partitions, topic.replication_factor
    checked = NewTopic(
        topic_name(f"{name}.name", topic.name),
        integer(_NOT_GIVEN)(f"{name}.num_partitions", numbers[0]),
        integer(_NOT_GIVEN, INT16_MAX)(f"{name}.replication_factor", numbers[1]),
        _ASSIGNMENTS(f"{name}.replica_assignments", topic.replica_assignments),
        _CONFIGS(f"{name}.topic_configs", topic.topic_configs),
    )
    if checked.replica_assignments and numbers != (_NOT_GIVEN, _NOT_GIVEN):
        raise ConfigError(f"{name}.replica_assignments excludes num_partitions and replication_factor")
    return checked


_ASSIGNMENTS = map_of("partition to broker ids", integer(0), _BROKERS)
_CONFIGS = map_of("str to str", string, optional(string))


def _each_once(inner: Check) -> Check:
    """Topics of which no two have the same name."""

    def check(name: str, value: Any) -> dict[str, NewTopic]:
        found: dict[str, NewTopic] = {}
        for topic in inner(name, value):
            if topic.name in found:
                raise ConfigError(f"{name} must not have the topic {topic.name!r} twice")
            found[topic.name] = topic
        return found

    return check


def _new_partitions(name: str, value: Any) -> NewPartitions:
    if not isinstance(value, NewPartitions):
        return NewPartitions(integer(1)(name, value))
    assignments = optional(list_of("lists of broker ids", _BROKERS))(f"{name}.assignments", value.assignments)
    return NewPartitions(integer(1)(f"{name}.total_count", value.total_count), assignments)


def _resource(name: str, value: Any) -> ConfigResource:
    match value:
        case (ConfigResourceType() as kind, owner):
            return ConfigResource(kind, string(f"{name}.name", owner))
    return _NO_RESOURCE(name, value)  # type: ignore[no-any-return]


_NO_RESOURCE = instance(ConfigResource, "a ConfigResource of a ConfigResourceType and a name")


def _change(name: str, value: Any) -> ConfigChange:
    change: ConfigChange = instance(ConfigChange, "a ConfigChange")(name, value)
    operation = instance(ConfigOperation, "a ConfigOperation")(f"{name}.operation", change.operation)
    content = optional(string)(f"{name}.value", change.value)
    if content is None and operation is not ConfigOperation.DELETE:
        raise ConfigError(f"{name}.value must not be None: only ConfigOperation.DELETE has none")
    return ConfigChange(string(f"{name}.name", change.name), content, operation)


NEW_TOPICS = _each_once(list_of("NewTopic", _new_topic))
"""By name."""
TOPICS = list_of("topic names", topic_name)
NAMES = optional(list_of("names", string))
NEW_PARTITIONS = map_of("topic to number of partitions", topic_name, _new_partitions)
PAGE_SIZE = integer(1)
PARTITIONS = optional(list_of("TopicPartition", topic_partition))
ELECTION = instance(ElectionType, "an ElectionType")
REPLICAS = map_of("TopicPartition to broker ids", topic_partition, optional(_BROKERS))
OFFSETS_AT = map_of("TopicPartition to time or OffsetSpec", topic_partition, integer(-(2**63), INT64_MAX))
DELETE_BEFORE = map_of("TopicPartition to offset", topic_partition, integer(-1, INT64_MAX))
RESOURCES = list_of("ConfigResource", _resource)
CHANGES = map_of("ConfigResource to changes", _resource, list_of("ConfigChange", _change))
BROKER = optional(integer(0))
NAMED_PARTITIONS = list_of("TopicPartition", topic_partition)
TRANSACTIONAL_IDS = list_of("transactional ids", text)
STATES = optional(list_of("TransactionState", instance(TransactionState, "a TransactionState")))
_PRODUCER_ID = integer(0, INT64_MAX)
PRODUCER_IDS = optional(list_of("producer ids", _PRODUCER_ID))
PRODUCER_ID = optional(_PRODUCER_ID)
PRODUCER_EPOCH = optional(integer(0, INT16_MAX))
COORDINATOR_EPOCH = integer(0)
START_OFFSET = optional(integer(0, INT64_MAX))
DURATION = optional(milliseconds())
PATTERN = optional(text)
