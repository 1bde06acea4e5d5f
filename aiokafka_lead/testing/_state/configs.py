"""Configs of topics and of single groups, some of which are only stored, and features.

Java, for groups: ``GroupConfig`` and ``ShareGroupConfig``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from ..._options.checks import INT64_MAX
from ..._records.layout import CODEC_NAMES
from ...errors import InvalidConfigError, InvalidRequestError
from .members import GroupOptions

DEFAULT_LEVELS = {"metadata.version": 29, "transaction.version": 2, "group.version": 1, "share.version": 1}
"""The brokers' features: transaction.version 2 is KIP-890, group.version 1 KIP-848, share.version 1 KIP-932."""

_SUPPORTED = {
    "metadata.version": (7, 30),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    "share.version": (0, 1),
}


class Features:
    """The levels of a cluster's features by name. Level 0 means that a feature is not finalized."""

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
    """The defaults of topic configs: the configs of the brokers, and otherwise Kafka's defaults."""

    __slots__ = ("_overrides",)

    def __init__(self, overrides: Mapping[str, str]) -> None:
        for name, value in overrides.items():
            validate_config(name, value)
        self._overrides = dict(overrides)

    def get(self, name: str) -> str:
        return self._overrides.get(name, TOPIC_CONFIGS[name].default)


class TopicConfigs:
    """The configs of a topic: explicit values, and otherwise defaults. Those that appends need are plain attributes."""

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


EARLIEST, LATEST = "earliest", "latest"
"""Positions at which the records of a share group may start."""

