"""Payments that are booked exactly once, although the workers that book them are killed repeatedly.

    python -m examples.payments                                # on an embedded cluster, about ten seconds
    python -m examples.payments --bootstrap localhost:9092     # on a real cluster: keeps its topics "payments-..."
    python -m examples.payments --outage 300                   # the embedded cluster is down for five minutes

Accounts are spread over partitions. A worker books the payments of its accounts: it takes the money from the payer's
balance, and sends a credit to the payee's partition, whose worker adds it to the payee's balance. It refuses payments
that are not covered. The new balances, the credits, the outcomes and the offsets of the payments are one transaction. A
killed worker (SIGKILL) therefore leaves no booking half done: its successor aborts any open transaction, reads the
balances, and continues. While the cluster is down, workers retry until it is back.

The auditor sends the payments and kills workers at random. At the end it checks that each payment has one outcome, that
no money was lost or created, and that each balance agrees with the outcomes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from typing import Any

from aiokafka_lead import Consumer, ConsumerRecord, Producer, TopicPartition, Transaction
from aiokafka_lead.admin import AdminClient, NewTopic
from aiokafka_lead.errors import (
    ClientClosedError,
    CommitFailedError,
    CommitOutcomeUnknownError,
    KafkaError,
    TransactionAbortedError,
)
from aiokafka_lead.testing import EmbeddedCluster

PARTITIONS = 4
"""Number of partitions of each topic: an account is in the same partition of all topics."""
WORKERS = 3
ACCOUNTS = 40
DEPOSIT = 1_000
"""Initial balance of each account in cents."""
TOPICS = ("orders", "credits", "balances", "outcomes")


# --- a worker --------------------------------------------------------------------------------------------------------


class Balances:
    """Balances of the accounts in this worker's partitions, read from the topic "balances"."""

    def __init__(self, servers: str, topic: str) -> None:
        self._servers = servers
        self._topic = topic
        self._partitions: dict[int, dict[str, int]] = {}

    def of(self, partition: int) -> dict[str, int]:
        """Return balances by account, as of the last committed transaction.

        Empty for a revoked partition: a transaction with its records can no longer be committed.
        """
        return self._partitions.get(partition, {})

    async def on_partitions_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Load balances. The group waits for this, so the balances of a partition are known before its first record."""
        for partition in {tp.partition for tp in partitions}:
            while True:
                try:
                    self._partitions[partition] = await read_latest(self._servers, self._topic, partition)
                    break
                except KafkaError as error:
                    if not error.retriable:
                        raise
                    print(f"could not read the balances of partition {partition}: {error}", flush=True)

    def on_partitions_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self._partitions.pop(tp.partition, None)


async def read_latest(servers: str, topic: str, partition: int) -> dict[str, int]:
    """Return the latest value of each key.

    This reads up to the end of the log. If the previous worker left a transaction open, it waits until the transaction
    is committed or aborted, because the balances before it may be outdated.
    """
    tp = TopicPartition(topic, partition)
    async with Consumer(bootstrap_servers=servers) as anything:
        end = (await anything.end_offsets([tp]))[tp]
    latest: dict[str, int] = {}
    options: dict[str, Any] = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    async with Consumer(bootstrap_servers=servers, **options) as reader:
        reader.assign([tp])
        while await reader.position(tp) < end:
            for records in (await reader.getmany(timeout_ms=200)).values():
                latest |= {(record.key or b"").decode(): int(record.value or 0) for record in records}
    return latest


async def work(servers: str, prefix: str, number: int) -> None:
    """Book payments until SIGTERM."""
    orders, credits_, balances_, outcomes = (f"{prefix}-{name}" for name in TOPICS)
    balances = Balances(servers, balances_)
    name = f"{prefix}-worker-{number}"
    consumer: Consumer[Any, Any] = Consumer(
        bootstrap_servers=servers,
        group_id=f"{prefix}-workers",
        group_instance_id=name,  # a restarted worker gets its partitions at once
        partition_assignment_strategy=("range",),  # the same partitions of both topics
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=50,
    )
    consumer.subscribe([orders, credits_], listener=balances)
    # The id stays the same across restarts, so a successor aborts any open transaction at once.
    producer = Producer(servers, transactional_id=name, max_block_ms=5_000)
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        for client in (producer, consumer):
            stack.push_async_callback(client.stop)
            await client.start(wait=False)  # the cluster may be down
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: tasks.create_task(consumer.stop()))
        while True:
            try:
                taken = await consumer.getmany(timeout_ms=60_000)
            except ClientClosedError:
                return  # SIGTERM
            changed: defaultdict[int, dict[str, int]] = defaultdict(dict)
            txn = producer.transaction()
            try:
                async with txn:
                    for tp, records in taken.items():
                        for record in records:
                            now = {**balances.of(tp.partition), **changed[tp.partition]}
                            if tp.topic == credits_:
                                credit(record, now, changed[tp.partition])
                            elif payment := book(record, now, changed[tp.partition]):
                                await txn.send(credits_, json.dumps(payment).encode(), payment["to"].encode())
                                await txn.send(outcomes, b"booked", record.value)
                            else:
                                await txn.send(outcomes, b"refused", record.value)
                    for partition, accounts in changed.items():
                        for account, cents in accounts.items():
                            await txn.send(balances_, b"%d" % cents, account.encode(), partition=partition)
                    await txn.send_offsets(consumer)
            except CommitOutcomeUnknownError as error:
                print(f"worker {number}: {error}", flush=True)
                await learn_outcome(producer, txn)
            except (TransactionAbortedError, CommitFailedError) as error:
                print(f"worker {number}: transaction aborted, its payments will be retried: {error}", flush=True)
            if txn.outcome == "committed":
                for partition, accounts in changed.items():
                    balances.of(partition).update(accounts)


async def learn_outcome(producer: Producer[Any, Any], txn: Transaction[Any, Any]) -> None:
    """Retry until the outcome of the transaction is known, because the balances depend on it."""
    while txn.outcome is None:
        with suppress(CommitOutcomeUnknownError, TransactionAbortedError):
            await producer.commit_transaction()
    if txn.outcome == "unknown":
        raise RuntimeError("the transaction's outcome is unknown: restart the worker, which reads the balances")


def credit(record: ConsumerRecord[Any, Any], now: dict[str, int], changed: dict[str, int]) -> None:
    """Add the received money to the payee's balance."""
    payment = json.loads(record.value)
    changed[payment["to"]] = now.get(payment["to"], 0) + payment["cents"]


