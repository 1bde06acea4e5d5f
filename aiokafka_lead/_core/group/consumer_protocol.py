"""A member of a KIP-848 group (Java: ``ConsumerMembershipManager``, ``ConsumerHeartbeatRequestManager``).

All requests are heartbeats. They join the group and report the owned partitions. Their responses contain the member
epoch and the *target*, which is the assignment that the member should reach. The member moves towards the target step
by step. The heartbeat after each step acknowledges it. `OWNING` is the table of the phases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID, uuid4

from ... import errors
from ..._options.logs import client_log
from ..._values import NamedTuple
from ..._wire import Request, Response
from ..._wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions
from ...config import ConsumerConfig
from ...types import TopicPartition
from ..chance import random
from ..metadata.types import ClusterSnapshot
from .classic_protocol import rebalance_timeout_ms, revoke_timeout_s
from .heartbeat_member import OWNING, Event, HeartbeatMember, Phase
from .heartbeat_schedule import HeartbeatSchedule
from .member import Assign, Lose, Partitions, Revoke, Step, Wait, Wanted
from .offsets import GroupIdentity

NOTHING_NAMED: frozenset[str] = frozenset()

RELEASE_BEYOND_S = 15.0
"""Seconds, beyond ``session_timeout_ms``, that a static member waits for its predecessor's session to expire."""


class Subscribed(NamedTuple):
    """The part of the subscription that a heartbeat contains: topics or a pattern."""

    topics: tuple[str, ...]
    """The topic names, sorted."""
    pattern: str | None
    """The pattern in RE2 syntax for the broker to match, or None."""


class Subscription:
    """The application's subscription. The broker matches a pattern, or this client if the broker refuses to."""

    def __init__(self) -> None:
        self.wanted: Wanted | None = None
        self._broker_matches = True
        """True if the broker should match the pattern. False after it has refused to."""

    def change(self, wanted: Wanted) -> bool:
        """Replace the subscription. Return True if the coordinator must be informed."""
        before = self.subscribed
        if self.wanted is None or wanted.pattern is None or wanted.pattern != self.wanted.pattern:
            self._broker_matches = True
        is_first, self.wanted = self.wanted is None, wanted
        return is_first or self.subscribed != before

    @property
    def subscribed(self) -> Subscribed:
        """The topics or the pattern for the next heartbeat. Only one of them is set."""
        wanted = self.wanted
        if wanted is None:
            return Subscribed((), None)
        if wanted.pattern is not None and self._broker_matches:
            return Subscribed((), wanted.pattern)
        return Subscribed(tuple(sorted(wanted.topics)), None)

    @property
    def by_pattern(self) -> bool:
        """True if the subscription is a pattern, whether the broker or this client matches it."""
        return self.wanted is not None and self.wanted.pattern is not None

    def pattern_refused(self, error: errors.KafkaError) -> bool:
        """Return True if the error is a refusal of the pattern. This client then matches the pattern from now on.

        Brokers before 4.0 do not match patterns. Later brokers match only patterns in RE2 syntax.
        """
        refused = isinstance(error, (errors.UnsupportedVersionError, errors.InvalidRegularExpressionError))
        if not refused or self.subscribed.pattern is None:
            return False
        self._broker_matches = False
        return True


