"""Incremental fetch sessions (KIP-227; Java: ``FetchSession``, ``FetchSessionCache``)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from uuid import UUID

from ...errors import FetchSessionIdNotFoundError, FetchSessionTopicIdError, InvalidFetchSessionEpochError
from .topics import Partition

FINAL_EPOCH = -1
"""Epoch of a request that closes its session or uses none."""

INITIAL_EPOCH = 0
"""Epoch of a request that opens a new session."""

_EPOCHS = 2**31 - 1

PartitionKey = tuple[str | UUID, int]
"""Key of a partition in a request: the topic's name, or its id from Fetch 13 on, and the partition's number."""


class SessionPartition:
    """A partition in a fetch request or in a session, with the request and the last response."""

    __slots__ = (
        "fetch_offset",
        "last_fetched_epoch",
        "leader_epoch",
        "max_bytes",
        "partition",
        "session",
        "target",
        "told_high_watermark",
        "told_start_offset",
        "topic",
        "watched",
    )

    def __init__(
        self,
        topic: str | UUID,
        partition: int,
        fetch_offset: int,
        max_bytes: int,
        leader_epoch: int,
        last_fetched_epoch: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        # The leader epoch that the client knows, and the epoch of its last record. -1 means none.
        self.leader_epoch = leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        # The partition itself, once found.
        self.target: Partition | None = None
        # The session of this partition, and the partition that notifies the session of changes.
        self.session: FetchSession | None = None
        self.watched: Partition | None = None
        # High watermark and log start of the last response. -1 means none.
        self.told_high_watermark = -1
        self.told_start_offset = -1

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.partition

    def watch(self) -> None:
        """Let the partition's changes notify the session from now on."""
        if self.watched is not self.target and self.session is not None:
            self.unwatch()
            self.watched = self.target
            if self.watched is not None:
                self.watched.watchers[self._news] = None

    def unwatch(self) -> None:
        if self.watched is not None:
            self.watched.watchers.pop(self._news, None)
            self.watched = None

    def _news(self, appended_bytes: int) -> None:
        if self.session is not None:
            self.session.stir(self, appended_bytes)

    def is_quiet(self, node_id: int, *, committed_only: bool) -> bool:
        """Return True if the leader certainly has neither records nor changes to report for this partition.

        Most partitions of a large session are quiet most of the time and need no closer examination.
        """
        target = self.target
        if target is None or target.topic.deleted or target.leader_id != node_id or target.resignation is not None:
            return False
        log = target.log
        return (
            self.leader_epoch in (-1, target.leader_epoch)
            and self.last_fetched_epoch in (-1, log.epochs[-1][0])
            and (log.last_stable_offset if committed_only else log.end_offset) <= self.fetch_offset <= log.end_offset
            and self.told_high_watermark == log.end_offset
            and self.told_start_offset == log.start_offset
        )

    def is_news(self, error_code: int, high_watermark: int, start_offset: int) -> bool:
        """Return True if a response without records has new information, and remember that it was sent.

        After an error, the partition's next response is always sent, to report the end of the error.
        """
        changed = (
            error_code != 0 or high_watermark != self.told_high_watermark or start_offset != self.told_start_offset
        )
        self.told_high_watermark = -1 if error_code else high_watermark
        self.told_start_offset = start_offset
        return changed


WHOLE_LOOK_EVERY_S = 0.5


