"""A consumer's assignment: the partitions that it reads, and the state of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from uuid import UUID

from ...errors import IllegalStateError
from ...types import TopicPartition
from ..metadata.types import NO_TOPIC_ID, ClusterSnapshot, Moved
from .partition_state import PartitionState
from .reset_policy import EARLIEST, ResetPolicy


def _nothing() -> None:
    pass


class Positions:
    """Holds a consumer's assignment, with the state of each partition.

    `assign` is the only method that adds or removes partitions. Only the owner of the assignment calls it:
    `Consumer.assign`, a subscription without a group, or the task of the group.
    """

    def __init__(self, on_touch: Callable[[], None] = _nothing, on_settle: Callable[[], None] = _nothing) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}
        self.by_topic: dict[str, list[PartitionState]] = {}
        """The states by topic. Replaced at each change, never modified."""
        self._topic_ids: dict[str, UUID] = {}
        """The known ids of the topics to which the positions belong."""
        self._former_ids: dict[str, UUID] = {}
        """The former id of each recreated topic."""
        self.touched: dict[PartitionState, None] = {}
        """Partitions whose fetches may have to change. The planner removes them.

        It is a dict because the order matters.
        """
        self._on_touch = on_touch
        """Called when `touched` becomes non-empty."""
        self._on_settle = on_settle
        """Called when a partition receives a position or an error, or is no longer read."""
        self._companions: Mapping[str, Sequence[str]] = {}
        """The companion topics of each topic (see `accompany`)."""
        self._accompanying: frozenset[str] = frozenset()

    def _touch(self, state: PartitionState) -> None:
        if not self.touched:
            self._on_touch()
        self.touched[state] = None

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self._states.values())

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self._states

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        """The assigned partitions, including companions."""
        return frozenset(self._states)

    def get(self, tp: TopicPartition) -> PartitionState | None:
        """Return the partition's state, or None if it is not assigned."""
        return self._states.get(tp)

    def owns(self, state: PartitionState) -> bool:
        """Return True if this is the current state of its partition, and not from an earlier assignment."""
        return self._states.get(state.tp) is state

    def require(self, tp: TopicPartition) -> PartitionState:
        """Return the state of the partition. Raises `IllegalStateError` if it is not assigned."""
        state = self._states.get(TopicPartition(*tp))
        if state is None:
            raise IllegalStateError(f"partition {tp[0]}-{tp[1]} is not assigned to this consumer")
        return state

    def accompany(self, companions: Mapping[str, Sequence[str]]) -> None:
        """Set the companion topics of each topic. The next `assign` applies them.

        A consumer that is assigned a partition of a topic also reads the partition with the same number of each
        companion topic. The group does not assign companion topics, so this works with every assignor.
        """
        self._companions = companions
        self._accompanying = frozenset(name for names in companions.values() for name in names)

    def own(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that are not companions of others."""
        return [tp for tp in partitions if tp[0] not in self._accompanying]

    def with_companions(self, partitions: Collection[TopicPartition]) -> Collection[TopicPartition]:
        """Return these partitions and their companions, without any other companions."""
        if not self._companions:
            return partitions
        own = self.own(partitions)
        more = [TopicPartition(name, tp[1]) for tp in own for name in self._companions.get(tp[0], ())]
        return [*own, *more]

    @property
    def companions(self) -> Iterator[PartitionState]:
        """Yield the states of the companion partitions."""
        return (state for state in self._states.values() if state.tp.topic in self._accompanying)

    def policy_of(self, state: PartitionState, policy: ResetPolicy | None) -> ResetPolicy | None:
        """Return the reset policy of a partition, given the consumer's reset policy.

        Companions are read from the beginning, because their records came from the partitions that they accompany.
        """
        return EARLIEST if state.tp.topic in self._accompanying else policy

    def assign(self, partitions: Collection[TopicPartition]) -> tuple[list[PartitionState], list[PartitionState]]:
        """Replace the assignment. Returns the added and the removed states.

        Partitions that stay keep their state. Companions are added and removed with the partitions that they accompany.
        """
        partitions = self.with_companions(partitions)
        # There may be thousands of partitions, so use the objects of the group's assignment instead of copies.
        wanted = dict.fromkeys(tp if type(tp) is TopicPartition else TopicPartition(*tp) for tp in partitions)
        removed = [state for tp, state in self._states.items() if tp not in wanted]
        for state in removed:
            del self._states[state.tp]
            state.incarnation += 1
            self._touch(state)
        touch = self._touch  # create the bound method only once
        added = [PartitionState(tp, touch, self._on_settle) for tp in wanted if tp not in self._states]
        for state in added:
            self._states[state.tp] = state
            self._touch(state)
        self.by_topic = {}
        for tp, state in self._states.items():
            self.by_topic.setdefault(tp.topic, []).append(state)
        for ids in self._topic_ids, self._former_ids:
            for topic in ids.keys() - self.by_topic.keys():
                del ids[topic]
        if removed:
            self._on_settle()
        return added, removed

    def touch_moved(self, moved: Moved) -> None:
        """Let the planner examine the partitions that the new metadata may affect."""
        self._find_replaced(moved.before)  # may differ from `_topic_ids`, because partitions have been assigned since
        self._find_replaced(moved.after)
        if moved.brokers:
            for state in self:
                if state.home is None or state.home in moved.brokers:
                    state.touch()
        if moved.partitions is not None:
            self._touch_all(moved.partitions)
            return
        for topic, states in self.by_topic.items():
            led = moved.led(topic)
            for state in states:
                # This matters when reading from a follower, whose availability is independent of the leader's.
                if state.tp.partition in led or (
                    state.preferred_replica >= 0 and state.tp.partition in moved.of(topic)
                ):
                    state.touch()

    def _touch_all(self, partitions: Collection[tuple[str, int]]) -> None:
        """Touch these partitions, if they are assigned. Both sets may be large, so iterate over the smaller one."""
        states = self._states
        if len(partitions) > len(states):
            for tp, state in states.items():
                if tp in partitions:
                    state.touch()
        else:
            for where in partitions:
                found = states.get(TopicPartition(*where))
                if found is not None:
                    found.touch()

    def _find_replaced(self, snapshot: ClusterSnapshot) -> None:
        """Notify the partitions whose topic was recreated since their position was found (KIP-516)."""
        for topic, states in self.by_topic.items():
            topic_id = snapshot.topic_id(topic)
            if topic_id == NO_TOPIC_ID:
                continue
            before = self._topic_ids.setdefault(topic, topic_id)
            if before != topic_id:
                returns = self._former_ids.get(topic) == topic_id
                self._topic_ids[topic], self._former_ids[topic] = topic_id, before
                for state in states:
                    if returns:
                        state.log_returned()
                    else:
                        state.log_replaced()

    def paused(self) -> frozenset[TopicPartition]:
        """Return the partitions that the application has paused."""
        return frozenset(tp for tp, state in self._states.items() if state.paused)
