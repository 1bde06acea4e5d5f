"""Fetch requests and incremental fetch sessions (KIP-227).

In a session, the broker remembers a consumer's partitions. The first request names all partitions, and later requests
name those that have changed. The session epoch numbers the requests, so that both sides notice a lost one. Epoch 0
requests a new session, which replaces the session whose id is sent with it. Epoch -1 requests no session, and closes
the session whose id is sent with it. If a broker returns session id 0, it has granted no session, and every request is
full until it grants one.

  request sent        response                       next request
  ------------------  -----------------------------  ---------------------------------------
  any                 session error, lost, garbled   full, epoch 0, with the id (not if the id was not found)
  epoch 0             no error, an id                incremental, epoch 1
  epoch n > 0         no error, the same id          incremental, epoch n + 1 (after 2**31 - 1 comes 1)
  any                 no error, id 0                 full, epoch 0, no id
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from ..._values import NamedTuple
from ..._wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ...errors import FetchSessionIdNotFoundError, FetchSessionTopicIdError, InvalidFetchSessionEpochError
from ...types import TopicPartition
from ..metadata.types import NO_TOPIC_ID
from .position import PartitionFetch

NO_SESSION = 0
"""Session id of requests and responses outside a session."""

FIRST_VERSION_WITH_TOPIC_IDS = 13

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1

FETCH_SESSION_ID_NOT_FOUND = FetchSessionIdNotFoundError.code

SESSION_ERRORS = frozenset(
    error.code for error in (FetchSessionIdNotFoundError, FetchSessionTopicIdError, InvalidFetchSessionEpochError)
)
"""Error codes of whole responses after which a session starts again with all partitions."""


def names_by_id(fetches: Mapping[TopicPartition, PartitionFetch], version: int) -> bool:
    """Return True if a request of this version can identify its topics by id.

    All of them must have an id.
    """
    return version >= FIRST_VERSION_WITH_TOPIC_IDS and all(fetch.topic_id != NO_TOPIC_ID for fetch in fetches.values())


def version_to_send(version: int, by_topic_id: bool) -> int:
    """Return the Fetch version to use: ``version``, or the last version with topic names.

    ``by_topic_id`` is True if every topic of the request has a known id.
    """
    return version if by_topic_id else min(version, FIRST_VERSION_WITH_TOPIC_IDS - 1)


class TopicUse(NamedTuple):
    """A partition that a session no longer needs, and the id that its topic had when the partition was requested."""

    topic_id: UUID
    tp: TopicPartition


class SessionRequest(NamedTuple):
    """The part of a Fetch request that concerns the session: its id and epoch, and the changed partitions."""

    session_id: int
    epoch: int
    send: Mapping[TopicPartition, PartitionFetch]
    """All partitions if the epoch is 0 or -1. Otherwise, the partitions that are new or have changed."""
    forget: list[TopicUse]

    @property
    def sessionless(self) -> bool:
        """True if the request is sent outside the session, which continues unchanged."""
        return self.epoch == FINAL_EPOCH

    @classmethod
    def beside(cls, partitions: Mapping[TopicPartition, PartitionFetch]) -> SessionRequest:
        """Return a request for these partitions that is sent outside the session."""
        return cls(NO_SESSION, FINAL_EPOCH, partitions, [])


class FetchSession:
    """Tracks the consumer's side of the session with one broker. At most one request is in flight."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        """The epoch of the next request."""
        self.known: dict[TopicPartition, PartitionFetch] = {}
        """Partitions that the broker's session contains once it has received the pending request."""
        self.by_topic_id = True
        """True if the session's requests identify topics by id (from Fetch 13 on)."""
        self.resets = 0
        """Number of times that the broker had lost the session."""

    @property
    def is_full(self) -> bool:
        """True if the next request must list all partitions."""
        return self.epoch == INITIAL_EPOCH

    def full(self, partitions: Mapping[TopicPartition, PartitionFetch], by_topic_id: bool) -> SessionRequest:
        """Return a request that opens a session with these partitions. The state of the old session is discarded."""
        self.epoch = INITIAL_EPOCH
        self.by_topic_id = by_topic_id
        self.known = dict(partitions)
        return SessionRequest(self.session_id, INITIAL_EPOCH, partitions, [])

    def incremental(
        self, changed: Mapping[TopicPartition, PartitionFetch], dropped: Iterable[TopicPartition]
    ) -> SessionRequest:
        """Return a request that adds or changes some of the session's partitions, and removes others."""
        send: dict[TopicPartition, PartitionFetch] = {}
        forget: list[TopicUse] = []
        known = self.known
        for tp in dropped:
            before = known.pop(tp, None)
            if before is not None:
                forget.append(TopicUse(before.topic_id, tp))
        for tp, now in changed.items():
            before = known.get(tp)
            if before == now:
                continue
            if before is not None and self.by_topic_id and before.topic_id != now.topic_id:
                # The topic was deleted and recreated. For the broker, these are two different partitions.
                forget.append(TopicUse(before.topic_id, tp))
            send[tp] = known[tp] = now
        return SessionRequest(self.session_id, self.epoch, send, forget)

    def begins_anew(self, by_topic_id: bool) -> bool:
        """Return True if the request needs a new session, because this one identifies topics in the other way.

        A session identifies topics either by id or by name (KIP-516).
        """
        return not self.is_full and by_topic_id != self.by_topic_id

    def close(self) -> SessionRequest | None:
        """Return a request that closes the session, or None if there is no session."""
        if self.session_id == NO_SESSION:
            return None
        request = SessionRequest(self.session_id, FINAL_EPOCH, {}, [])
        self._begin_anew(NO_SESSION)
        return request

    def answered(self, error_code: int, session_id: int) -> bool:
        """Process the error code and session id of a response. Return True if its partitions are usable."""
        if error_code:
            self.resets += 1
            self._begin_anew(NO_SESSION if error_code == FETCH_SESSION_ID_NOT_FOUND else self.session_id)
            return False
        if session_id == NO_SESSION:
            self._begin_anew(NO_SESSION)
        elif self.epoch == INITIAL_EPOCH:
            self.session_id = session_id
            self.epoch = 1
        elif session_id == self.session_id:
            self.epoch = self.epoch + 1 if self.epoch < _MAX_EPOCH else 1
        else:
            self.resets += 1
            self._begin_anew(self.session_id)
        return True

    def failed(self) -> None:
        """Handle a missing or invalid response: the next request is full.

        It is unknown whether the broker has received the request.
        """
        self._begin_anew(self.session_id)

    def _begin_anew(self, session_id: int) -> None:
        self.session_id = session_id
        self.epoch = INITIAL_EPOCH
        self.known = {}

    def __repr__(self) -> str:
        return f"<FetchSession id={self.session_id} epoch={self.epoch} partitions={len(self.known)}>"