_DURATION = re.compile(
    r"by_duration:P(?=[\dT])(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)


class GroupConfigDefinition(NamedTuple):
    """A config of groups: its type, its default as text, and its permitted values."""

    type: ConfigType
    default: str
    low: int = 0
    high: int = 2**31 - 1
    choices: tuple[str, ...] = ()


def _number(default: int, high: int, low: int = 1) -> GroupConfigDefinition:
    return GroupConfigDefinition(ConfigType.INT, str(default), min(low, default), max(high, default))


def _definitions(options: GroupOptions) -> dict[str, GroupConfigDefinition]:
    """Return the definitions, with lower minima than at real brokers (``group.share.min.session.timeout.ms``, ...)."""
    interval = _number(1000, 15_000, 0)
    return {
        # These configs have an effect.
        "consumer.session.timeout.ms": _number(options.consumer_session_timeout_ms, 60_000),
        "consumer.heartbeat.interval.ms": _number(options.consumer_heartbeat_interval_ms, 15_000),
        "share.session.timeout.ms": _number(options.share_session_timeout_ms, 60_000),
        "share.heartbeat.interval.ms": _number(options.share_heartbeat_interval_ms, 15_000),
        "share.record.lock.duration.ms": _number(options.share_record_lock_duration_ms, 60_000, 1000),
        "share.delivery.count.limit": _number(options.share_delivery_count_limit, 10, 2),
        "share.partition.max.record.locks": _number(options.share_partition_max_record_locks, 4_000, 100),
        "share.auto.offset.reset": GroupConfigDefinition(ConfigType.STRING, LATEST),
        "share.isolation.level": GroupConfigDefinition(
            ConfigType.STRING, "read_uncommitted", choices=("read_committed", "read_uncommitted")
        ),
        "share.renew.acknowledge.enable": GroupConfigDefinition(ConfigType.BOOLEAN, "true", choices=("true", "false")),
        # These have no effect, because assignments are immediate and there are no streams groups.
        "consumer.assignment.interval.ms": interval,
        "share.assignment.interval.ms": interval,
        "streams.session.timeout.ms": _number(45_000, 60_000),
        "streams.heartbeat.interval.ms": _number(5_000, 15_000),
        "streams.num.standby.replicas": _number(0, 2, 0),
        "streams.initial.rebalance.delay.ms": _number(3_000, 2**31 - 1, 0),
        "streams.assignment.interval.ms": interval,
    }


class ShareSettings(NamedTuple):
    """The settings of a share group. For ``reset``, see `reset_time_ms`."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    record_lock_duration_ms: int
    delivery_count_limit: int
    partition_max_record_locks: int
    reset: str
    committed_only: bool
    renew_acknowledge_enable: bool


class GroupConfigs:
    """Explicit configs by group, and otherwise the brokers' defaults."""

    def __init__(self, options: GroupOptions) -> None:
        self.definitions = _definitions(options)
        self._overrides: dict[str, dict[str, str]] = {}
        # Kept, because they are needed for each record.
        self._share: dict[str, ShareSettings] = {}

    @property
    def names(self) -> list[str]:
        """Groups with explicit configs."""
        return sorted(self._overrides)

    def overrides(self, group_id: str) -> Mapping[str, str]:
        return self._overrides.get(group_id, {})

    def get(self, group_id: str, name: str) -> str:
        value = self.overrides(group_id).get(name)
        return self.definitions[name].default if value is None else value

    def number(self, group_id: str, name: str) -> int:
        return int(self.get(group_id, name))

    def share(self, group_id: str) -> ShareSettings:
        found = self._share.get(group_id)
        if found is None:
            found = self._share[group_id] = ShareSettings(
                self.number(group_id, "share.session.timeout.ms"),
                self.number(group_id, "share.heartbeat.interval.ms"),
                self.number(group_id, "share.record.lock.duration.ms"),
                self.number(group_id, "share.delivery.count.limit"),
                self.number(group_id, "share.partition.max.record.locks"),
                self.get(group_id, "share.auto.offset.reset"),
                self.get(group_id, "share.isolation.level") == "read_committed",
                self.get(group_id, "share.renew.acknowledge.enable") == "true",
            )
        return found

    def check(self, group_id: str, overrides: Mapping[str, str]) -> None:
        """Raise an error if ``overrides``, the new configs of a group, are invalid."""
        if not group_id:
            raise InvalidRequestError("Default group resources are not allowed.")
        for name in overrides:
            if name not in self.definitions:
                raise InvalidConfigError(f"Unknown group config name: {name}")
        for name, value in overrides.items():
            self._check_value(name, value)
        for name, value in overrides.items():
            self._check_bounds(name, value)
        self._check_pairs(overrides)

    def _check_value(self, name: str, value: str) -> None:
        definition = self.definitions[name]
        wrong = f"Invalid value {value} for configuration {name}"
        if definition.type is ConfigType.INT:
            if not re.fullmatch(r"[+-]?\d+", value):
                raise InvalidConfigError(f"{wrong}: Not a number of type INT")
        elif definition.choices and value not in definition.choices:
            raise InvalidConfigError(f"{wrong}: String must be one of: {', '.join(definition.choices)}")
        elif name == "share.auto.offset.reset" and value not in (EARLIEST, LATEST) and not _DURATION.fullmatch(value):
            raise InvalidConfigError(
                f"{wrong}: Invalid value `{value}` for configuration {name}. The value must be either "
                "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
            )

    def _check_bounds(self, name: str, value: str) -> None:
        """Check the bounds set by the brokers' configs."""
        definition = self.definitions[name]
        if definition.type is not ConfigType.INT:
            return
        kind, _, option = name.partition(".")
        if int(value) < definition.low:
            raise InvalidConfigError(f"{name} must be greater than or equal to group.{kind}.min.{option}")
        if int(value) > definition.high:
            raise InvalidConfigError(f"{name} must be less than or equal to group.{kind}.max.{option}")

    def _check_pairs(self, overrides: Mapping[str, str]) -> None:
        for kind in ("consumer", "share", "streams"):
            session, heartbeat = (f"{kind}.{what}" for what in ("session.timeout.ms", "heartbeat.interval.ms"))
            session_ms, heartbeat_ms = (
                int(overrides.get(name, self.definitions[name].default)) for name in (session, heartbeat)
            )
            if session_ms <= heartbeat_ms and {session, heartbeat} & overrides.keys():
                raise InvalidConfigError(f"{session} must be greater than {heartbeat}")

    def replace(self, group_id: str, overrides: Mapping[str, str]) -> None:
        """Replace the configs of a group by ``overrides``, which `check` must have accepted."""
        self._share.pop(group_id, None)
        if overrides:
            self._overrides[group_id] = dict(overrides)
        else:
            self._overrides.pop(group_id, None)


def reset_time_ms(reset: str, now_ms: int) -> int | None:
    """Return the time at which a share group begins, for a reset policy with a duration such as ``by_duration:PT1H``.

    Returns None for any other policy.
    """
    found = _DURATION.fullmatch(reset)
    if found is None:
        return None
    days, hours, minutes, seconds = (float(found[name] or 0) for name in ("days", "hours", "minutes", "seconds"))
    return now_ms - int(1000 * (86_400 * days + 3_600 * hours + 60 * minutes + seconds))
