"""Cost of encoding and decoding messages: nanoseconds per partition for large messages, and the first use of a codec.

    python -m benchmarks.wire_codec [--seconds 0.3]

Prints CPU time of this process, the best of several rounds. The first use, which occurs when a client starts, is
measured in a new process.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from time import perf_counter, process_time
from typing import Any
from uuid import UUID

from aiokafka_lead._wire import Request, Response, decode_response, encode_request, encode_response, request_class
from aiokafka_lead._wire.compiler import make_decoder, make_encoder
from aiokafka_lead._wire.messages import fetch, metadata, produce

TOPIC_IDS = [UUID(int=number + 1) for number in range(100)]


def metadata_response(topics: int = 90, partitions: int = 100) -> metadata.MetadataResponse:
    return metadata.MetadataResponse(
        brokers=[
            metadata.MetadataResponseBroker(
                node_id=n, host=f"broker-{n}.kafka.example.com", port=9092, rack=f"rack-{n}"
            )
            for n in range(9)
        ],
        cluster_id="5L6g3nShT-eMCtK--X86sw",
        controller_id=1,
        topics=[
            metadata.MetadataResponseTopic(
                name=f"topic-{t}",
                topic_id=TOPIC_IDS[t],
                partitions=[
                    metadata.MetadataResponsePartition(
                        partition_index=p,
                        leader_id=p % 9,
                        leader_epoch=17,
                        replica_nodes=[p % 9, (p + 1) % 9, (p + 2) % 9],
                        isr_nodes=[p % 9, (p + 1) % 9, (p + 2) % 9],
                    )
                    for p in range(partitions)
                ],
            )
            for t in range(topics)
        ],
    )


def fetch_request(partitions: int = 100) -> fetch.FetchRequest:
    return fetch.FetchRequest(
        max_wait_ms=500,
        topics=[
            fetch.FetchTopic(
                topic_id=TOPIC_IDS[0],
                partitions=[
                    fetch.FetchPartition(
                        partition=p, current_leader_epoch=17, fetch_offset=1 << 40, partition_max_bytes=1 << 20
                    )
                    for p in range(partitions)
                ],
            )
        ],
    )


def fetch_response(partitions: int = 100) -> fetch.FetchResponse:
    return fetch.FetchResponse(
        responses=[
            fetch.FetchableTopicResponse(
                topic_id=TOPIC_IDS[0],
                partitions=[
                    fetch.PartitionData(partition_index=p, high_watermark=1 << 40, records=bytes(5000))
                    for p in range(partitions)
                ],
            )
        ],
    )


def produce_request(partitions: int = 100) -> produce.ProduceRequest:
    return produce.ProduceRequest(
        acks=-1,
        timeout_ms=30000,
        topic_data=[
            produce.TopicProduceData(
                topic_id=TOPIC_IDS[0],
                partition_data=[produce.PartitionProduceData(index=p, records=bytes(16384)) for p in range(partitions)],
            )
        ],
    )


def produce_response(partitions: int = 100) -> produce.ProduceResponse:
    return produce.ProduceResponse(
        responses=[
            produce.TopicProduceResponse(
                topic_id=TOPIC_IDS[0],
                partition_responses=[
                    produce.PartitionProduceResponse(index=p, base_offset=1 << 40, log_start_offset=0)
                    for p in range(partitions)
                ],
            )
        ]
    )


def best_ns(call: Callable[[], object], seconds: float) -> float:
    """Return the CPU nanoseconds of one call in the best round."""
    best = float("inf")
    end = perf_counter() + seconds
    while perf_counter() < end:
        start = process_time()
        for _ in range(10):
            call()
        best = min(best, (process_time() - start) / 10)
    return best * 1e9


def request_cost(request: Request[Any], partitions: int, seconds: float) -> None:
    version = request.MAX_VERSION
    encode = best_ns(partial(encode_request, request, version, 1, "bench"), seconds)
    name = f"{type(request).__name__} v{version}, {partitions} partitions"
    print(f"{name:45} encode {encode / partitions:7.0f} ns per partition")


def response_cost(response: Response, partitions: int, seconds: float) -> None:
    version = response.MAX_VERSION
    frame = memoryview(b"".join(encode_response(response, version, 1))[4:])
    encode = best_ns(partial(encode_response, response, version, 1), seconds)
    decode = best_ns(partial(decode_response, type(response), version, frame), seconds)
    name = f"{type(response).__name__} v{version}, {partitions} partitions"
    print(
        f"{name:45} encode {encode / partitions:7.0f}, decode {decode / partitions:7.0f} ns per partition"
        f" ({decode / 1e6:.2f} ms the frame of {len(frame)} bytes)"
    )


def throughput(seconds: float) -> None:
    response_cost(metadata_response(), 9000, seconds)
    request_cost(fetch_request(), 100, seconds)
    response_cost(fetch_response(), 100, seconds)
    request_cost(produce_request(), 100, seconds)
    response_cost(produce_response(), 100, seconds)


FIRST_USES = [
    (18, "ApiVersions"), (3, "Metadata"), (22, "InitProducerId"), (0, "Produce"), (1, "Fetch"), (2, "ListOffsets"),
    (10, "FindCoordinator"), (36, "SaslAuthenticate"), (11, "JoinGroup"), (68, "ConsumerGroupHeartbeat"),
]  # fmt: skip


def first_use(key: int) -> None:
    """Print the milliseconds for the import of a module, and for creating its request encoder and response decoder."""
    start = perf_counter()
    request = request_class(key)
    imported = perf_counter()
    make_encoder(request, request.MAX_VERSION)
    encoder = perf_counter()
    make_decoder(request.RESPONSE, request.MAX_VERSION, request.is_flexible(request.MAX_VERSION))
    decoder = perf_counter()
    times = (imported - start, encoder - imported, decoder - encoder)
    print(*(f"{seconds * 1e3:.2f}" for seconds in times))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0.3, help="time spent on each figure")
    parser.add_argument("--first-use", type=int, metavar="API_KEY", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.first_use is not None:
        first_use(arguments.first_use)
        return
    throughput(arguments.seconds)
    print("\nFirst use, ms: import, encoder of the request, decoder of the response (best of 7 processes)")
    for key, name in FIRST_USES:
        command = [sys.executable, "-m", "benchmarks.wire_codec", "--first-use", str(key)]
        runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(7)]
        print(f"{name:25}", *(f"{min(map(float, column)):6.2f}" for column in zip(*runs, strict=True)))


if __name__ == "__main__":
    main()
