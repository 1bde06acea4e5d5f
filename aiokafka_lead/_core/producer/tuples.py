"""Named tuples for each record: a plain call here, memory filled in place in compiled modules.

A compiled module takes the function of the same name from ``tuples.pxd`` instead.
"""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = ["of_four"]

T = TypeVar("T", bound="tuple[Any, ...]")


def of_four(kind: type[T], first: str, second: int, third: int, fourth: int) -> T:
    """A named tuple of four plain values. (Its own constructor is a Python function.)"""
    return tuple.__new__(kind, (first, second, third, fourth))
