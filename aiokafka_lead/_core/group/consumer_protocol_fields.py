"""What a ConsumerGroupHeartbeat says: everything when joining or after a failure, else what has changed (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from ..._wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions
from ...config import ConsumerConfig
from ...errors import InvalidRegularExpressionError, KafkaError, UnsupportedVersionError
from ...types import TopicPartition
from .classic_requests import rebalance_timeout_ms
from .member import Wanted

__all__ = ["HeartbeatFields", "Subscribed", "Subscription"]


class Subscribed(NamedTuple):
    """A subscription as the coordinator gets it."""

    topics: tuple[str, ...]
    """Sorted."""
    pattern: str | None
    """For the broker to match, in RE2 syntax."""


class Subscription:
    """What the application wants, and whether the broker is to match its pattern, or this client."""

    def __init__(self) -> None:
        self.wanted: Wanted | None = None
        self._broker_matches = True
        """Whether the broker is to match a pattern; False once it could not."""

    def change(self, wanted: Wanted) -> bool:
        """The application wants this; whether the coordinator has to learn of it."""
        before = self.subscribed
        if self.wanted is None or wanted.pattern is None or wanted.pattern != self.wanted.pattern:
            self._broker_matches = True
        is_first, self.wanted = self.wanted is None, wanted
        return is_first or self.subscribed != before

    @property
    def subscribed(self) -> Subscribed:
        """As the coordinator gets it."""
        wanted = self.wanted
        if wanted is None:
            return Subscribed((), None)
        if wanted.pattern is not None and self._broker_matches:
            return Subscribed((), wanted.pattern)
        return Subscribed(tuple(sorted(wanted.topics)), None)

    @property
    def by_pattern(self) -> bool:
        """Whether topics are found by a pattern, matched here or by the broker."""
        return self.wanted is not None and self.wanted.pattern is not None

    def pattern_refused(self, error: KafkaError) -> bool:
        """Brokers before 4.0 match no patterns, others only those of RE2: then this client matches."""
        refused = isinstance(error, (UnsupportedVersionError, InvalidRegularExpressionError))
        if not refused or self.subscribed.pattern is None:
            return False
        self._broker_matches = False
        return True


class HeartbeatFields:
    """Builds the requests of one member, and knows what the coordinator has been given.

    Whether an unanswered request arrived is not known; so everything is given again after `forget`.
    """

    def __init__(self, config: ConsumerConfig) -> None:
        self._group_id = config.group_id or ""
        self._instance_id = config.group_instance_id
        self._rack = config.client_rack
        self._assignor = config.remote_assignor
        self._rebalance_timeout_ms = int(rebalance_timeout_ms(config))
        self._subscribed: Subscribed | None = None
        """What was sent last, or None if everything is to be sent."""
        self._sent_owned = False

    def forget(self) -> None:
        """Tell everything with the next heartbeat."""
        self._subscribed = None
        self._sent_owned = False

    def owned_changed(self) -> None:
        """Tell what is owned with the next heartbeat: that is the acknowledgement of an assignment."""
        self._sent_owned = False

    @property
    def owned_sent(self) -> bool:
        """Whether the coordinator has been sent what is owned."""
        return self._sent_owned

    def heartbeat(
        self, member_id: str, epoch: int, subscribed: Subscribed, owned: Mapping[TopicPartition, UUID]
    ) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat; epoch 0 joins, for which ``owned`` must be empty."""
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
            # An empty string takes a pattern back.
            request.subscribed_topic_regex = subscribed.pattern or ""
        if everything or not self._sent_owned:
            request.topic_partitions = _by_topic(owned)
            self._sent_owned = True
        self._subscribed = subscribed
        return request

    def bare(self, member_id: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
        """A heartbeat without anything new, such as the one that leaves the group (epoch -1 or -2)."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=member_id, member_epoch=epoch, instance_id=self._instance_id
        )


def _by_topic(owned: Mapping[TopicPartition, UUID]) -> list[RequestTopicPartitions]:
    partitions: dict[UUID, list[int]] = {}
    for tp, topic_id in sorted(owned.items()):
        partitions.setdefault(topic_id, []).append(tp.partition)
    return [RequestTopicPartitions(topic_id=topic_id, partitions=found) for topic_id, found in partitions.items()]
