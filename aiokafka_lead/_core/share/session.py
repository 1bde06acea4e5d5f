"""Share sessions, in which a broker remembers a member's partitions (KIP-932; Java: ``ShareSessionHandler``).

Both ShareFetch and ShareAcknowledge contain the session epoch, which increases by 1 with each request. Only one request
can therefore be in flight. A session begins with a ShareFetch of epoch 0, which cannot contain acknowledgements, and
ends with a ShareAcknowledge of epoch -1. Unlike a fetch session, a share session belongs to a connection. When the
connection closes, the broker drops the session and releases the records acquired in it.

  request sent        response                       next request
  ------------------  -----------------------------  -----------------------------------------
  epoch n             no error                       epoch n + 1 (1 after 2**31 - 1)
  epoch n             a session error                epoch 0; acquired records stay acquired
  epoch n             another error                  epoch n + 1
  any                 the connection was lost        epoch 0; all acquired records are lost
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from ..._values import NamedTuple
from ..._wire.messages import share_acknowledge, share_fetch
from ..._wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from ..._wire.messages.share_fetch import FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest
from ...errors import InvalidShareSessionEpochError, ShareSessionLimitReachedError, ShareSessionNotFoundError
from .acquired import RENEW, AckBatch

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1

SESSION_ERRORS = frozenset(
    (ShareSessionNotFoundError.code, InvalidShareSessionEpochError.code, ShareSessionLimitReachedError.code)
)
"""Errors after which a new session must be opened."""


class SharedPartition(NamedTuple):
    """A partition, identified by topic id and number as in share sessions."""

    topic_id: UUID
    partition: int


class SessionChange(NamedTuple):
    """The part of a ShareFetch that changes the session: partitions to add and to remove."""

    epoch: int
    add: list[SharedPartition]
    forget: list[SharedPartition]


class ShareSession:
    """Tracks the member's side of the share session with one broker."""

    def __init__(self) -> None:
        self.epoch = INITIAL_EPOCH
        """Epoch of the next request."""
        self.known: set[SharedPartition] = set()
        """The partitions in the broker's session once it has received the request in flight."""

    @property
    def is_open(self) -> bool:
        """True if the broker has the session, so that acknowledgements may be sent."""
        return self.epoch != INITIAL_EPOCH

    def fetch(self, wanted: Iterable[SharedPartition], named: Iterable[SharedPartition] = ()) -> SessionChange:
        """Return the change for a ShareFetch that reads the partitions in ``wanted``.

        ``named`` contains the partitions whose acknowledgements it carries. A broker adds every partition that a
        request names to the session.
        """
        wanted = list(wanted)
        if not self.is_open:
            self.known = set(wanted)
            return SessionChange(INITIAL_EPOCH, wanted, [])
        keep = set(wanted)
        add = [partition for partition in wanted if partition not in self.known]
        forget = sorted((self.known | set(named)) - keep, key=lambda entry: (entry.topic_id.int, entry.partition))
        self.known = keep
        return SessionChange(self.epoch, add, forget)

    def answered(self, error_code: int) -> bool:
        """Process the error code of a response. Return True if the session continues, with its next epoch."""
        if error_code in SESSION_ERRORS:
            self.begin_anew()
            return False
        self.epoch = self.epoch + 1 if self.epoch < _MAX_EPOCH else 1
        return True

    def begin_anew(self) -> None:
        """Forget the session, so that the next request opens one. The broker has none, or a different one."""
        self.epoch = INITIAL_EPOCH
        self.known = set()

    def __repr__(self) -> str:
        return f"<ShareSession epoch={self.epoch} partitions={len(self.known)}>"


FIRST_VERSION_WITH_RENEWALS = 2
"""First version of both requests with renewals (KIP-1222) and the acquire mode (KIP-1206): Apache Kafka 4.2."""

Acks = Mapping[SharedPartition, Sequence[AckBatch]]


class FetchLimits(NamedTuple):
    """The limits in a ShareFetch request: records, bytes, and the time for which the broker may hold it."""

    max_records: int
    """Maximum number of records in the response. It is also the maximum number that the broker tracks as one batch."""
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    strict: bool
    """If True, the broker never exceeds ``max_records``, even if it has to split a batch (KIP-1206: record_limit)."""


def fetch_request(
    group_id: str, member_id: str, change: SessionChange, acks: Acks, limits: FetchLimits, version: int
) -> ShareFetchRequest:
    """Return the next ShareFetch of a session. It also carries the acknowledgements ``acks``."""
    topics: dict[UUID, FetchTopic] = {}
    added = set(change.add)
    for entry in sorted(added | acks.keys(), key=lambda each: (each.topic_id.int, each.partition)):
        topic = topics.setdefault(entry.topic_id, FetchTopic(topic_id=entry.topic_id))
        batches = [
            share_fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in acks.get(entry, ())
        ]
        topic.partitions.append(FetchPartition(partition_index=entry.partition, acknowledgement_batches=batches))
    request = ShareFetchRequest(
        group_id=group_id,
        member_id=member_id,
        share_session_epoch=change.epoch,
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        max_records=limits.max_records,
        batch_size=limits.max_records,
        topics=list(topics.values()),
        forgotten_topics_data=_forgotten(change.forget),
    )
    if version >= FIRST_VERSION_WITH_RENEWALS:
        request.share_acquire_mode = int(limits.strict)
    return request


def acknowledge_request(group_id: str, member_id: str, epoch: int, acks: Acks, version: int) -> ShareAcknowledgeRequest:
    """Return a ShareAcknowledge request. With epoch -1, it closes the session."""
    topics: dict[UUID, AcknowledgeTopic] = {}
    for entry in sorted(acks, key=lambda each: (each.topic_id.int, each.partition)):
        topic = topics.setdefault(entry.topic_id, AcknowledgeTopic(topic_id=entry.topic_id))
        batches = [
            share_acknowledge.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in acks[entry]
        ]
        topic.partitions.append(AcknowledgePartition(partition_index=entry.partition, acknowledgement_batches=batches))
    request = ShareAcknowledgeRequest(
        group_id=group_id, member_id=member_id, share_session_epoch=epoch, topics=list(topics.values())
    )
    if version >= FIRST_VERSION_WITH_RENEWALS:
        request.is_renew_ack = any(RENEW in batch.types for batches in acks.values() for batch in batches)
    return request


def _forgotten(partitions: Iterable[SharedPartition]) -> list[ForgottenTopic]:
    topics: dict[UUID, ForgottenTopic] = {}
    for topic_id, partition in partitions:
        topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id)).partitions.append(partition)
    return list(topics.values())
