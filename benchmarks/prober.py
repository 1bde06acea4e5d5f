"""How long the brokers themselves had no leader: the floor that no client can beat.

``python -m benchmarks.prober --bootstrap A,B,C --topic T --partitions N --seconds S``: one connection per broker asks
each broker every two milliseconds whether it leads the partitions (ListOffsets, which only a leader answers). A gap is
the time from the last answer of the old leader to the first of the new one. Writes JSON to standard output.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import time

from aiokafka_lead._wire import decode_response, encode_request
from aiokafka_lead._wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

EVERY_S = 0.002
VERSION = 6
"""Spoken by every broker from 2.8 to 4.x."""
LEADS = (0, 78)
"""No error, and OFFSET_NOT_AVAILABLE: a leader that still waits for its followers."""
LATEST = -1


async def probe(host: str, port: int, question: ListOffsetsRequest, until: float, seen: dict[int, list[float]]) -> None:
    """Ask one broker until the end, or until it goes; note when it led which partition."""
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except ConnectionError:
        return
    try:
        await ask(reader, writer, question, until, seen)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def ask(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    question: ListOffsetsRequest,
    until: float,
    seen: dict[int, list[float]],
) -> None:
    """Ask every two milliseconds."""
    correlation_id = 0
    while time.monotonic() < until:
        due = time.monotonic() + EVERY_S
        correlation_id += 1
        writer.writelines(encode_request(question, VERSION, correlation_id, "prober"))
        frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
        answered = time.time()
        _, response = decode_response(ListOffsetsResponse, VERSION, memoryview(frame))
        for partition in response.topics[0].partitions:
            if partition.error_code in LEADS:
                seen[partition.partition_index].append(answered)
        await asyncio.sleep(max(0.0, due - time.monotonic()))


async def gaps_of(bootstrap: str, topic: str, count: int, watched: int, seconds: float) -> list[tuple[float, float]]:
    """Every gap that was longer than the sampling itself explains: (wall-clock second, milliseconds)."""
    partitions = range(0, count, max(1, count // watched))
    question = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in partitions],
            )
        ],
    )
    seen: dict[int, list[float]] = {index: [] for index in partitions}
    until = time.monotonic() + seconds
    servers = [server.rsplit(":", 1) for server in bootstrap.split(",")]
    async with asyncio.TaskGroup() as tasks:
        for host, port in servers:
            tasks.create_task(probe(host, int(port), question, until, seen))
    gaps = []
    for times in seen.values():
        times.sort()
        gaps += [
            (earlier, (later - earlier) * 1000)
            for earlier, later in itertools.pairwise(times)
            if later - earlier > 3 * EVERY_S
        ]
    return sorted(gaps)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True, help="every broker, not only some")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--watched", type=int, default=5, help="how many of the partitions to ask about")
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    gaps = gaps_of(options.bootstrap, options.topic, options.partitions, options.watched, options.seconds)
    json.dump(asyncio.run(gaps), sys.stdout)


if __name__ == "__main__":
    main()
