"""How ``await`` gets the result of an object that has it already: by ``__await__`` here, at once where compiled.

A compiled module takes the function of the same name from ``awaiting.pxd`` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["shorten_await"]


def shorten_await(kind: type, ready: Callable[[Any], bool], take: Callable[[Any], Any]) -> None:
    """Let ``await`` of such an object have what ``take`` gives at once where it is ``ready``. One type for each module.

    ``take`` raises where the object is not, which somebody may have run without awaiting it. (Plain Python has no such
    way.)
    """