class HeartbeatFields:
    """Builds the heartbeats of one member, and tracks which fields the coordinator has received.

    A request without a response may have been lost. After `forget`, the next heartbeat therefore contains all fields.
    """

    def __init__(self, config: ConsumerConfig) -> None:
        self._group_id = config.group_id or ""
        self._instance_id = config.group_instance_id
        self._rack = config.client_rack
        self._assignor = config.remote_assignor
        self._rebalance_timeout_ms = int(rebalance_timeout_ms(config))
        self._subscribed: Subscribed | None = None
        """The subscription sent last, or None if the next heartbeat must contain all fields."""
        self._sent_owned = False

    def forget(self) -> None:
        """Include all fields in the next heartbeat, because the last one may have been lost."""
        self._subscribed = None
        self._sent_owned = False

    def owned_changed(self) -> None:
        """Include the owned partitions in the next heartbeat, which acknowledges an assignment."""
        self._sent_owned = False

    @property
    def owned_sent(self) -> bool:
        """True if the current owned partitions have been sent to the coordinator."""
        return self._sent_owned

    def heartbeat(
        self, member_id: str, epoch: int, subscribed: Subscribed, owned: Mapping[TopicPartition, UUID]
    ) -> ConsumerGroupHeartbeatRequest:
        """Return the next heartbeat. It omits the fields that have not changed since the last one.

        A heartbeat with epoch 0 joins the group, and ``owned`` must then be empty.
        """
        request = self.bare(member_id, epoch)
        everything = self._subscribed is None or epoch == 0
        if everything:
            request.rebalance_timeout_ms = self._rebalance_timeout_ms
            request.rack_id = self._rack
            request.server_assignor = self._assignor
        before = None if everything else self._subscribed
        if before is None or before.topics != subscribed.topics:
            request.subscribed_topic_names = list(subscribed.topics)
        if subscribed.pattern != (None if before is None else before.pattern):
            # An empty string removes a pattern.
            request.subscribed_topic_regex = subscribed.pattern or ""
        if everything or not self._sent_owned:
            request.topic_partitions = _by_topic(owned)
            self._sent_owned = True
        self._subscribed = subscribed
        return request

    def bare(self, member_id: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
        """Return a heartbeat with only the required fields, for example to leave the group (epoch -1 or -2)."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=member_id, member_epoch=epoch, instance_id=self._instance_id
        )


def _by_topic(owned: Mapping[TopicPartition, UUID]) -> list[RequestTopicPartitions]:
    partitions: dict[UUID, list[int]] = {}
    for tp, topic_id in sorted(owned.items()):
        partitions.setdefault(topic_id, []).append(tp.partition)
    return [RequestTopicPartitions(topic_id=topic_id, partitions=found) for topic_id, found in partitions.items()]


class ConsumerProtocolMember(HeartbeatMember):
    """A `GroupMember` that uses ConsumerGroupHeartbeat.

    Invariant: ``epoch`` is positive in JOINED and RELEASING, and in no other phase.
    """

    _unserved = 'the brokers do not support group_protocol="consumer" (KIP-848, Apache Kafka 4.0): use "auto"'

    def __init__(self, config: ConsumerConfig, rng: Callable[[], float] = random) -> None:
        super().__init__(OWNING, HeartbeatSchedule(config, rng, config.session_timeout_ms))
        self._config = config
        self._log = client_log("consumer", config.client_id)
        self._fields = HeartbeatFields(config)
        self._revoke_s = revoke_timeout_s(config)
        self._subscription = Subscription()
        self._sent_subscribed = self._subscribed = self._subscription.subscribed
        """The subscriptions in the last heartbeat sent and in the last heartbeat answered."""
        self._owned: dict[TopicPartition, UUID] = {}
        """The owned partitions with the ids of their topics. A recreated topic with the same name has another id."""
        self._step: Revoke | Assign | None = None
        """The step in progress, or None. A newer target has to wait for it (Java: reconciliation in progress)."""
        self._assigning: Mapping[TopicPartition, UUID] = {}
        """The partitions that the member will own once the `Assign` in progress is done."""
        self._answered = 0
        """Number of the last heartbeat that was answered. See `heartbeats`."""
        self._gave_up_at = -1
        """Number of heartbeats that had been sent when partitions were last given up."""
        self._lost = ""
        """Reason why the owned partitions are lost, or an empty string."""
        self._leaving = ""
        self._unreleased_since: float | None = None
        """Time at which a static member found its predecessor still in the group, or None."""

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def owned(self) -> Partitions:
        """Partitions owned after the last step that the caller has carried out."""
        return frozenset(self._owned)

    @property
    def identity(self) -> GroupIdentity | None:
        """The member id and epoch, or None if it is not a member."""
        if self.epoch <= 0:
            return None
        return GroupIdentity(self.epoch, self.member_id, self._config.group_instance_id)

    @property
    def awaits(self) -> str | None:
        """See `GroupMember.awaits`."""
        if self._phase is Phase.JOINED:
            if not self._target.known or self._schedule.probing or self._subscribed != self._subscription.subscribed:
                return "an assignment from the coordinator"
            if self._answered <= self._gave_up_at and self._resolved() == self._owned:
                # The response assigns other partitions only after these have been given up.
                return "a response to the heartbeat that reports the partitions given up"
            if self._target.unnamed:
                return "metadata of the assigned topics"
            return None if self._resolved() == self._owned else "the takeover of the assigned partitions"
        if self._phase is Phase.JOINING and not self._may_join():
            return None
        return self.kept_out or "a response to the first heartbeat"

    @property
    def stable(self) -> bool:
        """True if the member owns all partitions of its target and has reported this to the coordinator."""
        return (
            self._phase is Phase.JOINED
            and self._step is None
            and self._fields.owned_sent
            and self._target.known
            and self._resolved() == self._owned
            and not self._target.unnamed
        )

    @property
    def out(self) -> bool:
        """See `GroupMember.out`."""
        return self._phase is Phase.OUT and not self._lost and not self._owned

    @property
    def kept_out(self) -> str | None:
        """See `GroupMember.kept_out`."""
        if self._unreleased_since is None or self._phase is not Phase.JOINING:
            return None
        return (
            f"another member of the group {self._config.group_id!r} still has the group_instance_id "
            f"{self._config.group_instance_id!r}"
        )

    @property
    def interest(self) -> frozenset[str]:
        """Always empty, because the coordinator assigns only subscribed topics."""
        return NOTHING_NAMED

    # --- calls of the application -------------------------------------------------------------------------------------

    def subscribe(self, wanted: Wanted, now: float) -> None:
        """Join with this subscription, or change the subscription to it."""
        changed = self._subscription.change(wanted)
        if self._phase in (Phase.OUT, Phase.FENCED, Phase.RELEASING, Phase.PARTING):
            self.join(now)
        elif changed:
            self._schedule.hurry(now)

    def join(self, now: float) -> None:
        """Join again, after `leave` or after an error that may be temporary."""
        if self._phase in (Phase.FENCED, Phase.RELEASING, Phase.PARTING):
            self._come_back = True
        elif self._phase is Phase.JOINED:
            self.error = None
        elif self._phase is Phase.OUT and self._subscription.wanted is not None:
            self.error = None
            if self._lost:
                self._come_back = True
            else:
                self._begin_to_join(now)

    def leave(self, reason: str, *, orderly: bool, now: float) -> None:
        """Leave the group, and give up all partitions.

        If ``orderly`` is True, give up the partitions before leaving, so that their offsets can be committed.
        Otherwise, leave first, and then drop the partitions.
        """
        self._come_back = False
        self._leaving = reason
        self._unreleased_since = None
        if self._phase is Phase.JOINED and orderly:
            self._take(Event.RELEASE)
            self._give_up_step()
            self._part_when_released(now)
        elif self._phase in (Phase.JOINING, Phase.JOINED, Phase.RELEASING):
            self._part(now)
            if self._owned:
                self._lost = reason

    def topics_changed(self, snapshot: ClusterSnapshot, now: float) -> None:
        """Process newer metadata, which may resolve more topic ids."""
        self._target.learn(snapshot, self._owned.values())

    def commit_refused(self, identity: GroupIdentity, error: errors.KafkaError, now: float) -> None:
        """Send a heartbeat now. Its response contains the newer epoch, or fences the member."""
        if self._phase in (Phase.JOINED, Phase.RELEASING) and identity == self.identity:
            self._schedule.hurry(now)

    # --- steps -------------------------------------------------------------------------------------------------------

    def step(self, now: float) -> Step:
        """Return the next step. It does not change until it is done, unless the member is fenced."""
        if self._lost:
            return Lose(self.owned, self._lost)
        if self._phase is Phase.RELEASING:
            return Revoke(self.owned, self._revoke_s)
        if self._phase is not Phase.JOINED or not self._target.known:
            return Wait(None)
        if self._step is None:
            self._step = self._next_step()
        return self._step or Wait(None)

    def _next_step(self) -> Revoke | Assign | None:
        """Return the next step towards the target. Partitions are given up before others are taken over."""
        target = self._resolved()
        gone = frozenset(tp for tp, topic_id in self._owned.items() if target.get(tp) != topic_id)
        if gone:
            return Revoke(gone, self._revoke_s)
        added = frozenset(tp for tp in target if tp not in self._owned)
        if added:
            self._assigning = target
            return Assign(frozenset(target), added)
        return None

    def answered(
        self, request: Request[Any], response: Response | None, error: errors.KafkaError | None, now: float
    ) -> None:
        """Do nothing, because this protocol has no requests besides heartbeats."""

    def done(self, step: Revoke | Lose | Assign, now: float) -> None:
        """Record that the caller has carried out the step. The next heartbeat reports the owned partitions."""
        if isinstance(step, Lose):
            self._owned.clear()
            self._lost = ""
            self._after_loss(now)
            return
        if isinstance(step, Revoke):
            for tp in step.partitions:
                self._owned.pop(tp, None)
            self._gave_up_at = self.heartbeats
        elif step == self._step:
            self._owned = dict(self._assigning)
        self._step = None
        self._fields.owned_changed()
        if self._phase is Phase.RELEASING:
            self._part_when_released(now)
        elif self._phase is Phase.JOINED:
            self._schedule.hurry(now)

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def _may_join(self) -> bool:
        topics, pattern = self._subscription.subscribed
        return bool(topics or pattern)

    def _request(self) -> Request[Any]:
        if self._phase is Phase.PARTING:
            return self._fields.bare(self.member_id, -1 if self._config.group_instance_id is None else -2)
        self._sent_subscribed = self._subscription.subscribed
        return self._fields.heartbeat(self.member_id, self.epoch, self._sent_subscribed, self._owned)

    def _accepted(self, response: Any) -> None:
        self.error = self._unreleased_since = None
        if response.member_id:
            self.member_id = response.member_id
        self._subscribed = self._sent_subscribed
        self._answered = self.heartbeats
        super()._accepted(response)

    def _owned_topics(self) -> Iterable[UUID]:
        return self._owned.values()

    def _forget_told(self) -> None:
        self._fields.forget()

    def _bears_with(self, error: errors.KafkaError, now: float) -> bool:
        if self._subscription.pattern_refused(error):
            self._schedule.due_at = now
            return True
        if isinstance(error, errors.TopicAuthorizationFailedError) and self._phase is Phase.JOINED:
            # Like Java, stay a member. It can still read its other topics, and the missing ACL may be added.
            self.error = error
            return True
        return self._may_be_released(error, now)

    def _may_be_released(self, error: errors.KafkaError, now: float) -> bool:
        """Return True while this static member should wait for another process with its instance id to leave.

        If that process has crashed, its session expires soon.
        """
        if not isinstance(error, errors.UnreleasedInstanceIdError):
            return False
        wait_s = self._config.session_timeout_ms / 1000 + RELEASE_BEYOND_S
        if self._unreleased_since is None:
            self._unreleased_since = now
            self._log.warning(
                "the consumer cannot join yet: %s. It waits until that member leaves or its session expires, at most "
                "%g s. If both must run, give each a different group_instance_id",
                self.kept_out,
                wait_s,
            )
        return now < self._unreleased_since + wait_s

    # --- changes of phase --------------------------------------------------------------------------------------------

    def _begin_to_join(self, now: float) -> None:
        self._take(Event.JOIN)
        self.epoch = 0
        self._target.forget()
        self._fields.forget()
        self._schedule.begin(now)

    def _fenced(self, error: errors.KafkaError, now: float) -> None:
        """Drop the owned partitions, and join again unless the member was leaving."""
        self._come_back = self._come_back or self._phase is not Phase.RELEASING
        self._known = False
        if self.epoch == 0:
            # Brokers before 4.2 do not let the same member id return until its session has expired (KAFKA-19233).
            self.member_id = str(uuid4())
        else:
            self._schedule.removed(now)
        self._forget_membership()
        self._take(Event.FENCED)
        if self._owned:
            self._lost = f"the coordinator has removed this member: {error}"
        else:
            self._after_loss(now)

    def _after_loss(self, now: float) -> None:
        if self._phase is Phase.FENCED:
            self._take(Event.DROPPED)
        if self._phase is Phase.OUT and self._come_back:
            self._come_back = False
            self._begin_to_join(now)

    def _part_when_released(self, now: float) -> None:
        if not self._owned:
            self._part(now)

    def _drop_out(self, event: Event, reason: str | None) -> None:
        super()._drop_out(event, reason)
        if self._owned:
            self._lost = reason or self._leaving

    def _forget_membership(self) -> None:
        super()._forget_membership()
        self._give_up_step()

    def _give_up_step(self) -> None:
        """Abandon the step in progress.

        The partitions of an `Assign` count as owned, so that they are given up later.
        """
        if isinstance(self._step, Assign):
            self._owned = dict(self._assigning)
        self._step = None

    # --- topics ------------------------------------------------------------------------------------------------------

    def _resolved(self) -> Mapping[TopicPartition, UUID]:
        """Return the target as partitions with topic names.

        Internal topics are omitted if the subscription is a pattern and ``exclude_internal_topics`` is set. Brokers
        also match patterns against internal topics.
        """
        excluded = self._subscription.by_pattern and self._config.exclude_internal_topics
        return self._target.resolved(internal=not excluded)
