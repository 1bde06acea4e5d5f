"""A member of a KIP-848 group (Java: ``ConsumerMembershipManager``, ``ConsumerHeartbeatRequestManager``).

Heartbeats carry everything: they join, say what is owned, and their answers bring the member's epoch and what it is
to own. The member comes closer to that step by step, and each step is acknowledged by the next heartbeat. It goes
through the phases of `consumer_protocol_phase`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import random
from typing import Any
from uuid import UUID, uuid4

from ..._options.logs import client_log
from ..._wire import Request, Response
from ..._wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ...config import ConsumerConfig
from ...errors import (
    FencedMemberEpochError,
    GroupIdNotFoundError,
    KafkaError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedVersionError,
)
from ...types import TopicPartition
from ..metadata.types import ClusterSnapshot
from .classic_requests import revoke_timeout_s
from .consumer_protocol_fields import HeartbeatFields, Subscription
from .consumer_protocol_phase import TRANSITIONS, Event, Phase
from .consumer_protocol_schedule import HeartbeatSchedule, refusal
from .consumer_protocol_target import Target
from .member import Assign, Lose, Partitions, Revoke, Step, Wait, Wanted
from .offsets import GroupIdentity

__all__ = ["ConsumerProtocolMember"]


NOTHING_NAMED: frozenset[str] = frozenset()

RELEASE_BEYOND_S = 15.0
"""How much longer than ``session_timeout_ms`` a static member waits for its predecessor to be forgotten."""

FENCED = (FencedMemberEpochError, UnknownMemberIdError)
"""The coordinator knows the member no more, or not with this epoch: what it owned may be others'."""


