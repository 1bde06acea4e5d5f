"""Builds Produce requests from batches, encodes them directly, and reads the result of each batch from the responses.

The direct codec handles flexible versions, and responses without errors. The schema's codec handles everything else.
This code runs for each batch. If a compiler is available, it is compiled through ``produce.pxd``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from ..._cpython import raw
from ..._records.compression import CODECS
from ..._values import NamedTuple
from ..._wire import ApiVersions, Buffer
from ..._wire.codec import decoder_of
from ..._wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ..._wire.primitives import COPY_BELOW_BYTES
from ...errors import InvalidRecordError, KafkaConnectionError, KafkaError, error_for_code
from ...errors.shown import shown
from ..leadership.hints import FIRST_PRODUCE_WITH_HINTS, HintReader
from ..metadata.types import NO_TOPIC_ID, LeaderHint
from .batches import ProducerBatch
from .transactional import TransactionalSequencing

FIRST_WITH_IDS = 13
"""First version that identifies topics by id (KIP-516)."""

_COPY_BELOW = COPY_BELOW_BYTES
_PARTITION_BYTES = 33
"""Size in bytes of one partition in a response without errors.

It consists of the index, the error code, the base offset, the append time, the start offset, no record errors, no
message and no tagged fields.
"""


class BatchesResponse(ProduceResponse):
    """A response without errors, with the offsets of each batch.

    The only field of the schema that is set is the throttle time.
    """

    __slots__ = ("acknowledged",)

    acknowledged: dict[bytes, dict[int, tuple[int, int]]]
    """Base offset and append time of each batch, by topic (an id, or a name in UTF-8) and partition."""


def read_response(version: int, buffer: Buffer, position: int, end: int, view: memoryview) -> tuple[Any, int]:
    """Decode a response of a flexible version.

    Returns a `BatchesResponse`, or the schema's class if it contains errors.
    """
    response = read_plain(view, position, end, version >= FIRST_WITH_IDS)
    if response is None:
        return decoder_of(ProduceResponse, version)(buffer, position, end, view)
    return response, end


def read_plain(frame: memoryview, position: int, end: int, by_id: bool) -> BatchesResponse | None:
    """Return the response at ``position``, or None if it contains anything but acknowledgements.

    For example, it may contain an error, or a tagged field that only newer brokers send.
    """
    buffer = raw.readable(frame)
    at = position
    if at + 1 > end or not 0 < buffer[at] < 128:
        return None
    topics = buffer[at] - 1
    at += 1
    acknowledged: dict[bytes, dict[int, tuple[int, int]]] = {}
    for _ in range(topics):
        size = 16
        if not by_id:
            if at + 1 > end or not 0 < buffer[at] < 128:
                return None
            size = buffer[at] - 1
            at += 1
        if at + size + 2 > end:
            return None
        name = buffer[at : at + size]
        at += size
        count = buffer[at]
        at += 1
        if count > 127:
            count = (count & 127) | buffer[at] << 7
            at += 1
            if count > 0x3FFF:
                return None
        count -= 1
        if count < 0 or at + count * _PARTITION_BYTES + 1 > end:
            return None
        found: dict[int, tuple[int, int]] = {}
        for _ in range(count):
            if raw.int16_at(buffer, at + 4) or buffer[at + 30] != 1 or buffer[at + 31] or buffer[at + 32]:
                return None
            found[raw.int32_at(buffer, at)] = (raw.int64_at(buffer, at + 6), raw.int64_at(buffer, at + 14))
            at += _PARTITION_BYTES
        acknowledged[name] = found
        if buffer[at]:
            return None
        at += 1
    if at + 5 != end or buffer[at + 4]:
        return None
    # Its constructor is a slow Python function with keyword arguments.
    response = BatchesResponse.__new__(BatchesResponse)
    response.responses = []
    response.throttle_time_ms = raw.int32_at(buffer, at)
    response.node_endpoints = []
    response.acknowledged = acknowledged
    return response


class BatchesRequest(ProduceRequest):
    """A request that is encoded from ``topics`` instead of the schema's ``topic_data``."""

    __slots__ = ("topics",)

    RESPONSE = BatchesResponse

    topics: Sequence[tuple[bytes, list[tuple[int, memoryview]]]]
    """Topics (ids, or names in UTF-8), each with the numbers and the records of its partitions."""


def new_request(transactional_id: str | None, acks: int, timeout_ms: int, topics: list[Any]) -> BatchesRequest:
    """Create a request, faster than by calling the class."""
    request = BatchesRequest.__new__(BatchesRequest)  # its constructor is a slow Python function with keyword arguments
    request.transactional_id = transactional_id
    request.acks = acks
    request.timeout_ms = timeout_ms
    request.topic_data = []
    request.topics = topics
    return request


