"""Misroutes a broker's address for a while (KIP-1242), with this package's and Java's clients of every kind.

    python -m tests.kafka.long_misrouted                          # both, to another broker and to another cluster
    python -m tests.kafka.long_misrouted --clients lead --check off

Starts three brokers of Kafka 4.4, and a second cluster with topics of the same names. The clients (`astray`,
`Astray.java`) are an idempotent and a transactional producer, consumers of both group protocols, a share consumer and
an admin client. Broker 1 is the coordinator of each, if possible. After some seconds the path to broker 1 leads to
broker 2, or to a broker of the second cluster. Some seconds later it is correct again. For each kind of client, the
table shows the numbers of successes and failures, of records that were lost, repeated (stored twice, read again,
accepted twice) or torn, and the time from the end of the fault to the first success that needed broker 1. The lines
below it show the numbers of records in the second cluster.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import anyio

from aiokafka_lead import Consumer, Producer
from tests.prove.network import Network
from tests.share.support import configure

from .harness import NEWEST, KafkaCluster, Listener
from .harness.java import class_path, compile_class
from .support import confluent_read

ROLES = ("producer", "transactions", "classic", "consumer", "share", "admin")
PARTITIONS = 6
RIGHT_S, WRONG_S, AFTER_S = 5.0, 4.0, 6.0
READ_WITHIN_S = 90.0
SESSIONS = {
    "group.consumer.session.timeout.ms": "45000",
    "group.share.session.timeout.ms": "45000",
}
"""Kafka's defaults, instead of the short ones of other tests."""
_MISLED, _OTHER = 1, 2

Places = set[tuple[str, str]]
"""Topic and partition, or partition, and offset or number, as texts."""


class Event(NamedTuple):
    """One line of a client's output."""

    role: str
    kind: str
    where: str
    number: str
    at: float


