"""Calls an object, and runs it as a coroutine: through its class in plain Python, through type slots if compiled.

A compiled module uses the functions of the same names in ``calling.pxd``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def call_by(one: object, slot: int, name: str) -> None:
    """Make calls of the object call its method ``name``. All objects of a type need it; one type per module.

    ``slot`` is an attribute of the object, a C ``size_t``, that is not used otherwise. (Plain Python uses
    ``__call__``.)
    """


def run_by(kind: type, first_step: Callable[[Any], Any], rest: Callable[[Any], Any]) -> None:
    """Let ``await`` of a coroutine of this type return ``first_step``'s result, or run ``rest`` if that is None.

    One type per module. (Plain Python calls its ``send``.)
    """