def write_request(version: int, request: BatchesRequest, chunks: list[Buffer], out: bytearray) -> bytearray:
    """Encode a request of a flexible version. Return the chunk to continue with.

    Complete chunks are appended to ``chunks``.
    """
    if request.transactional_id is None:
        out.append(0)
    else:
        name_of_id = request.transactional_id.encode()
        raw.append_uvarint(out, len(name_of_id) + 1)
        out += name_of_id
    raw.append_int16(out, request.acks)
    raw.append_int32(out, request.timeout_ms)
    raw.append_uvarint(out, len(request.topics) + 1)
    for name, partitions in request.topics:
        if version < FIRST_WITH_IDS:
            raw.append_uvarint(out, len(name) + 1)
        out += name
        raw.append_uvarint(out, len(partitions) + 1)
        for index, records in partitions:
            out = _write_partition(index, records, chunks, out)
        out.append(0)
    out.append(0)
    return out


def _write_partition(index: int, records: memoryview, chunks: list[Buffer], out: bytearray) -> bytearray:
    """Append one partition without tagged fields. Large records become separate chunks."""
    size = len(records)
    raw.append_int32(out, index)
    raw.append_uvarint(out, size + 1)
    if size < _COPY_BELOW:
        out += records
        out.append(0)
        return out
    chunks.append(out)
    chunks.append(records)
    return bytearray(1)


BatchesResponse.OWN_DECODER = read_response
BatchesRequest.OWN_ENCODER = write_request

FIRST_OF_TRANSACTIONS_V2 = 12
"""First version in which a batch adds its partition to the transaction (KIP-890)."""
_LAST_WITH_NAMES = FIRST_WITH_IDS - 1

_ASIDE_BYTES = 8 * 1024
"""Size in bytes from which compression with a slow codec takes longer than passing the work to a thread."""


class SentBatches(NamedTuple):
    """The batches of one request, with the data needed to read its response."""

    node_id: int
    label: str
    """The broker's name in error messages, such as ``1 (host:9092)``."""
    version: int
    batches: Sequence[ProducerBatch]
    topic_ids: Mapping[str, UUID]
    """The topic ids at the time of the request."""
    wire_names: Mapping[str, bytes]
    """Topic ids or names, as encoded in a request of a flexible version but without a length."""
    sent_at: float = 0.0

    @property
    def tells_leaders(self) -> bool:
        """True if the response can name new leaders."""
        return self.version >= FIRST_PRODUCE_WITH_HINTS


class PartitionAnswer(NamedTuple):
    """The broker's result for one batch: the base offset of its records, or an error."""

    batch: ProducerBatch
    error: KafkaError | None
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Mapping[int, KafkaError] | None = None


def produce_version(
    versions: ApiVersions,
    batches: Sequence[ProducerBatch],
    compression: str,
    transactional: TransactionalSequencing | None = None,
) -> int:
    """Return the Produce version for these batches. Raises `UnsupportedVersionError` if the broker has none."""
    lowest = None if compression == "none" else CODECS[compression].produce_version
    highest = None
    if transactional is not None:
        if transactional.v2:
            lowest = FIRST_OF_TRANSACTIONS_V2
        else:
            highest = FIRST_OF_TRANSACTIONS_V2 - 1
    for batch in batches:
        if not batch.queue.topic.has_id and highest is None:
            # During an upgrade of the cluster, the metadata may come from an old broker.
            highest = _LAST_WITH_NAMES
    return versions.version_for(ProduceRequest, lowest=lowest, highest=highest)


def takes_long_to_build(batches: Sequence[ProducerBatch]) -> bool:
    """Return True if `build_batches` should run in a thread for these batches, because their compression is slow."""
    size = 0
    for batch in batches:
        if not batch.builder.closed:
            size += batch.size_bytes
    return size >= _ASIDE_BYTES


def build_batches(batches: Sequence[ProducerBatch], transactional: bool = False) -> None:
    """Compress the batches and set their header fields before `produce_request`, which is then fast."""
    for batch in batches:
        _built(batch, transactional)


def _built(batch: ProducerBatch, transactional: bool) -> memoryview:
    return batch.builder.stamped(batch.producer_id, batch.producer_epoch, batch.base_sequence, transactional)


def produce_request(
    batches: Sequence[ProducerBatch], version: int, acks: int, timeout_ms: int, transactional_id: str | None = None
) -> tuple[ProduceRequest, Mapping[str, UUID], Mapping[str, bytes], int]:
    """Return the request, the ids and the encoded names of its topics, and the number of record bytes in it."""
    topic_ids: dict[str, UUID] = {}
    wire_names: dict[str, bytes] = {}
    size = 0
    transactional = transactional_id is not None
    if ProduceRequest.is_flexible(version):
        parts: dict[str, list[tuple[int, memoryview]]] = {}
        for batch in batches:
            queue = batch.queue
            topic = queue.topic
            records = _built(batch, transactional)
            size += len(records)
            entry = (queue.partition, records)
            if topic.name in parts:
                parts[topic.name].append(entry)
            else:
                parts[topic.name] = [entry]
                topic_ids[topic.name] = topic.topic_id
                wire_names[topic.name] = topic.topic_id.bytes if version > _LAST_WITH_NAMES else topic.name.encode()
        every = [(wire_names[name], parts[name]) for name in parts]
        return new_request(transactional_id, acks, timeout_ms, every), topic_ids, wire_names, size
    topics: dict[str, TopicProduceData] = {}
    for batch in batches:
        queue = batch.queue
        topic = queue.topic
        data = topics.get(topic.name)
        if data is None:
            topic_ids[topic.name] = topic.topic_id
            data = topics[topic.name] = TopicProduceData(name=topic.name)
        records = _built(batch, transactional)
        size += len(records)
        data.partition_data.append(PartitionProduceData(index=queue.partition, records=records))
    data_of_all = list(topics.values())
    request = ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=data_of_all
    )
    return request, topic_ids, wire_names, size