class Clients:
    """The process of one client's roles, and its events."""

    def __init__(self, client: str, options: dict[str, str | int], complaints: Path) -> None:
        if client == "java":
            jars = class_path(NEWEST)
            classes = compile_class(Path(__file__).with_name("Astray.java"), jars)
            arguments = [f"{name}={str(value).lower()}" for name, value in options.items()]
            command = ["java", "-Xmx384m", "-cp", f"{classes}:{jars}", "Astray", *arguments]
        else:
            command = [sys.executable, "-m", "tests.kafka.astray", json.dumps(options)]
        self.events: list[Event] = []
        with complaints.open("w") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            role, kind, where, number, at = line.rstrip("\n").split("\t")
            self.events.append(Event(role, kind, where, number, float(at)))

    def wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Poll until the condition holds; return False if it does not within this time."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert self._process.poll() is None, "the clients' process has ended"
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def done(self, role: str) -> list[Event]:
        """Return the role's successes so far."""
        return [event for event in self.events if event.role == role and event.kind == "done"]

    def stop_writing(self) -> None:
        """Tell the writers to end."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._thread.join()


class Trial:
    """One client, and one place to which broker 1's address leads."""

    def __init__(self, kafka: KafkaCluster, stranger: KafkaCluster, client: str, elsewhere: str, check: bool) -> None:
        self._kafka = kafka
        self._stranger = stranger
        self._client = client
        self._elsewhere = elsewhere
        name = f"{client}-{elsewhere.split()[1]}-{'on' if check else 'off'}"
        self._plain, self._listed = f"plain-{name}", f"listed-{name}"
        for cluster in (kafka, stranger):
            for topic in (self._plain, self._listed):
                cluster.create_topic(topic, partitions=PARTITIONS)
        self._misled = {str(p) for p in range(PARTITIONS) if kafka.leader(self._plain, p) == _MISLED}
        self._options: dict[str, str | int] = {
            "bootstrap": kafka.bootstrap(Listener.PROXIED),
            "plain": self._plain,
            "listed": self._listed,
            "partitions": PARTITIONS,
            "check": check,
            "id": self._coordinated(f"id-{name}", "__transaction_state"),
        }
        self._options |= {role: self._coordinated(f"{role}-{name}", "__consumer_offsets") for role in ROLES[2:5]}
        self._complaints = f"{name}.log"
        self._stored: list[tuple[str, str, str]] = []
        self._listed_records: list[tuple[str, str, str]] = []
        self._wanted: dict[str, Places] = {}

    def _coordinated(self, name: str, topic: str) -> str:
        """Return a name of an id or a group whose coordinator is the misled broker."""
        partitions = self._kafka.known(self._kafka.admin(), topic).topics[topic].partitions
        led = {number for number, partition in partitions.items() if partition.leader == _MISLED}
        names = [f"{name}-{number}" for number in range(100)]
        return next((each for each in names if _java_hash(each) % len(partitions) in led), name)

    def run(self, keep: Path | None) -> list[str]:
        """Return the rows of the table, and a line below it."""
        anyio.run(configure, self._kafka.bootstrap(), str(self._options["share"]))
        ways = {broker: self._kafka.behind_proxy(broker) for broker in self._kafka.broker_ids}
        elsewhere = {-1: int(self._stranger.address(1).rpartition(":")[2])}
        complaints = self._kafka.folder / self._complaints
        with Network(ways, strangers=elsewhere) as network:
            clients = Clients(self._client, self._options, complaints)
            try:
                assert clients.wait(lambda: all(clients.done(role) for role in ROLES), 120), complaints.read_text()
                time.sleep(RIGHT_S)
                struck = time.time()
                network.strike(_MISLED, "misroute", _OTHER if self._elsewhere == "another broker" else -1)
                time.sleep(WRONG_S)
                network.heal()
                healed = time.time()
                time.sleep(AFTER_S)
                clients.stop_writing()
                assert clients.wait(lambda: any(event.kind == "ended" for event in clients.events), 120)
                self._read_all()
                clients.wait(
                    lambda: not any(self._unread(role, clients.events) for role in self._wanted), READ_WITHIN_S
                )
            finally:
                clients.kill()
        if keep is not None:
            lines = ["\t".join(map(str, event)) for event in clients.events]
            (keep / f"{self._complaints}.events").write_text("\n".join([f"struck {struck}, healed {healed}", *lines]))
        return self._judge(clients.events, struck, healed)

    def _read_all(self) -> None:
        """Read what is stored, which readers have to read, too."""
        self._stored, self._listed_records = self._read(self._plain), self._read(self._listed)
        offsets = {(partition, offset) for partition, offset, _ in self._stored}
        both = {(f"{self._plain}-{partition}", offset) for partition, offset in offsets}
        both |= {(f"{self._listed}-{partition}", offset) for partition, offset, _ in self._listed_records}
        self._wanted = {"classic": both, "consumer": both, "share": offsets}

    def _unread(self, role: str, events: list[Event]) -> Places:
        """Return records that the role has not got; one may be accepted though the answer to its acceptance is lost."""
        got = [event for event in events if event.role == role and event.kind in ("done", "failed")]
        return self._wanted[role] - {(event.where, event.number.split()[0]) for event in got}

    def _judge(self, events: list[Event], struck: float, healed: float) -> list[str]:
        numbers = Counter((partition, number) for partition, _, number in self._stored)
        of: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            of[event.role].append(event)
        done = {(event.where, event.number) for event in of["producer"] if event.kind == "done"}
        found = {"producer": (len(done - numbers.keys()), sum(count > 1 for count in numbers.values()), 0)}
        listed = Counter(number for _, _, number in self._listed_records)
        found["transactions"] = self._transactions(of["transactions"], listed)
        for role in self._wanted:
            seen = Counter((event.where, event.number) for event in of[role] if event.kind == "done")
            found[role] = (len(self._unread(role, events)), sum(count > 1 for count in seen.values()), 0)
        rows = [self._row(role, of[role], found.get(role, (0, 0, 0)), healed) for role in ROLES]
        strays = sum(len(self._read(topic, self._stranger)) for topic in (self._plain, self._listed))
        detected = [event.at - struck for event in of["producer"] if event.kind == "detected"]
        line = f"{self._client}, {self._elsewhere}: {strays} records in the other cluster"
        return [*rows, line + "".join(f"; detected after {after:.2f} s" for after in detected[:1])]

    @staticmethod
    def _transactions(events: Iterable[Event], stored: Counter[str]) -> tuple[int, int, int]:
        """Return the numbers of lost, repeated and torn transactions; one that failed may be stored in whole."""
        lost = torn = 0
        for event in events:
            count = stored[event.number.split()[0]]
            lost += event.kind == "done" and count < PARTITIONS
            torn += event.kind == "failed" and count not in (0, PARTITIONS)
            torn += event.kind == "failed" and event.where == "aborted" and count > 0
        return lost, sum(count > PARTITIONS for count in stored.values()), torn

    def _row(self, role: str, events: list[Event], found: tuple[int, int, int], healed: float) -> str:
        ends = [e.at for e in events if e.kind == "done" and e.at > healed and self._needs_misled(e)]
        back = f"{min(ends) - healed:.2f}" if ends else "-"
        failures = Counter(event.number.split()[-1] for event in events if event.kind == "failed")
        failed = ", ".join(f"{count} {name}" for name, count in failures.items()) or "0"
        successes = sum(event.kind == "done" for event in events)
        lost, repeated, torn = found
        cells = [self._client, self._elsewhere, role, successes, failed, lost, repeated, torn, back]
        return "| " + " | ".join(map(str, cells)) + " |"

    def _needs_misled(self, event: Event) -> bool:
        return not event.where or event.where.rpartition("-")[2] in self._misled

    def _read(self, topic: str, cluster: KafkaCluster | None = None) -> list[tuple[str, str, str]]:
        """Return partition, offset and number of each record, as texts."""
        committed = {"isolation.level": "read_committed"}
        messages = confluent_read(cluster or self._kafka, topic, PARTITIONS, **committed)
        return [(str(each.partition()), str(each.offset()), (each.value() or b"").decode()) for each in messages]


