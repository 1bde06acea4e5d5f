"""Kills members of a group while records fail for some time and are retried.

    python -m tests.run.long_retries                                # 100,000 records, without order across retries
    python -m tests.run.long_retries --order key --records 20000
    python -m tests.run.long_retries --exactly-once --records 20000 [--order key] [--batch 20]
    python -m tests.run.long_retries --kafka --records 20000 --passes 3

5 % of the records fail for 1 to 60 seconds from their first attempt on; ``--scale`` shortens these seconds. There are
three passes: without failures, with failures, and with failures while members get SIGKILL and new members join
(``--passes 3`` runs only the third). The broker is embedded, or with ``--kafka`` Apache Kafka. The exit status is 0
only if no record was lost or given up. In addition, with ``--order key``, the records of each key must be handled (and
copied) in order, and with ``--exactly-once``, each must be copied once.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from aiokafka_lead import Consumer, Producer, TopicPartition
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster
from tests.programs import Program

from .retrying_member import COPIES, ENTRY, TOPIC, Settings

PARTITIONS = 12
_began = time.monotonic()


def say(what: str) -> None:
    """Report progress."""
    print(f"+{time.monotonic() - _began:.1f} s: {what}", flush=True)


class Pass:
    """One pass over all records."""

    def __init__(self, arguments: argparse.Namespace, *, failing: float, kills: int) -> None:
        self._arguments = arguments
        self._kills = kills
        self._random = random.Random(arguments.seed)
        self._folder = tempfile.TemporaryDirectory()
        (Path(self._folder.name) / "attempts").mkdir()
        self._settings = Settings(
            self._folder.name,
            arguments.seed,
            failing,
            arguments.scale,
            arguments.order,
            arguments.work_ms,
            arguments.exactly_once,
            arguments.batch,
        )
        self._read: dict[Path, int] = {}
        self.handled: list[tuple[float, int]] = []
        """Times and numbers of handled records."""
        self._seen: set[int] = set()

    def run(self) -> bool:
        """Return True if all records add up."""
        with self._folder, _broker(self._arguments.kafka) as servers:
            anyio.run(self._fill, servers)
            command = ("-m", "tests.run.retrying_member", servers, json.dumps(self._settings))
            members = [Program(*command, str(number)) for number in range(self._arguments.members)]
            try:
                self._watch(members, command)
                exact = not self._arguments.exactly_once or anyio.run(self._copied, servers)
                dead = anyio.run(self._given_up, servers)
            finally:
                for member in members:
                    member.__exit__(None, None, None)
                    if "Traceback" in member.output:
                        print(member.output[-5_000:])
        return self._judge(dead) and exact

    async def _fill(self, servers: str) -> None:
        numbers = range(self._arguments.records)
        async with Producer(servers) as producer:
            values = [b"%d" % number for number in numbers]
            keys = [b"%d" % self.key(number) for number in numbers]
            for outcome in await (await producer.send_many(TOPIC, values, keys)):
                assert not isinstance(outcome, BaseException), outcome

    async def _copied(self, servers: str) -> bool:
        """Return True if committed transactions have copied each record once, and in the order that is asked for."""
        copies: Counter[int] = Counter()
        last: Counter[int] = Counter()
        disordered: set[int] = set()
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
        async with Consumer(COPIES, bootstrap_servers=servers, **options) as consumer:
            while records := (await consumer.getmany(timeout_ms=20_000)).values():
                for number in (int(record.value) for each in records for record in each):
                    copies[number] += 1
                    if number < last[self.key(number)]:
                        disordered.add(self.key(number))
                    last[self.key(number)] = max(number, last[self.key(number)])
        twice = sum(count > 1 for count in copies.values())
        say(f"{len(copies)} records copied, {twice} of them more than once, {len(disordered)} keys out of order")
        in_order = self._arguments.order != "key" or not disordered
        return len(copies) == self._arguments.records and not twice and in_order

    @staticmethod
    async def _given_up(servers: str) -> int:
        """Return the number of dead letters."""
        async with Consumer("dead", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            return sum((await consumer.end_offsets([TopicPartition("dead", 0)])).values())

    def key(self, number: int) -> int:
        """Return the key of a record."""
        keys: int = self._arguments.keys
        return number % keys

    def _watch(self, members: list[Program], command: tuple[str, ...]) -> None:
        until = time.monotonic() + self._arguments.patience_s
        killed = 0
        while len(self._seen) < self._arguments.records and time.monotonic() < until:
            time.sleep(0.2)
            self._read_logs()
            if killed < self._kills and len(self._seen) * (self._kills + 1) > self._arguments.records * (killed + 1):
                killed += 1
                say(f"SIGKILL {killed}, after {len(self._seen)} records")
                index = self._random.randrange(len(members))
                members[index].__exit__(None, None, None)
                members[index] = Program(*command, str(index))

    def _read_logs(self) -> None:
        for path in Path(self._folder.name).glob("log-*"):
            with path.open("rb") as log:
                log.seek(self._read.get(path, 0))
                content = log.read()
            whole = len(content) - len(content) % ENTRY.size
            self._read[path] = self._read.get(path, 0) + whole
            for number, at in ENTRY.iter_unpack(content[:whole]):
                self.handled.append((at, number))
                self._seen.add(number)

    def _judge(self, dead: int) -> bool:
        self.handled.sort()
        first: dict[int, float] = {}
        for at, number in self.handled:
            first.setdefault(number, at)
        lost = self._arguments.records - len(first)
        failing = sum(self._settings.fails_for_s(number) > 0 for number in range(self._arguments.records))
        last: Counter[int] = Counter()
        disordered: set[int] = set()
        for number in first:  # in the order of the first times
            if number < last[self.key(number)]:
                disordered.add(self.key(number))
            last[self.key(number)] = max(number, last[self.key(number)])
        say(
            f"{len(first)} records handled, {failing} of them failed at first; {lost} lost, {dead} given up, "
            f"{len(self.handled) - len(first)} handled again, {len(disordered)} keys out of order"
        )
        say(f"healthy records: {self.rate(first):.0f} a second, all done after {self.took_s(first):.1f} s")
        return not lost and not dead and not (disordered and self._arguments.order == "key")

    def rate(self, first: dict[int, float]) -> float:
        """Return healthy records a second, between the first and the last tenth."""
        times = sorted(at for number, at in first.items() if not self._settings.fails_for_s(number))
        tenth = len(times) // 10
        return (len(times) - 2 * tenth) / (times[-1 - tenth] - times[tenth]) if times else 0.0

    @staticmethod
    def took_s(first: dict[int, float]) -> float:
        """Return the time from the first record to the last one."""
        return max(first.values()) - min(first.values()) if first else 0.0


@contextmanager
def _broker(kafka: bool) -> Iterator[str]:
    """Yield the address of a broker with the topics of the trial."""
    topics = ((TOPIC, PARTITIONS), (COPIES, 1), ("dead", 1))
    if not kafka:
        with ClusterThread(EmbeddedCluster(1)) as embedded:
            for name, partitions in topics:
                embedded.create_topic(name, partitions)
            yield embedded.bootstrap_servers
        return
    from tests.kafka.harness import NEWEST, KafkaCluster

    cluster = KafkaCluster(NEWEST, brokers=1)
    try:
        cluster.start()
        for name, partitions in topics:
            cluster.create_topic(name, partitions=partitions)
        yield cluster.bootstrap()
    finally:
        cluster.stop()


def main() -> int:
    """Run the trial."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--failing", type=float, default=0.05)
    parser.add_argument("--scale", type=float, default=0.1, help="part of a second that stands for one")
    parser.add_argument("--order", choices=["none", "key"], default="none")
    parser.add_argument("--exactly-once", action="store_true")
    parser.add_argument("--batch", type=int, default=0, help="number of records that a handler takes at once")
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--passes", type=int, nargs="+", choices=[1, 2, 3], default=[1, 2, 3])
    parser.add_argument("--work-ms", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience-s", type=float, default=600.0)
    arguments = parser.parse_args()
    fine = True
    passes = (
        ("no record fails", 0.0, 0),
        ("some fail", arguments.failing, 0),
        ("some fail, and members are killed", arguments.failing, arguments.kills),
    )
    for what, failing, kills in [passes[number - 1] for number in arguments.passes]:
        say(what)
        fine = Pass(arguments, failing=failing, kills=kills).run() and fine
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
