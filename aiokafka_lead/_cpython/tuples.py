"""Creates named tuples for each record: with a plain call here, in reused memory in compiled modules.

A compiled module uses the functions of the same names in ``tuples.pxd``.
"""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T", bound="tuple[Any, ...]")


def recycle(kind: type[tuple[Any, ...]]) -> None:
    """Reuse the memory of tuples of this type. One type per module. (Not possible in plain Python.)"""


def of_four(kind: type[T], first: str, second: int, third: int, fourth: int) -> T:
    """Return a named tuple of four plain values. (The type's constructor is a Python function, which is slower.)"""
    return tuple.__new__(kind, (first, second, third, fourth))
