"""What calls about groups are given, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from .._options.arguments import (
    INT64_MAX,
    TIME_MS,
    list_of,
    map_of,
    offset,
    string,
    topic_name,
    topic_partition,
)
from .._options.checks import boolean, instance, integer, optional, short_text
from .._wire.messages.leave_group import MemberIdentity
from ..errors import ConfigError, ConfigTypeError
from ._times import milliseconds_of
from .group_types import GroupState, GroupType, ResetTo, ToOffset, ToShifted
from .types import OffsetSpec

__all__ = [
    "GROUP_ID",
    "GROUP_IDS",
    "NAMED_PARTITIONS",
    "NAMED_TOPICS",
    "OFFSETS",
    "PARTITIONS",
    "PROTOCOL_TYPES",
    "START_OFFSETS",
    "STATES",
    "TOPICS",
    "TYPES",
    "boolean",
    "members",
    "reset_to",
    "string",
]

GROUP_ID = short_text
GROUP_IDS = list_of("group ids", short_text)
STATES = optional(list_of("GroupState", instance(GroupState, "a GroupState")))
TYPES = optional(list_of("GroupType", instance(GroupType, "a GroupType")))
PROTOCOL_TYPES = optional(list_of("protocol types", string))
NAMED_PARTITIONS = list_of("TopicPartition", topic_partition)
PARTITIONS = optional(NAMED_PARTITIONS)
NAMED_TOPICS = list_of("topic names", topic_name)
TOPICS = optional(NAMED_TOPICS)
OFFSETS = map_of("TopicPartition to offset", topic_partition, offset)
_OFFSET = integer(0, INT64_MAX)
START_OFFSETS = map_of("TopicPartition to offset", topic_partition, _OFFSET)
_BY = integer(-INT64_MAX, INT64_MAX)
_MEMBERS = optional(list_of("member ids", short_text))


def reset_to(name: str, value: Any) -> ResetTo:
    """A place to which a group can be reset."""
    match value:
        case datetime():
            if value.tzinfo is None:
                raise ConfigError(f"{name} must be a datetime with a time zone, not {value}")
            TIME_MS(name, milliseconds_of(value))
        case timedelta():
            if value < timedelta():
                raise ConfigError(f"{name} must be a duration back from now, at least 0, not {value}")
        case ToOffset():
            _OFFSET(f"{name}.offset", value.offset)
        case ToShifted():
            _BY(f"{name}.by", value.by)
        case OffsetSpec():
            if value not in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
                raise ConfigError(f"{name} must be OffsetSpec.EARLIEST or LATEST, not {value.name}")
        case bool() | object() if isinstance(value, bool) or not isinstance(value, int):
            kinds = "a datetime, timedelta, OffsetSpec, time in milliseconds, ToOffset or ToShifted"
            raise ConfigTypeError(f"{name} must be {kinds}, not {type(value).__name__}")
        case _:
            TIME_MS(name, value)
    return value  # type: ignore[no-any-return]


def members(member_ids: Iterable[str] | None, group_instance_ids: Iterable[str] | None) -> list[MemberIdentity] | None:
    """The members to remove; None for all."""
    by_id = _MEMBERS("members", member_ids)
    by_instance = _MEMBERS("static_members", group_instance_ids)
    if by_id is None and by_instance is None:
        return None
    named = [MemberIdentity(member_id=member_id) for member_id in by_id or ()]
    return named + [MemberIdentity(group_instance_id=instance_id) for instance_id in by_instance or ()]