def read_offsets(sent: SentBatches, response: ProduceResponse) -> list[tuple[int, int]] | None:
    """Return the base offset and the append time of each batch, in the order of the request.

    Returns None if the response contains anything else. Use `read_answers` for such a response.
    """
    if type(response) is not BatchesResponse:
        return None
    known: dict[str, dict[int, tuple[int, int]]] = {}
    wire_names: Mapping[str, bytes] = sent.wire_names
    for name in wire_names:
        known[name] = response.acknowledged.get(wire_names[name], {})
    offsets = []
    for batch in sent.batches:
        queue = batch.queue
        found = known[queue.topic.name].get(queue.partition)
        if found is None:
            return None
        offsets.append(found)
    return offsets


def read_hints(sent: SentBatches, response: ProduceResponse) -> list[LeaderHint]:
    """Return the leader hints in the response."""
    reader = HintReader(sent.tells_leaders, response.node_endpoints)
    by_id = sent.version > _LAST_WITH_NAMES
    names = {topic_id: name for name, topic_id in sent.topic_ids.items()} if by_id else {}
    for topic in response.responses:
        name = names.get(topic.topic_id, "") if by_id else topic.name
        topic_id = sent.topic_ids.get(name, NO_TOPIC_ID)
        for answer in topic.partition_responses:
            reader.read(name, topic_id, answer.index, answer.error_code, answer.current_leader)
    return reader.hints


def read_answers(sent: SentBatches, response: ProduceResponse) -> list[PartitionAnswer]:
    """Return the result of each batch, an offset or an error, in the order of the request."""
    by_id = sent.version > _LAST_WITH_NAMES
    found: dict[tuple[str | UUID, int], PartitionProduceResponse] = {}
    for topic in response.responses:
        key: str | UUID = topic.topic_id if by_id else topic.name
        for entry in topic.partition_responses:
            found[key, entry.index] = entry
    if isinstance(response, BatchesResponse):
        found = _unfolded(sent, response)
    answers = []
    for batch in sent.batches:
        queue = batch.queue
        name = queue.topic.name
        answer = found.get((sent.topic_ids[name] if by_id else name, queue.partition))
        if answer is None:
            lacking = f"{name}-{queue.partition}: the broker's response lacks this partition"
            answers.append(PartitionAnswer(batch, KafkaConnectionError(lacking, broker=sent.label)))
        elif answer.error_code == 0:
            answers.append(PartitionAnswer(batch, None, answer.base_offset, answer.log_append_time_ms))
        else:
            answers.append(_refusal(sent, batch, answer))
    return answers


def _unfolded(sent: SentBatches, response: BatchesResponse) -> dict[tuple[str | UUID, int], PartitionProduceResponse]:
    """Return the acknowledgements in the form of the schema, by topic (id or name) and partition."""
    found: dict[tuple[str | UUID, int], PartitionProduceResponse] = {}
    for name, topic_id in sent.topic_ids.items():
        key = topic_id if sent.version > _LAST_WITH_NAMES else name
        for index, (offset, time_ms) in response.acknowledged.get(sent.wire_names[name], {}).items():
            found[key, index] = PartitionProduceResponse(index=index, base_offset=offset, log_append_time_ms=time_ms)
    return found


def _refusal(sent: SentBatches, batch: ProducerBatch, answer: PartitionProduceResponse) -> PartitionAnswer:
    """Return the error of a refused batch, with the errors of single records (KIP-467)."""
    kind = error_for_code(answer.error_code)
    where = f"{batch.queue.topic.name}-{batch.queue.partition}"
    error = kind(f"{where}: {shown(answer.error_message or '') or kind().message}", broker=sent.label)
    record_errors: dict[int, KafkaError] | None = None
    if answer.record_errors:
        # Like Java: the partition's error code is certain to apply to a record only if a single record is invalid.
        single = kind if len(answer.record_errors) == 1 else InvalidRecordError
        record_errors = {
            entry.batch_index: single(
                f"{where}: {shown(entry.batch_index_error_message or answer.error_message or '') or kind().message}",
                broker=sent.label,
            )
            for entry in answer.record_errors
        }
        wrong = len(record_errors)
        error = kind(f"{where}: not written, because {wrong} record(s) of the batch are invalid", broker=sent.label)
        error.collateral = True
    return PartitionAnswer(batch, error, log_start_offset=answer.log_start_offset, record_errors=record_errors)
