"""Base of members whose only requests are heartbeats: of KIP-848 groups, and of share groups (KIP-932).

Heartbeats join and report changes; their answers carry the member's epoch and its target, the partitions to own or to
fetch. Each kind handles its target itself (`consumer_protocol`, `_core.share.member`). Java:
``AbstractMembershipManager`` and ``AbstractHeartbeatRequestManager``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, ClassVar, Protocol
from uuid import UUID, uuid4

from ..._wire import Request, Response
from ...config import ClientConfig
from ...errors import (
    FencedMemberEpochError,
    GroupIdNotFoundError,
    KafkaError,
    UnknownMemberIdError,
    UnsupportedVersionError,
    error_for_code,
)
from ...errors.shown import shown
from ...types import TopicPartition
from ..backoff import Backoff
from ..metadata.types import ClusterSnapshot
from ..transitions import Transitions

# --- phases ----------------------------------------------------------------------------------------------------------


class Phase(Enum):
    """Phase of a member, with its activity."""

    OUT = "out"
    """Inactive."""
    JOINING = "joining"
    """Sends heartbeats of epoch 0."""
    JOINED = "joined"
    """Sends heartbeats, and follows its target."""
    FENCED = "fenced"
    """Sends no heartbeats; all its partitions are lost."""
    RELEASING = "releasing"
    """Sends heartbeats, and gives up all its partitions."""
    PARTING = "parting"
    """Sends a heartbeat of epoch -1 (-2 if it is a static member)."""


class Event(Enum):
    """Event that leads from phase to phase."""

    JOIN = "join"
    """The application wants to be in the group, and an earlier membership has ended."""
    ACCEPTED = "accepted"
    """The first heartbeat was answered with an epoch."""
    FENCED = "fenced"
    """The coordinator has removed the member, or has it at another epoch."""
    DROPPED = "dropped"
    """The partitions of a fenced member have been dropped."""
    RELEASE = "release"
    """The member is to leave in order."""
    PART = "part"
    """The member owns no partitions any longer, or has no time to give them up: it must inform the coordinator."""
    LEFT = "left"
    """The coordinator has been informed, or never had this member."""
    FAIL = "fail"
    """An error that must be reported to the application."""


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
"""Transitions of a member that owns partitions and gives them up in order."""

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
"""Transitions of a member that owns no partitions."""


# --- when heartbeats are sent ----------------------------------------------------------------------------------------

FIRST_INTERVAL_S = 3.0
"""Interval of heartbeats until a broker specifies one (its default is 5 s)."""

INTERVALS_S = (0.05, 60.0)
"""Shortest and longest interval in seconds that is accepted from a broker, whose default limits are 5 to 15 s. Shorter
intervals only cost, and with longer intervals the member would continue to read partitions that others have."""

SESSION_INTERVALS = 9
"""Length of a session in heartbeat intervals. Brokers send the interval, but not the session's length, so this is
the ratio of their defaults (``group.consumer.session.timeout.ms`` 45 s to 5 s). ``session_timeout_ms`` applies
instead if it is longer, so that no live member counts as dead."""

PROBES = 4
"""Number of early heartbeats of a new member without an assignment, at intervals that double from ``retry_backoff_ms``.

