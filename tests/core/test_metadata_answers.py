"""Metadata answers: rules 18 to 20, 28 and 30 of the leadership rules, and how partial answers merge."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from aiokafka_lead._core.metadata.merge import MISSING_ANSWERS, RETIRED_FOR_S, REWIND_AFTER_S, REWIND_ANSWERS
from aiokafka_lead._core.metadata.rebootstrap import RebootstrapCause
from aiokafka_lead._core.metadata.state import MetadataState
from aiokafka_lead._core.metadata.types import Broker
from aiokafka_lead._wire.messages.metadata import MetadataResponse, MetadataResponsePartition
from aiokafka_lead.errors import (
    ClusterIdMismatchError,
    KafkaConnectionError,
    LeaderNotAvailableError,
    RebootstrapRequiredError,
    UnknownTopicOrPartitionError,
)

from .cluster_answers import ID_A, ID_B, VERSION, answer, broker, feed, hint, knowing, leaders, read_whole, topic

UNKNOWN_TOPIC = UnknownTopicOrPartitionError.code
LEADER_NOT_AVAILABLE = LeaderNotAvailableError.code
TOPIC_AUTHORIZATION_FAILED = 29


def test_starts_from_the_bootstrap_servers() -> None:
    state = MetadataState([("a", 1), ("b", 2)])
    assert {node_id: (entry.host, entry.port) for node_id, entry in state.snapshot.brokers.items()} == {
        -1: ("a", 1),
        -2: ("b", 2),
    }
    feed(state, answer())
    assert set(state.snapshot.brokers) == {1, 2, 3}
    assert (state.snapshot.cluster_id, state.snapshot.controller_id) == ("cluster", 1)


def test_rule_18_snapshots_never_change() -> None:
    state = knowing((1, 5), (2, 5))
    before = state.snapshot
    state.apply_hints([hint(9, 6, endpoint=broker(9))])
    feed(state, answer(topic((3, 7), (3, 7)), brokers=[3]))
    assert (before.leader("t", 0), before.leader("t", 1), set(before.brokers)) == ((1, 5), (2, 5), {1, 2, 3})
    writable: Any = state.snapshot
    with pytest.raises(TypeError):
        writable.topics["x"] = None
    with pytest.raises(TypeError):
        writable.brokers[7] = broker(7)


def test_rule_18_an_answer_without_news_shares_everything() -> None:
    state = knowing((1, 5), (2, 5))
    before = state.snapshot
    applied = state.apply(read_whole(answer(topic((1, 5), (2, 5))), VERSION), 0.0, None)
    assert (applied.changed, applied.complete) == (False, True)
    assert state.snapshot.topics is before.topics
    assert state.snapshot.brokers is before.brokers
    assert state.snapshot.topic_names is before.topic_names
    assert state.snapshot.generation > before.generation


def test_rule_18_a_moved_partition_shares_the_others() -> None:
    state = knowing((1, 5), (2, 5))
    before = state.snapshot.topics["t"]
    applied = state.apply(read_whole(answer(topic((3, 6), (2, 5))), VERSION), 0.0, None)
    assert applied.changed
    assert state.snapshot.topics["t"].partitions[1] is before.partitions[1]


def test_rule_19_older_epoch_keeps_the_cached_leader() -> None:
    state = knowing((1, 5))
    applied = state.apply(read_whole(answer(topic((2, 4))), VERSION), 0.0, None)
    assert leaders(state) == [(1, 5)]
    assert not applied.complete
    assert state.counters.snapshot().stale_partitions == 1


def test_rule_19_another_topic_id_is_accepted_with_a_lower_epoch() -> None:
    state = knowing((1, 5), (1, 5))
    feed(state, answer(topic((2, 0), topic_id=ID_B)))
    assert leaders(state) == [(2, 0)]
    assert state.snapshot.topic_names == {ID_B: "t"}


def replaced() -> MetadataState:
    """Return the state after the topic was recreated."""
    state = knowing((1, 5))
    feed(state, answer(topic((2, 0), topic_id=ID_B)))
    return state


def test_rule_19_late_answers_do_not_bring_the_former_topic_back() -> None:
    """One broker may never hear of the new topic."""
    state = replaced()
    for minute in range(60):
        for _ in range(3):
            feed(state, answer(topic((1, 5), topic_id=ID_A)), now=60 * minute)
            feed(state, answer(topic((2, 0), topic_id=ID_B)), now=60 * minute + 1)
        assert leaders(state) == [(2, 0)]


def test_rule_19_the_former_topic_is_back_if_most_answers_describe_it() -> None:
    """The answer that replaced it came from a broker that lags."""
    state = replaced()
    seen: list[tuple[int, int]] = []
    for number in range(12):
        told = topic((2, 0), topic_id=ID_B) if number % 3 == 2 else topic((1, 5), topic_id=ID_A)
        feed(state, answer(told), now=number / 5)
        seen += leaders(state)
    assert seen == [(2, 0)] * 6 + [(1, 5)] * 6


def test_rule_19_a_tie_brings_the_former_topic_back_late() -> None:
    state = replaced()
    for second in range(int(RETIRED_FOR_S)):
        feed(state, answer(topic((1, 5), topic_id=ID_A)), now=second)
        assert leaders(state) == [(2, 0)]
        feed(state, answer(topic((2, 0), topic_id=ID_B)), now=second)
    feed(state, answer(topic((1, 5), topic_id=ID_A)), now=RETIRED_FOR_S)
    assert leaders(state) == [(1, 5)]


def test_rule_19_no_epoch_never_overwrites_a_real_one() -> None:
    state = knowing((1, 5))
    feed(state, answer(topic((1, -1))))
    assert leaders(state) == [(1, 5)]
    feed(state, answer(topic((-1, -1))))
    assert leaders(state) == [(1, 5)]


@pytest.mark.parametrize("leader", [1, -1])
def test_rule_19_no_epoch_never_overwrites_a_real_one_however_often_it_is_told(leader: int) -> None:
    state = knowing((1, 5))
    for number in range(5 * REWIND_ANSWERS):
        feed(state, answer(topic((leader, -1))), now=number)
    assert leaders(state) == [(1, 5)]
    assert state.counters.snapshot().stale_partitions == 0


@pytest.mark.parametrize("version", [7, 8])
def test_rule_19_epochs_below_version_9_are_unreliable(version: int) -> None:
    state = MetadataState([("boot", 9092)])
    feed(state, answer(topic((1, 5))), version=version)
    assert leaders(state) == [(1, -1)]
    feed(state, answer(topic((2, 3))), version=version)
    assert leaders(state) == [(2, -1)]


def test_rule_19_an_old_broker_does_not_undo_what_a_new_one_told() -> None:
    state = knowing((1, 5))
    feed(state, answer(topic((2, 9))), version=8)
    assert leaders(state) == [(1, 5)]


def test_rule_19_a_rewind_that_persists_is_accepted() -> None:
    state = knowing((1, 50))
    for number in range(REWIND_ANSWERS - 1):
        feed(state, answer(topic((2, 3))), now=number)
        assert leaders(state) == [(1, 50)]
    feed(state, answer(topic((2, 3))), now=REWIND_AFTER_S + REWIND_ANSWERS)
    assert leaders(state) == [(2, 3)]
    assert state.counters.snapshot().rewinds == 1


def test_rule_19_many_old_answers_in_a_moment_are_no_rewind() -> None:
    state = knowing((1, 50))
    feed(state, *[answer(topic((2, 3)))] * (10 * REWIND_ANSWERS), now=1.0)
    assert leaders(state) == [(1, 50)]


@pytest.mark.parametrize(("leader", "epoch"), [(1, 50), (3, 51)])
def test_rule_19_an_answer_that_is_up_to_date_ends_the_suspicion(leader: int, epoch: int) -> None:
    state = knowing((1, 50))
    for number in range(5 * REWIND_ANSWERS):
        feed(state, answer(topic((2, 3))), now=number)
        if number % (REWIND_ANSWERS - 1) == 0:
            feed(state, answer(topic((leader, epoch))), now=number)
    assert leaders(state) == [(leader, epoch)]


def test_rule_19_a_rewind_ends_the_pin_of_a_hint() -> None:
    state = knowing((1, 5))
    state.apply_hints([hint(9, 50, endpoint=broker(9))])
    for number in range(REWIND_ANSWERS + 1):
        feed(state, answer(topic((2, 6))), now=number * REWIND_AFTER_S)
    assert leaders(state) == [(2, 6)]
    assert 9 not in state.snapshot.brokers


def test_rule_20_without_leader_the_partition_is_leaderless_and_unsettled() -> None:
    state = knowing((1, 5))
    applied = state.apply(read_whole(answer(topic((-1, 6))), VERSION), 0.0, None)
    assert leaders(state) == [(-1, 6)]
    assert not applied.complete
    applied = state.apply(read_whole(answer(topic((2, 6))), VERSION), 0.0, None)
    assert leaders(state) == [(2, 6)]
    assert applied.complete


def test_rule_20_a_leader_without_address_is_unsettled() -> None:
    state = knowing((1, 5))
    assert not state.apply(read_whole(answer(topic((9, 6))), VERSION), 0.0, None).complete


def test_rule_20_a_b_a_lands_on_a() -> None:
    state = knowing((1, 5))
    a, b, a_again = answer(topic((1, 5))), answer(topic((2, 6))), answer(topic((1, 7)))
    feed(state, b, a, a_again, b, a)
    assert leaders(state) == [(1, 7)]


def test_rule_28_no_brokers_is_no_success() -> None:
    state = knowing((1, 5))
    before = state.snapshot
    with pytest.raises(KafkaConnectionError, match="no broker"):
        feed(state, answer(topic((2, 6)), brokers=[]))
    assert state.snapshot is before


def test_rule_26_an_answer_that_asks_for_a_rebootstrap_changes_nothing() -> None:
    state = knowing((1, 5))
    before = state.snapshot
    with pytest.raises(RebootstrapRequiredError):
        feed(state, answer(topic((2, 6)), error_code=RebootstrapRequiredError.code), version=13)
    assert state.snapshot is before


def test_rule_29_topics_and_epochs_outlive_a_rebootstrap() -> None:
    state = knowing((1, 5), (1, 5))
    state.apply_hints([hint(9, 6, endpoint=broker(9))])
    state.rebootstrap(RebootstrapCause.UNAVAILABLE)
    assert state.bootstrapping
    assert leaders(state) == [(9, 6), (1, 5)]
    feed(state, answer(topic((1, 5), (4, 6)), brokers=[1, 4]))
    assert leaders(state) == [(9, 6), (4, 6)]
    assert set(state.snapshot.brokers) == {1, 4}
    assert state.counters.snapshot().rebootstraps_unavailable == 1


def test_an_answer_tells_which_known_brokers_have_another_address() -> None:
    state = knowing((1, 5))
    elsewhere = answer(topic((1, 5)), brokers=[1, broker(2, port=9003), broker(3, port=9002), broker(4)])
    assert state.apply(read_whole(elsewhere, VERSION), 0.0, None).moved == {2, 3}
    assert not state.apply(read_whole(elsewhere, VERSION), 0.0, None).moved


def test_rule_33_a_broker_does_not_return_to_the_address_that_it_left_in_doubt() -> None:
    """Another broker repeats the old address, and its own answer is no reason to doubt the new one."""
    old, new = answer(topic((1, 5)), brokers=[1, 2]), answer(topic((1, 5)), brokers=[1, broker(2, port=7777)])
    state = knowing((1, 5))
    feed(state, new, suspects=[2])
    feed(state, old, old)
    assert state.snapshot.brokers[2].port == 7777
    feed(state, answer(topic((1, 5)), brokers=[1, broker(2, port=8888)]))
    assert state.snapshot.brokers[2].port == 8888, "a third one is news"


@pytest.mark.parametrize("how", ["in doubt", "out of reach"])
def test_rule_33_it_returns_if_the_new_address_is_no_better(how: str) -> None:
    state = knowing((1, 5))
    feed(state, answer(topic((1, 5)), brokers=[1, broker(2, port=7777)]), suspects=[2])
    old = answer(topic((1, 5)), brokers=[1, 2])
    feed(state, old)
    if how == "in doubt":
        feed(state, old, suspects=[2])
    else:
        state.unreachable(2)
    assert state.snapshot.brokers[2] == broker(2)


def test_rule_30_another_cluster_fails_by_default() -> None:
    state = knowing((1, 5))
    before = state.snapshot
    with pytest.raises(ClusterIdMismatchError, match=r"other.*cluster"):
        feed(state, answer(topic((2, 6)), cluster_id="other"))
    assert state.snapshot is before


def test_rule_30_another_cluster_is_adopted() -> None:
    state = knowing((1, 50), (1, 50))
    state.may_change_cluster = True
    feed(state, answer(topic((1, 7), name="u", topic_id=ID_B)))
    applied = state.apply(
        read_whole(answer(topic((2, 3), (2, 3), topic_id=ID_A), cluster_id="other"), VERSION), 0.0, {"t", "u"}
    )
    assert (applied.other_cluster, applied.complete) == ("cluster", False)
    # Epochs of another cluster are not compared, even for the same topic id.
    assert leaders(state) == [(2, 3), (2, 3)]
    # A partition that is missing in the answer is kept, without a leader.
    assert leaders(state, "u") == [(-1, -1)]
    assert state.snapshot.cluster_id == "other"
    assert state.snapshot.topic_names == {ID_A: "t"}


def test_rule_30_hints_of_the_former_cluster_mean_nothing_in_the_next() -> None:
    state = knowing((1, 5))
    state.may_change_cluster = True
    assert state.apply_hints([hint(9, 6, endpoint=Broker(9, "former", 1))]) == [True]
    feed(state, answer(cluster_id="another"))
    assert 9 not in state.snapshot.brokers
    assert leaders(state) == [(-1, -1)]


def test_rule_30_any_id_is_right_where_none_was_known() -> None:
    state = MetadataState([("boot", 9092)])
    feed(state, answer(cluster_id=None), answer(cluster_id="first"), answer(cluster_id=None))
    assert state.snapshot.cluster_id == "first"


def test_partial_answers_leave_other_topics_alone() -> None:
    state = knowing((1, 5))
    before = state.snapshot.topics["t"]
    state.apply(read_whole(answer(topic((2, 1), name="u", topic_id=ID_B)), VERSION), 0.0, {"t", "u"})
    assert state.snapshot.topics["t"] is before
    assert leaders(state, "u") == [(2, 1)]


def test_topics_that_nobody_wants_any_more_are_left_out() -> None:
    state = knowing((1, 5))
    state.apply(read_whole(answer(topic((2, 1), name="u", topic_id=ID_B)), VERSION), 0.0, {"t"})
    assert "u" not in state.snapshot.topics


def test_an_unknown_topic_is_kept_as_an_error() -> None:
    state = MetadataState([("boot", 9092)])
    feed(state, answer(topic(error_code=UNKNOWN_TOPIC, topic_id=UUID(int=0))))
    assert state.snapshot.topics["t"].error_code == UNKNOWN_TOPIC
    assert state.snapshot.partition_count("t") == 0


def test_a_deleted_topic_is_believed_after_several_answers() -> None:
    state = knowing((1, 5))
    gone = answer(topic(error_code=UNKNOWN_TOPIC))
    for _ in range(MISSING_ANSWERS - 1):
        assert not state.apply(read_whole(gone, VERSION), 0.0, {"t"}).complete
        assert leaders(state) == [(1, 5)]
        assert state.snapshot.topics["t"].error_code == UNKNOWN_TOPIC
    assert state.apply(read_whole(gone, VERSION), 0.0, {"t"}).complete
    assert state.snapshot.partition_count("t") == 0
    assert state.snapshot.topic_names == {}


def test_a_broker_that_lags_does_not_delete_a_topic() -> None:
    state = knowing((1, 5))
    for _ in range(MISSING_ANSWERS):
        feed(state, answer(topic(error_code=UNKNOWN_TOPIC)), answer(topic((1, 5))))
    assert leaders(state) == [(1, 5)]
    assert state.snapshot.topics["t"].error_code == 0


@pytest.mark.parametrize("said", [answer(topic(error_code=UNKNOWN_TOPIC)), answer()], ids=["denied", "left out"])
def test_rule_33_a_server_asked_beside_known_brokers_denies_no_topic_and_ends_no_search(said: MetadataResponse) -> None:
    state = knowing((1, 5))
    before = state.snapshot.topics
    for number in range(2 * MISSING_ANSWERS):
        applied = state.apply(read_whole(said, VERSION), float(number), None, beside=True)
        assert (applied.changed, applied.complete) == (False, False)
    assert state.snapshot.topics is before


def test_a_topic_believed_deleted_may_come_back() -> None:
    state = knowing((1, 5))
    feed(state, *[answer(topic(error_code=UNKNOWN_TOPIC))] * MISSING_ANSWERS)
    feed(state, answer(topic((2, 3))))
    assert leaders(state) == [(2, 3)]


def test_of_all_topics_those_not_in_the_answer_are_gone() -> None:
    state = knowing((1, 5))
    for _ in range(MISSING_ANSWERS - 1):
        feed(state, answer())
        assert leaders(state) == [(1, 5)]
    feed(state, answer())
    assert "t" not in state.snapshot.topics


@pytest.mark.parametrize("error_code", [LEADER_NOT_AVAILABLE, TOPIC_AUTHORIZATION_FAILED])
def test_other_errors_keep_the_partitions(error_code: int) -> None:
    state = knowing((1, 5))
    applied = state.apply(read_whole(answer(topic(error_code=error_code)), VERSION), 0.0, None)
    assert applied.complete == (error_code == TOPIC_AUTHORIZATION_FAILED)
    assert leaders(state) == [(1, 5)]
    assert state.snapshot.topics["t"].error_code == error_code
    feed(state, answer(topic((1, 5))))
    assert state.snapshot.topics["t"].error_code == 0


def test_partitions_are_added_and_never_taken_away() -> None:
    state = knowing((1, 5))
    feed(state, answer(topic((1, 5), (2, 0))))
    assert leaders(state) == [(1, 5), (2, 0)]
    applied = state.apply(read_whole(answer(topic((1, 5))), VERSION), 0.0, None)
    assert leaders(state) == [(1, 5), (2, 0)]
    assert not applied.complete


def test_partitions_come_in_any_order() -> None:
    state = MetadataState([("boot", 9092)])
    shuffled = topic((1, 1), (2, 2), (3, 3))
    shuffled.partitions.reverse()
    feed(state, answer(shuffled))
    assert leaders(state) == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize("index", [-1, 2, 2**31 - 1])
def test_an_impossible_partition_number_takes_no_memory(index: int) -> None:
    state = MetadataState([("boot", 9092)])
    odd = topic((1, 1))
    odd.partitions.append(MetadataResponsePartition(partition_index=index, leader_id=1, leader_epoch=1))
    applied = state.apply(read_whole(answer(odd), VERSION), 0.0, None)
    assert not applied.complete
    assert leaders(state) == [(1, 1), (-1, -1)]


def test_answers_without_topic_ids_keep_the_one_known() -> None:
    state = knowing((1, 5))
    feed(state, answer(topic((2, 6), topic_id=UUID(int=0))))
    assert state.snapshot.topics["t"].topic_id == ID_A
    feed(state, answer(topic((1, 5), topic_id=UUID(int=0))))
    assert leaders(state) == [(2, 6)]
