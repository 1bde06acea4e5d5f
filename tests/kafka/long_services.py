"""Runs the order service and the consumer service of ``examples`` while brokers, workers and instances are restarted.

    python -m tests.kafka.long_services                      # 2,000 requests, two workers, two consumers, three brokers
    python -m tests.kafka.long_services --requests 20000 --per-second 100 --seed 7

Brokers get SIGKILL or SIGTERM; workers of uvicorn, and consumers, get SIGTERM. The program prints the outcomes of the
requests, and their p50, p99 and longest time. The exit status is 0 only if

- every accepted order was billed once, and requests were only accepted or refused;
- the programs ended in order;
- no request took longer than the order service promises, apart from time that this machine withheld, which is the
  lateness of a timer during the request;
- each page of metrics was valid, and at the end the workers' counters grew by the number of the last requests.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.ports import PortPool
from tests.programs import Program

from .broker_trouble import ALL_KINDS, ENDS, KEEP_ACKNOWLEDGED, BrokerTrouble
from .harness import NEWEST, KafkaCluster
from .support import in_thread

PROMISE_S = 20.0
"""Longest time for an answer of the order service, in seconds: its ``max_block_ms`` and ``delivery_timeout_ms``."""
LAST = 50
"""Number of requests after the trouble, for the comparison with the counters."""
TOPIC = "orders"
PARTITIONS = 6
TICK_S = 0.05


@dataclass(frozen=True)
class Answer:
    """Outcome of a request."""

    order_id: str
    status: int
    """0 if the connection was lost."""
    began: float
    took_s: float
    withheld_s: float
    """Lateness of a timer meanwhile."""
    what: str


class Clock:
    """Records the time that this machine withholds from the process."""

    def __init__(self) -> None:
        self._late: list[tuple[float, float]] = []

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            due = time.monotonic() + TICK_S
            await anyio.sleep(TICK_S)
            now = time.monotonic()
            if now - due > TICK_S:
                self._late.append((now, now - due))

    def late_since(self, began: float) -> float:
        """Return the total lateness since then."""
        return sum(late for at, late in self._late if at >= began)


class Customers:
    """Send the requests."""

    def __init__(self, client: httpx.AsyncClient, url: str, clock: Clock, name: str = "order") -> None:
        self._client = client
        self._url = url
        self._clock = clock
        self._name = name
        self.answers: list[Answer] = []
        """Attempts: after a lost connection, the same order is sent again."""

    async def run(self, count: int, per_second: float) -> None:
        """Send requests at a steady rate, without waiting for answers."""
        began = time.monotonic()
        async with anyio.create_task_group() as requests:
            for number in range(count):
                await anyio.sleep(max(0.0, began + number / per_second - time.monotonic()))
                requests.start_soon(self._order, number)

    async def _order(self, number: int) -> None:
        order_id = f"{self._name}-{number}"
        while True:
            answer = await self._try(order_id, {"customer": f"customer-{number % 50}", "cents": 1})
            self.answers.append(answer)
            if answer.status:
                return
            await anyio.sleep(0.1)

    async def _try(self, order_id: str, order: dict[str, Any]) -> Answer:
        began = time.monotonic()
        try:
            answer = await self._client.post(self._url, json=order, headers={"idempotency-key": order_id})
            status, what = answer.status_code, "" if answer.status_code == 202 else answer.text
        except httpx.TransportError as error:
            status, what = 0, repr(error)
        now = time.monotonic()
        return Answer(order_id, status, began, now - began, self._clock.late_since(began), what)


class Scrapes:
    """Read the metrics of all workers."""

    def __init__(self, client: httpx.AsyncClient, url: str) -> None:
        self._client = client
        self._url = url
        self.pages = 0
        self.problems: list[str] = []

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            with suppress(httpx.TransportError):  # of the worker that just ended
                await self.acked()
            await anyio.sleep(0.5)

    async def acked(self) -> dict[int, float]:
        """Return the number of records that each worker's producer counts as acknowledged, by process."""
        accept = {"accept": "application/openmetrics-text; version=1.0.0"}
        page = (await self._client.get(self._url, headers=accept)).text
        self.pages += 1
        try:
            families = list(text_string_to_metric_families(page))  # type: ignore[no-untyped-call]
        except ValueError as error:
            self.problems.append(f"a page of metrics is invalid: {error}:\n{page[:2000]}")
            return {}
        samples = [sample for family in families for sample in family.samples]
        found = {int(each.labels["pid"]): 0.0 for each in samples if each.name == "kafka_producer_healthy"}
        for each in samples:
            if each.name == "kafka_producer_records_acked_total":
                found[int(each.labels["pid"])] += each.value
        return found

    async def of_two(self, server: Program) -> dict[int, float]:
        """Return the same once two workers answer, which are those that run."""
        while True:
            found = await self.acked()
            if len(found) == 2 and found.keys() == {*server.children("spawn_main")}:
                return found
            await anyio.sleep(0.1)


