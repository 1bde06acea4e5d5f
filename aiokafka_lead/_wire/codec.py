"""Encodes and decodes messages: their bodies, and their frames on the client's side. `server` has the broker's side.

The codec of a message is created when it is first used. A frame consists of a length, a header and a body. The version
of the body determines the version of the header (KIP-482). Flexible requests have header version 2, and flexible
responses have version 1. All others have 1 and 0. The only exception is the response to ApiVersions, whose header
always has version 0, because a client must be able to read it before it knows the broker's versions.

If a compiler is available, this code is compiled through ``codec.pxd``.
"""

from __future__ import annotations

import gc
import struct
from collections.abc import Generator, Iterable
from functools import lru_cache, partial
from typing import Any, TypeVar, cast

from ..errors import EncodeError, MalformedMessageError, UnsupportedVersionError
from .compiler import Decoder, Elements, Encoder, StepwiseDecoder, make_decoder, make_encoder, make_stepwise_decoder
from .message import Buffer, Message, Request, Response, Struct
from .primitives import MAX_STRING_BYTES, skip_tags

M = TypeVar("M", bound=Message)

_COPIED_BYTES = 1 << 20
"""Maximum size in bytes of a message that is copied out of a larger buffer before it is decoded."""

_GC_PAUSE_BYTES = 1 << 16
"""Size in bytes above which decoding pauses the garbage collector, which would not find anything to free."""

_encoders: dict[tuple[type[Message], int], Encoder] = {}
_decoders: dict[tuple[type[Message], int], Decoder] = {}
_element_decoders: dict[tuple[type[Struct], int], Decoder] = {}
_stepwise_decoders: dict[tuple[type[Struct], int, str], StepwiseDecoder] = {}
# Keep the first codec that any thread creates. Without the GIL, compiled code must not look up an entry that another
# thread may replace.


def encode(message: Message, version: int) -> bytes:
    """Return the body of the message. Raises the errors of `encode_into`."""
    chunks: list[Buffer] = []
    last = encode_into(message, version, chunks, bytearray())
    return b"".join([*chunks, last])


def encode_into(message: Message, version: int, chunks: list[Buffer], out: bytearray) -> bytearray:
    """Append the body of the message to ``out``, or to ``chunks`` and a new ``out``, which is returned.

    Raises `UnsupportedVersionError` if the schema does not have the version, or if the version cannot carry the value
    of a field. Raises `EncodeError` if a value does not fit its type.
    """
    kind = type(message)
    encoder = encoder_of(kind, version)
    try:
        return encoder(message, chunks, out)
    except (struct.error, AttributeError, TypeError, ValueError, OverflowError) as error:
        raise EncodeError(f"{kind.__name__} version {version}: {error}") from error


def decode(message: type[M], version: int, buffer: Buffer) -> M:
    """Decode the message whose body is at the start of ``buffer``.

    Like every client, this ignores any bytes after it, because a newer broker may send a later version of a data
    schema. Raises `UnsupportedVersionError` if the schema does not have the version, and `MalformedMessageError`.
    """
    return decode_from(message, version, memoryview(buffer), 0)[0]


def decode_from(message: type[M], version: int, view: memoryview, position: int) -> tuple[M, int]:
    """Return the message at ``position``, and the position after it. Raises the same errors as `decode`."""
    decoder = decoder_of(message, version)
    pause = len(view) >= _GC_PAUSE_BYTES and gc.isenabled()
    if pause:
        gc.disable()
    try:
        decoded: M
        decoded, position = decoder(_plain(view), position, len(view), view)
    except _MALFORMED as error:
        raise _malformed(message, version, error) from error
    finally:
        if pause:
            gc.enable()
    return decoded, position


def decode_in_steps(
    message: type[M], version: int, view: memoryview, position: int, array: str, elements: Elements
) -> Generator[None, None, M]:
    """Do the same as `decode_from`, but let the generator ``elements`` read the field ``array`` in steps."""
    decoder = stepwise_decoder(message, message, version, array)
    try:
        decoded, _ = yield from decoder(_plain(view), position, len(view), view, elements)
    except _MALFORMED as error:
        raise _malformed(message, version, error) from error
    return cast(M, decoded)


def element_decoder(message: type[Message], element: type[Struct], version: int) -> Decoder:
    """Return the decoder of a struct within a message. `decode_in_steps` converts its errors."""
    decoder = _element_decoders.get((element, version))
    if decoder is None:
        made = make_decoder(element, version, message.is_flexible(version))
        decoder = _element_decoders.setdefault((element, version), made)
    return decoder


def stepwise_decoder(message: type[Message], struct: type[Struct], version: int, array: str) -> StepwiseDecoder:
    """Return a decoder of a struct, or of the message itself, that leaves the field ``array`` to a generator.

    Raises `UnsupportedVersionError`.
    """
    key = (struct, version, array)
    decoder = _stepwise_decoders.get(key)
    if decoder is None:
        _check_version(message, version)
        made = make_stepwise_decoder(struct, version, message.is_flexible(version), array)
        decoder = _stepwise_decoders.setdefault(key, made)
    return decoder


def decoder_of(message: type[Message], version: int) -> Decoder:
    """Return the decoder of this version of a message, created on first use. Raises `UnsupportedVersionError`."""
    decoder = _decoders.get((message, version))
    if decoder is None:
        _check_version(message, version)
        own = message.OWN_DECODER
        made = make_decoder(message, version, message.is_flexible(version)) if own is None else partial(own, version)
        decoder = _decoders.setdefault((message, version), made)
    return decoder


def encoder_of(message: type[Message], version: int) -> Encoder:
    """Return the encoder of this version of a message, created on first use. Raises `UnsupportedVersionError`."""
    encoder = _encoders.get((message, version))
    if encoder is None:
        _check_version(message, version)
        own = message.OWN_ENCODER
        made = make_encoder(message, version) if own is None else partial(own, version)
        encoder = _encoders.setdefault((message, version), made)
    return encoder


def make_codecs(requests: Iterable[tuple[type[Request[Any]], int]]) -> Generator[None, None, None]:
    """Create the codecs of these request versions in steps, instead of all at once on first use."""
    for request, version in requests:
        encoder_of(request, version)
        yield
        decoder_of(request.RESPONSE, version)
        yield


_MALFORMED = (IndexError, struct.error, ValueError, OverflowError, MalformedMessageError)


def _malformed(message: type[Message], version: int, error: Exception) -> MalformedMessageError:
    what = f"{message.__name__} version {version}"
    if isinstance(error, IndexError):
        return MalformedMessageError(f"{what}: ends before its last field")
    return MalformedMessageError(f"{what}: {error.message if isinstance(error, MalformedMessageError) else error}")


def _plain(view: memoryview) -> Buffer:
    """Return the view's bytes as an object with faster access to its items."""
    whole = view.obj
    if isinstance(whole, (bytes, bytearray)) and len(whole) == view.nbytes and view.c_contiguous:
        return whole
    return bytes(view) if view.nbytes <= _COPIED_BYTES else view


def _check_version(kind: type[Message], version: int) -> None:
    if not kind.MIN_VERSION <= version <= kind.MAX_VERSION:
        raise UnsupportedVersionError(
            f"{kind.__name__} has versions {kind.MIN_VERSION} to {kind.MAX_VERSION}, not {version}"
        )


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

    Large records are not copied. Raises the errors of `encode_into`.
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
