"""Consumer groups at Apache Kafka while brokers fail and leaders move."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from .group_watch import GroupWatch
from .harness import KafkaCluster
from .test_groups import LONG_SESSION_MS, Scene

TopicName = Callable[[], str]

_COMMITS_WITHIN_S = 60

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def wait_all_commit(watch: GroupWatch, since: float, timeout_s: float) -> float:
    """Wait until each member has committed after the given time; return the wait."""

    def committed() -> bool:
        return all(member.committed_at > since for member in watch.awake())

    return watch.wait_for(committed, "every member commits", timeout_s)


@PROTOCOLS
def test_the_coordinator_is_killed(kafka: KafkaCluster, topic_name: TopicName, protocol: str) -> None:
    """Commits continue at the next coordinator."""
    scene = Scene(kafka, topic_name(), protocol=protocol, session_ms=LONG_SESSION_MS)
    with scene.watch as watch, scene.feeder:
        watch.add("lead")
        watch.add("lead")
        watch.wait_shared()
        admin = kafka.admin()
        described = admin.describe_consumer_groups([scene.group])[scene.group].result(60)
        coordinator: int = described.coordinator.id
        killed_at = time.monotonic()
        kafka.kill(coordinator)
        try:
            # A commit in flight may still have been acknowledged.
            wait_all_commit(watch, killed_at + 1, _COMMITS_WITHIN_S)
        finally:
            kafka.start_broker(coordinator)
        watch.wait_shared()
        scene.finish()
    kafka.wait_in_sync("__consumer_offsets")


@PROTOCOLS
def test_leaders_move_without_a_rebalance(kafka: KafkaCluster, topic_name: TopicName, protocol: str) -> None:
    scene = Scene(kafka, topic_name(), protocol=protocol, session_ms=LONG_SESSION_MS)
    with scene.watch as watch, scene.feeder:
        watch.add("lead")
        watch.add("lead")
        watch.wait_shared()
        settled_at = time.monotonic()
        kafka.move_leaders(scene.topic, range(3))
        moved_at = time.monotonic()
        wait_all_commit(watch, moved_at, _COMMITS_WITHIN_S)
        assert watch.events_since(settled_at, "revoked", "lost", "assigned") == []
        scene.finish()