def _java_hash(text: str) -> int:
    """Return Math.abs(text.hashCode()), by which coordinators are chosen."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return abs(value - (1 << 32) if value >> 31 else value)


async def _make_internal_topics(servers: str) -> None:
    async with (
        Producer(servers, transactional_id="first"),
        Consumer("first", bootstrap_servers=servers, group_id="first") as consumer,
    ):
        await consumer.getmany(timeout_ms=2000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", nargs="+", choices=("lead", "java"), default=["lead", "java"])
    parser.add_argument("--check", choices=("on", "off"), default="on", help="metadata_cluster_check_enable")
    parser.add_argument("--keep", type=Path, help="a folder for all events")
    options = parser.parse_args()
    kafka = KafkaCluster(NEWEST, brokers=3, proxied=True, properties=SESSIONS)
    stranger = KafkaCluster(NEWEST, brokers=1, cluster_id="YW5vdGhlciBjbHVzdGVyIQ")
    lines = []
    try:
        kafka.start()
        stranger.start()
        kafka.create_topic("first", partitions=1)
        anyio.run(_make_internal_topics, kafka.bootstrap())
        for elsewhere in ("another broker", "another cluster"):
            for client in options.clients:
                lines += Trial(kafka, stranger, client, elsewhere, options.check == "on").run(options.keep)
                sys.stdout.write(f"{lines[-1]}\n")
                sys.stdout.flush()
    finally:
        stranger.stop()
        kafka.stop()
    names = ("client", "leads to", "kind", "done", "failed", "lost", "repeated", "torn", "back after, s")
    sys.stdout.write("| " + " | ".join(names) + " |\n|" + "---|" * len(names) + "\n")
    sys.stdout.writelines(f"{line}\n" for line in lines if line.startswith("|"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
