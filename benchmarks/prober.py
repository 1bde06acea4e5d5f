"""Time for which the brokers themselves had no leader: a lower bound for every client.

``python -m benchmarks.prober --bootstrap A,B,C --topic T --partitions N --seconds S`` asks each broker every two
milliseconds if it leads the partitions, with ListOffsets, which only a leader answers. It uses ``--connections``
connections in turn, since a busy broker takes long for each response. A gap is the time from the last response of the
old leader to the first response of the new leader. The prober writes JSON to standard output: the gaps, or with
``--every-answer`` the leaders of the first partition as [wall-clock second, the broker's index in ``--bootstrap``,
second of the request].

With ``--writes`` the prober sends each broker a record every two milliseconds instead (Produce with ``acks=all``), and
a response is an acknowledgement. This gap is longer, because a new leader acknowledges no record before its followers
fetch from it. It is the gap that an ideal writer, which learns of every move at once, would see.
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
    """The request that is sent to every broker repeatedly. All brokers from 2.8 to 4.x support its version."""

    @abstractmethod
    def frame(self, correlation_id: int) -> bytes:
        """Return the encoded request."""

    @abstractmethod
    def led(self, frame: memoryview) -> Iterable[int]:
        """Return the partitions for which the response comes from a working leader."""


class Leads(Question):
    """Asks a broker if it leads the partitions."""

    VERSION = 6
    LEADS = (0, OffsetNotAvailableError.code)
    """Error codes that only a leader returns. The second means that it still waits for its followers."""

    def __init__(self, topic: str, partitions: Iterable[int]) -> None:
        asked = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in partitions]
        self._request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])

    def frame(self, correlation_id: int) -> bytes:
        return b"".join(encode_request(self._request, self.VERSION, correlation_id, "prober"))

    def led(self, frame: memoryview) -> Iterable[int]:
        _, answer = decode_response(ListOffsetsResponse, self.VERSION, frame)
        return [each.partition_index for each in answer.topics[0].partitions if each.error_code in self.LEADS]


class Writes(Question):
    """Sends a broker a record to acknowledge. Readers ignore it, like a record of the load's warm-up."""

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
"""Answers of leaders by partition: time, index of the broker among those asked, and time of the request."""


async def probe(
    index: int, server: str, question: Question, until: float, seen: Seen, every_s: float, offset_s: float
) -> None:
    """Ask one broker until the end, or until it stops; record when it led each partition."""
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
    """Send the request repeatedly, and record the answers."""
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
    """Ask every broker for ``seconds``; return the answers sorted by time."""
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
    """Return every gap that is too long to be caused by the sampling, as (wall-clock second, milliseconds)."""
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
