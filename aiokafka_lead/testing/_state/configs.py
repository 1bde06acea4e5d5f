"""Topic configs, some of which are only stored, and features."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from ..._options.checks import INT64_MAX
from ..._records.layout import CODEC_NAMES
from ...errors import InvalidConfigError

DEFAULT_LEVELS = {"metadata.version": 29, "transaction.version": 2, "group.version": 1, "share.version": 1}
"""The brokers' features: transaction.version 2 is KIP-890, group.version 1 KIP-848, share.version 1 KIP-932."""

_SUPPORTED = {
    "metadata.version": (7, 30),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    "share.version": (0, 1),
}


class Features:
    """Levels of features by name. Level 0 means that a feature is not finalized."""

    def __init__(self, levels: Mapping[str, int]) -> None:
        self._levels = dict(levels)
        self.supported = {name: _SUPPORTED.get(name, (0, level)) for name, level in levels.items()}
        # Increases with every change.
        self.epoch = 1

    @property
    def finalized(self) -> dict[str, int]:
        return {name: level for name, level in self._levels.items() if level > 0}

    def level(self, name: str) -> int:
        return self._levels.get(name, 0)

    def set_level(self, name: str, level: int) -> None:
        if self.level(name) != level:
            self.epoch += 1
        self._levels[name] = level
        low, high = self.supported.get(name) or _SUPPORTED.get(name, (0, level))
        self.supported[name] = low, max(high, level)


