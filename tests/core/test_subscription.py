from __future__ import annotations

import re

import pytest

from aiokafka_lead._core.consumer.subscription import (
    REFUSALS_APART_S,
    Subscription,
    SubscriptionKind,
    for_brokers,
)
from aiokafka_lead._core.metadata.types import ClusterSnapshot, PartitionMetadata, TopicMetadata
from aiokafka_lead.errors import TopicAuthorizationFailedError, UnknownTopicOrPartitionError
from aiokafka_lead.types import TopicPartition

PATIENCE_S = 60.0


def subscription(*, exclude_internal_topics: bool = True) -> Subscription:
    return Subscription(exclude_internal_topics=exclude_internal_topics, patience_s=PATIENCE_S)


def cluster(*topics: TopicMetadata) -> ClusterSnapshot:
    return ClusterSnapshot(1, topics={topic.name: topic for topic in topics})


def topic(name: str, partitions: int = 1, *, internal: bool = False, error_code: int = 0) -> TopicMetadata:
    found = tuple(PartitionMetadata(name, index, 1, 0) for index in range(partitions))
    return TopicMetadata(name, is_internal=internal, partitions=found, error_code=error_code)


def test_topics_mean_all_their_partitions() -> None:
    wanted = subscription()
    wanted.subscribe(["b", "a", "missing"])
    assert wanted.kind is SubscriptionKind.TOPICS
    assert wanted.partitions(cluster(topic("a", 2), topic("b"), topic("c"))) == (
        TopicPartition("a", 0),
        TopicPartition("a", 1),
        TopicPartition("b", 0),
    )


def test_a_pattern_matches_whole_names_and_no_internal_topics() -> None:
    known = cluster(topic("ab"), topic("abc"), topic("__x", internal=True), topic("__consumer_offsets"))
    wanted = subscription()
    wanted.match(re.compile("ab|__.*"))
    assert wanted.matched(known) == ["ab"]
    wanted = subscription(exclude_internal_topics=False)
    wanted.match(re.compile("ab|__.*"))
    assert wanted.matched(known) == ["ab", "__x", "__consumer_offsets"]


def test_partitions_are_as_assigned_whatever_the_cluster_says() -> None:
    wanted = subscription()
    tp = TopicPartition("a", 5)
    wanted.assign([tp, tp])
    assert wanted.partitions(cluster()) == (tp,)
    assert wanted.topics == {"a"}


def test_each_kind_replaces_the_one_before() -> None:
    wanted = subscription()
    wanted.subscribe(["a"])
    wanted.match(re.compile("b"))
    assert (wanted.kind, wanted.topics) == (SubscriptionKind.PATTERN, frozenset())
    wanted.assign([TopicPartition("a", 0)])
    assert wanted.pattern is None
    wanted.clear()
    assert (wanted.kind, wanted.assigned) == (SubscriptionKind.NONE, ())


def test_an_unknown_topic_becomes_an_error_after_a_while_and_again() -> None:
    wanted = subscription()
    wanted.subscribe(["a"])
    assert wanted.problems(cluster(topic("a", 0, error_code=UnknownTopicOrPartitionError.code)), 100.0) == []
    assert wanted.next_problem() == 100.0 + PATIENCE_S
    assert wanted.problems(cluster(), 100.0 + PATIENCE_S - 1) == []
    ((name, error),) = wanted.problems(cluster(), 100.0 + PATIENCE_S)
    assert (name, type(error)) == ("topic 'a'", UnknownTopicOrPartitionError)
    assert "'a'" in str(error)
    assert wanted.problems(cluster(), 101.0 + PATIENCE_S) == []
    assert len(wanted.problems(cluster(), 100.0 + 2 * PATIENCE_S)) == 1


def test_a_topic_that_appears_is_no_problem_any_more() -> None:
    wanted = subscription()
    wanted.subscribe(["a"])
    wanted.problems(cluster(), 100.0)
    assert wanted.problems(cluster(topic("a")), 100.0 + PATIENCE_S) == []
    assert wanted.next_problem() is None


def test_a_refusal_is_told_at_once_and_not_too_often() -> None:
    wanted = subscription()
    wanted.subscribe(["a"])
    refused = cluster(topic("a", 0, error_code=TopicAuthorizationFailedError.code))
    ((_, error),) = wanted.problems(refused, 100.0)
    assert isinstance(error, TopicAuthorizationFailedError)
    assert wanted.problems(refused, 100.0) == []
    assert len(wanted.problems(refused, 100.0 + REFUSALS_APART_S)) == 1


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (re.compile("orders-.*"), "orders-.*"),
        (re.compile("orders-.*", re.IGNORECASE | re.ASCII), "(?i)orders-.*"),
        (re.compile("(?i)orders"), "(?i)(?i)orders"),
        (re.compile("a.b$", re.DOTALL | re.MULTILINE), "(?ms)a.b$"),
        (re.compile("orders - .*  # all", re.VERBOSE), None),
    ],
)
def test_a_pattern_goes_to_brokers_with_its_flags(pattern: re.Pattern[str], text: str | None) -> None:
    assert for_brokers(pattern) == text
