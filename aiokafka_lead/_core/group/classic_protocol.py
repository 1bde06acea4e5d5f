"""Phases, times and requests of a classic group member. Its behavior is in `classic`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

from ..._wire import Request
from ..._wire.messages.describe_groups import DescribeGroupsResponse
from ..._wire.messages.heartbeat import HeartbeatRequest
from ..._wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ..._wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ..._wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ...config import ConsumerConfig
from ...errors import AssignorError, KafkaError, error_for_code
from ...types import TopicPartition
from ..backoff import Backoff
from ..metadata.types import ClusterSnapshot
from ..transitions import Transitions
from .assignors import PROTOCOL_TYPE, GroupAssignor, MemberSubscription, encode_assignment, encode_subscription
from .heartbeat_schedule import PROBES
from .offsets import GroupIdentity


class Phase(Enum):
    """Phases of a member. Each docstring says what the member does in the phase."""

    OUT = "out"
    """Does nothing."""
    JOINING = "joining"
    """Gives up the partitions that it must not keep, and then sends JoinGroup."""
    SYNCING = "syncing"
    """Sends SyncGroup to get its assignment. A leader first computes the assignments of all members."""
    CHECKING = "checking"
    """Requests the assignments of all members.

    Only a returning static member that got no partition of one of its topics, or leads the group.
    """
    ADOPTING = "adopting"
    """Gives up the partitions that it lost, and then takes over the new ones."""
    STABLE = "stable"
    """Sends heartbeats, which it also does in the other phases while it is a member."""
    LEAVING = "leaving"
    """Gives up all partitions, and then informs the coordinator."""


class Event(Enum):
    """Events that move a member to another phase."""

    JOIN = "join"
    """The application wants the member to be in the group."""
    JOINED = "joined"
    """The response to JoinGroup contained a generation."""
    SYNCED = "synced"
    """The response to SyncGroup contained an assignment."""
    DOUBTED = "doubted"
    """The assignment may belong to an earlier subscription."""
    CHECKED = "checked"
    """The assignment is not known to be wrong."""
    ADOPTED = "adopted"
    """The assignment has been carried out."""
    REBALANCE = "rebalance"
    """The group has to rebalance, or is already doing so."""
    RETRY = "retry"
    """JoinGroup or SyncGroup has failed, and may succeed later."""
    LOST = "lost"
    """The coordinator has ended the membership or its generation."""
    LEAVE = "leave"
    """The member has to leave."""
    LEFT = "left"
    """The coordinator has been informed, or need not be."""
    FAIL = "fail"
    """An error occurred that must be reported to the application."""


_FROM_EACH_BUT_OUT = {Event.LEAVE: Phase.LEAVING, Event.FAIL: Phase.OUT}
_AGAIN = {Event.LOST: Phase.JOINING, **_FROM_EACH_BUT_OUT}

TRANSITIONS = Transitions(
    "a member of a classic group",
    Phase.OUT,
    {
        Phase.OUT: {Event.JOIN: Phase.JOINING},
        Phase.JOINING: {Event.JOINED: Phase.SYNCING, Event.RETRY: Phase.JOINING, **_AGAIN},
        Phase.SYNCING: {
            Event.SYNCED: Phase.ADOPTING,
            Event.DOUBTED: Phase.CHECKING,
            Event.REBALANCE: Phase.JOINING,
            Event.RETRY: Phase.JOINING,
            **_AGAIN,
        },
        Phase.CHECKING: {Event.CHECKED: Phase.ADOPTING, Event.REBALANCE: Phase.JOINING, **_AGAIN},
        Phase.ADOPTING: {Event.ADOPTED: Phase.STABLE, **_AGAIN},
        Phase.STABLE: {Event.REBALANCE: Phase.JOINING, **_AGAIN},
        Phase.LEAVING: {Event.LEFT: Phase.OUT, Event.LOST: Phase.LEAVING, **_FROM_EACH_BUT_OUT},
    },
)

AWAITS = {
    Phase.OUT: "another attempt to join",
    Phase.JOINING: "a response to JoinGroup, once all members have joined",
    Phase.SYNCING: "a response to SyncGroup, once the group leader has assigned partitions",
    Phase.CHECKING: "a response to DescribeGroups, with the partitions of the other members",
    Phase.ADOPTING: "the takeover of the assigned partitions",
    Phase.STABLE: "a rebalance, because the subscription changed",
    Phase.LEAVING: "leaving the group and joining again",
}
"""For each phase, the event that the first assignment of the current subscription is waiting for."""
AWAITS_AS_LEADER = "metadata of the subscribed topics, whose partitions this member assigns as the group leader"
"""The event that a leader's first assignment is waiting for before it has been computed."""