class ConfigType(IntEnum):
    """Type of a config's value, by its number in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigDefinition(NamedTuple):
    """A config of topics: its type, its default as text, and its permitted values (empty: any of its type)."""

    type: ConfigType
    default: str
    choices: tuple[str, ...] = ()
    minimum: int | None = None


TOPIC_CONFIGS: dict[str, ConfigDefinition] = {
    # These configs have an effect.
    "cleanup.policy": ConfigDefinition(ConfigType.LIST, "delete", ("delete", "compact")),
    "max.message.bytes": ConfigDefinition(ConfigType.INT, "1048588", minimum=0),
    "message.timestamp.after.max.ms": ConfigDefinition(ConfigType.LONG, "3600000", minimum=0),
    "message.timestamp.before.max.ms": ConfigDefinition(ConfigType.LONG, str(INT64_MAX), minimum=0),
    "message.timestamp.type": ConfigDefinition(ConfigType.STRING, "CreateTime", ("CreateTime", "LogAppendTime")),
    "min.insync.replicas": ConfigDefinition(ConfigType.INT, "1", minimum=1),
    "retention.bytes": ConfigDefinition(ConfigType.LONG, "-1", minimum=-1),
    "segment.bytes": ConfigDefinition(ConfigType.INT, "1073741824", minimum=14),
    # These configs are stored and described, but have no effect.
    "compression.gzip.level": ConfigDefinition(ConfigType.INT, "-1", minimum=-1),
    "compression.lz4.level": ConfigDefinition(ConfigType.INT, "9", minimum=1),
    "compression.type": ConfigDefinition(
        ConfigType.STRING, "producer", ("uncompressed", *reversed(CODEC_NAMES[1:]), "producer")
    ),
    "compression.zstd.level": ConfigDefinition(ConfigType.INT, "3", minimum=-131072),
    "delete.retention.ms": ConfigDefinition(ConfigType.LONG, "86400000", minimum=0),
    "file.delete.delay.ms": ConfigDefinition(ConfigType.LONG, "60000", minimum=0),
    "flush.messages": ConfigDefinition(ConfigType.LONG, str(INT64_MAX), minimum=1),
    "flush.ms": ConfigDefinition(ConfigType.LONG, str(INT64_MAX), minimum=0),
    "follower.replication.throttled.replicas": ConfigDefinition(ConfigType.LIST, ""),
    "index.interval.bytes": ConfigDefinition(ConfigType.INT, "4096", minimum=0),
    "leader.replication.throttled.replicas": ConfigDefinition(ConfigType.LIST, ""),
    "local.retention.bytes": ConfigDefinition(ConfigType.LONG, "-2", minimum=-2),
    "local.retention.ms": ConfigDefinition(ConfigType.LONG, "-2", minimum=-2),
    "max.compaction.lag.ms": ConfigDefinition(ConfigType.LONG, str(INT64_MAX), minimum=1),
    "min.cleanable.dirty.ratio": ConfigDefinition(ConfigType.DOUBLE, "0.5"),
    "min.compaction.lag.ms": ConfigDefinition(ConfigType.LONG, "0", minimum=0),
    "preallocate": ConfigDefinition(ConfigType.BOOLEAN, "false", ("true", "false")),
    "remote.copy.disable": ConfigDefinition(ConfigType.BOOLEAN, "false", ("true", "false")),
    "remote.log.delete.on.disable": ConfigDefinition(ConfigType.BOOLEAN, "false", ("true", "false")),
    "remote.storage.enable": ConfigDefinition(ConfigType.BOOLEAN, "false", ("true", "false")),
    "retention.ms": ConfigDefinition(ConfigType.LONG, "604800000", minimum=-1),
    "segment.index.bytes": ConfigDefinition(ConfigType.INT, "10485760", minimum=4),
    "segment.jitter.ms": ConfigDefinition(ConfigType.LONG, "0", minimum=0),
    "segment.ms": ConfigDefinition(ConfigType.LONG, "604800000", minimum=1),
    "unclean.leader.election.enable": ConfigDefinition(ConfigType.BOOLEAN, "false", ("true", "false")),
}


class TopicDefaults:
    """Defaults of topics' configs: the configs of the brokers, and otherwise Kafka's defaults."""

    __slots__ = ("_overrides",)

    def __init__(self, overrides: Mapping[str, str]) -> None:
        for name, value in overrides.items():
            validate_config(name, value)
        self._overrides = dict(overrides)

    def get(self, name: str) -> str:
        return self._overrides.get(name, TOPIC_CONFIGS[name].default)


class TopicConfigs:
    """Configs of a topic: explicit values, and otherwise defaults. Those that appends need are plain attributes."""

    __slots__ = (
        "_defaults",
        "compacted",
        "log_append_time",
        "max_message_bytes",
        "min_insync_replicas",
        "overrides",
        "retention_bytes",
        "segment_bytes",
        "timestamp_after_max_ms",
        "timestamp_before_max_ms",
    )

    def __init__(self, overrides: Mapping[str, str], defaults: TopicDefaults) -> None:
        for name, value in overrides.items():
            validate_config(name, value)
        self._defaults = defaults
        self.overrides = dict(overrides)
        self.max_message_bytes = int(self.get("max.message.bytes"))
        self.min_insync_replicas = int(self.get("min.insync.replicas"))
        self.retention_bytes = int(self.get("retention.bytes"))
        self.segment_bytes = int(self.get("segment.bytes"))
        self.timestamp_after_max_ms = int(self.get("message.timestamp.after.max.ms"))
        self.timestamp_before_max_ms = int(self.get("message.timestamp.before.max.ms"))
        self.log_append_time = self.get("message.timestamp.type") == "LogAppendTime"
        self.compacted = "compact" in split_list(self.get("cleanup.policy"))

    def get(self, name: str) -> str:
        value = self.overrides.get(name)
        return self._defaults.get(name) if value is None else value

    def replaced(self, overrides: Mapping[str, str]) -> TopicConfigs:
        """Return configs with other explicit values and the same defaults."""
        return TopicConfigs(overrides, self._defaults)


def split_list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def validate_config(name: str, value: str) -> None:
    """Raise InvalidConfigError unless the config exists and permits the value."""
    definition = TOPIC_CONFIGS.get(name)
    if definition is None:
        raise InvalidConfigError(f"Unknown topic config name: {name}")
    try:
        if definition.type in (ConfigType.INT, ConfigType.LONG):
            bits = 31 if definition.type is ConfigType.INT else 63
            number = int(value.replace("_", "?"))  # only Python allows underscores in numbers
            valid = definition.minimum is not None and definition.minimum <= number < 2**bits
        elif definition.type is ConfigType.DOUBLE:
            valid = 0 <= float(value) <= 1
        elif definition.type is ConfigType.LIST:
            valid = not definition.choices or all(item in definition.choices for item in split_list(value))
        elif definition.type is ConfigType.BOOLEAN:
            valid = value.strip().lower() in definition.choices
        else:
            valid = not definition.choices or value in definition.choices
    except ValueError:
        valid = False
    if not valid:
        raise InvalidConfigError(f"Invalid value {value} for configuration {name}")
