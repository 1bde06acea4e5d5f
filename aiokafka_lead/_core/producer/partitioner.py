"""Partitions for records without a key (KIP-480, KIP-794, KIP-1123).

Such records go to one partition until it has received ``batch_size`` bytes, and then to another one, chosen at random.
Partitions with a short queue are preferred. Partitions whose broker has accepted no batch for a while are avoided. Java
builds a table of all partitions of the topic for this choice. Here, a partition is drawn uniformly, and is accepted
with a probability that depends on its queue. The distribution is the same, but the other partitions are not examined. A
client that prefers its own rack accepts only partitions whose leader is there, as long as any of them is usable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...errors import ConfigError, ConfigTypeError
from ..chance import random
from ..metadata.types import NO_LEADER, ClusterSnapshot
from .batches import TopicBuffer

if TYPE_CHECKING:
    from ...config.options import Partitioner

_DRAWS = 16
"""Number of rejected draws after which all partitions are examined instead."""
_MIN_CHOICES_BETWEEN_SURVEYS = 8


class NodeAvailability:
    """Tracks brokers that do not accept batches (``partitioner_availability_timeout_ms``)."""

    __slots__ = ("_blocked_since", "_timeout_s")

    def __init__(self, timeout_s: float) -> None:
        """Start with this timeout in seconds. With 0, every broker counts as available."""
        self._timeout_s = timeout_s
        self._blocked_since: dict[int, float] = {}

    def blocked(self, node_id: int, now: float) -> None:
        """Record that batches are ready for the broker but cannot be sent. The timeout starts unless it is running."""
        if self._timeout_s > 0:
            self._blocked_since.setdefault(node_id, now)

    def taking(self, node_id: int) -> None:
        """Record that batches have been sent to the broker, so it is available again."""
        self._blocked_since.pop(node_id, None)

    def available(self, node_id: int, now: float) -> bool:
        """Return True unless batches have waited for the broker for longer than the timeout."""
        since = self._blocked_since.get(node_id)
        return since is None or now - since <= self._timeout_s


class StickyChooser:
    """Chooses the next partition for records without a key.

    ``rng`` returns a number in [0, 1).
    """

    __slots__ = ("_adaptive", "_batch_size", "_linger_s", "_nodes", "_rack", "_rng")

    def __init__(
        self,
        adaptive: bool,
        nodes: NodeAvailability,
        rng: Callable[[], float] = random,
        rack: str | None = None,
        batch_size: int = 0,
        linger_s: float = 0.0,
    ) -> None:
        """Start without a choice. ``rack`` is the preferred rack of leaders, or None."""
        self._adaptive = adaptive
        self._nodes = nodes
        self._rng = rng
        self._rack = rack
        self._batch_size = batch_size
        self._linger_s = linger_s

    def had_share(self, topic: TopicBuffer, size: int, now: float) -> bool:
        """Return True if the sticky partition has received its share, so another partition should be chosen.

        ``size`` is the number of bytes that it has received. The share is ``batch_size`` bytes (KIP-794). It is larger
        during the linger time, because otherwise each partition would get a small batch. It does not depend on the
        broker's speed, so it is the same for all partitions.
        """
        if size < self._batch_size:
            return False
        return size >= topic.batch_limit or now - topic.sticky_since >= self._linger_s

    def choose(self, topic: TopicBuffer, snapshot: ClusterSnapshot, now: float) -> int:
        """Choose the partition for the next records without a key. The topic must have partitions."""
        if self._adaptive:
            self._survey(topic)
        pool: Sequence[int] = self._near(topic, snapshot) or range(topic.count)
        for _ in range(_DRAWS):
            partition = pool[int(self._rng() * len(pool))]
            if self._usable(_leader(snapshot, topic, partition), now) and self._accepted(topic, partition):
                return partition
        return self._choose_among_all(pool, topic, snapshot, now)

    def _choose_among_all(self, pool: Sequence[int], topic: TopicBuffer, snapshot: ClusterSnapshot, now: float) -> int:
        usable = [partition for partition in pool if self._usable(_leader(snapshot, topic, partition), now)]
        everything = range(topic.count)
        if not usable and len(pool) < topic.count:
            return self._choose_among_all(everything, topic, snapshot, now)
        led = usable or [partition for partition in everything if _leader(snapshot, topic, partition) >= 0]
        choices: Sequence[int] = led or everything
        if self._adaptive:
            shortest = min(_depth(topic, partition) for partition in choices)
            choices = [partition for partition in choices if _depth(topic, partition) == shortest]
        return choices[int(self._rng() * len(choices))]

    def _near(self, topic: TopicBuffer, snapshot: ClusterSnapshot) -> list[int]:
        """Return the partitions whose leader is in the preferred rack. Empty if no rack is preferred."""
        if self._rack is None:
            return []
        if topic.available is None:
            near = {node_id for node_id, broker in snapshot.brokers.items() if broker.rack == self._rack}
            everything = range(topic.count)
            topic.available = [partition for partition in everything if _leader(snapshot, topic, partition) in near]
        return topic.available

    def _survey(self, topic: TopicBuffer) -> None:
        """Update the depth of the deepest queue. Call it rarely, so that its cost is small compared to the choices."""
        topic.choices_until_survey -= 1
        if topic.choices_until_survey <= 0:
            topic.deepest = 0
            for queue in topic.pending:
                topic.deepest = max(topic.deepest, queue.depth)
            topic.choices_until_survey = max(_MIN_CHOICES_BETWEEN_SURVEYS, len(topic.pending))

    def _usable(self, leader_id: int, now: float) -> bool:
        return leader_id >= 0 and self._nodes.available(leader_id, now)

    def _accepted(self, topic: TopicBuffer, partition: int) -> bool:
        """Return True with probability (deepest + 1 - depth) / (deepest + 1), the weight of KIP-794."""
        if not self._adaptive or topic.deepest == 0:
            return True
        weights = topic.deepest + 1
        return self._rng() * weights < weights - _depth(topic, partition)


def _depth(topic: TopicBuffer, partition: int) -> int:
    queue = topic.queues[partition]
    return 0 if queue is None else queue.depth


def _leader(snapshot: ClusterSnapshot, topic: TopicBuffer, partition: int) -> int:
    known = snapshot.partition(topic.name, partition)
    return NO_LEADER if known is None else known.leader_id


def call_partitioner(partitioner: Partitioner, key: bytes | None, topic: TopicBuffer, snapshot: ClusterSnapshot) -> int:
    """Call the application's partitioner, and check and return its result.

    Raises `ConfigTypeError` or `ConfigError` if this is not the number of a partition.
    """
    everything: Sequence[int] = range(topic.count)
    if topic.available is None:
        topic.available = [partition for partition in everything if _leader(snapshot, topic, partition) >= 0]
    partition = partitioner(key, everything, topic.available or everything)
    if isinstance(partition, bool) or not isinstance(partition, int):
        raise ConfigTypeError(f"partitioner must return an int, not {type(partition).__name__}")
    if not 0 <= partition < topic.count:
        raise ConfigError(f"partitioner chose partition {partition}: topic {topic.name!r} has {topic.count} partitions")
    return partition
