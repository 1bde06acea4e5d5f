"""What records are made of in every benchmark: JSON-like values that compress as such texts do."""

from __future__ import annotations


def values(size: int, count: int) -> list[bytes]:
    """As many different values of that many bytes."""
    return [_value(size, number) for number in range(count)]


def _value(size: int, number: int) -> bytes:
    fields = b"".join(
        b'{"id":%d,"user":"user-%d","amount":%d.%02d,"note":"%x"},'
        % (number + step, number * 7919 % 1009, number * 31 % 977, step % 100, number * 2654435761 % 2**32)
        for step in range(size // 60 + 1)
    )
    return fields[:size].ljust(size, b" ")