class Endings:
    """SIGTERM for workers of the order service and for consumers, in turn."""

    def __init__(self, server: Program, consumers: list[Program], start_consumer: Any, seed: int) -> None:
        self._server = server
        self.consumers = consumers
        self._start_consumer = start_consumer
        self._rng = random.Random(seed)
        self.ended: Counter[str] = Counter()
        self.problems: list[str] = []

    async def run(self, wait_s: tuple[float, float]) -> None:
        """Until cancelled."""
        while True:
            await anyio.sleep(self._rng.uniform(*wait_s))
            await in_thread(self._rng.choice([self._end_worker, self._end_consumer]))

    def _end_worker(self) -> None:
        workers = self._server.children("spawn_main")
        if len(workers) < 2:
            return  # the previous one has not returned
        worker = self._rng.choice(workers)
        os.kill(worker, signal.SIGTERM)
        self.ended["workers"] += 1

    def _end_consumer(self) -> None:
        at = self._rng.randrange(len(self.consumers))
        status = self.consumers[at].end()
        self.ended["consumers"] += 1
        if status != 0:
            self.problems.append(f"a consumer ended with {status}:\n{self.consumers[at].output[-2000:]}")
        self.consumers[at] = self._start_consumer()


def billed(ledger: Path) -> dict[str, int]:
    """Return how often each order is in the ledger."""
    with closing(sqlite3.connect(ledger, timeout=30)) as opened:
        return dict(opened.execute("SELECT order_id, count(*) FROM bills GROUP BY order_id"))


async def wait_until_billed(ledger: Path, wanted: set[str], timeout_s: float) -> set[str]:
    """Return the orders that are still missing after this time."""
    deadline = time.monotonic() + timeout_s
    while True:
        missing = wanted - set(await in_thread(billed, ledger))
        if not missing or time.monotonic() > deadline:
            return missing
        await anyio.sleep(0.2)


async def main(options: argparse.Namespace) -> list[str]:
    """Run it; return the violations."""
    kafka = KafkaCluster(NEWEST, brokers=3, properties=KEEP_ACKNOWLEDGED)
    ports = PortPool()
    try:
        await in_thread(kafka.start)
        for topic in (TOPIC, "orders.failed"):
            await in_thread(kafka.create_topic, topic, partitions=PARTITIONS, config={"min.insync.replicas": "2"})
        with tempfile.TemporaryDirectory() as folder, ExitStack() as programs:
            return await serve(kafka, ports.take(), Path(folder) / "ledger.db", programs, options)
    finally:
        await in_thread(kafka.stop)
        ports.close()


