"""Copies a topic exactly once while members are killed or frozen, and brokers are killed: minutes, on Apache Kafka.

    python -m tests.kafka.long_copier                        # 100,000 records, transactions of 750, 3 members, classic
    python -m tests.kafka.long_copier --protocol consumer
    python -m tests.kafka.long_copier --trouble members      # or brokers; both are the default
    python -m tests.kafka.long_copier --in-flight 3          # each member has a pipeline of three

The exit status is 0 only if a reader of committed records saw each record once, and in order.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from typing import Any

import anyio

from .broker_trouble import KEEP_ACKNOWLEDGED, BrokerTrouble
from .copier import SESSION_MS, Copiers, fill, read_copies
from .harness import NEWEST, KafkaCluster
from .support import in_thread

PARTITIONS = 6
FREEZE_S = 1.5 * SESSION_MS / 1000


async def main(arguments: argparse.Namespace) -> list[str]:
    """Run it; return the violations."""
    kafka = KafkaCluster(NEWEST, brokers=arguments.brokers, properties=KEEP_ACKNOWLEDGED)
    rng = random.Random(arguments.seed)
    problems = ["the reader did not end"]
    try:
        await in_thread(kafka.start)
        for topic in ("source", "target"):
            await in_thread(kafka.create_topic, topic, partitions=PARTITIONS)
        each = arguments.records // PARTITIONS
        await fill(kafka.bootstrap(), "source", PARTITIONS, each)
        options: dict[str, Any] = {
            "servers": {"bootstrap_servers": kafka.bootstrap()},
            "source": "source",
            "target": "target",
            "group": "copiers",
        }
        options |= {"protocol": arguments.protocol, "batch": arguments.batch, "pause_s": arguments.pause}
        options["in_flight"] = arguments.in_flight
        copiers = Copiers(3, arguments.seed, **options, timeout_ms=arguments.transaction_timeout)
        brokers = BrokerTrouble(kafka, ["source", "target"], arguments.seed)
        began = time.monotonic()
        try:
            async with anyio.create_task_group() as tasks:

                async def members() -> None:
                    while True:
                        await anyio.sleep(rng.uniform(1, 4) * (1 if arguments.trouble == "members" else 3))
                        if rng.random() < arguments.zombies:
                            await in_thread(copiers.freeze, FREEZE_S)
                        else:
                            await in_thread(copiers.trouble, hard=rng.random() < arguments.hard)

                if arguments.trouble != "brokers":
                    tasks.start_soon(members)
                if arguments.trouble != "members":
                    tasks.start_soon(brokers.run, (2.0, 6.0))
                counts = [each] * PARTITIONS
                problems = await read_copies(kafka.bootstrap(), "target", counts, arguments.timeout, anyio.Event())
                tasks.cancel_scope.cancel()
        finally:
            await in_thread(copiers.kill)
        members_text = f"{copiers.kills} members ended, {copiers.freezes} frozen"
        print(f"{time.monotonic() - began:.0f} s, {members_text}; brokers: {brokers.done}", file=sys.stderr)
    finally:
        await in_thread(kafka.stop)
    return problems


def parsed() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--protocol", choices=["classic", "consumer"], default="classic")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=750)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--in-flight", type=int, default=1, help="more than 1 is a pipeline")
    parser.add_argument("--hard", type=float, default=0.5, help="the share of SIGKILL among the ends of members")
    parser.add_argument("--trouble", choices=["members", "brokers", "both"], default="both")
    parser.add_argument(
        "--pause", type=float, default=3, help="seconds that each transaction stays open beyond what it takes"
    )
    parser.add_argument("--transaction-timeout", type=int, default=20_000, help="milliseconds")
    parser.add_argument(
        "--zombies", type=float, default=0.2, help="the share of members that freeze among the troubled"
    )
    parser.add_argument("--timeout", type=float, default=900)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    found = anyio.run(main, parsed())
    for problem in found:
        print(problem)
    sys.exit(bool(found))
