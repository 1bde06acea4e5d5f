"""Encoding Produce requests directly from batches, and decoding responses directly into offsets.

It handles flexible versions, and responses without errors. The codec that is generated from the schema handles
everything else. This code runs for each batch. If a compiler is available, it is compiled through
``produce_codec.pxd``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._cpython import raw
from ..._wire import Buffer
from ..._wire.codec import decoder_of
from ..._wire.messages.produce import ProduceRequest, ProduceResponse
from ..._wire.primitives import COPY_BELOW_BYTES

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
    """Return the response at ``position``, or None if it is unusual in any way."""
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
    """Return a request with these ``topics``."""
    request = BatchesRequest.__new__(BatchesRequest)  # its constructor is a slow Python function with keyword arguments
    request.transactional_id = transactional_id
    request.acks = acks
    request.timeout_ms = timeout_ms
    request.topic_data = []
    request.topics = topics
    return request


def write_request(version: int, request: BatchesRequest, chunks: list[Buffer], out: bytearray) -> bytearray:
    """Encode a request of a flexible version."""
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
