"""How a finished delivery is awaited: by ``__await__`` here, without a generator in the compiled module.

A compiled module takes the function of the same name from ``awaiting.pxd`` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["shorten_await"]


def shorten_await(kind: type, is_done: Callable[[Any], bool], result: Callable[[Any], Any]) -> None:
    """Let ``await`` of such an object have the result at once where it is done. (Plain Python has no such way.)"""
