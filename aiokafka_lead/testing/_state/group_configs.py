"""Configs of single groups (resource type GROUP; Java: ``GroupConfig``, ``ShareGroupConfig``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ...errors import InvalidConfigError, InvalidRequestError
from .configs import ConfigType
from .members import GroupOptions

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
    """Settings of a share group. For ``reset``, see `reset_time_ms`."""

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
        """Raise an error if configs of a group are invalid."""
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
        """Replace the configs of a group, which must have been checked."""
        self._share.pop(group_id, None)
        if overrides:
            self._overrides[group_id] = dict(overrides)
        else:
            self._overrides.pop(group_id, None)


def reset_time_ms(reset: str, now_ms: int) -> int | None:
    """Return the time at which the records of a share group start, or None if the policy is not a duration."""
    found = _DURATION.fullmatch(reset)
    if found is None:
        return None
    days, hours, minutes, seconds = (float(found[name] or 0) for name in ("days", "hours", "minutes", "seconds"))
    return now_ms - int(1000 * (86_400 * days + 3_600 * hours + 60 * minutes + seconds))
