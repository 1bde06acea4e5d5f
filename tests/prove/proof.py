"""One run: a cluster, a network, clients, faults, and the page with the findings."""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import confluent_kafka

from aiokafka_lead import AdminClient, TopicPartition
from aiokafka_lead._options.version import __version__
from aiokafka_lead.admin import OffsetSpec
from aiokafka_lead.errors import KafkaError
from tests.kafka.broker_trouble import KEEP_ACKNOWLEDGED
from tests.kafka.harness import KafkaCluster, Listener, Release
from tests.kafka.support import confluent_read, in_thread
from tests.proxies import real_proxy
from tests.share.support import configure

from .clients import CLIENTS
from .faults import Faults
from .judge import Stored, Verdict, judge_copies, judge_lists, judge_readers, judge_sharers, judge_writers
from .network import Network, ProxiedNetwork
from .workers import Worker, Workers

__all__ = ["MODES", "PEER_MODES", "Proof"]

MODES = ("idempotent", "transactions", "groups", "exactly once", "share")
PEER_MODES = MODES[:3]
"""Modes for other clients. They have no call for exactly once from end to end, and aiokafka has no share groups."""
NUMBERS, LISTS, COPIES = "numbers", "lists", "copies"
PARTITIONS = 6
PER_SECOND = 150
"""Records of each writer."""
TRANSACTION_MS = 8000
CAUGHT_UP_WITHIN_S = 120.0
_NAMED = 5
"""Maximum number of findings of each kind to show."""


