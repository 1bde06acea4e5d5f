"""Consumer groups at Apache Kafka: members of several clients share one, without lost records or needless rereads."""

from __future__ import annotations

import time
from collections.abc import Callable

from .feeder import Feeder
from .group_record import examine
from .group_watch import GroupWatch
from .harness import KafkaCluster

TopicName = Callable[[], str]

_PARTITIONS = 6
_RECORDS_PER_SECOND = 300
_GAP_LIMIT_S = 60
"""The session timeout, plus time for a slow machine."""


LONG_SESSION_MS = 45_000
"""For tests without lost members: a machine that stands still costs no partitions."""


class Scene:
    """A topic with a writer, and the members of a group that read it."""

    def __init__(self, kafka: KafkaCluster, topic: str, **defaults: object) -> None:
        kafka.create_topic(topic, partitions=_PARTITIONS)
        self.topic = topic
        self.group = f"{topic}-group"
        if defaults.get("protocol") == "consumer" and "session_ms" in defaults:
            self._set_session(kafka, str(defaults["session_ms"]))
        self.watch = GroupWatch(kafka.bootstrap(), self.group, topic, _PARTITIONS, **defaults)
        self.feeder = Feeder(kafka.bootstrap(), topic, _PARTITIONS, _RECORDS_PER_SECOND)

    def _set_session(self, kafka: KafkaCluster, session_ms: str) -> None:
        """Set the session timeout, in the new protocol on the group."""
        given = ("--entity-type", "groups", "--entity-name", self.group, "--alter")
        change = f"consumer.session.timeout.ms={session_ms}"
        kafka.tools.run(
            kafka.release.config_tool, "--bootstrap-server", kafka.bootstrap(), *given, "--add-config", change
        )

    def finish(self) -> None:
        """Read everything to the end, leave, and check the members' reports."""
        ends = self.feeder.stop()
        self.watch.wait_read(ends)
        self.watch.finish()
        for member in list(self.watch.awake()):
            self.watch.leave(member)
        findings = examine(self.watch.events, ends, _GAP_LIMIT_S)
        assert findings.problems == []
        assert findings.records - findings.duplicates == sum(ends.values())


def test_three_clients_share_a_group_by_range(kafka: KafkaCluster, topic_name: TopicName) -> None:
    scene = Scene(kafka, topic_name(), session_ms=LONG_SESSION_MS)
    with scene.watch as watch, scene.feeder:
        first = watch.add("lead")
        watch.wait_shared()
        watch.add("aiokafka")
        watch.add("confluent")
        watch.wait_shared()
        watch.add("lead")
        watch.wait_shared(evenly=True)
        watch.leave(first)
        watch.wait_shared()
        scene.finish()


def test_members_keep_their_partitions_in_a_cooperative_group(kafka: KafkaCluster, topic_name: TopicName) -> None:
    """With confluent-kafka: a new member takes some partitions over, and the remaining ones are not given up for it."""
    scene = Scene(kafka, topic_name(), assignor="cooperative-sticky")
    with scene.watch as watch, scene.feeder:
        watch.add("lead")
        watch.wait_shared()
        watch.add("confluent")
        watch.wait_shared()
        before = {member.name: set(member.owned) for member in watch.awake()}
        joined_at = time.monotonic()
        last = watch.add("lead")
        watch.wait_shared(evenly=True)
        revoked = [p for event in watch.events_since(joined_at, "revoked") for p in event.fields["partitions"]]
        assert sorted(revoked) == sorted(last.owned)
        for member in watch.awake():
            assert member is last or member.owned < before[member.name]
        watch.kill(last)
        watch.wait_shared()
        scene.finish()


def test_members_of_the_new_protocol(kafka: KafkaCluster, topic_name: TopicName) -> None:
    """KIP-848, with confluent-kafka."""
    scene = Scene(kafka, topic_name(), protocol="consumer")
    with scene.watch as watch, scene.feeder:
        watch.add("lead")
        watch.wait_shared()
        watch.add("confluent")
        last = watch.add("lead")
        watch.wait_shared(evenly=True)
        watch.kill(last)
        watch.wait_shared()
        scene.finish()


def test_a_live_group_moves_to_the_new_protocol(kafka: KafkaCluster, topic_name: TopicName) -> None:
    """Member by member, while records flow: both protocols share the group on the way."""
    scene = Scene(kafka, topic_name())
    with scene.watch as watch, scene.feeder:
        old = [watch.add("lead"), watch.add("confluent")]
        watch.wait_shared()
        for client, leaving in zip(("lead", "confluent"), old, strict=True):
            watch.add(client, protocol="consumer")
            watch.wait_shared()
            watch.leave(leaving)
            watch.wait_shared()
        admin = kafka.admin()
        described = admin.describe_consumer_groups([scene.group])[scene.group].result(60)
        assert described.type.name == "CONSUMER"
        scene.finish()
