"""Leader hints: rules 1 to 10 of the leadership rules, and their counters."""

from __future__ import annotations

from uuid import UUID

import pytest

from aiokafka_lead._core.metadata.state import MetadataState
from aiokafka_lead._core.metadata.types import Broker

from .cluster_answers import FENCED, ID_A, ID_B, NOT_LEADER, answer, broker, feed, hint, knowing, leaders, topic


@pytest.mark.parametrize("error_code", [NOT_LEADER, FENCED])
def test_rule_1_follows_hints_of_the_two_errors_that_carry_them(error_code: int) -> None:
    state = knowing((1, 5))
    assert state.apply_hints([hint(2, 6, error_code=error_code)]) == [True]
    assert leaders(state) == [(2, 6)]
    assert state.counters.snapshot().hints_accepted == 1


@pytest.mark.parametrize("error_code", [0, 3, 5, 7, 75, 76, 87])
def test_rule_1_follows_no_hint_of_another_error(error_code: int) -> None:
    state = knowing((1, 5))
    assert state.apply_hints([hint(2, 6, error_code=error_code)]) == [False]
    assert leaders(state) == [(1, 5)]
    assert state.counters.snapshot().hints_rejected_incomplete == 1


@pytest.mark.parametrize(("leader_id", "epoch"), [(-1, -1), (-1, 6), (2, -1)])
def test_rule_1_leader_or_epoch_missing(leader_id: int, epoch: int) -> None:
    state = knowing((1, 5))
    before = state.snapshot
    assert state.apply_hints([hint(leader_id, epoch, endpoint=broker(2))]) == [False]
    assert state.snapshot is before
    assert state.counters.snapshot().hints_rejected_incomplete == 1


@pytest.mark.parametrize("epoch", [4, 5])
def test_rule_2_hint_must_be_strictly_newer(epoch: int) -> None:
    state = knowing((1, 5))
    assert state.apply_hints([hint(2, epoch)]) == [False]
    assert leaders(state) == [(1, 5)]
    assert state.counters.snapshot().hints_rejected_stale == 1


def test_rule_2_hint_where_no_epoch_is_known() -> None:
    state = knowing((1, -1))
    assert state.apply_hints([hint(2, 0)]) == [True]
    assert leaders(state) == [(2, 0)]


def test_rule_2_metadata_is_accepted_at_the_known_epoch() -> None:
    state = knowing((1, 5))
    feed(state, answer(topic((2, 5))))
    assert leaders(state) == [(2, 5)]


def test_rule_2_of_two_hints_at_once_the_newer_one_counts() -> None:
    state = knowing((1, 5))
    assert state.apply_hints([hint(2, 6), hint(3, 8), hint(2, 7)]) == [True, True, False]
    assert leaders(state) == [(3, 8)]


def test_rule_3_address_from_the_response() -> None:
    state = knowing((1, 5))
    assert state.apply_hints([hint(9, 6, endpoint=broker(9))]) == [True]
    assert state.snapshot.brokers[9] == broker(9)


def test_rule_3_address_from_the_cache() -> None:
    state = knowing((1, 5))
    assert state.apply_hints([hint(3, 6)]) == [True]
    assert state.snapshot.brokers[3] == broker(3)


@pytest.mark.parametrize("endpoint", [None, Broker(9, "", 9092), Broker(9, "h", 0), Broker(9, "h", 65536), broker(8)])
def test_rule_3_no_address(endpoint: Broker | None) -> None:
    state = knowing((1, 5))
    assert state.apply_hints([hint(9, 6, endpoint=endpoint)]) == [False]
    assert leaders(state) == [(1, 5)]
    assert 9 not in state.snapshot.brokers
    assert state.counters.snapshot().hints_rejected_no_address == 1


@pytest.mark.parametrize(("name", "partition"), [("unknown", 0), ("t", 1), ("t", -1), ("t", 2**31 - 1)])
def test_rule_4_unknown_partition(name: str, partition: int) -> None:
    state = knowing((1, 5))
    assert state.apply_hints([hint(2, 6, name=name, partition=partition)]) == [False]
    assert state.counters.snapshot().hints_rejected_unknown_partition == 1


