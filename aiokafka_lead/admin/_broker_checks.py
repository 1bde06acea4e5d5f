"""What calls about brokers and controllers are given, checked before anything is sent."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from .._options.arguments import list_of, map_of, topic_partition
from .._options.checks import INT16_MAX, boolean, instance, integer, optional, short_text
from ..errors import ConfigTypeError
from ..types import TopicPartition
from .cluster_types import FeatureUpdate, FeatureUpgradeType, RaftVoterEndpoint
from .types import ConfigResourceType

__all__ = [
    "BROKER",
    "BROKERS",
    "DIRECTORY",
    "ENDPOINTS",
    "MOVES",
    "PARTITIONS",
    "RESOURCE_TYPES",
    "UPDATES",
    "boolean",
]

BROKER = integer(0)
BROKERS = list_of("broker ids", BROKER)
PARTITIONS = optional(list_of("TopicPartition", topic_partition))
DIRECTORY = instance(UUID, "a UUID")
RESOURCE_TYPES = optional(list_of("types", instance(ConfigResourceType, "a ConfigResourceType")))


def _replica(name: str, value: Any) -> tuple[TopicPartition, int]:
    if not isinstance(value, tuple) or len(value) != 2:
        raise ConfigTypeError(f"{name} must be a pair of a TopicPartition and a broker id, not {value!r}")
    return topic_partition(name, value[0]), BROKER(name, value[1])


def _endpoint(name: str, value: Any) -> RaftVoterEndpoint:
    at: RaftVoterEndpoint = instance(RaftVoterEndpoint, "a RaftVoterEndpoint")(name, value)
    short_text(f"{name}.listener", at.listener)
    short_text(f"{name}.host", at.host)
    integer(1, 65_535)(f"{name}.port", at.port)
    return at


def _update(name: str, value: Any) -> FeatureUpdate:
    wanted: FeatureUpdate = instance(FeatureUpdate, "a FeatureUpdate")(name, value)
    integer(0, INT16_MAX)(f"{name}.max_version_level", wanted.max_version_level)
    instance(FeatureUpgradeType, "a FeatureUpgradeType")(f"{name}.upgrade_type", wanted.upgrade_type)
    return wanted


MOVES = map_of("replica to path", _replica, short_text)
ENDPOINTS = list_of("RaftVoterEndpoint", _endpoint)
UPDATES = map_of("feature to FeatureUpdate", short_text, _update)
