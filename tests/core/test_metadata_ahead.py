"""An answer is merged in small steps, and applied at the end, taking into account changes made meanwhile."""

from __future__ import annotations

from aiokafka_lead._core.metadata.merge import MISSING_ANSWERS, REWIND_AFTER_S, REWIND_ANSWERS
from aiokafka_lead._core.metadata.state import TOPICS_A_STEP, MetadataState
from aiokafka_lead.errors import UnknownTopicOrPartitionError

from .cluster_answers import VERSION, answer, broker, feed, hint, knowing, leaders, merged_ahead, read_whole, topic

UNKNOWN_TOPIC = UnknownTopicOrPartitionError.code


def test_thousands_of_topics_take_many_steps() -> None:
    state = MetadataState([("boot", 9092)])
    names = [f"topic-{number}" for number in range(10 * TOPICS_A_STEP)]
    for epoch in (1, 2):
        said = read_whole(answer(*[topic((epoch, epoch), name=name) for name in names]), VERSION)
        assert len(list(state.merge_ahead(said, 0.0))) == 10
        merged = merged_ahead(state, said)
        assert merged.keys() == set(names)
        state.apply(said, 0.0, None, merged)
        assert all(state.snapshot.leader(name, 0) == (epoch, epoch) for name in names)


def test_a_hint_that_came_meanwhile_is_not_undone() -> None:
    state = knowing((1, 5), (1, 5))
    said = read_whole(answer(topic((2, 6), (2, 6))), VERSION)
    merged = merged_ahead(state, said)
    assert merged
    assert state.apply_hints([hint(3, 7)]) == [True]
    state.apply(said, 0.0, None, merged)
    assert leaders(state) == [(3, 7), (2, 6)]


def test_an_older_answer_counts_once_it_is_applied_and_not_before() -> None:
    state = knowing((1, 50))
    merged_ahead(state, read_whole(answer(topic((2, 3))), VERSION), 0.0)
    for number in range(1, REWIND_ANSWERS):
        feed(state, answer(topic((2, 3))), now=REWIND_AFTER_S + number)
        assert leaders(state) == [(1, 50)]


def test_a_hint_is_confirmed_when_the_answer_is_applied_and_not_before() -> None:
    state = knowing((1, 5))
    state.apply_hints([hint(9, 6, endpoint=broker(9))])
    merged_ahead(state, read_whole(answer(topic((9, 6)), brokers=[1, 9]), VERSION))
    feed(state, answer(topic((1, 5))))
    assert leaders(state) == [(9, 6)]
    assert 9 in state.snapshot.brokers


def test_a_topic_is_there_again_when_the_answer_is_applied_and_not_before() -> None:
    state = knowing((1, 5))
    gone = answer(topic(error_code=UNKNOWN_TOPIC))
    feed(state, *[gone] * (MISSING_ANSWERS - 1))
    merged_ahead(state, read_whole(answer(topic((1, 5))), VERSION))
    feed(state, gone)
    assert leaders(state) == []
