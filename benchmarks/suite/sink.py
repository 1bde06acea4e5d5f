"""Broker that is never the bottleneck: it acknowledges records without storing them, and serves fetches from memory.

``python -m benchmarks.suite.sink`` listens on a free port, which it prints. The name of a topic contains its properties
(`SinkTopic`), and every topic with a valid name exists. The log of a topic with records repeats one batch.
"""

from __future__ import annotations

import asyncio
import re
import struct
import uuid
from collections import deque
from typing import Any, NamedTuple, Self

from aiokafka_lead._core.connection.framing import FrameReader
from aiokafka_lead._records import BatchBuilder
from aiokafka_lead._wire import Buffer, RequestFrame, decode_request, encode_response
from aiokafka_lead._wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from aiokafka_lead._wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from aiokafka_lead._wire.messages.init_producer_id import InitProducerIdResponse
from aiokafka_lead._wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from aiokafka_lead._wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokafka_lead._wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

from .payload import values

NODE = 1
BATCH_SIZE = 16 * 1024
MUTE = ".mute"
"""Suffix of topics whose records are never acknowledged."""
SUPPORTED = {0: (0, 13), 1: (4, 17), 2: (1, 10), 3: (0, 13), 18: (0, 4), 22: (0, 5)}
"""Supported versions of Produce, Fetch, ListOffsets, Metadata, ApiVersions and InitProducerId, by API key."""