A coordinator that has assigned partitions within ``group.consumer.assignment.interval.ms`` (1 s) gives a new member an
empty assignment first (KIP-1263), and the real assignment with the next heartbeat, which is not due for 5 s. In a
classic group a new member gets partitions once the members that give them up have joined again; a heartbeat shows that.
"""

AWAITED_PROBES = 20
"""Number of early heartbeats of a share group's member that has no partitions although its topics have some. It gets
partitions once the coordinator has initialized their state, which takes seconds in a new cluster (KIP-932)."""

ANSWER_WITHIN_S = 10.0
"""Seconds within which a heartbeat must be answered, unless ``request_timeout_ms`` is shorter; then it is sent again.
The shortest session of a group is much longer."""


def refusal(response: Any, error: KafkaError | None) -> KafkaError | None:
    """Return the reason that a heartbeat was not accepted, or None. ``error`` explains a missing answer."""
    if response is None:
        return error or KafkaError("no response to a heartbeat of the group")
    if not response.error_code:
        return None
    return error_for_code(response.error_code)(shown(response.error_message or ""))


class HeartbeatSchedule:
    """Schedule of one member's heartbeats: at the broker's interval, earlier with changes, later after failures."""

    def __init__(self, config: ClientConfig, rng: Callable[[], float], session_timeout_ms: float = 0) -> None:
        """Begin with nothing due. ``session_timeout_ms`` is the least estimated length of a session."""
        self._request_timeout_s = config.request_timeout_ms / 1000
        self._session_timeout_s = session_timeout_ms / 1000
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, rng)
        self.due_at: float | None = None
        """Time of the next heartbeat."""
        self._hurried = False
        """True if there are changes to send, so that the interval does not apply."""
        self._sent_at = 0.0
        self._failures = 0
        self._interval_s = FIRST_INTERVAL_S
        self._probes = 0
        """Number of early heartbeats since it joined."""
        self.probing = False
        """True while a member that is new, or has new topics, may have an assignment that it has not received."""
        self._joined_at_epoch = 0

    @property
    def session_s(self) -> float:
        """Estimated length of a session, which no broker sends: see `SESSION_INTERVALS`."""
        return max(SESSION_INTERVALS * self._interval_s, self._session_timeout_s)

    @property
    def timeout_s(self) -> float:
        """Time limit of a heartbeat's answer, in seconds."""
        return min(self._request_timeout_s, max(ANSWER_WITHIN_S, 2 * self._interval_s))

    def begin(self, now: float) -> None:
        """Schedule the first heartbeat: now, or after the backoff of a failure."""
        self.due_at = now if not self._failures else max(now, self.due_at or now)

    def hurry(self, now: float) -> None:
        """Send the next heartbeat now, or as soon as the heartbeat in flight has been answered."""
        self._hurried = True
        self.due_at = now

    def sent(self, now: float) -> None:
        """Note that a heartbeat was sent, with all changes."""
        self._sent_at = now
        self._hurried = False

    def joined(self, epoch: int) -> None:
        """Note that the coordinator has accepted the first heartbeat, or new topics."""
        self._joined_at_epoch = epoch
        self._probes = 0
        self.probing = True

    def accepted(self, interval_ms: int, epoch: int, *, has_target: bool, awaits_target: bool = False) -> None:
        """Note an accepted heartbeat. ``awaits_target``: a later answer will bring partitions."""
        self._failures = 0
        if interval_ms > 0:
            self._interval_s = min(max(interval_ms / 1000, INTERVALS_S[0]), INTERVALS_S[1])
        if awaits_target:
            self.probing = self._probes < AWAITED_PROBES
        else:
            has_news = has_target or epoch != self._joined_at_epoch
            self.probing = self.probing and not has_news and self._probes < PROBES
        self._probes += self.probing
        interval_s = min(self._interval_s, self._backoff.delay_s(self._probes)) if self.probing else self._interval_s
        self.due_at = self._sent_at + (0.0 if self._hurried else interval_s)

    def failed(self, now: float) -> None:
        """Note a heartbeat that was refused or not answered."""
        self._failures += 1
        self.due_at = now + self._backoff.delay_s(self._failures)

    def forgive(self) -> None:
        """Forget earlier failures, so that they do not delay joining."""
        self._failures = 0


# --- the target ------------------------------------------------------------------------------------------------------


class _TopicPartitions(Protocol):
    topic_id: UUID
    partitions: list[int]


