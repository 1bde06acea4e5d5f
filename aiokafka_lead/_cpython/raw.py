"""Access to bytes in the hot loops of the codec.

A compiled module uses the functions of the same names in ``raw.pxd``, which access memory directly. This file uses
Python objects, and defines the meaning of the functions. Callers must check positions and lengths.
"""

from __future__ import annotations

from array import array


def readable(data: bytes | memoryview) -> bytes:
    """Return a buffer that the decoder can index and slice. Its slices are bytes."""
    return bytes(data)


def copy(target: bytearray, at: int, source: bytes, length: int) -> None:
    """Copy all ``length`` bytes of ``source`` to position ``at``."""
    target[at : at + length] = source


def writable(buffer: bytearray) -> bytearray:
    """Return a buffer that the codec can write to."""
    return buffer


def copy_part(target: bytearray, at: int, source: bytes | bytearray, source_at: int, length: int) -> None:
    """Copy ``length`` bytes of a `readable` buffer, starting at ``source_at``."""
    target[at : at + length] = source[source_at : source_at + length]


def new_buffer(size: int) -> bytearray:
    """Return a buffer that must be written before it is read. In compiled form, its memory is not cleared."""
    return bytearray(size)


def resize(buffer: bytearray, size: int) -> None:
    """Resize ``buffer``. In compiled form, the added part is not cleared."""
    del buffer[size:]
    buffer.extend(bytes(size - len(buffer)))


def utf8_size(text: str) -> int:
    """Return the size of ``text`` in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def copy_utf8(target: bytearray, at: int, text: str, length: int) -> None:
    """Write ``text`` at position ``at``. It takes ``length`` bytes in UTF-8."""
    target[at : at + length] = text.encode()


def put_int16(buffer: bytearray, at: int, number: int) -> None:
    """Write a big-endian 16-bit integer."""
    buffer[at : at + 2] = number.to_bytes(2, "big", signed=True)


def put_int32(buffer: bytearray, at: int, number: int) -> None:
    """Write a big-endian 32-bit integer."""
    buffer[at : at + 4] = number.to_bytes(4, "big", signed=True)


def append_int16(buffer: bytearray, number: int) -> None:
    """Append a big-endian 16-bit integer."""
    buffer += number.to_bytes(2, "big", signed=True)


def append_int32(buffer: bytearray, number: int) -> None:
    """Append a big-endian 32-bit integer."""
    buffer += number.to_bytes(4, "big", signed=True)


def append_uvarint(buffer: bytearray, number: int) -> None:
    """Append an unsigned varint: seven bits per byte, least significant bits first."""
    while number > 127:
        buffer.append(number & 127 | 128)
        number >>= 7
    buffer.append(number)


def put_uint32(buffer: bytearray, at: int, number: int) -> None:
    """Write a big-endian unsigned 32-bit integer."""
    buffer[at : at + 4] = number.to_bytes(4, "big")


def put_int64(buffer: bytearray, at: int, number: int) -> None:
    """Write a big-endian 64-bit integer."""
    buffer[at : at + 8] = number.to_bytes(8, "big", signed=True)


def int16_at(buffer: bytes, at: int) -> int:
    """Read an integer written by `put_int16`."""
    return int.from_bytes(buffer[at : at + 2], "big", signed=True)


def int32_at(buffer: bytes, at: int) -> int:
    """Read an integer written by `put_int32`."""
    return int.from_bytes(buffer[at : at + 4], "big", signed=True)


def int64_at(buffer: bytes, at: int) -> int:
    """Read an integer written by `put_int64`."""
    return int.from_bytes(buffer[at : at + 8], "big", signed=True)


def int32s(items: array[int]) -> array[int]:
    """Return the 32-bit integers in an array of type "i"."""
    return items


def int64s(items: array[int]) -> array[int]:
    """Return the 64-bit integers in an array of type "q"."""
    return items


def new_int32s(count: int) -> array[int]:
    """Return an array of type "i". In compiled form, it is not cleared."""
    return array("i", bytes(4 * count))


def new_int64s(count: int) -> array[int]:
    """Return an array of type "q". In compiled form, it is not cleared."""
    return array("q", bytes(8 * count))