class ConsumerProtocolMember:
    """A `GroupMember` by ConsumerGroupHeartbeat.

    Invariant: ``_epoch`` is more than 0 exactly in JOINED and RELEASING. A heartbeat's answer counts only while it is
    `_sent`: one that was overtaken, by a leave say, tells of a membership that is over (KAFKA-19335).
    """

    def __init__(self, config: ConsumerConfig, rng: Callable[[], float] = random) -> None:
        self._config = config
        self._log = client_log("consumer", config.client_id)
        self._fields = HeartbeatFields(config)
        self._schedule = HeartbeatSchedule(config, rng, config.session_timeout_ms)
        self._revoke_s = revoke_timeout_s(config)
        self._phase = TRANSITIONS.first
        self._member_id = str(uuid4())
        """Chosen by the member and kept (KIP-1082)."""
        self._epoch = 0
        self._subscription = Subscription()
        self._sent_subscribed = self._subscribed = self._subscription.subscribed
        """The subscription in the last heartbeat, and in the last that was answered."""
        self._owned: dict[TopicPartition, UUID] = {}
        """With the id that the topic had then: one that was made anew is another topic."""
        self._target = Target()
        self._step: Revoke | Assign | None = None
        """What was begun towards the target; a newer target waits for its end (Java: reconciliation in progress)."""
        self._assigning: Mapping[TopicPartition, UUID] = {}
        """What will be owned when the `Assign` that was begun is done."""
        self._lost = ""
        """Why what is owned is lost, if it is."""
        self._come_back = False
        """In FENCED, RELEASING and PARTING: join again after that."""
        self._leaving = ""
        self._known = False
        """Whether the coordinator may know this member: then it has to learn that the member leaves."""
        self._sent: Request[Any] | None = None
        """The heartbeat that is out."""
        self._unreleased_since: float | None = None
        """When a static member's predecessor was found to be in its place."""
        self.error: KafkaError | None = None

    # --- what others see ---------------------------------------------------------------------------------------------

    @property
    def owned(self) -> Partitions:
        """Its partitions, as of the last `done`."""
        return frozenset(self._owned)

    @property
    def identity(self) -> GroupIdentity | None:
        """The member's id and epoch; None while it is no member."""
        if self._epoch <= 0:
            return None
        return GroupIdentity(self._epoch, self._member_id, self._config.group_instance_id)

    @property
    def awaits(self) -> str | None:
        """See `GroupMember.awaits`."""
        if self._phase is Phase.JOINED:
            if not self._target.known or self._schedule.probing or self._subscribed != self._subscription.subscribed:
                return "an assignment from the coordinator"
            if self._target.unnamed:
                return "metadata of the topics that it was assigned"
            return None if self._resolved() == self._owned else "the assignment to be carried out"
        if self._phase is Phase.JOINING and not self._has_subscription():
            return None
        return self.kept_out or "the coordinator's answer to its first heartbeat"

    @property
    def stable(self) -> bool:
        """A member that owns what it is to own, and has said so."""
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
        """No member, and with nothing to do about it."""
        return self._phase is Phase.OUT and not self._lost and not self._owned

    @property
    def session_s(self) -> float:
        """No broker tells: this is deduced from the interval that it wants."""
        return self._schedule.session_s

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
        """Nothing: the coordinator assigns only what is subscribed to."""
        return NOTHING_NAMED

    @property
    def unknown_topics(self) -> bool:
        """Whether it is to own partitions of topics that metadata does not name: newer metadata is wanted."""
        return self._target.unnamed

    # --- what the application wants ----------------------------------------------------------------------------------

    def subscribe(self, wanted: Wanted, now: float) -> None:
        """Join with this subscription, or go on with it."""
        changed = self._subscription.change(wanted)
        if self._phase in (Phase.OUT, Phase.FENCED, Phase.RELEASING, Phase.PARTING):
            self.join(now)
        elif changed:
            self._schedule.hurry(now)

    def join(self, now: float) -> None:
        """Get in again, after `leave` or an error that may have passed."""
        if self._phase in (Phase.FENCED, Phase.RELEASING, Phase.PARTING):
            self._come_back = True
        elif self._phase is Phase.OUT and self._subscription.wanted is not None:
            self.error = None
            if self._lost:
                self._come_back = True
            else:
                self._begin_to_join(now)

    def leave(self, reason: str, *, orderly: bool, now: float) -> None:
        """Get out: give up everything, then tell the coordinator; or the other way round, when there is no time."""
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
        """Topic ids may have names now."""
        self._target.learn(snapshot, self._owned.values())

    def commit_refused(self, identity: GroupIdentity, error: KafkaError, now: float) -> None:
        """The next heartbeat tells what is the matter: a newer epoch, or that the member is fenced."""
        if self._phase in (Phase.JOINED, Phase.RELEASING) and identity == self.identity:
            self._schedule.hurry(now)

    # --- steps -------------------------------------------------------------------------------------------------------

    def step(self, now: float) -> Step:
        """What to do now; the same until it is done, unless the member is fenced meanwhile."""
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
        """Give up first what is not in the target, then take over what is new in it."""
        target = self._resolved()
        gone = frozenset(tp for tp, topic_id in self._owned.items() if target.get(tp) != topic_id)
        if gone:
            return Revoke(gone, self._revoke_s)
        added = frozenset(tp for tp in target if tp not in self._owned)
        if added:
            self._assigning = target
            return Assign(frozenset(target), added)
        return None

    def answered(self, request: Request[Any], response: Response | None, error: KafkaError | None, now: float) -> None:
        """Never: this protocol has no requests beside heartbeats."""

    def done(self, step: Revoke | Lose | Assign, now: float) -> None:
        """The step has been carried out: the next heartbeat acknowledges it."""
        if isinstance(step, Lose):
            self._owned.clear()
            self._lost = ""
            self._after_loss(now)
            return
        if isinstance(step, Revoke):
            for tp in step.partitions:
                self._owned.pop(tp, None)
        elif step == self._step:
            self._owned = dict(self._assigning)
        self._step = None
        self._fields.owned_changed()
        if self._phase is Phase.RELEASING:
            self._part_when_released(now)
        elif self._phase is Phase.JOINED:
            self._schedule.hurry(now)

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def heartbeat_at(self) -> float | None:
        """When the next heartbeat is due; None: not before something happens."""
        if self._phase in (Phase.OUT, Phase.FENCED):
            return None
        if self._sent is not None and self._phase is not Phase.PARTING:
            return None
        if self._phase is Phase.JOINING and not self._has_subscription():
            return None
        return self._schedule.due_at

    def heartbeat_timeout_s(self) -> float:
        """How long to wait for a heartbeat's answer."""
        return self._schedule.timeout_s

    def heartbeat(self, now: float) -> Request[Any] | None:
        """The heartbeat to send, which thereby counts as sent."""
        if self.heartbeat_at() is None:
            return None
        request: ConsumerGroupHeartbeatRequest
        if self._phase is Phase.PARTING:
            request = self._fields.bare(self._member_id, -1 if self._config.group_instance_id is None else -2)
            self._sent = None
            self._get_out(now)
            return request
        subscribed = self._subscription.subscribed
        request = self._fields.heartbeat(self._member_id, self._epoch, subscribed, self._owned)
        self._sent = request
        self._sent_subscribed = subscribed
        self._schedule.sent(now)
        self._known = True
        return request

    def heartbeat_answered(
        self, request: Request[Any], response: Response | None, error: KafkaError | None, now: float
    ) -> None:
        """What became of a heartbeat."""
        if request is not self._sent:
            return
        self._sent = None
        failure = refusal(response, error)
        if failure is not None:
            self._failed(failure, now)
        elif isinstance(response, ConsumerGroupHeartbeatResponse):
            self._accepted(response)

    def _accepted(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self._unreleased_since = None
        if response.member_id:
            self._member_id = response.member_id
        self._subscribed = self._sent_subscribed
        self._epoch = response.member_epoch
        if response.assignment is not None:
            self._target.aim(response.assignment.topic_partitions, self._owned.values())
        if self._phase is Phase.JOINING:
            self._take(Event.ACCEPTED)
            self._schedule.joined(self._epoch)
        self._schedule.accepted(response.heartbeat_interval_ms, self._epoch, has_target=not self._target.empty)

    def _failed(self, error: KafkaError, now: float) -> None:
        self._fields.forget()
        self._schedule.failed(now)
        if isinstance(error, FENCED) or (isinstance(error, GroupIdNotFoundError) and self._epoch > 0):
            self._fenced(f"the coordinator has put this member out: {error}", now)
        elif self._subscription.pattern_refused(error):
            self._schedule.due_at = now
        elif not error.retriable and not self._may_be_released(error, now):
            self._fatal(error)

    def _may_be_released(self, error: KafkaError, now: float) -> bool:
        """Another process has this static member's place: perhaps it died, and its session ends soon."""
        if not isinstance(error, UnreleasedInstanceIdError):
            return False
        wait_s = self._config.session_timeout_ms / 1000 + RELEASE_BEYOND_S
        if self._unreleased_since is None:
            self._unreleased_since = now
            self._log.warning(
                "the consumer cannot join yet: %s. That passes when the other one leaves, or is dead and its session "
                "ends, which is waited for, up to %g s. If both are to run, each needs an id of its own",
                self.kept_out,
                wait_s,
            )
        return now < self._unreleased_since + wait_s

    def _fatal(self, error: KafkaError) -> None:
        if isinstance(error, UnsupportedVersionError):
            text = 'the brokers do not speak group_protocol="consumer" (KIP-848, Apache Kafka 4.0): use "auto"'
            error = UnsupportedVersionError(f"{text}; {error}")
        self.error = error
        self._come_back = False
        self._known = False
        self._drop_out(Event.FAIL, f"the member has failed: {error}")

    # --- from phase to phase -----------------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        self._phase = TRANSITIONS.after(self._phase, event)

    def _begin_to_join(self, now: float) -> None:
        self._take(Event.JOIN)
        self._epoch = 0
        self._target.forget()
        self._fields.forget()
        self._schedule.begin(now)

    def _fenced(self, reason: str, now: float) -> None:
        """Nothing that was owned may be committed or read any more; then join again, unless it was on its way out."""
        self._come_back = self._come_back or self._phase is not Phase.RELEASING
        self._known = False
        if self._epoch > 0:
            self._schedule.forgive()
        else:
            # Brokers before 4.2 refuse a member's own return until its session ends (KAFKA-19233).
            self._member_id = str(uuid4())
        self._forget_membership()
        self._take(Event.FENCED)
        if self._owned:
            self._lost = reason
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

    def _part(self, now: float) -> None:
        """Tell the coordinator, if it knows of this member at all."""
        if self._known:
            self._take(Event.PART)
            self._sent = None  # its answer may come before the last heartbeat is sent
            self._schedule.due_at = now
            self._forget_membership()
        else:
            self._get_out(now)

    def _get_out(self, now: float) -> None:
        self._known = False
        come_back, self._come_back = self._come_back, False
        self._drop_out(Event.LEFT, self._leaving)
        if come_back:
            self.join(now)

    def _drop_out(self, event: Event, reason: str) -> None:
        self._take(event)
        self._sent = None
        self._schedule.forgive()
        self._forget_membership()
        if self._owned:
            self._lost = reason

    def _forget_membership(self) -> None:
        self._epoch = 0
        self._target.forget()
        self._give_up_step()

    def _give_up_step(self) -> None:
        """What is being assigned has to be given up again."""
        if isinstance(self._step, Assign):
            self._owned = dict(self._assigning)
        self._step = None

    # --- topics ------------------------------------------------------------------------------------------------------

    def _has_subscription(self) -> bool:
        topics, pattern = self._subscription.subscribed
        return bool(topics or pattern)

    def _resolved(self) -> Mapping[TopicPartition, UUID]:
        """Brokers match patterns with internal topics, too."""
        excluded = self._subscription.by_pattern and self._config.exclude_internal_topics
        return self._target.resolved(internal=not excluded)
