"""Minutes of random faults of a consumer group: members are killed, added, frozen, cut off and stopped.

    python -m tests.kafka.long_groups                                  # five minutes, classic, on Apache Kafka
    python -m tests.kafka.long_groups --protocol consumer --embedded   # KIP-848 on the embedded cluster
    python -m tests.kafka.long_groups --clients lead,confluent --seed 7

The exit status is 0 only if no record was lost, no healthy member read committed records again, no two of them owned a
partition at a time, and every partition had an owner within the session timeout and 5 s after each fault.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import time
from collections.abc import Callable, Iterator

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from aiokafka_lead.testing import ClusterThread, EmbeddedCluster, GroupOptions

from .cut_proxy import CutProxy
from .feeder import Feeder
from .group_record import Findings, examine
from .group_watch import GroupWatch, Member
from .harness import NEWEST, KafkaCluster

_SESSION_MS = 6000
_PARTITIONS = 12
_MOST_MEMBERS = 5
_BATCH = 50
_HANDLING_MS = 50
_END_TIMEOUT_S = 90


@contextlib.contextmanager
def cluster(arguments: argparse.Namespace, topic: str) -> Iterator[str]:
    """Run a cluster with the topic; yield its addresses."""
    if arguments.embedded:
        options = GroupOptions(consumer_session_timeout_ms=_SESSION_MS, consumer_heartbeat_interval_ms=500)
        with ClusterThread(EmbeddedCluster(brokers=3, groups=options)) as embedded:
            embedded.create_topic(topic, _PARTITIONS)
            yield embedded.bootstrap_servers
        return
    if arguments.bootstrap:
        admin = AdminClient({"bootstrap.servers": arguments.bootstrap})
        admin.create_topics([NewTopic(topic, _PARTITIONS, 3)], operation_timeout=30)[topic].result(60)
        yield arguments.bootstrap
        return
    kafka = KafkaCluster(NEWEST, brokers=3)
    try:
        kafka.start()
        kafka.create_topic(topic, partitions=_PARTITIONS)
        yield kafka.bootstrap()
    finally:
        kafka.stop()


_began = time.monotonic()


def say(what: str) -> None:
    """Report progress."""
    print(f"+{time.monotonic() - _began:.1f} s: {what}", file=sys.stderr, flush=True)


class Trouble:
    """Faults of the members."""

    def __init__(self, watch: GroupWatch, bootstrap: str, arguments: argparse.Namespace, rng: random.Random) -> None:
        self._watch = watch
        self._bootstrap = bootstrap
        self._clients: list[str] = arguments.clients.split(",")
        self._rng = rng
        self._proxies: dict[str, CutProxy] = {}
        self._stack = contextlib.ExitStack()
        self._recoveries: list[tuple[float, Callable[[], None]]] = []
        self.counts: dict[str, int] = {}

    def close(self) -> None:
        """End the proxies."""
        self._stack.close()

    def add(self) -> None:
        proxy = self._stack.enter_context(CutProxy(self._bootstrap))
        member = self._watch.add(self._rng.choice(self._clients), bootstrap=proxy.bootstrap)
        self._proxies[member.name] = proxy

    def _kill(self, member: Member) -> None:
        self._watch.kill(member)

    def _leave(self, member: Member) -> None:
        self._watch.leave(member)

    def _freeze(self, member: Member) -> None:
        self._watch.freeze(member)
        self._later(lambda: self._watch.thaw(member))

    def _cut(self, member: Member) -> None:
        proxy = self._proxies[member.name]
        proxy.cut()
        self._watch.cut(member)

        def heal() -> None:
            proxy.heal()
            self._watch.healed(member)

        self._later(heal)

    def _later(self, recover: Callable[[], None]) -> None:
        """Schedule a recovery for a time beyond the session."""
        self._recoveries.append((time.monotonic() + _SESSION_MS / 1000 + self._rng.uniform(1, 6), recover))

    def recover(self, now: float) -> None:
        """End the freezes and cuts that are due."""
        due = [each for each in self._recoveries if each[0] <= now]
        self._recoveries = [each for each in self._recoveries if each[0] > now]
        for _, call in due:
            call()

    def strike(self) -> None:
        """Cause a fault; at least one member stays healthy."""
        well = [member for member in self._watch.awake() if member.owned]
        actions: dict[str, Callable[[], None]] = {}
        if len(self._watch.awake()) + len(self._recoveries) < _MOST_MEMBERS:
            actions["add"] = self.add
        if len(well) > 1:
            victim = self._rng.choice(well)
            for act in (self._kill, self._freeze, self._cut, self._leave):
                actions[act.__name__.strip("_")] = lambda act=act: act(victim)  # type: ignore[misc]
        if actions:
            name = self._rng.choice(list(actions))
            self.counts[name] = self.counts.get(name, 0) + 1
            say(f"{name}, of {[member.name for member in self._watch.awake()]}")
            actions[name]()


def run(arguments: argparse.Namespace) -> Findings:
    """Cause faults until the time is up, let everything be read, and check the reports."""
    rng = random.Random(arguments.seed)
    topic = f"groups-{os.urandom(3).hex()}"
    with cluster(arguments, topic) as bootstrap, contextlib.ExitStack() as stack:
        options = {"protocol": arguments.protocol, "assignor": arguments.assignor, "session_ms": _SESSION_MS}
        watch = stack.enter_context(
            GroupWatch(bootstrap, f"{topic}-group", topic, _PARTITIONS, batch=_BATCH, pause_ms=_HANDLING_MS, **options)
        )
        trouble = Trouble(watch, bootstrap, arguments, rng)
        stack.callback(trouble.close)
        feeder = stack.enter_context(Feeder(bootstrap, topic, _PARTITIONS, arguments.per_second))
        for _ in range(3):
            trouble.add()
        watch.wait_shared(_END_TIMEOUT_S)
        say("the members share the partitions")
        ends_at = time.monotonic() + arguments.minutes * 60
        next_at = time.monotonic()
        while time.monotonic() < ends_at:
            now = time.monotonic()
            trouble.recover(now)
            if now >= next_at:
                trouble.strike()
                next_at = now + rng.uniform(2, 2 * arguments.every_s)
            time.sleep(0.1)
        trouble.recover(float("inf"))
        say("no more trouble")
        ends = feeder.stop()
        watch.wait_read(ends, _END_TIMEOUT_S)
        say("everything is read")
        watch.wait_shared(_END_TIMEOUT_S, each=False)
        watch.finish()
        for member in list(watch.awake()):
            watch.leave(member)
        findings = examine(watch.events, ends, _SESSION_MS / 1000 + 5)
        print(f"trouble: {trouble.counts}, records: {sum(ends.values())}, refused commits: {_refused(watch)}")
        for member in watch.members.values():
            if any(problem.startswith(member.name) for problem in findings.crashed):
                print(f"{member.name}:\n{watch.log_of(member)[-3000:]}")
        return findings


def _refused(watch: GroupWatch) -> int:
    return sum(event.kind == "refused" for event in watch.events)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--protocol", choices=("classic", "consumer"), default="classic")
    parser.add_argument("--assignor", default="cooperative-sticky", help="of the classic protocol")
    parser.add_argument("--embedded", action="store_true", help="the embedded cluster instead of Apache Kafka")
    parser.add_argument("--bootstrap", help="a cluster that runs, with sessions of 6 s in the new protocol")
    parser.add_argument("--clients", default="lead", help="of the members: lead, confluent, aiokafka")
    parser.add_argument("--every-s", type=float, default=5, help="mean time between troubles")
    parser.add_argument("--per-second", type=float, default=600, help="records")
    parser.add_argument("--seed", type=int, default=1)
    findings = run(parser.parse_args())
    print(
        f"read: {findings.records}, duplicates: {findings.duplicates}, of these by members that had been away: "
        f"{findings.stale_reads}, longest time without an owner: {findings.longest_gap_s:.1f} s, "
        f"assignments: {findings.rebalances}"
    )
    for problem in findings.problems:
        print(f"PROBLEM: {problem}")
    return 1 if findings.problems else 0


if __name__ == "__main__":
    sys.exit(main())
