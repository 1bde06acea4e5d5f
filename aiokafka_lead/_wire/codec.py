"""Encodes and decodes the bodies of messages. The codec of a message is created when it is first used.

If a compiler is available, this code is compiled through ``codec.pxd``.
"""

from __future__ import annotations

import gc
import struct
from collections.abc import Generator, Iterable
from functools import partial
from typing import Any, TypeVar, cast

from ..errors import EncodeError, MalformedMessageError, UnsupportedVersionError
from .compiler import Decoder, Elements, Encoder, StepwiseDecoder, make_decoder, make_encoder, make_stepwise_decoder
from .message import Buffer, Message, Request, Struct

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
