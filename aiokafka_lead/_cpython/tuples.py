"""Named tuples for each record: a plain call here, memory filled in place and reused in compiled modules.

A compiled module takes the functions of the same names from ``tuples.pxd`` instead.
"""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T", bound="tuple[Any, ...]")


def recycle(kind: type[tuple[Any, ...]]) -> None:
    """Keep the memory of such tuples for the next ones. One type per module. (Not possible in plain Python.)"""


def of_four(kind: type[T], first: str, second: int, third: int, fourth: int) -> T:
    """Return a named tuple of four plain values. (Its own constructor is a Python function.)"""
    return tuple.__new__(kind, (first, second, third, fourth))
