"""A topic is copied exactly once while the members that do it are killed: minutes, on Apache Kafka.

    python -m tests.kafka.long_copier                        # 100,000 records, transactions of 750, 3 members, classic
    python -m tests.kafka.long_copier --protocol consumer

The exit status is 0 only if a reader of committed records saw each record once, and in order.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

import anyio

from .copier import Copiers, fill, read_copies
from .harness import NEWEST, KafkaCluster
from .support import in_thread

PARTITIONS = 6


async def main(arguments: argparse.Namespace) -> list[str]:
    """What was wrong."""
    kafka = KafkaCluster(NEWEST, brokers=arguments.brokers)
    rng = random.Random(arguments.seed)
    problems = ["the reader did not end"]
    try:
        await in_thread(kafka.start)
        for topic in ("source", "target"):
            await in_thread(kafka.create_topic, topic, partitions=PARTITIONS)
        each = arguments.records // PARTITIONS
        await fill(kafka.bootstrap(), "source", PARTITIONS, each)
        options = {"bootstrap": kafka.bootstrap(), "source": "source", "target": "target", "group": "copiers"}
        copiers = Copiers(3, arguments.seed, **options, protocol=arguments.protocol, batch=arguments.batch)
        began = time.monotonic()
        try:
            async with anyio.create_task_group() as tasks:

                async def trouble() -> None:
                    while True:
                        await anyio.sleep(rng.uniform(1, 4))
                        await in_thread(copiers.trouble, hard=rng.random() < arguments.hard)

                tasks.start_soon(trouble)
                counts = [each] * PARTITIONS
                problems = await read_copies(kafka.bootstrap(), "target", counts, arguments.timeout, anyio.Event())
                tasks.cancel_scope.cancel()
        finally:
            await in_thread(copiers.kill)
        print(f"{time.monotonic() - began:.0f} s, {copiers.kills} members ended", file=sys.stderr)
    finally:
        await in_thread(kafka.stop)
    return problems


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--protocol", choices=["classic", "consumer"], default="classic")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=750)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--hard", type=float, default=0.5, help="the share of SIGKILL among the ends")
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    found = anyio.run(main, parsed())
    for problem in found:
        print(problem)
    sys.exit(bool(found))
