"""Encodes common Produce requests directly from batches, and decodes common answers directly into offsets.

They cover flexible versions, and answers without any error; the schema's codec handles the rest.

Hot: compiled through ``produce_codec.pxd`` if a compiler is available, else plain Python.
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
"""The first version that names topics by their ids (KIP-516)."""

_COPY_BELOW = COPY_BELOW_BYTES
_PARTITION_BYTES = 33
"""Size of an answer for one partition: index, error code, base offset, append time, start offset, no record errors, no
text, no tagged fields."""


class BatchesResponse(ProduceResponse):
    """An answer without errors: the offsets of each batch. The schema's fields stay empty, except the throttle time."""

    __slots__ = ("acknowledged",)

    acknowledged: dict[bytes, dict[int, tuple[int, int]]]
    """Base offset and append time by topic (its id, or its name in UTF-8) and partition."""


def read_response(version: int, buffer: Buffer, position: int, end: int, view: memoryview) -> tuple[Any, int]:
    """Decode a response of a flexible version: a `BatchesResponse`, or the schema's class for an unusual answer."""
    response = read_plain(view, position, end, version >= FIRST_WITH_IDS)
    if response is None:
        return decoder_of(ProduceResponse, version)(buffer, position, end, view)
    return response, end


def read_plain(frame: memoryview, position: int, end: int, by_id: bool) -> BatchesResponse | None:
    """Return the answer at ``position``, or None if it is unusual in any way."""
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
    response = BatchesResponse.__new__(BatchesResponse)  # its constructor is a Python function with keywords
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
    """Topic (its id, or its name in UTF-8), and the partitions' numbers and records."""


def new_request(transactional_id: str | None, acks: int, timeout_ms: int, topics: list[Any]) -> BatchesRequest:
    """Return a request with these ``topics``."""
    request = BatchesRequest.__new__(BatchesRequest)  # its constructor is a Python function with keywords
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
    """Append one partition without tagged fields; large records become separate chunks."""
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
