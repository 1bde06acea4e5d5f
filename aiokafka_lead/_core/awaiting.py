"""How ``await`` gets the result of an object that has it already: by ``__await__`` here, at once where compiled.

A compiled module takes the function of the same name from ``awaiting.pxd`` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["shorten_await"]


def shorten_await(
    kind: type,
    ready: Callable[[Any], bool],
    result: Callable[[Any], Any],
    otherwise: Callable[[Any], Coroutine[Any, Any, Any]],
) -> None:
    """Let ``await`` of such an object have the ``result`` at once where it is ``ready``. One type for each module.

    ``otherwise`` has the coroutine to go on with where asyncio runs an object as a task that is not ready, or raises.
    (Plain Python has no such way.)
    """
