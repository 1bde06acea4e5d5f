"""Record when a consumer of this client receives the records of `benchmarks.load`.

``python -m benchmarks.follower --bootstrap HOST:PORT --topic T`` reads until SIGTERM. It then writes JSON to standard
output: [number of the record, wall-clock time of its first delivery in seconds] for each record.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import time

from aiokafka_lead import Consumer

from .load import NUMBER


async def run(options: argparse.Namespace) -> list[tuple[int, float]]:
    """Read until SIGTERM, and return the numbers and times of records."""
    seen: dict[int, float] = {}

    async def follow() -> None:
        async with Consumer(
            options.topic, bootstrap_servers=options.bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=100
        ) as consumer:
            async for batch in consumer.batches():
                now = time.time()
                for value in batch.values:
                    (number,) = NUMBER.unpack_from(value or b"")
                    if number >= 0:  # negative numbers belong to the warm-up
                        seen.setdefault(number, now)

    reading = asyncio.create_task(follow())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, reading.cancel)
    await asyncio.wait([reading])
    return sorted(seen.items())


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    json.dump(asyncio.run(run(parser.parse_args())), sys.stdout)


if __name__ == "__main__":
    main()
