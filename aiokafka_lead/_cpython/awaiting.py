"""Awaiting an object that already has its result: by ``__await__`` here, immediately if compiled.

A compiled module takes the function of the same name from ``awaiting.pxd`` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def shorten_await(kind: type, ready: Callable[[Any], bool], take: Callable[[Any], Any]) -> None:
    """Let ``await`` of such an object return ``take``'s result immediately if it is ``ready``. One type per module.

    ``take`` raises if the object is not ready, which may be because it was run without being awaited. (Not possible in
    plain Python.)
    """
