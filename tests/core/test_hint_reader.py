"""Leader hints in answers, read alike from Produce and Fetch (rules 1, 3 and 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

import pytest

from aiokafka_lead._core.metadata.types import Broker, LeaderHint
from aiokafka_lead._core.producer.produce import SentBatches, read_hints
from aiokafka_lead._wire.messages import produce
from aiokafka_lead.errors import FencedLeaderEpochError, NotLeaderOrFollowerError

from .fetch_world import ID, T0, T1, World, data, response

Row = tuple[int, tuple[int, int]]
"""Error code of a partition, with the leader and epoch in its answer."""

Read = Callable[[int, Sequence[Row], Sequence[int]], list[LeaderHint]]
"""Arguments: the version of the API, the partitions, and the node ids of ``NodeEndpoints``."""

NOT_LEADER = NotLeaderOrFollowerError.code
FENCED = FencedLeaderEpochError.code


def from_produce(version: int, rows: Sequence[Row], endpoints: Sequence[int]) -> list[LeaderHint]:
    by_id = version >= 13
    answer = produce.ProduceResponse(
        responses=[
            produce.TopicProduceResponse(
                name="" if by_id else "t",
                topic_id=ID if by_id else UUID(int=0),
                partition_responses=[
                    produce.PartitionProduceResponse(
                        index=index,
                        error_code=code,
                        current_leader=produce.LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1]),
                    )
                    for index, (code, leader) in enumerate(rows)
                ],
            )
        ],
        node_endpoints=[produce.NodeEndpoint(node_id=n, host=f"host{n}", port=9092) for n in endpoints],
    )
    return read_hints(SentBatches(1, "1 (h:9092)", version, [], {"t": ID}, {}), answer)


def from_fetch(version: int, rows: Sequence[Row], endpoints: Sequence[int]) -> list[LeaderHint]:
    world = World(T0, T1, version=version)
    found = [data(index, error=code, leader=leader) for index, (code, leader) in enumerate(rows)]
    return world.answer(world.plan_one(), response(*found, endpoints=endpoints)).hints


READERS = [pytest.param(from_produce, 13, id="produce"), pytest.param(from_fetch, 17, id="fetch")]


@pytest.mark.parametrize(("read", "version"), READERS)
def test_rule_1_a_hint_comes_with_either_of_two_errors(read: Read, version: int) -> None:
    assert read(version, [(NOT_LEADER, (2, 4)), (FENCED, (3, 5))], [2, 3]) == [
        LeaderHint("t", ID, 0, 2, 4, Broker(2, "host2", 9092), NOT_LEADER),
        LeaderHint("t", ID, 1, 3, 5, Broker(3, "host3", 9092), FENCED),
    ]


@pytest.mark.parametrize("code", [3, 5, 7, 75, 76, 100])
@pytest.mark.parametrize(("read", "version"), READERS)
def test_rule_1_and_with_no_other(read: Read, version: int, code: int) -> None:
    assert read(version, [(code, (2, 4)), (NOT_LEADER, (-1, -1))], [2]) == []


@pytest.mark.parametrize("leader", [(2, -1), (-1, 4)])
@pytest.mark.parametrize(("read", "version"), READERS)
def test_rule_1_half_a_hint_is_handed_on_to_be_counted(read: Read, version: int, leader: tuple[int, int]) -> None:
    (hint,) = read(version, [(NOT_LEADER, leader)], [])
    assert (hint.leader_id, hint.leader_epoch) == leader


@pytest.mark.parametrize(
    ("read", "version", "tells"),
    [(from_produce, 9, False), (from_produce, 10, True), (from_fetch, 15, False), (from_fetch, 16, True)],
)
def test_rule_1_older_versions_have_no_hints(read: Read, version: int, tells: bool) -> None:
    assert bool(read(version, [(NOT_LEADER, (2, 4))], [2])) is tells


@pytest.mark.parametrize(("read", "version"), READERS)
def test_rule_3_a_leader_whose_address_the_answer_lacks(read: Read, version: int) -> None:
    (hint,) = read(version, [(NOT_LEADER, (2, 4))], [3])
    assert hint.endpoint is None


def test_rule_5_a_topic_that_was_not_asked_for_has_no_name() -> None:
    answer = produce.ProduceResponse(
        responses=[
            produce.TopicProduceResponse(
                topic_id=UUID(int=99),
                partition_responses=[
                    produce.PartitionProduceResponse(
                        error_code=NOT_LEADER, current_leader=produce.LeaderIdAndEpoch(leader_id=2, leader_epoch=4)
                    )
                ],
            )
        ]
    )
    (hint,) = read_hints(SentBatches(1, "1 (h:9092)", 13, [], {"t": ID}, {}), answer)
    assert (hint.topic, hint.topic_id) == ("", UUID(int=0))
