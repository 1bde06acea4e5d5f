"""The client's side of frames. A frame consists of a length, a header and a body. `server` has the broker's side.

The version of the body determines the version of the header (KIP-482). Flexible requests have header version 2, and
flexible responses have version 1. All others have 1 and 0. The only exception is the response to ApiVersions, whose
header always has version 0, because a client must be able to read it before it knows the broker's versions.

If a compiler is available, this code is compiled through ``framing.pxd``.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from functools import lru_cache
from typing import Any, TypeVar

from ..errors import EncodeError, MalformedMessageError
from .codec import decode_from, decode_in_steps, encode_into
from .compiler import Elements
from .message import Buffer, Message, Request, Response
from .primitives import MAX_STRING_BYTES, skip_tags

R = TypeVar("R", bound=Response)

API_VERSIONS_KEY = 18

_UNSUPPORTED_VERSION_CODE = 35
_UNSUPPORTED_VERSION = _UNSUPPORTED_VERSION_CODE.to_bytes(2, "big")
_REQUEST_HEADER = struct.Struct(">ihhih")
_CORRELATION_ID_AT = 8
_INT32 = struct.Struct(">i")


@lru_cache(maxsize=1024)
def _request_head(request: type[Request[Any]], version: int, client_id: str | None) -> bytes:
    """Return the beginning of all requests of this kind, without the values of the length and the correlation id."""
    encoded = b"" if client_id is None else client_id.encode()
    if len(encoded) > MAX_STRING_BYTES:
        raise EncodeError(f"the client id has {len(encoded)} bytes; Kafka allows at most {MAX_STRING_BYTES}")
    head = _REQUEST_HEADER.pack(0, request.API_KEY, version, 0, -1 if client_id is None else len(encoded)) + encoded
    return head + b"\0" if request.is_flexible(version) else head


def encode_request(request: Request[Any], version: int, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """Return the frame of a request, including its length, as buffers to write in order.

    Large records are not copied. Raises the errors of `codec.encode_into`.
    """
    kind: Any = type(request)  # a class is hashable even if its instances are not
    head = bytearray(_request_head(kind, version, client_id))
    _INT32.pack_into(head, _CORRELATION_ID_AT, correlation_id)
    return finish_frame(request, version, head)


def finish_frame(message: Message, version: int, head: bytearray) -> list[Buffer]:
    """Return the frame that begins with ``head`` and continues with the message. This sets the length in ``head``."""
    chunks: list[Buffer] = []
    last = encode_into(message, version, chunks, head)
    if last or not chunks:
        chunks.append(last)
    size = len(last) if last is head else sum(map(len, chunks))
    _INT32.pack_into(head, 0, size - 4)
    return chunks


def peek_correlation_id(frame: Buffer) -> int:
    """Return the correlation id of a response.

    ``frame`` does not include the length. Raises `MalformedMessageError`.
    """
    try:
        correlation_id: int = _INT32.unpack_from(frame)[0]
    except struct.error:
        raise MalformedMessageError(f"a response of {len(frame)} bytes has no correlation id") from None
    return correlation_id


def decode_response(response: type[R], version: int, frame: Buffer) -> tuple[int, R]:
    """Return the correlation id and the response to a request of this ``version``.

    ``frame`` does not include the length.

    A broker that does not support the version of an ApiVersions request answers with error 35 in version 0 (KIP-511).
    In that case, ``api_keys`` contains the versions of ApiVersions to use, or is empty. Raises `MalformedMessageError`.
    """
    view = memoryview(frame)
    correlation_id = peek_correlation_id(view)
    return correlation_id, decode_answer(response, version, view)


def decode_answer(response: type[R], version: int, view: memoryview) -> R:
    """Return the response like `decode_response`, if the correlation id has already been read."""
    position = 4
    if response.API_KEY == API_VERSIONS_KEY:
        if view[4:6] == _UNSUPPORTED_VERSION:
            return _decode_refusal(response, version, view)
    elif response.is_flexible(version):
        position = skip_header_tags(view, position)
    return decode_from(response, version, view, position)[0]


def _decode_refusal(response: type[R], asked: int, view: memoryview) -> R:
    """Decode a refusal of ApiVersions: its error code and, if they can be read, its keys.

    Some brokers and proxies answer in the version that they do not support, or send no data after the error code. The
    error code is enough for another request. The other fields are ignored, because garbage may look like a throttle
    time.
    """
    api_keys: Any = []
    for version in (0, asked):
        try:
            body: Any = decode_from(response, version, view, 4)[0]
        except MalformedMessageError:
            continue
        api_keys = body.api_keys
        break
    made: Any = response
    refusal: R = made(error_code=_UNSUPPORTED_VERSION_CODE, api_keys=api_keys)
    return refusal


def decode_response_in_steps(
    response: type[R], version: int, frame: memoryview, array: str, elements: Elements
) -> Generator[None, None, R]:
    """Return the response like `decode_response`. ``elements`` reads the field ``array`` in steps."""
    position = skip_header_tags(frame, 4) if response.is_flexible(version) else 4
    return (yield from decode_in_steps(response, version, frame, position, array, elements))


def skip_header_tags(view: memoryview, position: int) -> int:
    """Return the position after the tagged fields of a header. Kafka has not defined any yet."""
    try:
        count = view[position]
        return skip_tags(view, position + 1, count, len(view)) if count else position + 1
    except IndexError:
        raise MalformedMessageError("a header ends within its tagged fields") from None
