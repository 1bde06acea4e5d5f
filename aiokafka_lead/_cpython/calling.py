"""Calls an object, and runs it as a coroutine. Compiled modules use type slots for this.

A compiled module uses the functions of the same names in ``calling.pxd``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def call_by(one: object, slot: int, name: str) -> None:
    """Let calls of the object call its method ``name``.

    Must be called for all objects of a type, of one type in a module.

    ``slot`` is an attribute of the object, a C ``size_t``, that has no other purpose. In plain Python, this function
    does nothing, and ``__call__`` is used.
    """


def run_by(kind: type, first_step: Callable[[Any], Any], rest: Callable[[Any], Any]) -> None:
    """Let ``await`` of a coroutine of this type return the result of ``first_step``. If that is None, run ``rest``.

    There can be one such type in a module. In plain Python, this function does nothing, and the ``send`` of the type is
    used.
    """
