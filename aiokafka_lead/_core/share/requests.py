"""Requests of share groups: ShareFetch and ShareAcknowledge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from ..._values import NamedTuple
from ..._wire.messages import share_acknowledge, share_fetch
from ..._wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from ..._wire.messages.share_fetch import FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest
from .acquired import RENEW, AckBatch
from .session import SessionChange, SharedPartition

FIRST_VERSION_WITH_RENEWALS = 2
"""First version of both with renewals (KIP-1222) and the acquire mode (KIP-1206): Apache Kafka 4.2."""

Acks = Mapping[SharedPartition, Sequence[AckBatch]]


class FetchLimits(NamedTuple):
    """Limits of a ShareFetch."""

    max_records: int
    """Maximum number of records in the answer; also the number that the broker tracks as one batch."""
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    strict: bool
    """Never exceed ``max_records``, even if the broker has to split a batch for that (KIP-1206: record_limit)."""


def fetch_request(
    group_id: str, member_id: str, change: SessionChange, acks: Acks, limits: FetchLimits, version: int
) -> ShareFetchRequest:
    """Return the next fetch of a session, with the acknowledgements it carries."""
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
    """Return a request with acknowledgements only; with epoch -1 it ends the session."""
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
