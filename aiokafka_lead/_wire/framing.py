"""Frames: a length, a header, a body. Both sides of a connection.

The header's version follows from the body's (KIP-482): flexible requests have header version 2 and flexible responses
version 1, else 1 and 0. The one exception is the response to ApiVersions, whose header stays at version 0, since a
client must be able to read it before it knows anything about the broker.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from ..errors import EncodeError, MalformedMessageError, UnsupportedVersionError
from .apis import request_class
from .codec import decode_from, encode_into
from .message import Buffer, Message, Request, Response
from .primitives import MAX_STRING_BYTES, malformed, skip_tags

R = TypeVar("R", bound=Response)

API_VERSIONS_KEY = 18

_UNSUPPORTED_VERSION_CODE = 35
_REQUEST_HEADER = struct.Struct(">ihhih")
_REQUEST_FIELDS = struct.Struct(">hhih")
_INT32 = struct.Struct(">i")
_LENGTH_AND_ID = struct.Struct(">ii")


class RequestHeader(NamedTuple):
    """What stands before a request's body."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None


class RequestFrame(NamedTuple):
    """A request as a broker sees it."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    request: Request[Any]


class UnsupportedRequestError(UnsupportedVersionError):
    """A request of an API or version that has no schema here; ``header`` tells whom to answer."""

    def __init__(self, message: str, header: RequestHeader) -> None:
        super().__init__(message)
        self.header = header
        self.api_key, self.version, self.correlation_id, self.client_id = header


@lru_cache(maxsize=256)
def _client_id_bytes(client_id: str | None) -> tuple[int, bytes]:
    """Its length field, and its bytes."""
    if client_id is None:
        return -1, b""
    encoded = client_id.encode()
    if len(encoded) > MAX_STRING_BYTES:
        raise EncodeError(f"a client id of {len(encoded)} bytes: Kafka allows {MAX_STRING_BYTES}")
    return len(encoded), encoded


def encode_request(request: Request[Any], version: int, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """The request's frame, with its length in front, as buffers to write one after another.

    Large records are among them as they were given. Errors as in `codec.encode_into`.
    """
    size, encoded = _client_id_bytes(client_id)
    out = bytearray(_REQUEST_HEADER.pack(0, request.API_KEY, version, correlation_id, size))
    out += encoded
    if request.is_flexible(version):
        out.append(0)
    return _frame(request, version, out)


def encode_response(response: Response, version: int, correlation_id: int) -> list[Buffer]:
    """The response's frame, as `encode_request` gives a request's."""
    out = bytearray(_LENGTH_AND_ID.pack(0, correlation_id))
    if response.is_flexible(version) and response.API_KEY != API_VERSIONS_KEY:
        out.append(0)
    return _frame(response, version, out)


def _frame(message: Message, version: int, head: bytearray) -> list[Buffer]:
    chunks: list[Buffer] = []
    last = encode_into(message, version, chunks, head)
    if last or not chunks:
        chunks.append(last)
    size = len(last) if last is head else sum([memoryview(chunk).nbytes for chunk in chunks])
    _INT32.pack_into(head, 0, size - 4)
    return chunks


def peek_correlation_id(frame: Buffer) -> int:
    """The correlation id of a response's frame, without its length. Raises `MalformedMessageError`."""
    try:
        correlation_id: int = _INT32.unpack_from(frame)[0]
    except struct.error:
        raise MalformedMessageError(f"a response of {len(frame)} bytes has no correlation id") from None
    return correlation_id


def decode_response(response: type[R], version: int, frame: Buffer) -> tuple[int, R]:
    """The correlation id and the response in a frame without its length, for a request sent in ``version``.

    A broker that does not know the version of an ApiVersions request answers with error 35 in version 0, so that
    such a frame is read as version 0 (KIP-511); its ``api_keys`` then tell the versions of ApiVersions to use.
    Raises `MalformedMessageError`.
    """
    view = memoryview(frame)
    correlation_id = peek_correlation_id(view)
    position = 4
    if response.API_KEY == API_VERSIONS_KEY:
        if view[4:6] == _UNSUPPORTED_VERSION_CODE.to_bytes(2, "big"):
            version = 0
    elif response.is_flexible(version):
        position = _skip_header_tags(view, position)
    return correlation_id, decode_from(response, version, view, position)[0]


def _skip_header_tags(view: memoryview, position: int) -> int:
    try:
        return skip_tags(view, position + 1, view[position], len(view))
    except IndexError:
        raise MalformedMessageError("a header ends within its tagged fields") from None


def decode_request_header(frame: Buffer) -> RequestHeader:
    """The header of a request's frame, without its length. Raises `MalformedMessageError`."""
    return _read_request_header(memoryview(frame))[0]


def decode_request(frame: Buffer) -> RequestFrame:
    """The request in a frame without its length.

    Raises `UnsupportedRequestError`, which carries the header, where this client has no schema for the API or its
    version, and `MalformedMessageError`.
    """
    view = memoryview(frame)
    header, position = _read_request_header(view)
    try:
        request = request_class(header.api_key)
    except KeyError:
        raise UnsupportedRequestError(f"there is no API with key {header.api_key}", header) from None
    if not request.MIN_VERSION <= header.version <= request.MAX_VERSION:
        known = f"{request.MIN_VERSION} to {request.MAX_VERSION}"
        raise UnsupportedRequestError(f"{request.NAME} has versions {known}, not {header.version}", header)
    if request.is_flexible(header.version):
        position = _skip_header_tags(view, position)
    return RequestFrame(*header, decode_from(request, header.version, view, position)[0])


def _read_request_header(view: memoryview) -> tuple[RequestHeader, int]:
    """The header up to the client id, which every version has alike, and the position after it."""
    try:
        api_key, version, correlation_id, size = _REQUEST_FIELDS.unpack_from(view)
    except struct.error:
        raise MalformedMessageError(f"a request of {len(view)} bytes has no header") from None
    position = _REQUEST_FIELDS.size
    if size < 0:
        return RequestHeader(api_key, version, correlation_id, None), position
    stop = position + size
    if stop > len(view):
        malformed(position, "the client id")
    try:
        client_id = str(view[position:stop], "utf-8")
    except UnicodeDecodeError:
        malformed(stop, "the client id's UTF-8")
    return RequestHeader(api_key, version, correlation_id, client_id), stop
