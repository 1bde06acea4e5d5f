"""Membership in a share group (KIP-932; Java: ``ShareMembershipManager``, ``ShareHeartbeatRequestManager``).

The heartbeats (see `HeartbeatMember`) contain the subscription. Their responses contain the member epoch and the
partitions to fetch. Several members may fetch the same partition. A member therefore does not give up partitions step
by step, and does not acknowledge assignments. `SHARING` is the table of the phases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from ..._wire import Request
from ..._wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ...config.share import ShareConsumerConfig
from ...errors import KafkaError
from ...types import TopicPartition
from ..chance import random
from ..group.heartbeat_member import SHARING, Event, HeartbeatMember, Phase
from ..group.heartbeat_schedule import HeartbeatSchedule
from ..metadata.types import ClusterSnapshot


class ShareMember(HeartbeatMember):
    """A member of a share group.

    The member id never changes, because brokers identify locks by it, and a lock may outlast the membership.
    """

    _unserved = "the brokers do not serve share groups (Apache Kafka 4.2)"

    def __init__(self, config: ShareConsumerConfig, rng: Callable[[], float] = random) -> None:
        super().__init__(SHARING, HeartbeatSchedule(config, rng))
        self._group_id = config.group_id
        self._rack = config.client_rack
        self._topics: tuple[str, ...] = ()
        self._sent_topics: tuple[str, ...] | None = None
        """The topics that were last sent to the coordinator, or None if the next heartbeat must contain all fields."""
        self._answered_topics: tuple[str, ...] = ()
        """The topics that the coordinator last acknowledged."""
        self._new_topics: frozenset[str] = frozenset()
        """The topics that the last change added to the subscription of a member that had joined."""
        self._snapshot = ClusterSnapshot(0)

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def joined(self) -> bool:
        """True while the member is in the group."""
        return self._phase is Phase.JOINED

    @property
    def out(self) -> bool:
        """True if the client is not a member and has no more requests to send."""
        return self._phase is Phase.OUT

    @property
    def assigned(self) -> bool:
        """True if the member has joined and received its partitions, or if its topics have no partitions."""
        given = self._target.known and not self._target.unnamed and not self._awaits_target()
        return self.joined and given and not self._schedule.probing and self._answered_topics == self._topics

    def _awaits_target(self) -> bool:
        """Return True if no partition is assigned although the topics have some.

        The coordinator may have to initialize the state of the partitions first.
        """
        return self._target.empty and any(self._snapshot.partition_count(topic) for topic in self._topics)

    def _has_target(self) -> bool:
        """Return False while new topics have no partitions.

        The coordinator may have to initialize the state of their partitions.
        """
        lacking = self._new_topics - self._target.topics
        return super()._has_target() and not any(self._snapshot.partition_count(topic) for topic in lacking)

    def assignment(self) -> Mapping[TopicPartition, UUID]:
        """The partitions to fetch, with their topic ids."""
        return self._target.resolved(internal=True) if self.joined else {}

    # --- calls of the application -------------------------------------------------------------------------------------

    def subscribe(self, topics: tuple[str, ...], now: float) -> None:
        """Join with these topics, or change the subscription to them."""
        changed, self._topics = topics != self._topics, topics
        if self._phase in (Phase.OUT, Phase.PARTING):
            self.join(now)
        elif changed:
            self._schedule.hurry(now)

    def join(self, now: float) -> None:
        """Join again, after `leave` or after an error that may be temporary."""
        if self._phase is Phase.PARTING:
            self._come_back = True
        elif self._phase is Phase.OUT and self._topics:
            self.error = None
            self._take(Event.JOIN)
            self._forget_membership()
            self._schedule.begin(now)

    def leave(self, now: float) -> None:
        """Leave the group. Inform the coordinator if it may know the member."""
        self._come_back = False
        if self._phase in (Phase.JOINING, Phase.JOINED):
            self._part(now)

    def topics_changed(self, snapshot: ClusterSnapshot) -> None:
        """Process newer metadata, which may resolve more topic ids."""
        self._snapshot = snapshot
        self._target.learn(snapshot, ())

    # --- heartbeats --------------------------------------------------------------------------------------------------

    def _accepted(self, response: Any) -> None:
        before, self._answered_topics = self._answered_topics, self._sent_topics or ()
        if self.joined and before != self._answered_topics:
            self._new_topics = frozenset(self._answered_topics).difference(before)
            self._schedule.joined(response.member_epoch)
        super()._accepted(response)

    def _request(self) -> Request[Any]:
        epoch = -1 if self._phase is Phase.PARTING else self.epoch
        request = ShareGroupHeartbeatRequest(group_id=self._group_id, member_id=self.member_id, member_epoch=epoch)
        if self._phase is Phase.PARTING:
            return request
        if self._sent_topics is None:
            request.rack_id = self._rack
        if self._sent_topics != self._topics:
            request.subscribed_topic_names = list(self._topics)
            self._sent_topics = self._topics
        return request

    def _forget_told(self) -> None:
        self._sent_topics = None

    def _fenced(self, error: KafkaError, now: float) -> None:
        if self.epoch > 0:
            self._schedule.forgive()
            self._schedule.due_at = now
        self._take(Event.FENCED)
        self._forget_membership()

    def _forget_membership(self) -> None:
        super()._forget_membership()
        self._sent_topics = None
        self._new_topics = frozenset()
