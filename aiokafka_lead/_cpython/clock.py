"""Clocks, and the id of the thread, which are read for every record. Compiled modules read them from C.

A compiled module uses the functions of the same names in ``clock.pxd``.
"""

from __future__ import annotations

from threading import get_ident as thread_id
from time import monotonic as monotonic_s
from time import time_ns

__all__ = ["monotonic_s", "thread_id", "wall_ms"]


def wall_ms() -> int:
    """Return the milliseconds since 1970."""
    return time_ns() // 1_000_000
