"""How long the brokers themselves had no leader: the floor that no client can beat.

``python -m benchmarks.prober --bootstrap A,B,C --topic T --partitions N --seconds S``: one connection per broker asks
each broker every two milliseconds whether it leads the partitions (ListOffsets, which only a leader answers). A gap is
the time from the last answer of the old leader to the first of the new one. Writes JSON to standard output: the gaps,
or with ``--every-answer`` the first partition's leaders as [wall-clock second, the broker's index in ``--bootstrap``].
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import time
from collections.abc import Iterable

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


Seen = dict[int, list[tuple[float, int]]]
"""By partition: when a broker answered as its leader, and which one, as an index among those asked."""


async def probe(index: int, server: str, question: ListOffsetsRequest, until: float, seen: Seen) -> None:
    """Ask one broker until the end, or until it goes; note when it led which partition."""
    host, port = server.rsplit(":", 1)
    try:
        reader, writer = await asyncio.open_connection(host, int(port))
    except ConnectionError:
        return
    try:
        await ask(reader, writer, index, question, until, seen)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def ask(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    index: int,
    question: ListOffsetsRequest,
    until: float,
    seen: Seen,
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
                seen[partition.partition_index].append((answered, index))
        await asyncio.sleep(max(0.0, due - time.monotonic()))


async def leaders(bootstrap: str, topic: str, partitions: Iterable[int], seconds: float) -> Seen:
    """Ask every broker for so long; the answers in the order of time."""
    seen: Seen = {index: [] for index in partitions}
    question = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in seen],
            )
        ],
    )
    until = time.monotonic() + seconds
    async with asyncio.TaskGroup() as tasks:
        for index, server in enumerate(bootstrap.split(",")):
            tasks.create_task(probe(index, server, question, until, seen))
    for answers in seen.values():
        answers.sort()
    return seen


def gaps_in(seen: Seen) -> list[tuple[float, float]]:
    """Every gap that was longer than the sampling itself explains: (wall-clock second, milliseconds)."""
    return sorted(
        (earlier, (later - earlier) * 1000)
        for answers in seen.values()
        for (earlier, _), (later, _) in itertools.pairwise(answers)
        if later - earlier > 3 * EVERY_S
    )


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True, help="every broker, not only some")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--watched", type=int, default=5, help="how many of the partitions to ask about")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--every-answer", action="store_true")
    options = parser.parse_args()
    watched = range(0, options.partitions, max(1, options.partitions // options.watched))
    seen = asyncio.run(leaders(options.bootstrap, options.topic, watched, options.seconds))
    json.dump(seen[0] if options.every_answer else gaps_in(seen), sys.stdout)


if __name__ == "__main__":
    main()
