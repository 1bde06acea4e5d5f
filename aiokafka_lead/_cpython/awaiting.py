"""Awaits an object that already has its result. Compiled types return it without a call of ``__await__``.

A compiled module uses the function of the same name in ``awaiting.pxd``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def shorten_await(kind: type, ready: Callable[[Any], bool], take: Callable[[Any], Any]) -> None:
    """Let ``await`` of an object of this type return the result of ``take`` at once, if the object is ``ready``.

    There can be one such type in a module. ``take`` raises if the object is not ready, which may be because it was run
    without being awaited. In plain Python, this function does nothing.
    """
