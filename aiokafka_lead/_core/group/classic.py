"""A member of a classic group (Java: ``AbstractCoordinator``, ``ConsumerCoordinator``).

`classic_protocol` contains its phases. If the assignor of the previous generation is cooperative, the member keeps its
partitions while it joins the next generation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import errors
from ..._options.logs import client_log
from ..._wire import Request, Response
from ..._wire.messages.heartbeat import HeartbeatRequest
from ..._wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ..._wire.messages.sync_group import SyncGroupResponse
from ...config import ConsumerConfig
from ...types import TopicPartition
from ..chance import random
from ..inquiry import may_repeat
from ..metadata.types import ClusterSnapshot
from .assignors import NO_GENERATION, GroupAssignor, MemberSubscription, decode_assignment
from .classic_protocol import (
    AWAITS,
    AWAITS_AS_LEADER,
    TRANSITIONS,
    ClassicSchedule,
    Event,
    NewTopics,
    Phase,
    heartbeat_request,
    join_request,
    leave_request,
    refusal,
    sync_request,
)
from .leader import Fit, Leader
from .member import Ask, Assign, Lose, Partitions, Revoke, Step, Wait, Wanted
from .offsets import GroupIdentity

NOTHING: Partitions = frozenset()

OUTDATED = (errors.IllegalGenerationError, errors.RebalanceInProgressError, errors.UnknownMemberIdError)
"""Errors that a coordinator returns to a member that has missed a rebalance."""


class ClassicMember:
    """A `GroupMember` that uses JoinGroup and SyncGroup.

    Invariant: at most one request is in flight, ``_asked``, and its response concerns the current phase.
    """

    def __init__(
        self, config: ConsumerConfig, assignors: Sequence[GroupAssignor], rng: Callable[[], float] = random
    ) -> None:
        self._config = config
        self._log = client_log("consumer", config.client_id)
        self._group_id = config.group_id or ""
        self._assignors = {assignor.name: assignor for assignor in assignors}
        """The assignors by name, in the order of preference."""
        self._schedule = ClassicSchedule(config, rng)
        self._phase = TRANSITIONS.first
        self._wanted: Wanted | None = None
        self._snapshot = ClusterSnapshot(0)
        self._member_id = ""
        self._generation = NO_GENERATION
        self.owned = NOTHING
        self.error: errors.KafkaError | None = None
        self._assigned: tuple[tuple[TopicPartition, ...], int] = ((), NO_GENERATION)
        """The last assignment and its generation. Kept after the partitions have been given up, because assignors may
        use it.
        """
        self._assignor: GroupAssignor | None = None
        """The assignor of the last generation."""
        self._leader = Leader(self._log)
        self._fit = Fit(self._group_id, self._log)
        self._to_sync: Mapping[str, Sequence[TopicPartition]] | None = None
        """In SYNCING: the assignments to send to the coordinator, or None if the leader has not computed them yet."""
        self._target = NOTHING
        """In CHECKING and ADOPTING: the partitions to own."""
        self._giving_up = NOTHING
        """In JOINING: the partitions that are being given up, even if the subscription changes back."""
        self._adopted_for: frozenset[str] | None = None
        """The subscribed topics on which the last adopted assignment is based."""
        self._asked: Ask | None = None
        self._rejoin: str | None = None
        """Reason for another rebalance, or None."""
        self._news = NewTopics(min(self._schedule.request_s, self._schedule.revoke_s))
        self._lost: str | None = None
        """Reason why all owned partitions are lost, or None."""
        self._leaving = ""
        self._orderly = True
        """In LEAVING: True if partitions are given up in order, False if they are dropped."""
        self._come_back = False
        """In LEAVING: True if the member joins again afterwards."""

    @property
    def identity(self) -> GroupIdentity | None:
        """The generation and ids, or None if it is not a member or leaves without giving up its partitions."""
        if self._generation == NO_GENERATION or (self._phase is Phase.LEAVING and not self._orderly):
            return None
        return GroupIdentity(self._generation, self._member_id, self._config.group_instance_id)

    @property
    def awaits(self) -> str | None:
        """See `GroupMember.awaits`."""
        if self._wanted is not None and self._adopted_for == self._wanted.topics:
            return None
        if self._phase is Phase.SYNCING and self._to_sync is None:
            return AWAITS_AS_LEADER
        return AWAITS[self._phase]

    @property
    def stable(self) -> bool:
        """True for a member with no partitions to give up or take over, and no request to send."""
        return self._phase is Phase.STABLE and self._rejoin is None and self._lost is None

    @property
    def out(self) -> bool:
        """See `GroupMember.out`."""
        return self._phase is Phase.OUT and not self.owned

    @property
    def unknown_topics(self) -> bool:
        """Always False, because this protocol uses topic names."""
        return False

    @property
    def kept_out(self) -> None:
        """Always None, because a static member immediately replaces its predecessor."""
        return

    @property
    def session_s(self) -> float:
        """The session timeout in seconds, as sent to the coordinator."""
        return self._config.session_timeout_ms / 1000

    @property
    def interest(self) -> frozenset[str]:
        """All topics of the group if this member is the leader, otherwise none."""
        return self._leader.topics

    @property
    def _cooperative(self) -> bool:
        return self._assignor is not None and self._assignor.cooperative

    @property
    def _is_new(self) -> bool:
        """True while this member waits for the coordinator to assign its first member id.

        If the member left before that, the group would wait for it until its session expires (KIP-394).
        """
        request = None if self._asked is None else self._asked.request
        return isinstance(request, JoinGroupRequest) and not (request.member_id or request.group_instance_id)

    # --- calls of the application and the client ---------------------------------------------------------------------

    def subscribe(self, wanted: Wanted, now: float) -> None:
        """Join with these topics. A member requests a rebalance if the topics have changed."""
        changed, self._wanted = wanted != self._wanted, wanted
        if self._phase in (Phase.OUT, Phase.LEAVING):
            self.join(now)
        elif changed:
            self._rejoin = "the subscription changed"

    def topics_changed(self, snapshot: ClusterSnapshot, now: float) -> None:
        """Process newer metadata. A leader requests a rebalance if partitions have been added."""
        self._snapshot = snapshot
        # The assignment was computed from older metadata.
        syncs = self._phase is Phase.SYNCING and self._to_sync is not None
        if syncs or self._phase in (Phase.CHECKING, Phase.ADOPTING, Phase.STABLE):
            self._rejoin = self._rejoin or self._leader.outdated(snapshot)

    def leave(self, reason: str, *, orderly: bool, now: float) -> None:
        """Leave the group.

        A static member sends no request, so it stays in the group until its session expires (KIP-345).
        """
        if self._phase is Phase.OUT:
            return
        self._take(Event.LEAVE)
        self._leaving, self._orderly, self._come_back = reason, orderly, False
        self._rejoin = None
        if not self._is_new:
            self._asked = None

    def join(self, now: float) -> None:
        """Join the group, also after leaving. A fenced member does not, because another process has its instance id."""
        if isinstance(self.error, errors.FencedInstanceIdError):
            return
        self.error = None
        if self._phase is Phase.OUT and self._wanted is not None:
            self._take(Event.JOIN)
            self._rejoin = None
        elif self._phase is Phase.LEAVING:
            self._come_back = True

    def commit_refused(self, identity: GroupIdentity, error: errors.KafkaError, now: float) -> None:
        """Handle the refusal of a commit in the same way as the refusal of a heartbeat.

        Between JoinGroup and SyncGroup, do nothing. Commits are refused then because the group has no assignment yet.
        """
        syncing = self._phase is Phase.SYNCING and isinstance(error, errors.RebalanceInProgressError)
        if identity == self.identity and not syncing:
            self._refused(error, now)

    def step(self, now: float) -> Step:
        """See `GroupMember.step`."""
        if self._lost is not None and self.owned:
            return Lose(self.owned, self._lost)
        self._lost = None
        if self._asked is not None:
            return self._asked
        if self._phase is Phase.STABLE and self._rejoin is not None:
            self._take(Event.REBALANCE)
        match self._phase:
            case Phase.JOINING:
                return self._step_joining(now)
            case Phase.SYNCING:
                return self._step_syncing(now)
            case Phase.CHECKING:
                self._asked = Ask(self._fit.question(), self._schedule.request_s, held=False)
                return self._asked
            case Phase.ADOPTING:
                return self._step_adopting()
            case Phase.LEAVING:
                return self._step_leaving(now)
        return Wait(None)

    def _step_joining(self, now: float) -> Step:
        """Return the next step in JOINING: give up partitions, wait for metadata or a backoff, or send JoinGroup."""
        assert self._wanted is not None  # otherwise the phase would be OUT
        topics = self._wanted.topics
        kept = frozenset(tp for tp in self.owned if tp.topic in topics) if self._cooperative else NOTHING
        self._giving_up |= self.owned - kept
        if self._giving_up:
            return Revoke(self._giving_up, self._schedule.revoke_s)
        until = None if self._wanted.pattern is None else self._news.waits_until(self._snapshot, now)
        if until is not None:
            return Wait(until, refresh=True)
        if now < self._schedule.retry_at:
            return Wait(self._schedule.retry_at)
        self._news.over()
        # Like Java, report the generation even without partitions. It shows that the member is rejoining and requests a
        # rebalance.
        generation = self._assigned[1] if self.owned else self._generation
        config, asked, owned = self._config, tuple(sorted(topics)), tuple(sorted(self.owned))
        instance, rack = config.group_instance_id, config.client_rack
        member = MemberSubscription(self._member_id, asked, owned, generation, instance, rack=rack)
        reason = self._rejoin or "the consumer joins"
        try:
            request = join_request(config, member, tuple(self._assignors.values()), self._assigned, reason)
        except errors.KafkaError as error:
            self._fail(error, now)
            return self.step(now)
        self._rejoin = None
        self._fit.joins(topics, comes_back=not self._member_id and instance is not None)
        self._asked = Ask(request, self._schedule.answer_s)
        return self._asked

    def _step_syncing(self, now: float) -> Step:
        identity, assignor = self.identity, self._assignor
        assert identity is not None  # both were set when JoinGroup was answered
        assert assignor is not None
        if self._to_sync is None:
            until = self._leader.waits_until(self._snapshot, now)
            if until is not None:
                return Wait(until)
            try:
                self._to_sync = self._leader.assign(assignor, self._snapshot)
            except errors.KafkaError as error:
                self._fail(error, now)
                return self.step(now)
        self._asked = Ask(sync_request(self._group_id, identity, assignor.name, self._to_sync), self._schedule.answer_s)
        return self._asked

    def _step_adopting(self) -> Step:
        taken = self.owned - self._target
        if taken:
            return Revoke(taken, self._schedule.revoke_s)
        return Assign(self._target, self._target - self.owned)

    def _step_leaving(self, now: float) -> Step:
        if self._orderly and self.owned:
            return Revoke(self.owned, self._schedule.revoke_s)
        if self._member_id and self._config.group_instance_id is None:
            request = leave_request(self._group_id, self._member_id, self._leaving)
            self._asked = Ask(request, self._schedule.request_s, held=False)
            return self._asked
        self._left()
        return self.step(now)

    def done(self, step: Revoke | Lose | Assign, now: float) -> None:
        """See `GroupMember.done`."""
        if isinstance(step, Assign):
            self.owned = step.partitions
            self._assigned = (tuple(sorted(self.owned)), self._generation)
            self._adopted_for = None if self._generation == NO_GENERATION else self._fit.topics
            if self._phase is Phase.ADOPTING:
                self._take(Event.ADOPTED)
            return
        self.owned -= step.partitions
        self._giving_up -= step.partitions
        if isinstance(step, Revoke) and self._phase is Phase.ADOPTING:
            # Only now may other members get the partitions that were given up (KIP-429).
            self._rejoin = "partitions were given up"

    # --- responses ---------------------------------------------------------------------------------------------------

    def answered(
        self, request: Request[Any], response: Response | None, error: errors.KafkaError | None, now: float
    ) -> None:
        """See `GroupMember.answered`. The response to an abandoned request is ignored."""
        if self._asked is None or self._asked.request is not request:
            return
        self._asked = None
        if self._phase is Phase.LEAVING:
            if isinstance(response, JoinGroupResponse) and response.member_id:
                self._member_id = response.member_id  # the id is needed to leave the group
            else:
                self._left()
            return
        if self._phase is Phase.CHECKING:
            self._adopt_unless(self._fit.nobodys(response), Event.CHECKED)
            return
        if response is not None:
            error = refusal(response, "join" if isinstance(response, JoinGroupResponse) else "synchronize with")
        if isinstance(response, JoinGroupResponse) and isinstance(error, errors.MemberIdRequiredError):
            if self._member_id or not response.member_id:
                self._schedule.failed(now)  # the coordinator forgets the ids that it assigns
            self._member_id = response.member_id  # join again with this id (KIP-394)
        elif error is not None:
            self._ask_failed(error, now)
        elif isinstance(response, JoinGroupResponse):
            self._joined(response, now)
        elif isinstance(response, SyncGroupResponse):
            self._synced(response, now)

    def _joined(self, response: JoinGroupResponse, now: float) -> None:
        assignor = self._assignors.get(response.protocol_name or "")
        if assignor is None:
            text = f"the group uses the assignor {response.protocol_name!r}"
            self._fail(errors.InconsistentGroupProtocolError(text), now)
            return
        if not response.member_id or response.generation_id < 0:
            text = "the response to JoinGroup lacks the member id or the generation"
            self._fail(errors.MalformedMessageError(text), now)
            return
        self._assignor = assignor
        self._member_id = response.member_id
        self._generation = response.generation_id
        self._schedule.joined(now)
        self._take(Event.JOINED)
        self._to_sync = None if self._leader.joined(response, self._snapshot, now) else {}

    def _synced(self, response: SyncGroupResponse, now: float) -> None:
        assert self._wanted is not None
        try:
            assigned = decode_assignment(response.assignment)
        except errors.KafkaError as error:
            self._fail(error, now)
            return
        self._schedule.succeeded()
        # Partitions of unsubscribed topics are not taken over. The rebalance already requested assigns them to other
        # members.
        self._target = frozenset(tp for tp in assigned if tp.topic in self._wanted.topics)
        if self._cooperative and not self._target:
            # Members that give up partitions for this member join again right after that.
            self._schedule.probe(now)
        # A leader has computed its assignment itself, so there is no need to check it.
        doubts = not self._to_sync and self._fit.doubts(assigned, self._leader.topics, self._snapshot)
        self._adopt_unless(self._fit.misfit(assigned), Event.DOUBTED if doubts else Event.SYNCED)

    def _adopt_unless(self, misfit: str | None, event: Event) -> None:
        """Keep the assignment and move on with this event. If there is a ``misfit``, join again instead."""
        if misfit is None:
            self._take(event)
        else:
            self._rejoin = misfit
            self._take(Event.REBALANCE)

    def _ask_failed(self, error: errors.KafkaError, now: float) -> None:
        """Handle a failed JoinGroup or SyncGroup: repeat it, join again, or stop with the error."""
        joining = self._phase is Phase.JOINING
        if self._refused(error, now):
            # Another rebalance has begun during this one. That is no failure, and no reason to wait, unless it repeats.
            if joining or not isinstance(error, errors.RebalanceInProgressError) or self._schedule.interrupted():
                self._schedule.failed(now)
        elif may_repeat(error, self._schedule.failures + 1):
            self._take(Event.RETRY)
            self._schedule.failed(now)
        else:
            self._fail(error, now)

    def _refused(self, error: errors.KafkaError, now: float) -> bool:
        """Handle an error that concerns this membership, such as an unknown member id.

        Returns False for any other error, which the caller must handle.
        """
        if isinstance(error, errors.FencedInstanceIdError):
            self._member_id = ""
            self._fail(error, now)
            return True
        if not isinstance(error, OUTDATED):
            return False
        if self._asked is not None:
            return True  # The pending response shows the current state. This error may concern an earlier one.
        if isinstance(error, errors.UnknownMemberIdError):
            self._member_id = ""
            self._lose(Event.LOST, f"the coordinator no longer knows this member: {error.message}")
        elif isinstance(error, errors.IllegalGenerationError):
            # The member id stays valid (KAFKA-13419). Without it, the group would wait until this member's session
            # expires.
            self._lose(Event.LOST, f"the generation has ended: {error.message}")
        elif self._phase is Phase.SYNCING:
            self._news.possible()
            self._take(Event.REBALANCE)
        else:
            self._news.possible()
            self._rejoin = self._rejoin or "the group is rebalancing"
        return True

    def _take(self, event: Event) -> None:
        self._phase = TRANSITIONS.after(self._phase, event)

    def _lose(self, event: Event, reason: str) -> None:
        """End the membership. All owned partitions are lost, for this ``reason``."""
        self._take(event)
        self._generation = NO_GENERATION
        self._adopted_for = None
        self._leader.end()
        self._lost = reason

    def _left(self) -> None:
        self._member_id = ""
        self._leader = Leader(self._log)  # metadata of unsubscribed topics is dropped, so these topics count as new
        self._lose(Event.LEFT, self._leaving)
        if self._come_back:
            self._take(Event.JOIN)

    def _fail(self, error: errors.KafkaError, now: float) -> None:
        """Stop with an error, but keep the member id.

        A member with a new id would have to wait until the old session expires. The member joins again at the
        application's next read, but not before the backoff has ended.
        """
        self.error = error
        self._schedule.failed(now)
        self._asked = None
        self._lose(Event.FAIL, error.message)

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def heartbeat_at(self) -> float | None:
        """See `GroupMember.heartbeat_at`.

        Heartbeats continue until JoinGroup is sent, so that a lost coordinator is noticed.
        """
        return None if self.identity is None or self._schedule.heartbeat_out else self._schedule.heartbeat_at

    def heartbeat_timeout_s(self) -> float:
        """See `GroupMember.heartbeat_timeout_s`."""
        return self._schedule.heartbeat_timeout_s

    def heartbeat(self, now: float) -> Request[Any] | None:
        """See `GroupMember.heartbeat`."""
        identity = self.identity
        if identity is None:
            return None
        self._schedule.sends(now)
        return heartbeat_request(self._group_id, identity)

    def heartbeat_answered(
        self,
        request: Request[Any],
        response: Response | None,
        error: errors.KafkaError | None,
        now: float,
        *,
        reconnected: bool = False,
    ) -> None:
        """See `GroupMember.heartbeat_answered`. Responses for an earlier generation are ignored."""
        self._schedule.heartbeat_out = False
        if response is not None:
            error = refusal(response, "stay in")
        identity = self.identity
        if error is None:
            self._schedule.answered()
        if error is None or identity is None or not isinstance(request, HeartbeatRequest):
            return
        if (request.generation_id, request.member_id) != identity[:2] or self._refused(error, now):
            return
        self._schedule.unanswered(now)
        if not may_repeat(error, self._schedule.unanswered_heartbeats):
            self._fail(error, now)
            return
        if self._asked is not None and isinstance(error, errors.RequestTimedOutError):
            # The coordinator does not answer heartbeats, so it will not answer the pending request either.
            self.answered(self._asked.request, None, error, now)