def test_rule_4_topic_that_was_forgotten_with_a_hint_pinned() -> None:
    state = knowing((1, 5))
    state.apply_hints([hint(9, 6, endpoint=broker(9))])
    state.forget(["t"])
    assert 9 not in state.snapshot.brokers
    assert state.apply_hints([hint(9, 7, endpoint=broker(9))]) == [False]
    # When it is known again, it starts from the cluster's epochs.
    feed(state, answer(topic((1, 5))))
    assert leaders(state) == [(1, 5)]
    assert state.apply_hints([hint(2, 6)]) == [True]


def test_rule_5_late_hint_of_the_former_topic() -> None:
    state = knowing((1, 5))
    feed(state, answer(topic((1, 0), topic_id=ID_B)))
    assert state.apply_hints([hint(2, 9, topic_id=ID_A)]) == [False]
    assert leaders(state) == [(1, 0)]
    assert state.apply_hints([hint(2, 1, topic_id=ID_B)]) == [True]
    assert state.counters.snapshot().hints_rejected_unknown_partition == 1


def test_rule_5_clusters_without_topic_ids() -> None:
    state = MetadataState([("boot", 9092)])
    feed(state, answer(topic((1, 5), topic_id=UUID(int=0))), version=9)
    assert state.apply_hints([hint(2, 6, topic_id=UUID(int=0))]) == [True]


def test_rule_6_merges_only() -> None:
    state = knowing((1, 5), (2, 5))
    feed(state, answer(topic((1, 5), (2, 5)), topic((3, 2), name="other", topic_id=ID_B)))
    before = state.snapshot
    state.apply_hints([hint(9, 6, endpoint=broker(9))])
    after = state.snapshot
    assert {**before.brokers, 9: broker(9)} == after.brokers
    assert after.topics["other"] is before.topics["other"]
    assert after.topics["t"].partitions[1] is before.topics["t"].partitions[1]
    assert after.topic_names == {ID_A: "t", ID_B: "other"}
    assert before.leader("t", 0) == (1, 5)


def test_rule_7_a_hint_changes_the_address() -> None:
    state = knowing((1, 5))
    state.apply_hints([hint(2, 6, endpoint=broker(2, port=7777))])
    assert state.snapshot.brokers[2] == broker(2, port=7777)


def test_rule_7_the_same_address_keeps_the_brokers() -> None:
    state = knowing((1, 5))
    before = state.snapshot.brokers
    state.apply_hints([hint(2, 6, endpoint=broker(2))])
    assert state.snapshot.brokers is before


def test_rule_9_policy_off() -> None:
    state = knowing((1, 5), leader_hint_policy="off")
    assert state.apply_hints([hint(2, 6)]) == [False]
    assert state.counters.snapshot().hints_rejected_policy == 1


def test_rule_9_policy_known_nodes_takes_no_address_from_a_hint() -> None:
    state = knowing((1, 5), leader_hint_policy="known_nodes")
    assert state.apply_hints([hint(9, 6, endpoint=broker(9))]) == [False]
    assert state.apply_hints([hint(2, 6, endpoint=broker(2, port=7777))]) == [True]
    assert leaders(state) == [(2, 6)]
    assert state.snapshot.brokers[2] == broker(2)
    assert state.counters.snapshot().hints_rejected_policy == 1


def test_rule_10_stale_metadata_neither_drops_the_hinted_node_nor_its_leadership() -> None:
    state = knowing((1, 5))
    state.apply_hints([hint(9, 6, endpoint=broker(9))])
    for stale in range(6):
        feed(state, answer(topic((1, 5)), brokers=[1, 2, 3]), now=stale)
        assert leaders(state) == [(9, 6)]
        assert state.snapshot.brokers[9] == broker(9)
    feed(state, answer(topic((-1, 5)), brokers=[1, 2, 3]))
    assert leaders(state) == [(9, 6)]