class NewTopics:
    """Tracks topics that newly match a pattern and that other members may have noticed first.

    A member that joins without them gets no partitions of them, and causes another rebalance when it notices them. The
    member therefore requests newer metadata first (Java: ``ConsumerCoordinator.poll``).
    """

    def __init__(self, timeout_s: float) -> None:
        """Start without a wait. ``timeout_s`` is the longest wait for newer metadata, in seconds."""
        self._timeout_s = timeout_s
        self._possible = False
        self._since: tuple[int, float] | None = None
        """The generation of the outdated metadata, and the deadline for newer metadata."""

    def possible(self) -> None:
        """Expect new topics, because other members have started a rebalance."""
        self._possible = True

    def waits_until(self, snapshot: ClusterSnapshot, now: float) -> float | None:
        """Return the time until which to wait before joining, or None if no wait is needed.

        The wait is for metadata that is newer than the ``snapshot`` of the first call.
        """
        if not self._possible:
            return None
        if self._since is None:
            self._since = (snapshot.generation, now + self._timeout_s)
        generation, until = self._since
        return until if snapshot.generation <= generation and now < until else None

    def over(self) -> None:
        """End the wait, because the member is joining."""
        self._possible, self._since = False, None


FIRST_LEAVE_WITH_MEMBERS = 3

REVOKE_WITHIN = 0.8
"""Fraction of the rebalance timeout allowed for processing the records in hand.

The rest is for the commit and later steps.
"""


def rebalance_timeout_ms(config: ConsumerConfig) -> float:
    """Return the rebalance timeout of the member: ``rebalance_timeout_ms``, by default ``max_poll_interval_ms``."""
    return config.max_poll_interval_ms if config.rebalance_timeout_ms is None else config.rebalance_timeout_ms


def revoke_timeout_s(config: ConsumerConfig) -> float:
    """Return the seconds for processing the records in hand when partitions are given up.

    This is a fraction of the rebalance timeout, see `REVOKE_WITHIN`.
    """
    return REVOKE_WITHIN * rebalance_timeout_ms(config) / 1000


def join_request(
    config: ConsumerConfig,
    member: MemberSubscription,
    assignors: Sequence[GroupAssignor],
    assigned: tuple[Sequence[TopicPartition], int],
    reason: str,
) -> JoinGroupRequest:
    """Return the JoinGroup request.

    ``assigned`` is the last assignment and its generation, even if the partitions have been given up. Raises
    `AssignorError` if an assignor's `GroupAssignor.user_data` fails.
    """
    return JoinGroupRequest(
        group_id=config.group_id or "",
        session_timeout_ms=int(config.session_timeout_ms),
        rebalance_timeout_ms=int(rebalance_timeout_ms(config)),
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[
            JoinGroupRequestProtocol(name=assignor.name, metadata=_metadata(member, assignor, assigned))
            for assignor in assignors
        ],
        reason=reason,
    )


def _metadata(
    member: MemberSubscription, assignor: GroupAssignor, assigned: tuple[Sequence[TopicPartition], int]
) -> bytes:
    return encode_subscription(
        MemberSubscription(
            member.member_id,
            member.topics,
            member.owned,
            member.generation,
            member.group_instance_id,
            _user_data(assignor, member.topics, *assigned),
            member.rack,
        )
    )


def _user_data(
    assignor: GroupAssignor, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int
) -> bytes | None:
    try:
        found: object = assignor.user_data(topics, owned, generation)
    except Exception as cause:
        raise AssignorError(f"user_data() of the assignor {assignor.name!r} failed: {cause!r}") from cause
    if found is None or isinstance(found, bytes):
        return found
    raise AssignorError(f"user_data() of the assignor {assignor.name!r} must return bytes or None, not {found!r}")


def sync_request(
    group_id: str, identity: GroupIdentity, protocol: str, assignments: Mapping[str, Sequence[TopicPartition]]
) -> SyncGroupRequest:
    """Return the SyncGroup request.

    ``assignments`` contains the partitions of all members if this member leads, and is empty otherwise.
    """
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=identity.generation_or_epoch,
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol,
        assignments=[
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(partitions))
            for member_id, partitions in assignments.items()
        ],
    )


def heartbeat_request(group_id: str, identity: GroupIdentity) -> HeartbeatRequest:
    """Return the Heartbeat request, which keeps the member in the group."""
    return HeartbeatRequest(
        group_id=group_id,
        generation_id=identity.generation_or_epoch,
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
    )


