"""Creates named tuples for each record. Compiled modules use the memory of earlier tuples for them.

A compiled module uses the functions of the same names in ``tuples.pxd``.
"""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T", bound="tuple[Any, ...]")


def recycle(kind: type[tuple[Any, ...]]) -> None:
    """Reuse the memory of tuples of this type, of which there can be one in a module.

    In plain Python, this does nothing.
    """


def of_four(kind: type[T], first: str, second: int, third: int, fourth: int) -> T:
    """Return a named tuple of four plain values.

    Calling the type is slower, because its constructor is a Python function.
    """
    return tuple.__new__(kind, (first, second, third, fourth))