def book(record: ConsumerRecord[Any, Any], now: dict[str, int], changed: dict[str, int]) -> dict[str, Any] | None:
    """Take the money from the payer's balance; return the payment, or None if the balance does not cover it."""
    payment: dict[str, Any] = json.loads(record.value)
    left = now.get(payment["from"], 0) - payment["cents"]
    if left < 0:
        return None
    changed[payment["from"]] = left
    return payment


# --- the auditor -----------------------------------------------------------------------------------------------------


class Workers:
    """Worker processes, which are killed at random and restarted."""

    def __init__(self, servers: str, prefix: str) -> None:
        self._command = [sys.executable, "-m", "examples.payments", "--bootstrap", servers, "--prefix", prefix]
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self.kills = 0

    async def start(self) -> None:
        for number in range(WORKERS):
            await self._start(number)

    async def _start(self, number: int) -> None:
        self._running[number] = await asyncio.create_subprocess_exec(*self._command, "--worker", str(number))

    async def trouble(self, every_s: float, over: asyncio.Event) -> None:
        """Kill and restart workers until ``over`` is set."""
        while True:
            try:
                await asyncio.wait_for(over.wait(), random.uniform(0.2, 1.8) * every_s)
            except TimeoutError:
                pass
            else:
                return
            number = random.randrange(WORKERS)
            self._running[number].kill()
            await self._running[number].wait()
            self.kills += 1
            await self._start(number)

    async def stop(self) -> None:
        """End all workers."""
        for process in self._running.values():
            with suppress(ProcessLookupError):  # it has ended by itself
                process.terminate()
        for process in self._running.values():
            try:
                await asyncio.wait_for(process.wait(), 10)
            except TimeoutError:
                process.kill()
                await process.wait()


def account(number: int) -> str:
    return f"account-{number:02}"


async def pay(servers: str, prefix: str, count: int, over_s: float) -> list[dict[str, Any]]:
    """Deposit money, send random payments over ``over_s`` seconds, and return them."""
    payments = []
    async with Producer(servers, delivery_timeout_ms=900_000) as producer:  # longer than any outage
        for number in range(ACCOUNTS):
            deposit = {"to": account(number), "cents": DEPOSIT}
            await producer.send(f"{prefix}-credits", json.dumps(deposit).encode(), account(number).encode())
        for number in range(count):
            payer, payee = random.sample(range(ACCOUNTS), 2)
            payment = {"id": number, "from": account(payer), "to": account(payee), "cents": random.randrange(1, 400)}
            payments.append(payment)
            await producer.send(f"{prefix}-orders", json.dumps(payment).encode(), account(payer).encode())
            await asyncio.sleep(over_s / count)
    return payments


