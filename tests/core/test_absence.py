"""Lookups of topics and partitions that the cluster does not have: their pace, and when to warn."""

from __future__ import annotations

from aiokafka_lead._core.backoff import Backoff
from aiokafka_lead._core.metadata.topics import (
    ANSWERS_TO_BELIEVE,
    BELIEVE_AFTER_S,
    LOOK_AT_LEAST_EVERY_MS,
    WARN_EVERY_S,
    Absences,
    Look,
    absent,
    believed,
)
from aiokafka_lead._core.metadata.types import ClusterSnapshot, PartitionMetadata, TopicMetadata
from aiokafka_lead.errors import UnknownTopicOrPartitionError
from aiokafka_lead.types import TopicPartition

T0, T9 = TopicPartition("t", 0), TopicPartition("t", 9)
NOTHING = Look(refresh=False, warn_of=[], until=None)


def absences() -> Absences:
    """Return absences with a backoff of 100 ms to 1 s, without jitter."""
    return Absences(Backoff(100, 1000, lambda: 0.5))


def test_it_is_believed_after_several_answers_and_some_time() -> None:
    assert believed(ANSWERS_TO_BELIEVE, BELIEVE_AFTER_S)
    assert not believed(ANSWERS_TO_BELIEVE - 1, 60)
    assert not believed(100, BELIEVE_AFTER_S / 2)


def test_it_is_looked_for_less_and_less_often() -> None:
    known = absences()
    now = 100.0
    asked = []
    while now < 200:
        look = known.look([T9], 0, now)
        assert look.refresh
        assert look.until is not None
        assert known.look([T9], 0, (now + look.until) / 2) == Look(refresh=False, warn_of=[], until=look.until)
        asked.append(round(look.until - now, 3))
        now = look.until
    assert asked[:8] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, LOOK_AT_LEAST_EVERY_MS / 1000]
    assert max(asked) == LOOK_AT_LEAST_EVERY_MS / 1000
    assert known.look(["new", T9], 0, now + 0.1).refresh, "what is new is looked for at once"
    known.hurry(now + 0.15)
    assert known.look(["new", T9], 0, now + 0.15).refresh


def test_a_warning_comes_once_it_is_believed_and_rarely_again() -> None:
    known = absences()
    assert known.look([T9], 7, 100.0).warn_of == []
    assert known.look([T9], 7 + ANSWERS_TO_BELIEVE, 100.5).warn_of == []
    assert list(known.confirmed) == []
    assert known.look([T9], 7 + ANSWERS_TO_BELIEVE, 101.0).warn_of == [T9]
    assert list(known.confirmed) == ["t-9"]
    assert known.look([T9, "u"], 20, 101.0 + WARN_EVERY_S - 1).warn_of == []
    assert known.look([T9, "u"], 30, 101.0 + WARN_EVERY_S).warn_of == [T9, "u"]
    assert list(known.confirmed) == ["t-9", "u"]


def test_what_appears_is_forgotten() -> None:
    known = absences()
    known.look([T9], 0, 100.0)
    assert known.look([], 9, 200.0) == NOTHING
    assert known.look([T9], 9, 300.0).warn_of == []


def test_what_is_absent() -> None:
    partitions = (PartitionMetadata("t", 0, 1, 0),)
    topics = {
        "t": TopicMetadata("t", partitions=partitions),
        "u": TopicMetadata("u", error_code=UnknownTopicOrPartitionError.code),
    }
    snapshot = ClusterSnapshot(1, topics=topics)
    asked_for = ["t", "u", "not asked for yet"]
    wanted = [T0, T9, TopicPartition("u", 0), TopicPartition("not asked for yet", 0)]
    assert list(absent(asked_for, wanted, snapshot)) == ["u", T9]
