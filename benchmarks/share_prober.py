"""Measure the time without acknowledgements during a leader move, a lower bound for members of a share group.

``python -m benchmarks.share_prober --bootstrap A,B,C --topic-id UUID --group G --seconds S`` requests one record of the
topic's only partition from each broker every few milliseconds, on a separate connection to each. The same request
acknowledges the previous record. A broker returns records and accepts acknowledgements only if it is the leader and has
read the group's state. The prober writes the acknowledgements to standard output as JSON: [wall-clock time in seconds,
index of the broker in ``--bootstrap``].
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
import uuid
from typing import Any

from aiokafka_lead._wire import decode_response, encode_request
from aiokafka_lead._wire.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)

EVERY_S = 0.003
VERSION = 2
ACCEPT = 1
RECORD_LIMIT = 1
MAX_BYTES = 1 << 16


class Probe:
    """Share session with one broker."""

    def __init__(self, group: str, topic_id: uuid.UUID) -> None:
        self._group = group
        self._member = str(uuid.uuid4())
        self._topic_id = topic_id
        self._epoch = 0
        self._given: list[AcknowledgementBatch] = []
        """Records of the previous response, which the next request acknowledges."""

    def frame(self, correlation_id: int) -> bytes:
        """Return the next encoded request."""
        wanted = FetchPartition(partition_index=0, acknowledgement_batches=self._given)
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._member,
            share_session_epoch=self._epoch,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=MAX_BYTES,
            max_records=1,
            batch_size=1,
            share_acquire_mode=RECORD_LIMIT,
            topics=[FetchTopic(topic_id=self._topic_id, partitions=[wanted])],
        )
        return b"".join(encode_request(request, VERSION, correlation_id, "prober"))

    def took(self, frame: memoryview) -> bool:
        """Return True if the response confirms an acknowledgement."""
        _, answer = decode_response(ShareFetchResponse, VERSION, frame)
        asked, self._given = self._given, []
        if answer.error_code:
            self._epoch = 0
            return False
        self._epoch += 1
        found = [each for topic in answer.responses for each in topic.partitions]
        for each in found:
            if not each.error_code:
                self._given = [
                    AcknowledgementBatch(
                        first_offset=one.first_offset, last_offset=one.last_offset, acknowledge_types=[ACCEPT]
                    )
                    for one in each.acquired_records
                ]
        return bool(asked) and all(not each.error_code and not each.acknowledge_error_code for each in found)


Seen = list[tuple[float, int]]


async def probe(index: int, server: str, one: Probe, until: float, seen: Seen) -> None:
    """Send requests to one broker until the end."""
    host, port = server.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    correlation_id = 0
    while time.monotonic() < until:
        due = time.monotonic() + EVERY_S
        correlation_id += 1
        writer.write(one.frame(correlation_id))
        frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
        if one.took(memoryview(frame)):
            seen.append((time.time(), index))
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    writer.close()


async def run(options: Any) -> Seen:
    """Send requests to all brokers, and return the observations sorted by time."""
    seen: Seen = []
    until = time.monotonic() + options.seconds
    async with asyncio.TaskGroup() as tasks:
        for index, server in enumerate(options.bootstrap.split(",")):
            tasks.create_task(probe(index, server, Probe(options.group, options.topic_id), until, seen))
    return sorted(seen)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True, help="addresses of all brokers of the cluster")
    parser.add_argument("--topic-id", type=uuid.UUID, required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--seconds", type=float, default=20)
    json.dump(asyncio.run(run(parser.parse_args())), sys.stdout)


if __name__ == "__main__":
    main()
