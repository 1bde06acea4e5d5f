"""Leader hints in answers to merged fetches: read once, and removed from the consumers' parts."""

from __future__ import annotations

from uuid import UUID

import pytest

from aiokafka_lead._core.consumer.fetch_session import SessionRequest
from aiokafka_lead._core.consumer.merged_ask import MergedRequest, take_hints
from aiokafka_lead._core.consumer.position import PartitionFetch
from aiokafka_lead._wire.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from aiokafka_lead.errors import NotLeaderOrFollowerError
from aiokafka_lead.types import TopicPartition

TOPIC, OTHER = UUID(int=1), UUID(int=2)
REFUSED = NotLeaderOrFollowerError.code


def sent(version: int = 17) -> MergedRequest:
    """Return a request for partitions 0 and 1 of "t"."""
    asked = {TopicPartition("t", number): PartitionFetch(TOPIC, 0, 0, 3) for number in range(2)}
    request = SessionRequest(7, 1, asked, [])
    return MergedRequest(False, version, request, asked, {TOPIC: "t", OTHER: "other"}, 1000, 0.0)


def answer(*refused: tuple[UUID, int]) -> FetchResponse:
    """Return an answer that names broker 5 as their leader since epoch 4."""
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic_id=topic_id,
                partitions=[
                    PartitionData(
                        partition_index=partition,
                        error_code=REFUSED,
                        current_leader=LeaderIdAndEpoch(leader_id=5, leader_epoch=4),
                    )
                ],
            )
            for topic_id, partition in refused
        ],
        node_endpoints=[NodeEndpoint(node_id=5, host="new", port=9092)],
    )


def test_hints_are_read_for_the_incarnation_that_was_asked_for_and_once() -> None:
    response = answer((TOPIC, 0), (TOPIC, 1))
    hints = take_hints(sent(), response)
    assert [(hint.topic, hint.topic_id, hint.partition, hint.leader_id, hint.leader_epoch) for hint in hints] == [
        ("t", TOPIC, 0, 5, 4),
        ("t", TOPIC, 1, 5, 4),
    ]
    assert take_hints(sent(), response) == []
    assert [topic.partitions[0].error_code for topic in response.responses] == [REFUSED] * 2


@pytest.mark.parametrize("refused", [(OTHER, 0), (TOPIC, 2)])
def test_what_was_not_asked_for_gives_no_hint(refused: tuple[UUID, int]) -> None:
    assert take_hints(sent(), answer(refused)) == []


def test_versions_without_endpoints_give_no_hint() -> None:
    assert take_hints(sent(version=15), answer((TOPIC, 0))) == []