class Proof:
    """A run, started once by `run`."""

    def __init__(
        self,
        release: Release,
        modes: Sequence[str],
        client: str,
        seed: int,
        minutes: float,
        folder: Path,
        proxy: str | None = None,
        tls: bool = False,
    ) -> None:
        """Create a run. ``proxy`` is the kind of a `RealProxy` before all brokers, in place of `Network`.

        ``tls`` makes clients use TLS through this proxy.
        """
        self._release = release
        self._modes = list(modes)
        self._client = client
        self._seed = seed
        self._minutes = minutes
        self._folder = folder
        self._proxy = proxy
        self._listener = Listener.PROXIED if proxy is None else Listener.SSL if tls else Listener.PLAINTEXT
        self._kafka = KafkaCluster(
            release, brokers=3, properties=KEEP_ACKNOWLEDGED, secure=tls, proxied=self._listener is Listener.PROXIED
        )
        self._servers: dict[str, Any] = {}
        self._workers = Workers(seed)
        self._by_role: dict[str, list[Worker]] = {}
        self._notes: list[str] = []
        self._verdicts: dict[str, Verdict] = {}

    @property
    def clean(self) -> bool:
        """Return True without violations."""
        return bool(self._verdicts) and all(verdict.clean for verdict in self._verdicts.values()) and not self._notes

    async def run(self, with_faults: bool) -> str:
        """Run the proof and return the page."""
        try:
            await in_thread(self._kafka.start)
            topics = [NUMBERS] if self._modes != ["transactions"] else []
            topics += [LISTS] if "transactions" in self._modes else []
            topics += [COPIES] if "exactly once" in self._modes else []
            for topic in topics:
                await in_thread(self._kafka.create_topic, topic, partitions=PARTITIONS)
            if "share" in self._modes:
                await configure(self._kafka.bootstrap(), "sharers")
            self._servers = {"bootstrap_servers": self._kafka.bootstrap(self._listener)}
            if self._kafka.certificates is not None:
                self._servers |= {"security_protocol": "SSL", "ssl_cafile": str(self._kafka.certificates.authority)}
            async with self._network() as network:
                began = time.monotonic()
                seconds = self._minutes * 60
                faults = Faults(self._kafka, network, self._workers, topics, self._seed, seconds)
                await in_thread(self._workers.add, self._processes())
                with anyio.move_on_after(seconds):
                    if with_faults:
                        await self._cause(faults)
                    else:
                        await anyio.sleep_forever()
                await faults.heal()
                await self._come_to_an_end()
                took_s = time.monotonic() - began
            await self._judge()
        finally:
            await in_thread(self._workers.kill)
            await in_thread(self._kafka.stop)
        return self._page(faults.counts, took_s)

    @asynccontextmanager
    async def _network(self) -> AsyncIterator[Network | ProxiedNetwork]:
        if self._proxy is None:
            with Network({broker: self._kafka.behind_proxy(broker) for broker in self._kafka.broker_ids}) as network:
                yield network
        else:
            async with real_proxy(self._proxy, self._kafka.folder, "prover", "s3cret") as proxy:
                self._servers["proxy_url"] = proxy.url
                yield ProxiedNetwork(proxy)

    async def _cause(self, faults: Faults) -> None:
        """Cause faults until cancelled. If no more can be caused, the run is still judged."""
        began = time.monotonic()
        try:
            await faults.run()
        except* Exception as errors:
            ended_s = time.monotonic() - began
            self._notes.append(f"the faults ended after {ended_s:.0f} s: {errors.exceptions[0]!r}")

    # --- the clients --------------------------------------------------------------------------------------------------

    def _processes(self) -> Iterable[Worker]:
        if self._modes != ["transactions"]:
            yield from self._some(
                "writer", "tests.prove.writer", 3, topic=NUMBERS, client=self._client, per_second=PER_SECOND
            )
        if "transactions" in self._modes:
            yield from self._some(
                "lists", "tests.prove.lists", 3, topic=LISTS, client=self._client, timeout_ms=TRANSACTION_MS
            )
        if "groups" in self._modes:
            for protocol in self._protocols:
                group = f"readers-{protocol}"
                wanted: dict[str, Any] = {"topic": NUMBERS, "group": group, "protocol": protocol}
                yield from self._some(group, "tests.prove.reader", 3, client=self._client, **wanted)
        if "exactly once" in self._modes:
            wanted = {"source": NUMBERS, "target": COPIES, "group": "copiers", "batch": 200}
            wanted |= {"protocol": self._protocols[-1], "timeout_ms": TRANSACTION_MS}
            yield from self._some("copier", "tests.kafka.copier", 3, **wanted)
        if "share" in self._modes:
            yield from self._some("sharer", "tests.prove.sharer", 3, topic=NUMBERS, group="sharers")

    @property
    def _protocols(self) -> list[str]:
        return ["classic"] if self._release.version < "4" else list(CLIENTS[self._client].protocols)

    def _some(self, role: str, module: str, count: int, **options: Any) -> list[Worker]:
        common = {"servers": self._servers, "partitions": PARTITIONS, **options}
        self._by_role[role] = [Worker(role, module, number, self._folder, common) for number in range(count)]
        return self._by_role[role]

    async def _come_to_an_end(self) -> None:
        """Stop the writers, then the readers once they have read everything."""
        await in_thread(self._workers.revive)
        first = [worker for role in ("writer", "lists") for worker in self._by_role.get(role, ())]
        await in_thread(self._workers.stop, first)
        for role in self._by_role:
            if role.startswith(("reader", "copier", "sharer")):
                group = self._by_role[role][0].options["group"]
                if not await self._caught_up(group, is_share=role == "sharer"):
                    self._notes.append(
                        f"{role}: records left {CAUGHT_UP_WITHIN_S:g} s after the last fault was repaired"
                    )
        await in_thread(self._workers.stop, [worker for worker in self._workers.all if worker not in first])
        failures = Counter(self._workers.failures)
        self._notes += [f"{what}{f' ({count} times)' if count > 1 else ''}" for what, count in failures.items()]

    async def _caught_up(self, group: str, *, is_share: bool) -> bool:
        """Wait until a group has read all records; return False if it takes too long."""
        async with AdminClient(self._kafka.bootstrap()) as admin:
            with anyio.move_on_after(CAUGHT_UP_WITHIN_S):
                while True:
                    try:
                        if await (_nothing_shared(admin, group) if is_share else _nothing_left(admin, group)):
                            return True
                    except KafkaError:
                        pass
                    await anyio.sleep(0.5)
        return False

    # --- the judge ----------------------------------------------------------------------------------------------------

    async def _judge(self) -> None:
        journals = {
            role: [path for worker in workers for path in worker.journals.values()]
            for role, workers in self._by_role.items()
        }
        numbers = await self._stored(NUMBERS) if "writer" in journals else {}
        if "writer" in journals:
            self._verdicts["idempotent"] = judge_writers(journals["writer"], numbers)
        if "lists" in journals:
            by_life = {life: path for w in self._by_role["lists"] for life, path in w.journals.items()}
            self._verdicts["transactions"] = judge_lists(by_life, await self._stored(LISTS))
        for role in journals:
            if role.startswith("readers"):
                self._verdicts[f"groups, {role.partition('-')[2]}"] = judge_readers(journals[role], numbers)
        if "copier" in journals:
            self._verdicts["exactly once"] = judge_copies(numbers, await self._stored(COPIES))
        if "sharer" in journals:
            self._verdicts["share"] = judge_sharers(journals["sharer"], numbers)

    async def _stored(self, topic: str) -> Stored:
        found = await in_thread(self._kafka.admin().list_topics, topic, 30)
        count = len(found.topics[topic].partitions)
        messages = await in_thread(confluent_read, self._kafka, topic, count, **{"isolation.level": "read_committed"})
        stored: dict[int, list[tuple[int, str]]] = {partition: [] for partition in range(count)}
        for message in messages:
            offset, value = message.offset(), message.value()
            assert offset is not None
            assert value is not None
            stored[message.partition() or 0].append((offset, value.decode()))
        return stored

    # --- the page -----------------------------------------------------------------------------------------------------

    def _page(self, faults: dict[str, int], took_s: float) -> str:
        others = f"judged by confluent-kafka {confluent_kafka.version()} (librdkafka {confluent_kafka.libversion()[0]})"
        python = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
        way = f"; all through {self._proxy}" if self._proxy else ""
        way += ", TLS inside" if self._kafka.certificates is not None else ""
        machine = f"aiokafka-lead {__version__}, {others}, {python}"
        lines = [
            f"# {self._client} on Apache Kafka {self._release}, {self._minutes:g} minutes of faults, seed {self._seed}",
            "",
            f"{machine}; {took_s:.0f} s in total. Modes: {', '.join(self._modes)}{way}.",
            "",
            "| event | count |",
            "|---|--:|",
            *(f"| {kind} | {count} |" for kind, count in faults.items()),
        ]
        for mode, verdict in self._verdicts.items():
            lines += ["", f"## {mode}: {'no violations' if verdict.clean else 'VIOLATIONS'}", ""]
            lines += ["| | |", "|---|--:|", *(f"| {what} | {count:,} |" for what, count in verdict.counts.items())]
            for kind, found in verdict.findings.items():
                lines.append(f"| **{kind}** | {len(found):,} |")
            named = [f"- {kind}: {text}" for kind, found in verdict.findings.items() for text in found[:_NAMED]]
            lines += [""] * bool(named) + named
        lines += ["", *(f"- {note}" for note in self._notes)]
        return "\n".join(lines).rstrip() + "\n"


async def _nothing_left(admin: AdminClient, group: str) -> bool:
    topics = await admin.describe_topics([NUMBERS])
    every = [TopicPartition(NUMBERS, partition.partition) for partition in topics[NUMBERS].partitions]
    committed = {tp: at.offset for tp, at in (await admin.list_consumer_group_offsets(group)).items() if at is not None}
    ends = await admin.list_offsets(dict.fromkeys(every, OffsetSpec.LATEST))
    return all(end is None or committed.get(tp, 0) >= end.offset for tp, end in ends.items())


async def _nothing_shared(admin: AdminClient, group: str) -> bool:
    offsets = await admin.list_share_group_offsets(group)
    return bool(offsets) and all(found is not None and found.lag == 0 for found in offsets.values())
