"""Client-side assignment of partitions. The leader of a classic group runs an assignor for all members."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .consumer_protocol import (
    LATEST_VERSION,
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from .stateless import RangeAssignor, RoundRobinAssignor
from .sticky import CooperativeStickyAssignor, StickyAssignor
from .types import NO_GENERATION, Assignment, GroupAssignor, MemberSubscription, TopicPartitions

__all__ = [
    "ASSIGNORS",
    "LATEST_VERSION",
    "NO_GENERATION",
    "PROTOCOL_TYPE",
    "Assignment",
    "GroupAssignor",
    "MemberSubscription",
    "TopicPartitions",
    "builtin",
    "decode_assignment",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
]

_BUILT_IN: tuple[GroupAssignor, ...] = (
    RangeAssignor(),
    RoundRobinAssignor(),
    StickyAssignor(),
    CooperativeStickyAssignor(),
)

ASSIGNORS: Mapping[str, GroupAssignor] = MappingProxyType({assignor.name: assignor for assignor in _BUILT_IN})
"""The built-in assignors, by the names that ``partition_assignment_strategy`` accepts."""


def builtin(name: str) -> GroupAssignor:
    """Return the built-in assignor with this name. `ConsumerConfig` has checked that it exists."""
    return ASSIGNORS[name]
