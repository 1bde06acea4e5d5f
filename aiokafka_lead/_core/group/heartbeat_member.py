"""Base class of members whose only requests are heartbeats, in KIP-848 groups and in share groups (KIP-932).

The heartbeats join the group and report changes. Their responses contain the member epoch and the *target*: the
partitions to own, or to fetch in a share group. `consumer_protocol` and `_core.share.member` handle the target. Java:
``AbstractMembershipManager`` and ``AbstractHeartbeatRequestManager``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, ClassVar, Protocol
from uuid import UUID, uuid4

from ... import errors
from ..._wire import Request, Response
from ..._wire.messages.leave_group import LeaveGroupRequest
from ...errors.shown import shown
from ...types import TopicPartition
from ..inquiry import may_repeat
from ..metadata.types import ClusterSnapshot
from ..transitions import Transitions
from .heartbeat_schedule import HeartbeatSchedule

# --- phases ----------------------------------------------------------------------------------------------------------


class Phase(Enum):
    """Phases of a member. Each docstring says what the member does in the phase."""

    OUT = "out"
    """Does nothing."""
    JOINING = "joining"
    """Sends heartbeats with epoch 0."""
    JOINED = "joined"
    """Sends heartbeats and moves towards its target."""
    FENCED = "fenced"
    """Sends no heartbeats. All its partitions are lost."""
    RELEASING = "releasing"
    """Sends heartbeats and gives up all its partitions."""
    PARTING = "parting"
    """Sends a heartbeat with epoch -1, or -2 for a static member."""


class Event(Enum):
    """Events that move a member to another phase."""

    JOIN = "join"
    """The application wants the member to be in the group, and any earlier membership has ended."""
    ACCEPTED = "accepted"
    """The response to the first heartbeat contained an epoch."""
    FENCED = "fenced"
    """The coordinator has removed the member, or has another epoch for it."""
    DROPPED = "dropped"
    """The fenced member has dropped its partitions."""
    RELEASE = "release"
    """The member has to give up its partitions before it leaves."""
    PART = "part"
    """The member must tell the coordinator that it leaves.

    It owns no partitions, or there is no time to give them up.
    """
    LEFT = "left"
    """The coordinator has been informed, or never knew the member."""
    FAIL = "fail"
    """An error occurred that must be reported to the application."""


_GET_OUT = {Event.FENCED: Phase.FENCED, Event.PART: Phase.PARTING, Event.FAIL: Phase.OUT}

OWNING = Transitions(
    "a member of a KIP-848 group",
    Phase.OUT,
    {
        Phase.OUT: {Event.JOIN: Phase.JOINING},
        Phase.JOINING: {Event.ACCEPTED: Phase.JOINED, Event.LEFT: Phase.OUT, **_GET_OUT},
        Phase.JOINED: {Event.RELEASE: Phase.RELEASING, **_GET_OUT},
        Phase.FENCED: {Event.DROPPED: Phase.OUT},
        Phase.RELEASING: _GET_OUT,
        Phase.PARTING: {Event.LEFT: Phase.OUT},
    },
)
"""The transitions of a member that owns partitions and gives them up in order."""

_REJOIN_OR_OUT = {Event.FENCED: Phase.JOINING, Event.PART: Phase.PARTING, Event.FAIL: Phase.OUT}

SHARING = Transitions(
    "a member of a share group",
    Phase.OUT,
    {
        Phase.OUT: {Event.JOIN: Phase.JOINING},
        Phase.JOINING: {Event.ACCEPTED: Phase.JOINED, Event.LEFT: Phase.OUT, **_REJOIN_OR_OUT},
        Phase.JOINED: _REJOIN_OR_OUT,
        Phase.PARTING: {Event.LEFT: Phase.OUT},
    },
)
"""The transitions of a member that owns no partitions."""


def refusal(response: Any, error: errors.KafkaError | None) -> errors.KafkaError | None:
    """Return the error for a heartbeat that was not accepted, or None.

    ``error`` is the reason for a missing response.
    """
    if response is None:
        return error or errors.KafkaError("no response to a heartbeat of the group")
    if response.error_code:
        return errors.error_for_code(response.error_code)(shown(response.error_message or ""))
    if response.member_epoch <= 0:
        return errors.MalformedMessageError("the response to a heartbeat of the group lacks the member epoch")
    return None


def leaves(request: Request[Any]) -> bool:
    """Return True for a request by which a member of any kind of group leaves."""
    return isinstance(request, LeaveGroupRequest) or getattr(request, "member_epoch", 0) < 0


# --- the target ------------------------------------------------------------------------------------------------------


class _TopicPartitions(Protocol):
    topic_id: UUID
    partitions: list[int]


class Target:
    """Holds the latest target assignment of one member, and finds the names of its topics."""

    def __init__(self) -> None:
        self.known = False
        """True if the coordinator has sent a target since the last `forget`."""
        self._partitions: dict[UUID, frozenset[int]] = {}
        self._snapshot = ClusterSnapshot(0)
        self._names: dict[UUID, str] = {}
        """Names of topics in the target and of owned topics. Kept even if they are missing in the metadata."""

    def aim(self, assignment: Iterable[_TopicPartitions], owned: Iterable[UUID]) -> None:
        """Replace the target by the assignment in a response.

        ``owned`` contains the topic ids of owned partitions, whose names are needed as well.
        """
        self.known = True
        self._partitions = {entry.topic_id: frozenset(entry.partitions) for entry in assignment}
        self._learn_names(owned)

    def forget(self) -> None:
        """Clear the target. It stays unknown until the coordinator sends another one."""
        self.known = False
        self._partitions = {}

    def learn(self, snapshot: ClusterSnapshot, owned: Iterable[UUID]) -> None:
        """Process newer metadata, which may resolve more topic ids."""
        self._snapshot = snapshot
        self._learn_names(owned)

    def _learn_names(self, owned: Iterable[UUID]) -> None:
        known = self._snapshot.topic_names
        names = {topic_id: known.get(topic_id) or self._names.get(topic_id) for topic_id in {*self._partitions, *owned}}
        self._names = {topic_id: name for topic_id, name in names.items() if name is not None}

    @property
    def empty(self) -> bool:
        """True if the target is unknown or contains no partitions."""
        return not any(self._partitions.values())

    @property
    def topics(self) -> frozenset[str]:
        """The topics in the target whose names are known."""
        return frozenset(self._names[topic_id] for topic_id in self._partitions if topic_id in self._names)

    @property
    def unnamed(self) -> bool:
        """True if the target contains topic ids that are not in the metadata."""
        return any(topic_id not in self._names for topic_id in self._partitions)

    def resolved(self, *, internal: bool) -> Mapping[TopicPartition, UUID]:
        """Return the part of the target with known topic names.

        ``internal`` determines whether internal topics are included.
        """
        return {
            TopicPartition(self._names[topic_id], partition): topic_id
            for topic_id, partitions in self._partitions.items()
            if topic_id in self._names and (internal or not self._is_internal(self._names[topic_id]))
            for partition in partitions
        }

    def _is_internal(self, name: str) -> bool:
        topic = self._snapshot.topics.get(name)
        return topic is not None and topic.is_internal


# --- the member ------------------------------------------------------------------------------------------------------


class HeartbeatMember(ABC):
    """Base class of members that send only heartbeats. Its methods are synchronous and take the time as an argument.

    A response is processed only if ``_sent`` is still the heartbeat to which it belongs. After a leave, the response to
    an earlier heartbeat concerns a membership that has ended (KAFKA-19335).
    """

    _unserved: ClassVar[str]
    """The part of the error message that names the brokers that support the protocol."""

    def __init__(self, transitions: Transitions[Phase, Event], schedule: HeartbeatSchedule) -> None:
        self._transitions = transitions
        self._phase = transitions.first
        self._schedule = schedule
        self.member_id = str(uuid4())
        """Generated by the member (KIP-1082)."""
        self.heartbeats = 0
        """Number of heartbeats sent."""
        self.epoch = 0
        """The member epoch. Positive if and only if the client is a member."""
        self._target = Target()
        self._come_back = False
        """While leaving: True if the member joins again afterwards."""
        self._known = False
        """True if the coordinator may know this member, and must be informed when the member leaves."""
        self._sent: Request[Any] | None = None
        """The heartbeat in flight, or None."""
        self.error: errors.KafkaError | None = None
        """An error to report to the application, or None. Most such errors have ended the membership."""

    @property
    def unknown_topics(self) -> bool:
        """True if the target contains topic ids that are not in the metadata, so newer metadata is needed."""
        return self._target.unnamed

    @property
    def session_s(self) -> float:
        """Estimated session timeout in seconds. Brokers send only the heartbeat interval."""
        return self._schedule.session_s

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def heartbeat_at(self) -> float | None:
        """Return the time at which the next heartbeat is due, or None if it depends on another event."""
        if self._phase in (Phase.OUT, Phase.FENCED) or (self._phase is Phase.JOINING and not self._may_join()):
            return None
        return None if self._sent is not None and self._phase is not Phase.PARTING else self._schedule.due_at

    def heartbeat_timeout_s(self) -> float:
        """Return the time limit in seconds for the response to a heartbeat."""
        return self._schedule.timeout_s

    def heartbeat(self, now: float) -> Request[Any] | None:
        """Return the heartbeat to send, and record it as sent."""
        if self.heartbeat_at() is None:
            return None
        self.heartbeats += 1
        request = self._request()
        if self._phase is Phase.PARTING:
            # Do not wait for the response. The member leaves regardless of it.
            self._get_out(now)
            return request
        self._sent = request
        self._schedule.sent(now)
        self._known = True
        return request

    def heartbeat_answered(
        self,
        request: Request[Any],
        response: Response | None,
        error: errors.KafkaError | None,
        now: float,
        *,
        reconnected: bool = False,
    ) -> None:
        """Process the response to a heartbeat, or the error if it failed.

        Ignores a request that is not the last one sent. If the connection is new (``reconnected``), the next heartbeat
        contains all fields.
        """
        if request is not self._sent:
            return
        self._sent = None
        failure = refusal(response, error)
        if failure is not None:
            self._failed(failure, now)
            return
        self._accepted(response)
        if reconnected:
            # The target may come from a server that is no longer the coordinator, or never was. A coordinator repeats
            # the target only after receiving all fields, and an unchanged epoch does not reveal the change.
            self._forget_told()
            self._schedule.hurry(now)
        elif self._target.unnamed:
            self._forget_told()

    def _accepted(self, response: Any) -> None:
        """Take over the member epoch and the target from the response to an accepted heartbeat."""
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self._target.aim(response.assignment.topic_partitions, self._owned_topics())
        if self._phase is Phase.JOINING:
            self._take(Event.ACCEPTED)
            self._schedule.joined(self.epoch)
        self._schedule.accepted(
            response.heartbeat_interval_ms,
            self.epoch,
            has_target=self._has_target(),
            awaits_target=self._awaits_target(),
        )

    def _failed(self, error: errors.KafkaError, now: float) -> None:
        self._forget_told()
        self._schedule.failed(now)
        put_out = isinstance(error, errors.FencedMemberEpochError | errors.UnknownMemberIdError)
        if put_out or (isinstance(error, errors.GroupIdNotFoundError) and self.epoch > 0):
            self._fenced(error, now)
        elif not may_repeat(error, self._schedule.failures) and not self._bears_with(error, now):
            if isinstance(error, errors.UnsupportedVersionError):
                error = errors.UnsupportedVersionError(f"{self._unserved}; {error}")
            self.error = error
            self._come_back = self._known = False
            self._drop_out(Event.FAIL, f"the member has failed: {error}")

    # --- changes of phase --------------------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        self._phase = self._transitions.after(self._phase, event)

    def _part(self, now: float) -> None:
        """Begin to leave: send a last heartbeat if the coordinator may know the member, otherwise end at once."""
        if self._known:
            self._take(Event.PART)
            self._schedule.due_at = now
            self._forget_membership()
        else:
            self._get_out(now)

    def _get_out(self, now: float) -> None:
        self._known = False
        come_back, self._come_back = self._come_back, False
        self._schedule.forgive()
        self._drop_out(Event.LEFT, None)
        if come_back:
            self.join(now)

    def _drop_out(self, event: Event, reason: str | None) -> None:
        self._take(event)
        self._forget_membership()

    def _forget_membership(self) -> None:
        self.epoch = 0
        self._sent = None
        self._target.forget()

    # --- implemented by subclasses ------------------------------------------------------------------------------------

    @abstractmethod
    def join(self, now: float) -> None:
        """Join again, after `leave` or after an error that may be temporary."""

    @abstractmethod
    def _request(self) -> Request[Any]:
        """Return the next heartbeat in the format of the group's protocol."""

    @abstractmethod
    def _forget_told(self) -> None:
        """Include all fields in the next heartbeat, because the last one may have been lost."""

    @abstractmethod
    def _fenced(self, error: errors.KafkaError, now: float) -> None:
        """Handle an error by which the coordinator has removed the member or rejected its epoch."""

    def _may_join(self) -> bool:
        """Return True if the member has a subscription with which it can join."""
        return True

    def _bears_with(self, error: errors.KafkaError, now: float) -> bool:
        """Return True if the heartbeat should be repeated even though the error is not retriable."""
        return False

    def _has_target(self) -> bool:
        """Return True if no later response is expected to contain partitions."""
        return not self._target.empty

    def _awaits_target(self) -> bool:
        """Return True if a later response will contain partitions."""
        return False

    def _owned_topics(self) -> Iterable[UUID]:
        """Return the ids of topics whose names are needed although they are not in the target."""
        return ()
