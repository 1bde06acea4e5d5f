"""A member of a share group (KIP-932; Java: ``ShareMembershipManager``, ``ShareHeartbeatRequestManager``).

It has the heartbeats of KIP-848, which say what is subscribed to and bring the member's epoch and what it is to fetch.
Several members may be assigned the same partition, so that nothing is given up in order and nothing acknowledged. It
goes through the phases of `member_phase`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import random
from typing import Any
from uuid import UUID, uuid4

from ..._wire import Request, Response
from ..._wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ...config.share import ShareConsumerConfig
from ...errors import (
    FencedMemberEpochError,
    GroupIdNotFoundError,
    KafkaError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)
from ...types import TopicPartition
from ..group.consumer_protocol_schedule import HeartbeatSchedule, refusal
from ..group.consumer_protocol_target import Target
from ..metadata.types import ClusterSnapshot
from .member_phase import TRANSITIONS, Event, Phase

__all__ = ["ShareMember"]

FENCED = (FencedMemberEpochError, UnknownMemberIdError, GroupIdNotFoundError)
"""The coordinator knows the member no more, or not with this epoch."""


class ShareMember:
    """Decides about heartbeats.

    A heartbeat's answer counts only while it is `_sent`: one that was overtaken by a leave tells of a membership that
    is over. The member's id stays the same for good: brokers know locks by it, which outlast a membership.
    """

    def __init__(self, config: ShareConsumerConfig, rng: Callable[[], float] = random) -> None:
        self._group_id = config.group_id
        self._rack = config.client_rack
        self._schedule = HeartbeatSchedule(config, rng)
        self._phase = TRANSITIONS.first
        self.member_id = str(uuid4())
        """Chosen by the member (KIP-1082)."""
        self.heartbeats = 0
        """Those sent so far."""
        self.epoch = 0
        """More than 0 exactly in JOINED."""
        self._topics: tuple[str, ...] = ()
        self._sent_topics: tuple[str, ...] | None = None
        """As the coordinator knows them; None if the next heartbeat has to say everything."""
        self._target = Target()
        self._snapshot = ClusterSnapshot(0)
        self._known = False
        """Whether the coordinator may know this member: then it has to learn that the member leaves."""
        self._come_back = False
        """In PARTING: join again after that."""
        self._sent: Request[Any] | None = None
        """The heartbeat that is out."""
        self.error: KafkaError | None = None
        """Why it is out of the group, where that is for the application to know."""

    # --- what others see ---------------------------------------------------------------------------------------------

    @property
    def joined(self) -> bool:
        """Whether it is a member now."""
        return self._phase is Phase.JOINED

    @property
    def out(self) -> bool:
        """No member, and with nothing to do about it."""
        return self._phase is Phase.OUT

    @property
    def assigned(self) -> bool:
        """A member that has been given its partitions; none where its topics have none."""
        given = self._target.known and not self._target.unnamed and not self._awaits_target
        return self.joined and given and not self._schedule.probing

    @property
    def _awaits_target(self) -> bool:
        """Every member gets partitions, if there are any: the coordinator may have to initialize them first."""
        return self._target.empty and any(self._snapshot.partition_count(topic) for topic in self._topics)

    @property
    def unknown_topics(self) -> bool:
        """Whether it is to fetch partitions of topics that metadata does not name: newer metadata is wanted."""
        return self._target.unnamed

    @property
    def session_s(self) -> float:
        """No broker tells: this is deduced from the interval that it wants."""
        return self._schedule.session_s

    def assignment(self) -> Mapping[TopicPartition, UUID]:
        """What to fetch."""
        return self._target.resolved(internal=True) if self.joined else {}

    # --- what the application wants ----------------------------------------------------------------------------------

    def subscribe(self, topics: tuple[str, ...], now: float) -> None:
        """Join with these topics, or go on with them."""
        changed, self._topics = topics != self._topics, topics
        if self._phase in (Phase.OUT, Phase.PARTING):
            self.join(now)
        elif changed:
            self._schedule.hurry(now)

    def join(self, now: float) -> None:
        """Get in again, after `leave` or an error that may have passed."""
        if self._phase is Phase.PARTING:
            self._come_back = True
        elif self._phase is Phase.OUT and self._topics:
            self.error = None
            self._take(Event.JOIN)
            self._forget_membership()
            self._schedule.begin(now)

    def leave(self, now: float) -> None:
        """Get out, and tell the coordinator if it knows of this member at all."""
        self._come_back = False
        if self._phase not in (Phase.JOINING, Phase.JOINED):
            return
        self._forget_membership()
        if self._known:
            self._take(Event.PART)
            self._schedule.due_at = now
        else:
            # Joined it is never without the coordinator's knowing.
            self._take(Event.LEFT)

    def topics_changed(self, snapshot: ClusterSnapshot) -> None:
        """Topic ids may have names now."""
        self._snapshot = snapshot
        self._target.learn(snapshot, ())

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def heartbeat_at(self) -> float | None:
        """When the next heartbeat is due; None: not before something happens."""
        if self._phase is Phase.OUT or (self._sent is not None and self._phase is not Phase.PARTING):
            return None
        return self._schedule.due_at

    def heartbeat_timeout_s(self) -> float:
        """How long to wait for a heartbeat's answer."""
        return self._schedule.timeout_s

    def heartbeat(self, now: float) -> Request[Any] | None:
        """The heartbeat to send, which thereby counts as sent."""
        if self.heartbeat_at() is None:
            return None
        self.heartbeats += 1
        if self._phase is Phase.PARTING:
            self._get_out(now)
            return ShareGroupHeartbeatRequest(group_id=self._group_id, member_id=self.member_id, member_epoch=-1)
        request = ShareGroupHeartbeatRequest(group_id=self._group_id, member_id=self.member_id, member_epoch=self.epoch)
        if self._sent_topics is None:
            request.rack_id = self._rack
        if self._sent_topics != self._topics:
            request.subscribed_topic_names = list(self._topics)
            self._sent_topics = self._topics
        self._sent = request
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
        elif isinstance(response, ShareGroupHeartbeatResponse):
            self._accepted(response)

    def _accepted(self, response: ShareGroupHeartbeatResponse) -> None:
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self._target.aim(response.assignment.topic_partitions, ())
        if self._phase is Phase.JOINING:
            self._take(Event.ACCEPTED)
            self._schedule.joined(self.epoch)
        self._schedule.accepted(
            response.heartbeat_interval_ms,
            self.epoch,
            has_target=not self._target.empty,
            awaits_target=self._awaits_target,
        )

    def _failed(self, error: KafkaError, now: float) -> None:
        self._sent_topics = None
        self._schedule.failed(now)
        if isinstance(error, FENCED) and (self.epoch > 0 or not isinstance(error, GroupIdNotFoundError)):
            if self.epoch > 0:
                self._schedule.forgive()
                self._schedule.due_at = now
            self._take(Event.FENCED)
            self._forget_membership()
        elif not error.retriable:
            if isinstance(error, UnsupportedVersionError):
                error = UnsupportedVersionError(f"the brokers do not serve share groups (Apache Kafka 4.2); {error}")
            self.error = error
            self._known = False
            self._take(Event.FAIL)
            self._forget_membership()

    # --- from phase to phase -----------------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        self._phase = TRANSITIONS.after(self._phase, event)

    def _get_out(self, now: float) -> None:
        self._known = False
        self._take(Event.LEFT)
        self._schedule.forgive()
        come_back, self._come_back = self._come_back, False
        if come_back:
            self.join(now)

    def _forget_membership(self) -> None:
        self.epoch = 0
        self._sent = None
        self._sent_topics = None
        self._target.forget()
