"""Changes between two snapshots, as reported to listeners of metadata."""

from __future__ import annotations

from uuid import UUID

import pytest

from aiokafka_lead._core.metadata.types import ClusterSnapshot, Moved

from .fetch_world import snapshot

BEFORE = snapshot([(1, 3), (1, 3), (2, 3)])


def numbers(after: ClusterSnapshot, topic: str = "t") -> list[int]:
    return sorted(Moved(BEFORE, after).of(topic))


def test_the_partitions_that_differ() -> None:
    moved = Moved(BEFORE, snapshot([(1, 3), (1, 4), (3, 4)]))
    assert moved.partitions is None
    assert sorted(moved.of("t")) == [1, 2]
    assert not moved.brokers


def test_nothing_differs() -> None:
    moved = Moved(BEFORE, BEFORE)
    assert (list(moved.of("t")), list(moved.led("t")), list(moved.partitions or ())) == ([], [], [])
    assert (moved.brokers, moved.topics) == (frozenset(), False)
    assert numbers(snapshot([(1, 3), (1, 3), (2, 3)])) == []
    assert numbers(BEFORE, "other") == []


def test_partitions_that_were_added() -> None:
    assert numbers(snapshot([(1, 3), (1, 3), (2, 3), (3, 0), (1, 0)])) == [3, 4]


@pytest.mark.parametrize(
    "after", [ClusterSnapshot(2, brokers=BEFORE.brokers), snapshot([(1, 3)], topic_id=UUID(int=8))]
)
def test_every_partition_of_a_topic_that_was_deleted_or_made_anew(after: ClusterSnapshot) -> None:
    assert numbers(after) == [0, 1, 2]
    assert sorted(Moved(after, BEFORE).of("t")) == [0, 1, 2]


def test_a_hint_tells_which_partition_it_moved() -> None:
    hinted = BEFORE.with_moved({("t", 2): BEFORE.topics["t"].partitions[2]._replace(leader_id=3)}, BEFORE.brokers)
    assert set(Moved(BEFORE, hinted).partitions or ()) == {("t", 2)}
    # Its snapshot no longer has the topic once the topics have been compared; the caller's still does.
    assert hinted.topics["t"].partitions[2].leader_id == 3
    assert Moved(BEFORE, hinted).partitions is None
    assert Moved(BEFORE, hinted, {("t", 2)}).partitions == {("t", 2)}
    assert sorted(Moved(BEFORE, hinted).of("t")) == [2]


def test_brokers_that_came_went_or_are_elsewhere() -> None:
    same = ClusterSnapshot(2, brokers=dict(BEFORE.brokers), topics=BEFORE.topics)
    assert not Moved(BEFORE, same).brokers
    assert Moved(BEFORE, snapshot(brokers=(1, 2))).brokers == {3}
    assert Moved(BEFORE, snapshot(brokers=(1, 2, 3, 4))).brokers == {4}
    elsewhere = {**BEFORE.brokers, 2: BEFORE.brokers[2]._replace(port=9999)}
    assert Moved(BEFORE, ClusterSnapshot(2, brokers=elsewhere)).brokers == {2}


def changed(**fields: object) -> ClusterSnapshot:
    """Return the topic with these fields changed."""
    topic = BEFORE.topics["t"]._replace(**fields)  # type: ignore[arg-type]
    return ClusterSnapshot(2, brokers=BEFORE.brokers, topics={"t": topic})


def test_a_replica_that_is_lost_is_no_other_leader() -> None:
    first, *others = BEFORE.topics["t"].partitions
    moved = Moved(BEFORE, changed(partitions=(first._replace(isr=(1,), offline_replicas=(2,)), *others)))
    assert sorted(moved.of("t")) == [0]
    assert sorted(moved.led("t")) == []
    assert not moved.topics
    for other in (first._replace(leader_id=9), first._replace(leader_epoch=9)):
        assert sorted(Moved(BEFORE, changed(partitions=(other, *others))).led("t")) == [0]


@pytest.mark.parametrize(
    "after",
    [
        ClusterSnapshot(2, brokers=BEFORE.brokers),
        ClusterSnapshot(2, brokers=BEFORE.brokers, topics={**BEFORE.topics, "other": BEFORE.topics["t"]}),
        changed(topic_id=UUID(int=8)),
        changed(error_code=3),
        changed(partitions=BEFORE.topics["t"].partitions[:2]),
    ],
)
def test_topics_that_came_went_or_are_others(after: ClusterSnapshot) -> None:
    assert Moved(BEFORE, after).topics
    assert Moved(after, BEFORE).topics


def test_leaders_that_moved_leave_the_topics_as_they_are() -> None:
    assert not Moved(BEFORE, snapshot([(1, 3), (1, 4), (3, 4)])).topics
    hinted = BEFORE.with_moved({("t", 2): BEFORE.topics["t"].partitions[2]._replace(leader_id=3)}, BEFORE.brokers)
    assert not Moved(BEFORE, hinted, {("t", 2)}).topics