class MergedSession(FetchSession):
    """A consumer's session with the merger of several consumers' fetches (see `merged_fetch`).

    The merger loses no partition, so no request is full and no response has to list every partition.
    """

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 1

    @property
    def is_full(self) -> bool:
        return False

    def begins_anew(self, by_topic_id: bool) -> bool:
        return False

    def close(self) -> None:
        return None

    def answered(self, error_code: int, session_id: int) -> bool:
        return not error_code

    def failed(self) -> None:
        """Do nothing, because the merger loses no state."""


FIRST_VERSION_WITH_DIVERGING_EPOCH = 12
"""First Fetch version in which the broker compares the epoch of the last fetched record with its log (KIP-595)."""


SHORTEST_BESIDE_MS = 10


class FetchOptions(NamedTuple):
    """The settings that every request contains. The fields have the names of the options."""

    fetch_max_wait_ms: int
    fetch_min_bytes: int
    max_partition_fetch_bytes: int
    read_committed: bool
    client_rack: str | None

    def without_rack(self) -> FetchOptions:
        """Return the same settings without a rack, so that the leader names no follower."""
        return self._replace(client_rack=None)


def wait_beside_ms(fetch_max_wait_ms: int) -> int:
    """Return the milliseconds for which a broker may hold a request beside its session.

    This time is short because the next partition that becomes fetchable must wait until this request or the session's
    request has ended. The session's next request includes all of these partitions anyway.
    """
    return min(fetch_max_wait_ms, max(SHORTEST_BESIDE_MS, fetch_max_wait_ms // 12))


def fetch_request(session: SessionRequest, options: FetchOptions, max_bytes: int, version: int) -> FetchRequest:
    """Return the next Fetch request of a session.

    Topics are given with name and id. The version determines which of the two is encoded.
    """
    tells_epoch = version >= FIRST_VERSION_WITH_DIVERGING_EPOCH
    topics: dict[tuple[str, object], FetchTopic] = {}
    for tp, fetch in session.send.items():
        key = (tp.topic, fetch.topic_id)
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = FetchTopic(topic=tp.topic, topic_id=fetch.topic_id)
        topic.partitions.append(
            FetchPartition(
                partition=tp.partition,
                current_leader_epoch=fetch.leader_epoch,
                fetch_offset=fetch.fetch_offset,
                last_fetched_epoch=fetch.last_fetched_epoch if tells_epoch else -1,
                partition_max_bytes=options.max_partition_fetch_bytes,
            )
        )
    return FetchRequest(
        max_wait_ms=options.fetch_max_wait_ms,
        min_bytes=options.fetch_min_bytes,
        max_bytes=max_bytes,
        isolation_level=int(options.read_committed),
        session_id=session.session_id,
        session_epoch=session.epoch,
        topics=list(topics.values()),
        forgotten_topics_data=list(_forgotten(session)),
        rack_id=options.client_rack or "",
    )


def _forgotten(session: SessionRequest) -> Iterable[ForgottenTopic]:
    topics: dict[tuple[str, object], ForgottenTopic] = {}
    for topic_id, (name, partition) in session.forget:
        topic = topics.get((name, topic_id))
        if topic is None:
            topic = topics[name, topic_id] = ForgottenTopic(topic=name, topic_id=topic_id)
        topic.partitions.append(partition)
    return topics.values()
