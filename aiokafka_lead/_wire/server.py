"""The broker's side of frames, and the classes for each API number."""

from __future__ import annotations

import struct
from functools import cache
from importlib import import_module
from typing import Any

from .._values import NamedTuple
from ..errors import MalformedMessageError, UnsupportedVersionError
from .api_key import NAMES
from .codec import decode_from
from .framing import API_VERSIONS_KEY, finish_frame, skip_header_tags
from .message import Buffer, Request, Response
from .primitives import malformed

_REQUEST_FIELDS = struct.Struct(">hhih")
_LENGTH_AND_ID = struct.Struct(">ii")


@cache
def request_class(api_key: int) -> type[Request[Any]]:
    """Return the request class of an API.

    Its ``RESPONSE`` is the response class. Raises `KeyError` for an unknown key.
    """
    name = NAMES[api_key]
    module = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("_")
    found: type[Request[Any]] = getattr(import_module(f"{__package__}.messages.{module}"), name + "Request")
    return found


class RequestHeader(NamedTuple):
    """The header of a request, as far as it is the same in all versions."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None


class RequestFrame(NamedTuple):
    """A request as a broker receives it: the header and the message."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    request: Request[Any]


class UnsupportedRequestError(UnsupportedVersionError):
    """A request of an API or a version for which this package has no schema. ``header`` identifies the request."""

    def __init__(self, message: str, header: RequestHeader) -> None:
        super().__init__(message)
        self.header = header
        self.api_key, self.version, self.correlation_id, self.client_id = header


def encode_response(response: Response, version: int, correlation_id: int) -> list[Buffer]:
    """Return the frame of a response, in the same form as `encode_request`."""
    out = bytearray(_LENGTH_AND_ID.pack(0, correlation_id))
    if response.is_flexible(version) and response.API_KEY != API_VERSIONS_KEY:
        out.append(0)
    return finish_frame(response, version, out)


def decode_request_header(frame: Buffer) -> RequestHeader:
    """Return the header of a request. ``frame`` does not include the length. Raises `MalformedMessageError`."""
    return _read_request_header(memoryview(frame))[0]


def decode_request(frame: Buffer) -> RequestFrame:
    """Return the request in a frame, which does not include the length.

    Raises `UnsupportedRequestError`, which contains the header, if there is no schema for the API or its version.
    Raises `MalformedMessageError` for invalid bytes.
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
        position = skip_header_tags(view, position)
    return RequestFrame(*header, decode_from(request, header.version, view, position)[0])


def _read_request_header(view: memoryview) -> tuple[RequestHeader, int]:
    """Return the header up to the client id, which is the same in all versions, and the position after it."""
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
