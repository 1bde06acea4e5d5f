"""Leader hints from the answers to Produce and Fetch (KIP-951)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from .metadata_types import NO_TOPIC_ID, Broker, LeaderHint

if TYPE_CHECKING:
    from .._wire.messages.fetch import FetchResponse
    from .._wire.messages.produce import ProduceResponse

HINT_ERRORS = frozenset({6, 74})
"""NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH: the only errors that carry a leader."""

PRODUCE_HINTS_FROM = 10
FETCH_HINTS_FROM = 16
"""The versions whose answers carry hints; Fetch has had the leader since 12, but without its address."""


class _NodeEndpoint(Protocol):
    node_id: int
    host: str
    port: int
    rack: str | None


def produce_hints(response: ProduceResponse, version: int, topic_ids: Mapping[str, UUID]) -> list[LeaderHint]:
    """The hints of an answer to Produce at ``version``, in its order; one for each partition that moved.

    ``topic_ids`` are the topics of the request, with the ids that they had when it was sent.
    """
    if version < PRODUCE_HINTS_FROM:
        return []
    endpoints = _endpoints(response.node_endpoints)
    names = {topic_id: name for name, topic_id in topic_ids.items()}
    hints = []
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for entry in topic.partition_responses:
            if entry.error_code in HINT_ERRORS:
                leader = entry.current_leader
                hints.append(
                    LeaderHint(
                        name,
                        topic_ids.get(name, NO_TOPIC_ID),
                        entry.index,
                        leader.leader_id,
                        leader.leader_epoch,
                        endpoints.get(leader.leader_id),
                        entry.error_code,
                    )
                )
    return hints


def fetch_hints(response: FetchResponse, version: int, topic_names: Mapping[UUID, str]) -> list[LeaderHint]:
    """The hints of an answer to Fetch at ``version``, in its order; one for each partition that moved.

    ``topic_names`` are the topics of the fetch session by the ids that were asked for.
    """
    if version < FETCH_HINTS_FROM:
        return []
    endpoints = _endpoints(response.node_endpoints)
    hints = []
    for topic in response.responses:
        for entry in topic.partitions:
            if entry.error_code in HINT_ERRORS:
                leader = entry.current_leader
                hints.append(
                    LeaderHint(
                        topic_names.get(topic.topic_id, ""),
                        topic.topic_id,
                        entry.partition_index,
                        leader.leader_id,
                        leader.leader_epoch,
                        endpoints.get(leader.leader_id),
                        entry.error_code,
                    )
                )
    return hints


def _endpoints(entries: Sequence[_NodeEndpoint]) -> dict[int, Broker]:
    return {entry.node_id: Broker(entry.node_id, entry.host, entry.port, entry.rack) for entry in entries}