def leave_request(group_id: str, member_id: str, reason: str) -> LeaveGroupRequest:
    """Return the LeaveGroup request with the reason (KIP-800)."""
    return LeaveGroupRequest(group_id=group_id, members=[MemberIdentity(member_id=member_id, reason=reason)])


def refusal(response: Any, what: str) -> KafkaError | None:
    """Return the error in a response, or None. Its message begins with "could not ``what`` the group"."""
    if not response.error_code:
        return None
    kind = error_for_code(response.error_code)
    return kind(f"could not {what} the group: {kind.__doc__}")


def error_code(response: Any) -> int:
    """Return the error code in a response about a single group, or 0 if the response does not contain the group."""
    if isinstance(response, DescribeGroupsResponse):
        return response.groups[0].error_code if response.groups else 0
    found: int = response.error_code
    return found


def fitted(request: Request[Any], version: int) -> Request[Any]:
    """Return the request in the form that this version requires.

    Only old versions of LeaveGroup differ: they name a single member.
    """
    if isinstance(request, LeaveGroupRequest) and version < FIRST_LEAVE_WITH_MEMBERS:
        return LeaveGroupRequest(group_id=request.group_id, member_id=request.members[0].member_id)
    return request


ANSWER_BEYOND_S = 5.0
"""Extra seconds to wait for a response, in addition to the longest time that a rebalance may take (as in Java)."""


INTERRUPTIONS = 10
"""Number of consecutive rebalances that another one may interrupt before the member waits between them."""


class ClassicSchedule:
    """Decides when one member joins and sends heartbeats, and how long it waits for responses.

    Times are in monotonic seconds.
    """

    def __init__(self, config: ConsumerConfig, rng: Callable[[], float]) -> None:
        request_s = config.request_timeout_ms / 1000
        self.request_s = request_s
        """Time limit for a request that the coordinator answers at once."""
        self.answer_s = max(request_s, rebalance_timeout_ms(config) / 1000 + ANSWER_BEYOND_S)
        """Time limit for a request that the coordinator does not answer until all members have joined."""
        self.revoke_s = revoke_timeout_s(config)
        """Time limit for processing the records in hand when partitions are given up."""
        self.heartbeat_timeout_s = min(config.session_timeout_ms / 1000, request_s)
        """Time limit for a heartbeat. A response after the session timeout would be useless."""
        self._interval_s = config.heartbeat_interval_ms / 1000
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, rng)
        self.failures = self._interruptions = 0
        """Numbers of consecutive failures of JoinGroup or SyncGroup, and of rebalances that interrupted another one."""
        self.unanswered_heartbeats = 0
        """Number of consecutive heartbeats that have failed."""
        self.retry_at = 0.0
        """Earliest time of the next attempt to join."""
        self.heartbeat_at = 0.0
        """Time of the next heartbeat, unless a heartbeat is in flight."""
        self.heartbeat_out = False
        self._probes = 0
        """Number of early heartbeats still to be sent."""

    def failed(self, now: float) -> None:
        """Count a failed JoinGroup or SyncGroup, and set ``retry_at`` to the end of the backoff."""
        self.failures += 1
        self.retry_at = now + self._backoff.delay_s(self.failures)

    def interrupted(self) -> bool:
        """Count a rebalance that has begun during this one. Return True if there were too many in a row."""
        self._interruptions += 1
        return self._interruptions > INTERRUPTIONS

    def succeeded(self) -> None:
        """Forget failures and interruptions, because the member has received its assignment."""
        self.failures = self._interruptions = 0

    def joined(self, now: float) -> None:
        """Record a JoinGroup response. It counts as a heartbeat, so the next heartbeat is due one interval later."""
        self.heartbeat_at = now + self._interval_s
        self._probes = 0

    def probe(self, now: float) -> None:
        """Send the next few heartbeats early, because another rebalance is likely."""
        self._probes = PROBES
        self._probe(now)

    def sends(self, now: float) -> None:
        """Record that a heartbeat is being sent, and schedule the next one."""
        self.heartbeat_out = True
        self.heartbeat_at = now + self._interval_s
        if self._probes:
            self._probe(now)

    def _probe(self, now: float) -> None:
        self._probes -= 1
        self.heartbeat_at = min(self.heartbeat_at, now + self._backoff.delay_s(PROBES - self._probes))

    def answered(self) -> None:
        """Record that a heartbeat was accepted. Earlier failures no longer count."""
        self.unanswered_heartbeats = 0

    def unanswered(self, now: float) -> None:
        """Count a failed heartbeat. The next one is due after a backoff, if that is earlier than planned."""
        self.unanswered_heartbeats += 1
        self.heartbeat_at = min(self.heartbeat_at, now + self._backoff.delay_s(self.unanswered_heartbeats))