class FetchSession:
    """A consumer's fetch session at a broker.

    A fetch examines the partitions that have changed, and all partitions twice a second.
    """

    __slots__ = ("epoch", "loud", "partitions", "session_id", "used_at", "uses_topic_ids", "waiting", "whole_look_at")

    def __init__(self, session_id: int, *, uses_topic_ids: bool, now: float) -> None:
        self.session_id = session_id
        # Epoch that the next request must have.
        self.epoch = 1
        # In the order in which they are served. A partition that has sent records moves to the end.
        self.partitions: dict[PartitionKey, SessionPartition] = {}
        self.uses_topic_ids = uses_topic_ids
        self.used_at = now
        # Partitions that may not be quiet.
        self.loud: dict[PartitionKey, SessionPartition] = {}
        # Time of the next examination of all partitions.
        self.whole_look_at = now
        # Called when partitions change while a fetch of this session is waiting.
        self.waiting: Callable[[int], None] | None = None

    def to_look_at(self, now: float) -> list[SessionPartition]:
        """Return the partitions that a fetch has to examine now: the changed ones, or sometimes all."""
        if now < self.whole_look_at:
            return list(self.loud.values())
        self.whole_look_at = now + WHOLE_LOOK_EVERY_S
        return list(self.partitions.values())

    def stir(self, partition: SessionPartition, appended_bytes: int) -> None:
        """Note that the partition has changed, so that the next fetch examines it."""
        self.loud[partition.key] = partition
        if self.waiting is not None:
            self.waiting(appended_bytes)

    def release(self) -> None:
        """Stop watching partitions, because the session has ended."""
        for partition in self.partitions.values():
            partition.unwatch()
            partition.session = None

    def update(self, wanted: Iterable[SessionPartition], forgotten: Iterable[PartitionKey]) -> None:
        """Apply the added, changed and removed partitions of an incremental request to the session."""
        for partition in wanted:
            known = self.partitions.get(partition.key)
            if known is None:
                self.partitions[partition.key] = self.loud[partition.key] = partition
                partition.session = self
            else:
                self.loud[partition.key] = known
                known.fetch_offset = partition.fetch_offset
                known.max_bytes = partition.max_bytes
                known.leader_epoch = partition.leader_epoch
                known.last_fetched_epoch = partition.last_fetched_epoch
        for key in forgotten:
            self.loud.pop(key, None)
            gone = self.partitions.pop(key, None)
            if gone is not None:
                gone.unwatch()
                gone.session = None

    def move_to_end(self, partition: SessionPartition) -> None:
        """Move a partition whose records were sent to the end, so that other partitions come first next time."""
        for partitions in (self.partitions, self.loud):
            if partitions.pop(partition.key, None) is not None:
                partitions[partition.key] = partition


class FetchSessions:
    """Holds the fetch sessions of a broker.

    If there are more than ``slots`` sessions, the longest-idle session is evicted.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._sessions: dict[int, FetchSession] = {}
        self._random = random.Random()

    def __len__(self) -> int:
        return len(self._sessions)

    def clear(self) -> None:
        """Forget all sessions, as a broker does when it restarts."""
        for session_id in list(self._sessions):
            self.close(session_id)

    def create(self, *, uses_topic_ids: bool, now: float) -> FetchSession | None:
        """Return a new session with an unpredictable id, or None if there is no free slot."""
        if self.slots <= 0:
            return None
        if len(self._sessions) >= self.slots:
            oldest = min(self._sessions.values(), key=lambda session: session.used_at)
            self.close(oldest.session_id)
        session_id = self._random.randrange(1, 2**31)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, 2**31)
        session = self._sessions[session_id] = FetchSession(session_id, uses_topic_ids=uses_topic_ids, now=now)
        return session

    def continued(self, session_id: int, epoch: int, *, uses_topic_ids: bool, now: float) -> FetchSession:
        """Return the session of an incremental request, and advance its epoch.

        Raises the error of the response if the session or the epoch is unknown.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise FetchSessionIdNotFoundError(f"there is no fetch session {session_id}")
        if session.epoch != epoch:
            raise InvalidFetchSessionEpochError(f"fetch session {session_id} is at epoch {session.epoch}, not {epoch}")
        if session.uses_topic_ids != uses_topic_ids:
            raise FetchSessionTopicIdError(f"fetch session {session_id} must not mix topic names and topic ids")
        session.epoch = session.epoch % _EPOCHS + 1
        session.used_at = now
        return session

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.release()