async def serve(
    kafka: KafkaCluster, port: int, ledger: Path, programs: ExitStack, options: argparse.Namespace
) -> list[str]:
    """Run the services and their customers at this cluster; return the violations."""
    started: list[Program] = []

    def start_consumer() -> Program:
        consumer = programs.enter_context(
            Program("-m", "examples.consumer_service", kafka.bootstrap(), LEDGER=str(ledger))
        )
        consumer.read_until("handling orders")
        started.append(consumer)
        return consumer

    uvicorn = ("-m", "uvicorn", "examples.fastapi_orders:app", "--workers", "2", "--port", str(port))
    graceful = ("--timeout-graceful-shutdown", str(int(PROMISE_S)), "--no-access-log")
    metrics = ledger.parent / "metrics"
    metrics.mkdir()
    environment = {"BOOTSTRAP_SERVERS": kafka.bootstrap(), "PROMETHEUS_MULTIPROC_DIR": str(metrics)}
    server = programs.enter_context(Program(*uvicorn, *graceful, **environment))
    for _ in range(2):
        await in_thread(server.read_until, "Application startup complete")
    consumers = [await in_thread(start_consumer) for _ in range(2)]
    endings = Endings(server, consumers, start_consumer, options.seed)
    brokers = BrokerTrouble(kafka, [TOPIC], options.seed, options.kinds)
    clock = Clock()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
    async with httpx.AsyncClient(timeout=PROMISE_S * 6, limits=limits) as client:
        customers = Customers(client, f"http://127.0.0.1:{port}/orders", clock)
        scrapes = Scrapes(client, f"http://127.0.0.1:{port}/metrics")
        async with anyio.create_task_group() as trouble:
            trouble.start_soon(clock.run)
            trouble.start_soon(endings.run, (3.0, 8.0))
            trouble.start_soon(brokers.run, (1.0, 3.0))
            trouble.start_soon(scrapes.run)
            await customers.run(options.requests, options.per_second)
            trouble.cancel_scope.cancel()
        await in_thread(kafka.start_missing)
        before = await scrapes.of_two(server)
        afterwards = Customers(client, f"http://127.0.0.1:{port}/orders", clock, "last")
        await afterwards.run(LAST, options.per_second)
        grown = sum((await scrapes.acked()).values()) - sum(before.values())
    sent = sum(answer.status == 202 for answer in afterwards.answers)
    if grown != sent:
        scrapes.problems.append(f"the workers count {grown:.0f} records more, and {sent} requests were accepted")
    customers.answers += afterwards.answers
    print(f"pages of metrics: {scrapes.pages}; the last {sent} accepted orders are {grown:.0f} in their counters")
    accepted = {answer.order_id for answer in customers.answers if answer.status == 202}
    missing = await wait_until_billed(ledger, accepted, 120)
    problems = endings.problems + scrapes.problems
    for program in (*endings.consumers, server):
        status = await in_thread(program.end)
        if status != 0:
            problems.append(f"a program ended with {status}:\n{program.output[-2000:]}")
    if missing:
        problems.append(f"accepted and not billed: {len(missing)}: {sorted(missing)[:20]}")
    again = sum("was billed before" in line for program in started for line in program.lines)
    entries = await in_thread(billed, ledger)
    problems += [f"{order_id} was billed {times} times" for order_id, times in entries.items() if times > 1]
    print(f"ended: {dict(endings.ended)}; brokers: {brokers.done}")
    print(f"billed: {len(entries)} orders, of which {len(accepted)} were accepted; handled again: {again}")
    return problems + report(customers.answers)


def report(answers: list[Answer]) -> list[str]:
    """Print the counts and times; return the violations."""
    named = {202: "accepted", 503: "refused (503)", 0: "connection lost, and tried again"}
    problems = []
    for status, count in sorted(Counter(answer.status for answer in answers).items()):
        print(f"{named.get(status, str(status))}: {count}")
    texts = Counter(answer.what for answer in answers if answer.what)
    for text, count in texts.most_common(10):
        print(f"    {count} x {text[:300]}")
    problems += [f"{a.order_id}: {a.status} {a.what[:300]}" for a in answers if a.status not in named]
    times = sorted(answer.took_s for answer in answers)
    p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
    print(f"time of a request: p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms, max {times[-1] * 1000:.0f} ms")
    for answer in answers:
        if answer.took_s > PROMISE_S:
            text = f"{answer.order_id} took {answer.took_s:.2f} s ({answer.status}), {answer.withheld_s:.2f} s withheld"
            print(text)
            if answer.took_s - answer.withheld_s > PROMISE_S:
                problems.append(text)
    return problems


def parsed() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.kafka.long_services", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--per-second", type=float, default=20)
    parser.add_argument(
        "--kinds", nargs="+", choices=ALL_KINDS, default=list(ENDS), help="what happens to brokers; SIGSTOP freezes one"
    )
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    found = anyio.run(main, parsed())
    for problem in found:
        print(problem)
    sys.exit(bool(found))
