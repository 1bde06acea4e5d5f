"""Measure the time in which the brokers had no leader, which is a lower bound for every client.

``python -m benchmarks.prober --bootstrap A,B,C --topic T --partitions N --seconds S`` sends a ListOffsets request,
which only a leader answers, to each broker every two milliseconds. It uses ``--connections`` connections in turn,
because a busy broker takes long for each response. A gap is the time from the last response of the old leader to the
first response of the new leader. The prober writes the gaps to standard output as JSON. With ``--every-answer``, it
writes the leaders of the first partition instead, as [time of the response, index of the broker in ``--bootstrap``,
time of the request], with wall-clock times in seconds.

With ``--writes``, the prober instead sends a record to each broker every two milliseconds (Produce with ``acks=all``).
This gap is longer, because a new leader acknowledges no record before its followers fetch from it. An ideal producer,
which learns of every move immediately, would have the same gap.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from aiokafka_lead._records import StoredRecord, build_batch
from aiokafka_lead._wire import decode_response, encode_request
from aiokafka_lead._wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from aiokafka_lead._wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from aiokafka_lead.errors import OffsetNotAvailableError

from .load import NUMBER

EVERY_S = 0.002
LATEST = -1


class Question(ABC):
    """Request that the prober repeats. Brokers from 2.8 to 4.x support its version."""

    @abstractmethod
    def frame(self, correlation_id: int) -> bytes:
        """Return the encoded request."""

    @abstractmethod
    def led(self, frame: memoryview) -> Iterable[int]:
        """Return the partitions for which the response comes from a leader that can serve requests."""


class Leads(Question):
    """ListOffsets request, which shows if a broker leads the partitions."""

    VERSION = 6
    LEADS = (0, OffsetNotAvailableError.code)
    """Error codes that only a leader returns. The second means that the leader still waits for its followers."""

    def __init__(self, topic: str, partitions: Iterable[int]) -> None:
        asked = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in partitions]
        self._request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])

    def frame(self, correlation_id: int) -> bytes:
        return b"".join(encode_request(self._request, self.VERSION, correlation_id, "prober"))

    def led(self, frame: memoryview) -> Iterable[int]:
        _, answer = decode_response(ListOffsetsResponse, self.VERSION, frame)
        return [each.partition_index for each in answer.topics[0].partitions if each.error_code in self.LEADS]


class Writes(Question):
    """Produce request with a record that readers ignore, like the records of a warm-up."""

    VERSION = 9

    def __init__(self, topic: str, partitions: Iterable[int]) -> None:
        record = StoredRecord(int(time.time() * 1000), value=NUMBER.pack(-1))
        written = [PartitionProduceData(index=index, records=memoryview(build_batch([record]))) for index in partitions]
        topics = [TopicProduceData(name=topic, partition_data=written)]
        self._request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)

    def frame(self, correlation_id: int) -> bytes:
        return b"".join(encode_request(self._request, self.VERSION, correlation_id, "prober"))

    def led(self, frame: memoryview) -> Iterable[int]:
        _, answer = decode_response(ProduceResponse, self.VERSION, frame)
        return [each.index for each in answer.responses[0].partition_responses if not each.error_code]


Seen = dict[int, list[tuple[float, int, float]]]
"""Responses of leaders by partition: time of the response, index of the broker, and time of the request."""


async def probe(
    index: int, server: str, question: Question, until: float, seen: Seen, every_s: float, offset_s: float
) -> None:
    """Send requests to one broker until the end, or until it stops, and record when it led each partition."""
    host, port = server.rsplit(":", 1)
    try:
        reader, writer = await asyncio.open_connection(host, int(port))
    except ConnectionError:
        return
    try:
        await asyncio.sleep(offset_s)
        await ask(reader, writer, index, question, until, seen, every_s)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def ask(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    index: int,
    question: Question,
    until: float,
    seen: Seen,
    every_s: float,
) -> None:
    """Send the request repeatedly, and record the responses."""
    correlation_id = 0
    while time.monotonic() < until:
        due = time.monotonic() + every_s
        correlation_id += 1
        asked = time.time()
        writer.write(question.frame(correlation_id))
        frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
        answered = time.time()
        for partition in question.led(memoryview(frame)):
            seen[partition].append((answered, index, asked))
        await asyncio.sleep(max(0.0, due - time.monotonic()))


async def leaders(
    bootstrap: str, kind: type[Any], topic: str, partitions: Sequence[int], seconds: float, connections: int
) -> Seen:
    """Send requests to all brokers for ``seconds``, and return the responses sorted by time."""
    seen: Seen = {index: [] for index in partitions}
    question: Question = kind(topic, partitions)
    until = time.monotonic() + seconds
    async with asyncio.TaskGroup() as tasks:
        for index, server in enumerate(bootstrap.split(",")):
            for number in range(connections):
                turn = EVERY_S * connections, EVERY_S * number
                tasks.create_task(probe(index, server, question, until, seen, *turn))
    for answers in seen.values():
        answers.sort()
    return seen


def gaps_in(seen: Seen) -> list[tuple[float, float]]:
    """Return the gaps that are too long to be caused by the sampling, as (wall-clock time in s, duration in ms)."""
    return sorted(
        (earlier, (later - earlier) * 1000)
        for answers in seen.values()
        for (earlier, *_), (later, *_) in itertools.pairwise(answers)
        if later - earlier > 3 * EVERY_S
    )


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True, help="addresses of all brokers of the cluster")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--watched", type=int, default=5, help="number of partitions to ask about")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--connections", type=int, default=1, help="connections to each broker")
    parser.add_argument("--every-answer", action="store_true")
    parser.add_argument("--writes", action="store_true", help="send records, and wait for acknowledgements")
    options = parser.parse_args()
    watched = range(0, options.partitions, max(1, options.partitions // options.watched))
    kind = Writes if options.writes else Leads
    seen = asyncio.run(leaders(options.bootstrap, kind, options.topic, watched, options.seconds, options.connections))
    json.dump(seen[0] if options.every_answer else gaps_in(seen), sys.stdout)


if __name__ == "__main__":
    main()
