"""The names of attributes and metrics, in one table: OpenTelemetry's semantic conventions for messaging.

They follow version 1.44 of the conventions. ``OTEL_SEMCONV_STABILITY_OPT_IN`` selects version 1.45 with "messaging",
and both with "messaging/dup".
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from enum import Enum

from .._values import NamedTuple

__all__ = ["SCHEMA_URL", "Attribute", "Vocabulary", "Wording"]

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"

OPT_IN = "OTEL_SEMCONV_STABILITY_OPT_IN"

Value = str | bool | int | float


class Attribute(Enum):
    """Each attribute by its names in versions 1.44 and 1.45."""

    SYSTEM = ("messaging.system", "messaging.system.name")
    OPERATION_NAME = ("messaging.operation.name",) * 2
    OPERATION_TYPE = ("messaging.operation.type",) * 2
    DESTINATION = ("messaging.destination.name",) * 2
    PARTITION = ("messaging.destination.partition.id",) * 2
    CLIENT_ID = ("messaging.client.id",) * 2
    GROUP = ("messaging.consumer.group.name",) * 2
    MESSAGE_COUNT = ("messaging.batch.message_count",) * 2
    CLUSTER_ID = ("messaging.kafka.cluster.id", "kafka.cluster.id")
    KEY = ("messaging.kafka.message.key", "kafka.message.key")
    OFFSET = ("messaging.kafka.offset", "kafka.offset")
    TOMBSTONE = ("messaging.kafka.message.tombstone", "kafka.message.tombstone")
    ERROR_TYPE = ("error.type",) * 2
    SERVER_ADDRESS = ("server.address",) * 2
    SERVER_PORT = ("server.port",) * 2

    # A member is hashed for each attribute of each span: by identity, that is done in C.
    __hash__ = object.__hash__


class Wording(NamedTuple):
    """The selected names."""

    old: bool
    new: bool

    @classmethod
    def from_environment(cls) -> Wording:
        """Return the selection of ``OTEL_SEMCONV_STABILITY_OPT_IN``."""
        asked = {part.strip() for part in os.environ.get(OPT_IN, "").split(",")}
        if "messaging/dup" in asked:
            return cls(old=True, new=True)
        return cls(old=False, new=True) if "messaging" in asked else cls(old=True, new=False)


class Vocabulary:
    """Maps attributes to their names."""

    def __init__(self, wording: Wording) -> None:
        self._names = {each: tuple(dict.fromkeys(_chosen(each.value, wording))) for each in Attribute}

    def __call__(self, *pairs: tuple[Attribute, Value | None]) -> dict[str, Value]:
        """Return the attributes that have a value, in OpenTelemetry's form."""
        return {name: value for attribute, value in pairs if value is not None for name in self._names[attribute]}


def _chosen(names: tuple[str, ...], wording: Wording) -> Iterable[str]:
    old, new = names
    if wording.old:
        yield old
    if wording.new:
        yield new
