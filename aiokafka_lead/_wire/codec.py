"""Bodies of messages: `encode` and `decode`, by codecs that are compiled at their first use."""

from __future__ import annotations

import gc
import struct
from typing import TypeVar, cast

from ..errors import EncodeError, MalformedMessageError, UnsupportedVersionError
from .compiler import Decoder, Encoder, make_decoder, make_encoder
from .message import Buffer, Message

M = TypeVar("M", bound=Message)

_COPIED_BYTES = 1 << 20
"""A part of a larger buffer is copied before it is decoded if it is not longer than this."""

_GC_PAUSE_BYTES = 1 << 16
"""Above this, decoding pauses the garbage collector: it would traverse what grows here again and again, for nothing."""

_encoders: dict[tuple[type[Message], int], Encoder] = {}
_decoders: dict[tuple[type[Message], int], Decoder] = {}


def encode(message: Message, version: int) -> bytes:
    """The message's body. Errors: see `encode_into`."""
    chunks: list[Buffer] = []
    last = encode_into(message, version, chunks, bytearray())
    return b"".join([*chunks, last])


def encode_into(message: Message, version: int, chunks: list[Buffer], out: bytearray) -> bytearray:
    """Appends the message's body to ``out``, or to ``chunks`` and a new ``out``, which is returned.

    Raises `UnsupportedVersionError` where the version is not in the schema or cannot carry a field's value, and
    `EncodeError` where a value does not fit its type.
    """
    kind = type(message)
    encoder = _encoders.get((kind, version))
    if encoder is None:
        _check_version(kind, version)
        encoder = _encoders[kind, version] = make_encoder(kind, version)
    try:
        return encoder(message, chunks, out)
    except (struct.error, AttributeError, TypeError, ValueError, OverflowError) as error:
        raise EncodeError(f"{kind.__name__} version {version}: {error}") from error


def decode(message: type[M], version: int, buffer: Buffer) -> M:
    """The message in ``buffer``, which begins with its body.

    Bytes after it are ignored, as every client does: a newer broker may send a data schema's later version.
    Raises `UnsupportedVersionError` where the version is not in the schema, and `MalformedMessageError`.
    """
    return decode_from(message, version, memoryview(buffer), 0)[0]


def decode_from(message: type[M], version: int, view: memoryview, position: int) -> tuple[M, int]:
    """The message at ``position``, and the position after it. Errors as in `decode`."""
    decoder = _decoders.get((message, version))
    if decoder is None:
        _check_version(message, version)
        decoder = _decoders[message, version] = make_decoder(message, version)
    pause = len(view) >= _GC_PAUSE_BYTES and gc.isenabled()
    if pause:
        gc.disable()
    try:
        decoded, position = decoder(_plain(view), position, len(view), view)
    except IndexError:
        raise MalformedMessageError(f"{message.__name__} version {version}: ends before its last field") from None
    except (struct.error, ValueError, OverflowError) as error:
        raise MalformedMessageError(f"{message.__name__} version {version}: {error}") from error
    except MalformedMessageError as error:
        raise MalformedMessageError(f"{message.__name__} version {version}: {error.message}") from None
    finally:
        if pause:
            gc.enable()
    return cast(M, decoded), position


def _plain(view: memoryview) -> Buffer:
    """The bytes of the view in an object whose items are faster to reach."""
    whole = view.obj
    if isinstance(whole, (bytes, bytearray)) and len(whole) == view.nbytes and view.c_contiguous:
        return whole
    return bytes(view) if view.nbytes <= _COPIED_BYTES else view


def _check_version(kind: type[Message], version: int) -> None:
    if not kind.MIN_VERSION <= version <= kind.MAX_VERSION:
        raise UnsupportedVersionError(
            f"{kind.__name__} has versions {kind.MIN_VERSION} to {kind.MAX_VERSION}, not {version}"
        )
