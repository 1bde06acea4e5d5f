"""A group's members: their requests, the responses, and their state."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from ..._cpython import naming
from ...errors import BrokerError
from .clock import TimerHandle

NO_GENERATION = -1


class GroupState(Enum):
    """State of a classic group, by its name in DescribeGroups."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class MemberInfo(NamedTuple):
    """A member, as seen by the group's leader."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """A response to JoinGroup. ``error`` is None for success."""

    member_id: str
    error: BrokerError | None = None
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[MemberInfo, ...] = ()
    skip_assignment: bool = False


class SyncResult(NamedTuple):
    """A response to SyncGroup. ``error`` is None for success."""

    error: BrokerError | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class JoinRequest(NamedTuple):
    """A member's request to join a group.

    ``known_id_required`` and ``may_skip`` depend on the version of the request.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    # The member must return with the id assigned to it (KIP-394).
    known_id_required: bool
    # The member understands that its group may continue without a new assignment (KIP-814).
    may_skip: bool


class GroupOptions(NamedTuple):
    """Configs of the brokers for groups.

    - ``min_session_timeout_ms``: 6000 for real brokers. Lower values make tests faster.
    - ``max_size``: the maximum number of members of a group. None means no limit.
    - ``consumer_heartbeat_interval_ms``, ``consumer_session_timeout_ms``: set by the brokers for members of the new
      protocol (KIP-848).
    - Options that begin with ``share_`` are for share groups (KIP-932). ``share_max_sessions`` is the limit of share
      sessions of each broker.
    """

    initial_rebalance_delay_ms: float = 0
    min_session_timeout_ms: int = 1
    max_session_timeout_ms: int = 1_800_000
    max_size: int | None = None
    offset_metadata_max_bytes: int = 4096
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    share_session_timeout_ms: int = 45_000
    share_heartbeat_interval_ms: int = 5_000
    share_record_lock_duration_ms: int = 30_000
    share_delivery_count_limit: int = 5
    share_partition_max_record_locks: int = 2_000
    share_max_size: int | None = 200
    share_max_sessions: int = 2_000


naming.show_in("aiokafka_lead.testing", GroupOptions)


class Member:
    """A member of a classic group. ``reply_join`` and ``reply_sync`` are set while it is waiting for a response."""

    __slots__ = ("assignment", "deadline", "member_id", "reply_join", "reply_sync", "request", "session_timer")

    def __init__(self, member_id: str, request: JoinRequest) -> None:
        self.member_id = member_id
        # Its last join request.
        self.request = request
        self.assignment = b""
        self.reply_join: Callable[[JoinResult], None] | None = None
        self.reply_sync: Callable[[SyncResult], None] | None = None
        # End of its session without a further request, and the timer that checks it.
        self.deadline = float("inf")
        self.session_timer: TimerHandle | None = None

    def metadata_for(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.request.protocols if name == protocol), b"")

    def supports(self, protocol: str) -> bool:
        return any(name == protocol for name, _ in self.request.protocols)

    def answer_join(self, result: JoinResult) -> None:
        reply, self.reply_join = self.reply_join, None
        if reply is not None:
            reply(result)

    def answer_sync(self, result: SyncResult) -> None:
        reply, self.reply_sync = self.reply_sync, None
        if reply is not None:
            reply(result)