def test_rule_10_stale_metadata_does_not_take_back_a_hinted_address() -> None:
    state = knowing((1, 5))
    state.apply_hints([hint(2, 6, endpoint=broker(2, port=7777))])
    feed(state, answer(topic((1, 5))))
    assert state.snapshot.brokers[2] == broker(2, port=7777)
    feed(state, answer(topic((2, 6))))
    assert state.snapshot.brokers[2] == broker(2)


def test_rule_10_the_pin_ends_when_metadata_reaches_the_epoch() -> None:
    state = knowing((1, 5))
    state.apply_hints([hint(9, 6, endpoint=broker(9))])
    feed(state, answer(topic((9, 6)), brokers=[1, 2, 9]))
    feed(state, answer(topic((9, 6)), brokers=[1, 2]))
    assert 9 not in state.snapshot.brokers


def test_rule_10_the_node_stays_while_another_partition_is_pinned_to_it() -> None:
    state = knowing((1, 5), (1, 5))
    state.apply_hints([hint(9, 6, endpoint=broker(9)), hint(9, 6, partition=1, endpoint=broker(9))])
    feed(state, answer(topic((9, 6), (1, 5)), brokers=[1, 2]))
    assert state.snapshot.brokers[9] == broker(9)
    feed(state, answer(topic((9, 6), (2, 7)), brokers=[1, 2]))
    assert 9 not in state.snapshot.brokers


def test_rule_9_an_address_of_no_use_gives_way_to_the_one_that_metadata_told() -> None:
    """Even if that epoch never comes; later metadata about the address counts, and so does another hint."""
    state = knowing((1, 5))
    assert state.apply_hints([hint(2, 100, endpoint=Broker(2, "nowhere", 1))]) == [True]
    state.unreachable(2)
    assert state.snapshot.brokers[2] == broker(2)
    assert state.snapshot.leader("t", 0) == (2, 100)
    feed(state, answer(topic((1, 5)), brokers=[1, broker(2, 9999), 3]))
    assert state.snapshot.brokers[2] == broker(2, 9999)
    assert state.apply_hints([hint(2, 101, endpoint=Broker(2, "elsewhere", 2))]) == [True]
    assert state.snapshot.brokers[2] == Broker(2, "elsewhere", 2)


def test_rule_9_an_address_that_only_a_hint_told_is_kept_though_it_is_of_no_use_now() -> None:
    state = knowing((1, 5))
    state.apply_hints([hint(7, 6, endpoint=Broker(7, "new", 1))])
    before = state.snapshot
    state.unreachable(7)
    state.unreachable(1)
    state.unreachable(99)
    assert state.snapshot is before


def test_rule_10_metadata_contradicts_a_hint_at_its_own_epoch() -> None:
    state = knowing((1, 5))
    state.apply_hints([hint(9, 6, endpoint=broker(9))])
    feed(state, answer(topic((2, 6))))
    assert leaders(state) == [(2, 6)]
    assert 9 not in state.snapshot.brokers
    assert state.counters.snapshot().disagreements == 1


def test_rule_10_no_leader_at_the_hinted_epoch_is_no_contradiction() -> None:
    state = knowing((1, 5))
    state.apply_hints([hint(9, 6, endpoint=broker(9))])
    feed(state, answer(topic((-1, 6)), brokers=[1, 2]))
    assert leaders(state) == [(9, 6)]
    assert state.snapshot.brokers[9] == broker(9)
    feed(state, answer(topic((-1, 7)), brokers=[1, 2]))
    assert leaders(state) == [(-1, 7)]
    assert state.counters.snapshot().disagreements == 0


def test_a_hint_that_names_its_own_sender_counts_like_any_other() -> None:
    state = knowing((1, 5))
    assert state.apply_hints([hint(1, 6, endpoint=broker(1))]) == [True]
    assert leaders(state) == [(1, 6)]


def test_many_hints_keep_every_partition_right() -> None:
    count = 1000
    state = knowing(*[(1, 5)] * count)
    for index in range(0, count, 2):
        assert state.apply_hints([hint(2, 6, partition=index)]) == [True]
    expected = [(2, 6) if index % 2 == 0 else (1, 5) for index in range(count)]
    assert leaders(state) == expected
    assert [(p.leader_id, p.leader_epoch) for p in state.snapshot.topics["t"].partitions] == expected
