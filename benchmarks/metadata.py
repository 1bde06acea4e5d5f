"""Time for which the event loop is blocked by a metadata refresh of many partitions, and by a leader hint.

    python -m benchmarks.metadata [--partitions 9000]

Prints CPU time of this process, the best of several rounds. A refresh parses the response and merges it, both in slices
between which other tasks can run, and then applies the result.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Generator, Sequence
from time import process_time
from typing import TypeVar, cast
from uuid import UUID

from aiokafka_lead._core.metadata.answer import MetadataReader
from aiokafka_lead._core.metadata.state import MetadataState
from aiokafka_lead._core.metadata.types import Broker, LeaderHint
from aiokafka_lead._io.loop import SLICE_S
from aiokafka_lead._wire import encode
from aiokafka_lead._wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

T = TypeVar("T")

VERSION = 12
BROKERS = 6
ROUNDS = 9


def answer(topics: int, partitions: int, epoch: int) -> MetadataResponse:
    """Return a response with this number of topics and partitions per topic, whose leaders depend on the epoch."""
    replicas = [[(index + step) % BROKERS for step in range(3)] for index in range(BROKERS)]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=n, host=f"broker-{n}.example.com", port=9092) for n in range(BROKERS)],
        cluster_id="cluster",
        controller_id=0,
        topics=[
            MetadataResponseTopic(
                name=f"topic-{topic}",
                topic_id=UUID(int=topic + 1),
                partitions=[
                    MetadataResponsePartition(
                        partition_index=index,
                        leader_id=(index + epoch) % BROKERS,
                        leader_epoch=epoch,
                        replica_nodes=replicas[index % BROKERS],
                        isr_nodes=replicas[index % BROKERS],
                    )
                    for index in range(partitions)
                ],
            )
            for topic in range(topics)
        ],
    )


class Refreshes:
    """Metadata of a client, and the times for which refreshes block the event loop."""

    def __init__(self) -> None:
        self.reader = MetadataReader()
        self.state = MetadataState([("localhost", 9092)])
        self.totals_ms: list[float] = []
        """Total time of each refresh."""
        self.turns_ms: list[float] = []
        """Longest part of each refresh without an interruption."""
        self._slices: list[float] = []

    def take(self, frame: bytes) -> None:
        """Process a response: parse it and prepare the merge in slices, then apply it at once."""
        gc.collect()
        self._slices.clear()
        began = process_time()
        cluster = self._in_slices(self.reader.read(frame, VERSION))
        ahead = self._in_slices(self.state.merge_ahead(cluster, 0.0))
        merge_began = process_time()
        self.state.apply(cluster, 0.0, None, ahead)
        self._slices.append(process_time() - merge_began)
        self.totals_ms.append((process_time() - began) * 1000)
        self.turns_ms.append(max(self._slices) * 1000)

    def _in_slices(self, steps: Generator[None, None, T]) -> T:
        """Run the generator, record the time of each slice, and return its value."""
        began = process_time()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                self._slices.append(process_time() - began)
                return cast(T, end.value)
            if process_time() - began >= SLICE_S:
                self._slices.append(process_time() - began)
                began = process_time()

    def row(self, what: str) -> str:
        """Format the figures of the fastest refresh."""
        return f"  {what:32}  {min(self.totals_ms):8.2f} ms, in turns of at most {min(self.turns_ms):.2f} ms"


def measure(topics: int, partitions: int) -> None:
    """Print the figures for a number of topics and partitions."""
    frames = [bytes(4) + b"\0" + encode(answer(topics, partitions, epoch), VERSION) for epoch in range(ROUNDS + 1)]
    first, same, moving = Refreshes(), Refreshes(), Refreshes()
    for _ in range(ROUNDS):
        first.reader, first.state = MetadataReader(), MetadataState([("localhost", 9092)])
        first.take(frames[0])
    same.reader, same.state = first.reader, first.state
    for _ in range(ROUNDS):
        same.take(frames[0])
    hint_times = []
    for number in range(ROUNDS):
        leader = number % BROKERS
        hint = LeaderHint("topic-0", UUID(int=1), 0, leader, number + 1, Broker(leader, "h", 9092), 6)
        began = process_time()
        assert first.state.apply_hints([hint]) == [True]
        hint_times.append(process_time() - began)
    moving.take(frames[0])
    moving.totals_ms.clear()
    moving.turns_ms.clear()
    for frame in frames[1:]:
        moving.take(frame)
    print(f"{topics} topics of {partitions} partitions")
    print(first.row("first answer"))
    print(same.row("refresh, nothing new"))
    print(moving.row("refresh, every leader moved"))
    print(f"  {'leader hint':32}  {min(hint_times) * 1e6:8.1f} us")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure one large topic, and the same partitions spread over many topics."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=9000)
    partitions: int = parser.parse_args(arguments).partitions
    measure(1, partitions)
    measure(max(1, partitions // 100), 100)
    measure(partitions, 1)


if __name__ == "__main__":
    main()