class Target:
    """Latest target assignment of one member."""

    def __init__(self) -> None:
        self.known = False
        """True if the coordinator has sent a target since `forget`."""
        self._partitions: dict[UUID, frozenset[int]] = {}
        self._snapshot = ClusterSnapshot(0)
        self._names: dict[UUID, str] = {}
        """Names of the topics in the target and of owned topics, kept while metadata lacks them."""

    def aim(self, assignment: Iterable[_TopicPartitions], owned: Iterable[UUID]) -> None:
        """Replace the target; ``owned`` are the ids of the topics with owned partitions."""
        self.known = True
        self._partitions = {entry.topic_id: frozenset(entry.partitions) for entry in assignment}
        self._learn_names(owned)

    def forget(self) -> None:
        """Clear the target until the coordinator sends another."""
        self.known = False
        self._partitions = {}

    def learn(self, snapshot: ClusterSnapshot, owned: Iterable[UUID]) -> None:
        """Process newer metadata, which may name more topic ids."""
        self._snapshot = snapshot
        self._learn_names(owned)

    def _learn_names(self, owned: Iterable[UUID]) -> None:
        known = self._snapshot.topic_names
        names = {topic_id: known.get(topic_id) or self._names.get(topic_id) for topic_id in {*self._partitions, *owned}}
        self._names = {topic_id: name for topic_id, name in names.items() if name is not None}

    @property
    def empty(self) -> bool:
        """True if the target, as far as known, has no partitions."""
        return not any(self._partitions.values())

    @property
    def topics(self) -> frozenset[str]:
        """Topics in the target whose names are known."""
        return frozenset(self._names[topic_id] for topic_id in self._partitions if topic_id in self._names)

    @property
    def unnamed(self) -> bool:
        """True if the target has topic ids that are not in the metadata."""
        return any(topic_id not in self._names for topic_id in self._partitions)

    def resolved(self, *, internal: bool) -> Mapping[TopicPartition, UUID]:
        """Return the part of the target with known topic names, with or without internal topics."""
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
    """Decides about heartbeats. All methods are synchronous and get the time as an argument.

    A heartbeat's answer counts only while it is `_sent`: after a leave, the answer to an earlier heartbeat concerns a
    membership that has ended (KAFKA-19335).
    """

    _unserved: ClassVar[str]
    """Error text that names the brokers the protocol needs."""

    def __init__(self, transitions: Transitions[Phase, Event], schedule: HeartbeatSchedule) -> None:
        self._transitions = transitions
        self._phase = transitions.first
        self._schedule = schedule
        self.member_id = str(uuid4())
        """Chosen by the member (KIP-1082)."""
        self.heartbeats = 0
        """Number of heartbeats sent."""
        self.epoch = 0
        """Epoch of the membership; positive exactly while it is a member."""
        self._target = Target()
        self._come_back = False
        """While leaving: join again afterwards."""
        self._known = False
        """True if the coordinator may have this member, so that it must be informed of a leave."""
        self._sent: Request[Any] | None = None
        """Heartbeat in flight."""
        self.error: KafkaError | None = None
        """Error that must be reported to the application, which mostly has ended the membership."""

    @property
    def unknown_topics(self) -> bool:
        """True if its target has topic ids that are not in the metadata, so that newer metadata is needed."""
        return self._target.unnamed

    @property
    def session_s(self) -> float:
        """Estimated length of a session: brokers send only the heartbeat interval."""
        return self._schedule.session_s

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def heartbeat_at(self) -> float | None:
        """Return the time at which the next heartbeat is due; None if not before another event."""
        if self._phase in (Phase.OUT, Phase.FENCED) or (self._phase is Phase.JOINING and not self._may_join()):
            return None
        return None if self._sent is not None and self._phase is not Phase.PARTING else self._schedule.due_at

    def heartbeat_timeout_s(self) -> float:
        """Return the time limit of a heartbeat's answer, in seconds."""
        return self._schedule.timeout_s

    def heartbeat(self, now: float) -> Request[Any] | None:
        """Return the heartbeat to send, and count it as sent."""
        if self.heartbeat_at() is None:
            return None
        self.heartbeats += 1
        request = self._request()
        if self._phase is Phase.PARTING:
            # Without waiting for the answer: whatever it is, the member is out.
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
        error: KafkaError | None,
        now: float,
        *,
        reconnected: bool = False,
    ) -> None:
        """Process the answer to a heartbeat, or the error if there is no answer."""
        if request is not self._sent:
            return
        self._sent = None
        failure = refusal(response, error)
        if failure is not None:
            self._failed(failure, now)
            return
        self._accepted(response)
        if reconnected:
            # The target may come from a server that no longer is the coordinator, or never was. A coordinator repeats
            # it only in answer to all fields, and an equal epoch does not show the difference.
            self._forget_told()
            self._schedule.hurry(now)
        elif self._target.unnamed:
            self._forget_told()

    def _accepted(self, response: Any) -> None:
        """Process the answer to an accepted heartbeat."""
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

    def _failed(self, error: KafkaError, now: float) -> None:
        self._forget_told()
        self._schedule.failed(now)
        put_out = isinstance(error, FencedMemberEpochError | UnknownMemberIdError)
        if put_out or (isinstance(error, GroupIdNotFoundError) and self.epoch > 0):
            self._fenced(error, now)
        elif not error.retriable and not self._bears_with(error, now):
            if isinstance(error, UnsupportedVersionError):
                error = UnsupportedVersionError(f"{self._unserved}; {error}")
            self.error = error
            self._come_back = self._known = False
            self._drop_out(Event.FAIL, f"the member has failed: {error}")

    # --- from phase to phase -----------------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        self._phase = self._transitions.after(self._phase, event)

    def _part(self, now: float) -> None:
        """Inform the coordinator that the member leaves, if the coordinator may have it."""
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

    # --- differences of the kinds -------------------------------------------------------------------------------------

    @abstractmethod
    def join(self, now: float) -> None:
        """Join again, after a leave or an error that may have passed."""

    @abstractmethod
    def _request(self) -> Request[Any]:
        """Return the next heartbeat."""

    @abstractmethod
    def _forget_told(self) -> None:
        """Send all fields with the next heartbeat, because the last heartbeat may have been lost."""

    @abstractmethod
    def _fenced(self, error: KafkaError, now: float) -> None:
        """Handle a coordinator that has removed the member, or has it at another epoch."""

    def _may_join(self) -> bool:
        """Return True if there is a subscription to join with."""
        return True

    def _bears_with(self, error: KafkaError, now: float) -> bool:
        """Return True if a heartbeat should be repeated although the error is not retriable."""
        return False

    def _has_target(self) -> bool:
        """Return True if no later heartbeat's answer is expected to bring partitions."""
        return not self._target.empty

    def _awaits_target(self) -> bool:
        """Return True if a later heartbeat's answer will bring partitions."""
        return False

    def _owned_topics(self) -> Iterable[UUID]:
        """Return the ids of topics outside the target whose names are still needed."""
        return ()
