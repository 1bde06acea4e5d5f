"""A broker's state for share groups: members' sessions, and the partitions that it leads.

Java: ``SharePartitionManager``, ``ShareSessionCache``, ``SharePartitionCache``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ... import errors
from .clock import Clock
from .configs import EARLIEST, GroupConfigs, reset_time_ms
from .consumer_members import Slot
from .share_deliveries import ShareStates
from .share_partition import SharePartition
from .topics import Partition

FINAL_EPOCH = -1
"""Epoch of a request that ends its session."""

INITIAL_EPOCH = 0
"""Epoch of a request that opens a session."""

_EPOCHS = 2**31 - 1

MemberKey = tuple[str, str]
"""Ids of a group and a member."""


def next_epoch(epoch: int) -> int:
    return epoch % _EPOCHS + 1


class ShareSession:
    """The session of one member: its partitions, in the order in which they are served."""

    __slots__ = ("connection", "epoch", "nameless", "partitions")

    def __init__(self, connection: int) -> None:
        # Epoch that the next request must have.
        self.epoch = 1
        # The value is True if the next response must include the partition even without changes.
        self.partitions: dict[Slot, bool] = {}
        # Partitions of topics that did not exist when they were added.
        self.nameless: set[Slot] = set()
        self.connection = connection

    def update(self, wanted: Iterable[Slot], forgotten: Iterable[Slot]) -> None:
        for slot in wanted:
            self.partitions.setdefault(slot, True)
        for slot in forgotten:
            self.partitions.pop(slot, None)
            self.nameless.discard(slot)

    def must_tell(self, slot: Slot, *, has_records: bool, has_error: bool) -> bool:
        """Return True if the response must include this partition, and note that it does.

        It must if there are records or an error, and once after it was added to the session or had an error.
        """
        told = self.partitions.get(slot)
        if told is None:
            return has_records or has_error
        if has_records:
            # Serve other partitions first next time.
            del self.partitions[slot]
        self.partitions[slot] = has_error
        return told or has_records or has_error


class ShareWorld(NamedTuple):
    """The state that the share groups of all brokers have in common. ``now_ms`` is wall-clock time."""

    clock: Clock
    now_ms: Callable[[], int]
    configs: GroupConfigs
    states: ShareStates
    max_sessions: int


class ShareBroker:
    """Holds the share sessions of one broker, and the delivery state of the partitions that it leads."""

    def __init__(self, node_id: int, world: ShareWorld) -> None:
        self.node_id = node_id
        self._world = world
        self.max_sessions = world.max_sessions
        self._sessions: dict[MemberKey, ShareSession] = {}
        # The member whose session was opened last on each connection.
        self._connections: dict[int, MemberKey] = {}
        self._partitions: dict[tuple[str, Slot], SharePartition] = {}

    # --- sessions ----------------------------------------------------------------------------------------------------

    def open(self, key: MemberKey, connection: int) -> ShareSession:
        """Open a session, which replaces any session of the member."""
        self._sessions.pop(key, None)
        if len(self._sessions) >= self.max_sessions:
            raise errors.ShareSessionLimitReachedError("The limit of share sessions has been reached.")
        session = self._sessions[key] = ShareSession(connection)
        self._connections[connection] = key
        return session

    def session(self, key: MemberKey) -> ShareSession:
        session = self._sessions.get(key)
        if session is None:
            raise errors.ShareSessionNotFoundError("The share session was not found.")
        return session

    def continued(self, key: MemberKey, epoch: int) -> ShareSession:
        """Return the session that a request continues, and advance its epoch. Raises an error for a wrong epoch."""
        session = self.session(key)
        if session.epoch != epoch:
            raise errors.InvalidShareSessionEpochError(f"The share session is at epoch {session.epoch}, not {epoch}.")
        session.epoch = next_epoch(session.epoch)
        return session

    def close(self, key: MemberKey) -> None:
        """End a session, and release the member's records."""
        session = self._sessions.pop(key, None)
        # A fetch that is waiting in this session may change the session when woken.
        for slot in [] if session is None else list(session.partitions):
            shares = self._partitions.get((key[0], slot))
            if shares is not None:
                shares.release(key[1])

    def connection_lost(self, connection: int) -> None:
        """End the session of a connection. The end of a group's last session removes the state of its partitions."""
        key = self._connections.pop(connection, None)
        if key is None:
            return
        session = self._sessions.get(key)
        if session is not None and session.connection == connection:
            self.close(key)
        group_id = key[0]
        if not any(known == group_id for known, _ in self._sessions):
            for place in [place for place in self._partitions if place[0] == group_id]:
                self._partitions.pop(place).fence()

    def clear(self) -> None:
        """Forget all sessions and states, like a restarting broker."""
        self._sessions.clear()
        self._connections.clear()
        for shares in self._partitions.values():
            shares.fence()
        self._partitions.clear()

    # --- partitions --------------------------------------------------------------------------------------------------

    def loaded(self, group_id: str, partition: Partition) -> SharePartition | None:
        """Return the valid state of a partition, or None if this broker has none."""
        slot = partition.topic.topic_id, partition.index
        shares = self._partitions.get((group_id, slot))
        if shares is not None and not self._counts(group_id, slot, shares):
            shares.fence()
            del self._partitions[group_id, slot]
            return None
        return shares

    def _counts(self, group_id: str, slot: Slot, shares: SharePartition) -> bool:
        partition = shares.partition
        return (
            not shares.fenced
            and not partition.topic.deleted
            and partition.leader_epoch == shares.leader_epoch
            and partition.leads(self.node_id, self._world.clock.now())
            and self._world.states.get(group_id, slot) is shares.saved
        )

    def load(self, group_id: str, partition: Partition) -> SharePartition:
        """Return the delivery state of a partition, and load it if this broker does not have it.

        Raises NotLeaderOrFollowerError, or UnknownServerError if the partition was never assigned to a member of the
        group.
        """
        shares = self.loaded(group_id, partition)
        if shares is not None:
            return shares
        world = self._world
        if not partition.leads(self.node_id, world.clock.now()):
            raise errors.NotLeaderOrFollowerError(
                f"broker {self.node_id} does not lead {partition.topic.name}-{partition.index}"
            )
        slot = partition.topic.topic_id, partition.index
        saved = world.states.get(group_id, slot)
        if saved is None:
            raise errors.UnknownServerError("The share partition has not been initialized.")
        shares = self._partitions[group_id, slot] = SharePartition(
            partition,
            world.clock,
            saved,
            lambda: world.configs.share(group_id),
            lambda: self._first_offset(group_id, partition),
        )
        return shares

    def _first_offset(self, group_id: str, partition: Partition) -> int:
        """Return the start offset according to the reset policy of the group."""
        reset = self._world.configs.share(group_id).reset
        time_ms = reset_time_ms(reset, self._world.now_ms())
        if time_ms is None:
            return partition.log.start_offset if reset == EARLIEST else partition.log.end_offset
        found = partition.log.at_time(time_ms).offset
        if found < 0:
            raise errors.OffsetNotAvailableError(
                f"{partition.topic.name}-{partition.index} has no record at or after that time"
            )
        return found

    def of_group(self, group_id: str) -> list[SharePartition]:
        """Return the partitions of a group whose state is valid at this broker."""
        return [
            shares
            for (known, slot), shares in self._partitions.items()
            if known == group_id and self._counts(group_id, slot, shares)
        ]