async def read_outcomes(servers: str, prefix: str, count: int) -> list[tuple[dict[str, Any], str]]:
    """Return payments and their outcomes in order of arrival. Reads a little longer than needed, to find duplicates."""
    found: list[tuple[dict[str, Any], str]] = []
    options: dict[str, Any] = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    async with Consumer(bootstrap_servers=servers, **options) as reader:
        reader.assign([TopicPartition(f"{prefix}-outcomes", partition) for partition in range(PARTITIONS)])
        complete = False
        while not complete or len(found) < count:
            complete = len(found) >= count
            for records in (await reader.getmany(timeout_ms=1000)).values():
                found += [(json.loads(record.key or b""), (record.value or b"").decode()) for record in records]
    return found


async def settled_balances(servers: str, prefix: str) -> Counter[str]:
    """Return the balances once no credit is pending."""
    while True:
        found: Counter[str] = Counter()
        for partition in range(PARTITIONS):
            found.update(await read_latest(servers, f"{prefix}-balances", partition))
        if found.total() >= ACCOUNTS * DEPOSIT:
            return found
        await asyncio.sleep(0.2)


async def audit(servers: str, prefix: str, count: int, over_s: float, outage_s: float) -> bool:
    """Return True if all payments and balances agree."""
    async with AdminClient(servers) as admin:
        await admin.create_topics([NewTopic(f"{prefix}-{name}", num_partitions=PARTITIONS) for name in TOPICS])
    workers = Workers(servers, prefix)
    await workers.start()
    try:
        over = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(workers.trouble(over_s / 8, over))
            payments = await pay(servers, prefix, count, over_s)
            over.set()
        async with asyncio.timeout(90 + over_s + outage_s):
            outcomes = await read_outcomes(servers, prefix, count)
            balances = await settled_balances(servers, prefix)
    finally:
        await workers.stop()
    expected = Counter({account(number): DEPOSIT for number in range(ACCOUNTS)})
    for payment, outcome in outcomes:
        if outcome == "booked":
            expected[payment["from"]] -= payment["cents"]
            expected[payment["to"]] += payment["cents"]
    ids = [payment["id"] for payment, _ in outcomes]
    once = sorted(ids) == [payment["id"] for payment in payments]
    kinds = Counter(outcome for _, outcome in outcomes)
    print(f"{count} payments, {workers.kills} workers killed: {kinds['booked']} booked, {kinds['refused']} refused")
    print(f"each payment has one outcome: {once}")
    print(f"the balances hold {balances.total()} of {ACCOUNTS * DEPOSIT} cents, as booked: {balances == expected}")
    return once and balances == expected


async def be_away(cluster: EmbeddedCluster, after_s: float, for_s: float) -> None:
    """Stop all brokers after ``after_s`` seconds, for ``for_s`` seconds."""
    await asyncio.sleep(after_s)
    for broker in cluster.broker_ids:
        await cluster.kill_broker(broker)
    await asyncio.sleep(for_s)
    for broker in cluster.broker_ids:
        await cluster.start_broker(broker)
    print(f"the cluster was down for {for_s:g} s", flush=True)


async def main(options: argparse.Namespace) -> bool:
    if options.worker is not None:
        await work(options.bootstrap, options.prefix, options.worker)
        return True
    prefix = options.prefix or f"payments-{os.getpid()}-{time.time_ns() % 10**6}"
    if options.bootstrap is not None:
        return await audit(options.bootstrap, prefix, options.payments, options.seconds, 0)
    async with EmbeddedCluster(3) as cluster, asyncio.TaskGroup() as tasks:
        if options.outage:
            tasks.create_task(be_away(cluster, options.seconds / 2, options.outage))
        return await audit(cluster.bootstrap_servers, prefix, options.payments, options.seconds, options.outage)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="HOST:PORT of a cluster; default: an embedded one")
    parser.add_argument("--payments", type=int, default=1000, help="number of payments")
    parser.add_argument("--seconds", type=float, default=8, help="time in which payments are sent")
    parser.add_argument("--outage", type=float, default=0, help="seconds for which the embedded cluster is down")
    parser.add_argument("--prefix", help="prefix of topic names and ids; default: a new one")
    parser.add_argument("--worker", type=int, help="run as the worker with this number; needs --bootstrap and --prefix")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(main(parsed())) else 1)
