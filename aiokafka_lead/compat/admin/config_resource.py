"""`ConfigResource`, in a module of the same name as in aiokafka."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

__all__ = ["ConfigResource", "ConfigResourceType"]


class ConfigResourceType(IntEnum):
    """Type of a resource that has a configuration."""

    BROKER = 4
    TOPIC = 2


class ConfigResource:
    """Topic or broker, with the names of configurations to describe, or the configurations to set."""

    def __init__(
        self, resource_type: ConfigResourceType | str, name: str, configs: Mapping[str, str | None] | None = None
    ) -> None:
        if not isinstance(resource_type, ConfigResourceType):
            resource_type = ConfigResourceType[str(resource_type).upper()]
        self.resource_type = resource_type
        self.name = name
        self.configs = configs
