"""Awaits an object that already has its result: through ``__await__`` in plain Python, immediately if compiled.

A compiled module uses the function of the same name in ``awaiting.pxd``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def shorten_await(kind: type, ready: Callable[[Any], bool], take: Callable[[Any], Any]) -> None:
    """Let ``await`` of an object of this type return ``take``'s result at once if it is ``ready``. One type per module.

    ``take`` raises if the object is not ready, which may be because it was run without being awaited. (Not possible in
    plain Python.)
    """
