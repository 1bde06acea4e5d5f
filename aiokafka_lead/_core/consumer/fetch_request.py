"""Fetch requests on the wire."""

from __future__ import annotations

from collections.abc import Iterable

from ..._values import NamedTuple
from ..._wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from .fetch_session import SessionRequest

FIRST_VERSION_WITH_DIVERGING_EPOCH = 12
"""From this version on, the broker compares the epoch of the last fetched record with its log (KIP-595)."""


SHORTEST_BESIDE_MS = 10


class FetchOptions(NamedTuple):
    """Settings of every request, from the options of these names."""

    fetch_max_wait_ms: int
    fetch_min_bytes: int
    max_partition_fetch_bytes: int
    read_committed: bool
    client_rack: str | None

    def without_rack(self) -> FetchOptions:
        """Return the same for a client without a rack."""
        return self._replace(client_rack=None)


def wait_beside_ms(fetch_max_wait_ms: int) -> int:
    """Return the longest time that a broker may hold a request beside its session.

    It is short, because the next partition that becomes fetchable there has no third way to go; all of them join the
    session when its own request has been answered.
    """
    return min(fetch_max_wait_ms, max(SHORTEST_BESIDE_MS, fetch_max_wait_ms // 12))


def fetch_request(session: SessionRequest, options: FetchOptions, max_bytes: int, version: int) -> FetchRequest:
    """Return the request for a session's next step, with names and ids of topics, of which the version encodes one."""
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
