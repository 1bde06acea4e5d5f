"""Bytes as the codec's hot loops see them: Python's own here, raw memory in compiled modules.

A compiled module takes the functions of the same names from ``raw.pxd`` instead; this file is what the same source
means without a compiler. Positions and lengths are checked by the callers.
"""

from __future__ import annotations

from array import array


def readable(data: bytes | memoryview) -> bytes:
    """What the decoder indexes and slices; slices are bytes."""
    return bytes(data)


def copy(target: bytearray, at: int, source: bytes, length: int) -> None:
    """Write all ``length`` bytes of ``source`` at ``at``."""
    target[at : at + length] = source


def writable(buffer: bytearray) -> bytearray:
    """What the codec writes to."""
    return buffer


def copy_part(target: bytearray, at: int, source: bytes | bytearray, source_at: int, length: int) -> None:
    """Write ``length`` bytes that stand at ``source_at`` in what `readable` gave."""
    target[at : at + length] = source[source_at : source_at + length]


def new_buffer(size: int) -> bytearray:
    """Room to be written to before it is read: compiled, it is not cleared."""
    return bytearray(size)


def resize(buffer: bytearray, size: int) -> None:
    """Make ``buffer`` larger or smaller; compiled, what is new in it is not cleared."""
    del buffer[size:]
    buffer.extend(bytes(size - len(buffer)))


def utf8_size(text: str) -> int:
    """How many bytes ``text`` takes in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def copy_utf8(target: bytearray, at: int, text: str, length: int) -> None:
    """Write ``text`` in UTF-8, which takes ``length`` bytes, at ``at``."""
    target[at : at + length] = text.encode()


def put_int16(buffer: bytearray, at: int, number: int) -> None:
    """Write a number as two bytes, the most significant first."""
    buffer[at : at + 2] = number.to_bytes(2, "big", signed=True)


def put_int32(buffer: bytearray, at: int, number: int) -> None:
    """Write a number as four bytes."""
    buffer[at : at + 4] = number.to_bytes(4, "big", signed=True)


def append_int16(buffer: bytearray, number: int) -> None:
    """Append what `put_int16` writes."""
    buffer += number.to_bytes(2, "big", signed=True)


def append_int32(buffer: bytearray, number: int) -> None:
    """Append what `put_int32` writes."""
    buffer += number.to_bytes(4, "big", signed=True)


def append_uvarint(buffer: bytearray, number: int) -> None:
    """Append an unsigned varint: seven bits a byte, the least significant first."""
    while number > 127:
        buffer.append(number & 127 | 128)
        number >>= 7
    buffer.append(number)


def put_uint32(buffer: bytearray, at: int, number: int) -> None:
    """Write a number without a sign as four bytes."""
    buffer[at : at + 4] = number.to_bytes(4, "big")


def put_int64(buffer: bytearray, at: int, number: int) -> None:
    """Write a number as eight bytes."""
    buffer[at : at + 8] = number.to_bytes(8, "big", signed=True)


def int16_at(buffer: bytes, at: int) -> int:
    """What `put_int16` wrote."""
    return int.from_bytes(buffer[at : at + 2], "big", signed=True)


def int32_at(buffer: bytes, at: int) -> int:
    """What `put_int32` wrote."""
    return int.from_bytes(buffer[at : at + 4], "big", signed=True)


def int64_at(buffer: bytes, at: int) -> int:
    """What `put_int64` wrote."""
    return int.from_bytes(buffer[at : at + 8], "big", signed=True)


def int32s(items: array[int]) -> array[int]:
    """The 32-bit numbers of an array of type "i"."""
    return items


def int64s(items: array[int]) -> array[int]:
    """The 64-bit numbers of an array of type "q"."""
    return items


def new_int32s(count: int) -> array[int]:
    """An array of type "i"; compiled, it is not cleared."""
    return array("i", bytes(4 * count))


def new_int64s(count: int) -> array[int]:
    """An array of type "q"; compiled, it is not cleared."""
    return array("q", bytes(8 * count))
