"""What metadata costs the event loop: a refresh of many known partitions, and a leader hint.

    python -m benchmarks.metadata [--partitions 9000]

CPU time of this process, best of several rounds. A refresh is decoding the answer and merging it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from time import process_time
from uuid import UUID

from aiokafka_lead._core.metadata.state import Broker, LeaderHint, MetadataState
from aiokafka_lead._wire import decode, encode
from aiokafka_lead._wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

VERSION = 12
BROKERS = 6
ROUNDS = 9


def answer(topics: int, partitions: int, epoch: int) -> MetadataResponse:
    """Metadata of as many topics of as many partitions, whose leaders depend on the epoch."""
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


def best_ms(action: Callable[[int], object]) -> float:
    """The fastest round's milliseconds; the action is told the round's number."""
    times = []
    for number in range(ROUNDS):
        began = process_time()
        action(number)
        times.append(process_time() - began)
    return min(times) * 1000


def measure(topics: int, partitions: int) -> None:
    """Print the figures for one shape."""
    frames = [encode(answer(topics, partitions, epoch), VERSION) for epoch in range(ROUNDS + 1)]

    def refresh(state: MetadataState, frame: bytes) -> None:
        state.apply_response(decode(MetadataResponse, VERSION, frame), VERSION, 0.0, None)

    def known() -> MetadataState:
        state = MetadataState([("localhost", 9092)])
        refresh(state, frames[0])
        return state

    same, moving, hinted = known(), known(), known()

    def hint(number: int) -> None:
        hints = [
            LeaderHint("topic-0", UUID(int=1), 0, number % BROKERS, number + 1, Broker(number % BROKERS, "h", 9092), 6)
        ]
        assert hinted.apply_hints(hints) == [True]

    print(f"{topics} topics of {partitions} partitions")
    print(f"  first answer                      {best_ms(lambda _: known()):8.2f} ms")
    print(f"  refresh, nothing new              {best_ms(lambda _: refresh(same, frames[0])):8.2f} ms")
    print(f"  refresh, every leader moved       {best_ms(lambda n: refresh(moving, frames[n + 1])):8.2f} ms")
    print(f"  leader hint                       {best_ms(hint) * 1000:8.1f} us")


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
