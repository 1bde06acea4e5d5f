"""Clocks and the thread's identity, needed for every record: Python's here, C's in compiled modules.

A compiled module takes the functions of the same names from ``clock.pxd`` instead.
"""

from __future__ import annotations

from threading import get_ident as thread_id
from time import monotonic as monotonic_s
from time import time_ns

__all__ = ["monotonic_s", "thread_id", "wall_ms"]


def wall_ms() -> int:
    """Return the milliseconds since 1970."""
    return time_ns() // 1_000_000
