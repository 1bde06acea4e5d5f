"""`Position` and `PartitionFetch`: values held in thousands, compiled or not."""

from __future__ import annotations

import gc
from uuid import UUID

import pytest

from aiokafka_lead import OffsetAndMetadata, TopicPartition, _accel
from aiokafka_lead._core.consumer.position import PartitionFetch, Position
from aiokafka_lead._core.consumer.positions import Positions

TOPIC, OTHER = UUID(int=1), UUID(int=2)
FETCH = PartitionFetch(TOPIC, 5, 2, 3)


def test_the_garbage_collector_has_nothing_of_them_where_they_are_compiled() -> None:
    assert [gc.is_tracked(one) for one in (Position(5, 2), FETCH)] == [not _accel.ACCELERATED] * 2


def test_a_position_is_its_offset_and_its_epoch() -> None:
    position = Position(2**63 - 1, 2**31 - 1)
    assert (*position,) == (position.offset, position.leader_epoch) == (2**63 - 1, 2**31 - 1)
    assert {position, Position(2**63 - 1, 2**31 - 1)} == {position}
    assert Position(5) == Position(5, -1) != Position(5, 0)
    assert Position(5) != (5, -1)
    assert repr(Position(5, 2)) == "Position(5, 2)"


@pytest.mark.parametrize(("epoch", "committed"), [(-1, None), (0, 0), (7, 7)])
def test_an_epoch_that_is_not_known_is_not_committed(epoch: int, committed: int | None) -> None:
    assert Position(5, epoch).to_commit() == OffsetAndMetadata(5, leader_epoch=committed)


def test_a_fetch_differs_by_each_of_its_fields() -> None:
    assert {PartitionFetch(UUID(int=1), 5, 2, 3), FETCH} == {FETCH}
    others = [PartitionFetch(OTHER, 5, 2, 3), PartitionFetch(TOPIC, 6, 2, 3), PartitionFetch(TOPIC, 5, 1, 3)]
    assert FETCH not in [*others, PartitionFetch(TOPIC, 5, 2, 4), (TOPIC, 5, 2, 3)]
    assert repr(FETCH) == f"<PartitionFetch of {TOPIC}: offset 5, epochs 2 and 3>"


def test_a_partition_is_known_by_the_object_that_was_assigned() -> None:
    """Thousands of partitions are not held twice."""
    given = TopicPartition("t", 0)
    positions = Positions()
    (state,), _ = positions.assign([given])
    assert state.tp is given
    assert positions.assign([("t", 0), ("t", 1)]) == ([positions.require(TopicPartition("t", 1))], [])  # type: ignore[list-item]
    assert {type(tp) for tp in positions.assigned} == {TopicPartition}