class SinkTopic(NamedTuple):
    """Properties in the name of a topic: ``sink-6`` is for writing, and ``sink-6-1000000-100-lz4`` for reading."""

    partitions: int
    records: int = 0
    """Number of records in each partition; 0 in a topic for writing."""
    size: int = 100
    compression: str = "none"
    replicas: int = 1
    """Number of replicas, in a real cluster."""

    @property
    def name(self) -> str:
        """Return the name of a topic with these properties."""
        content = f"-{self.records}-{self.size}-{self.compression}" if self.records else ""
        return f"sink-{self.partitions}{content}"

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Return the properties in a name, or None for other topics. Any suffix may follow after a dot."""
        match = re.fullmatch(r"sink-(\d+)(?:-(\d+)-(\d+)-(\w+))?(?:\..*)?", name)
        if match is None:
            return None
        partitions, records, size, compression = match.groups()
        return cls(int(partitions), int(records or 0), int(size or 100), compression or "none")


class Log:
    """Log of a partition, which repeats one batch."""

    def __init__(self, topic: SinkTopic) -> None:
        self.end = topic.records
        builder = BatchBuilder(batch_size=BATCH_SIZE, compression=topic.compression)
        builder.append_values(1_700_000_000_000, values(topic.size, 1000), 0)
        self._per_batch = builder.record_count
        self._batch = bytes(builder.build())

    def read(self, offset: int, max_bytes: int) -> Buffer:
        """Return at least one complete batch, beginning with the batch that contains ``offset``."""
        first = offset // self._per_batch
        last = min(first + max(1, max_bytes // len(self._batch)), -(-self.end // self._per_batch))
        chunk = bytearray(self._batch * (last - first))
        for number in range(first, last):
            struct.pack_into(">q", chunk, (number - first) * len(self._batch), number * self._per_batch)
        return chunk


class Sink:
    """Answers requests. Its only state is the next offset for written records."""

    def __init__(self) -> None:
        self.port = 0
        self.topics: dict[str, SinkTopic] = {}
        self._logs: dict[str, Log] = {}
        self._names: dict[uuid.UUID, str] = {}
        self._offset = 0
        self._producers = 0

    def topic(self, name: str) -> SinkTopic | None:
        """Return the properties of a topic, from a cache."""
        found = self.topics.get(name) or SinkTopic.parse(name)
        if found is not None and name not in self.topics:
            self.topics[name] = found
            self._names[topic_id(name)] = name
        return found

    def answer(self, frame: RequestFrame) -> tuple[Any, float]:
        """Return the response, or None if there is no response, and its delay in milliseconds."""
        match frame.api_key:
            case 0:
                return self._produce(frame.request, frame.version), 0.0
            case 1:
                return self._fetch(frame.request, frame.version)
            case 2:
                return self._list_offsets(frame.request, frame.version), 0.0
            case 3:
                return self._metadata(frame.request), 0.0
            case 22:
                self._producers += 1
                return InitProducerIdResponse(producer_id=self._producers, producer_epoch=0), 0.0
            case _:
                keys = [ApiVersion(api_key=k, min_version=a, max_version=b) for k, (a, b) in SUPPORTED.items()]
                return ApiVersionsResponse(api_keys=keys), 0.0

    def _produce(self, request: Any, version: int) -> ProduceResponse | None:
        self._offset += 1_000_000  # larger than any batch, and the same for all partitions
        offset = self._offset
        names = [topic.name or self._names[topic.topic_id] for topic in request.topic_data]
        if not request.acks or any(name.endswith(MUTE) for name in names):
            return None
        responses = [
            TopicProduceResponse(
                name=topic.name if version < 13 else "",
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=partition.index, base_offset=offset, log_start_offset=0)
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
        return ProduceResponse(responses=responses)

    def _fetch(self, request: Any, version: int) -> tuple[FetchResponse, float]:
        left = request.max_bytes
        responses = []
        anything = False
        for topic in request.topics:
            name = topic.topic if version < 13 else self._names[topic.topic_id]
            log = self._log(name)
            partitions = []
            for asked in topic.partitions:
                records: Buffer = b""
                if asked.fetch_offset < log.end and left > 0:
                    records = log.read(asked.fetch_offset, min(asked.partition_max_bytes, left))
                    left -= len(records)
                    anything = True
                data = PartitionData(
                    partition_index=asked.partition, high_watermark=log.end, last_stable_offset=log.end,
                    log_start_offset=0, records=records,
                )  # fmt: skip
                partitions.append(data)
            responses.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions))
        return FetchResponse(responses=responses), 0.0 if anything else request.max_wait_ms

    def _log(self, name: str) -> Log:
        log = self._logs.get(name)
        if log is None:
            topic = self.topic(name)
            assert topic is not None
            log = self._logs[name] = Log(topic)
        return log

    def _list_offsets(self, request: Any, version: int) -> ListOffsetsResponse:
        topics = []
        for asked in request.topics:
            end = self._log(asked.name).end
            epoch = 0 if version >= 4 else -1
            topics.append(
                ListOffsetsTopicResponse(
                    name=asked.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=p.partition_index,
                            offset=end if p.timestamp == -1 else 0,
                            leader_epoch=epoch,
                        )
                        for p in asked.partitions
                    ],
                )
            )
        return ListOffsetsResponse(topics=topics)

    def _metadata(self, request: Any) -> MetadataResponse:
        names = list(self.topics)
        if request.topics is not None:
            names = [topic.name or self._names.get(topic.topic_id, "") for topic in request.topics]
        topics = []
        for name in names:
            found = self.topic(name)
            partitions = [
                MetadataResponsePartition(
                    partition_index=index, leader_id=NODE, leader_epoch=0, replica_nodes=[NODE], isr_nodes=[NODE]
                )
                for index in range(found.partitions if found is not None else 0)
            ]
            code = 0 if found is not None else 3
            topics.append(
                MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id(name), partitions=partitions)
            )
        brokers = [MetadataResponseBroker(node_id=NODE, host="127.0.0.1", port=self.port)]
        return MetadataResponse(brokers=brokers, cluster_id="sink", controller_id=NODE, topics=topics)


def topic_id(name: str) -> uuid.UUID:
    """Return the id of a topic, which is the same in every run."""
    return uuid.uuid5(uuid.NAMESPACE_OID, name)


class Session(asyncio.BufferedProtocol):
    """Connection of a client. As in a real broker, a fetch without records delays the requests after it."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._reader = FrameReader(1 << 30)
        self._transport: Any = None
        self._frames: deque[Buffer] = deque()
        self._muted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._frames.extend(self._reader.received(nbytes))
        if not self._muted:
            self._serve()

    def _serve(self) -> None:
        self._muted = False
        while self._frames and not self._muted:
            frame = decode_request(memoryview(self._frames.popleft()))
            response, delay_ms = self._sink.answer(frame)
            if delay_ms:
                self._muted = True
                asyncio.get_running_loop().call_later(delay_ms / 1000, self._late, response, frame)
            elif response is not None:
                self._write(response, frame)

    def _late(self, response: Any, frame: RequestFrame) -> None:
        if self._transport.is_closing():
            return
        self._write(response, frame)
        self._serve()

    def _write(self, response: Any, frame: RequestFrame) -> None:
        self._transport.writelines(encode_response(response, frame.version, frame.correlation_id))


async def serve() -> None:
    """Listen until the process ends."""
    sink = Sink()
    server = await asyncio.get_running_loop().create_server(lambda: Session(sink), "127.0.0.1", 0)
    sink.port = server.sockets[0].getsockname()[1]
    print(f"127.0.0.1:{sink.port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    try:
        import uvloop
    except ImportError:
        asyncio.run(serve())
    else:
        uvloop.run(serve())
