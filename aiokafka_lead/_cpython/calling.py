"""How an object is called, and run as a coroutine: as its class says here, by CPython's shorter ways where compiled.

A compiled module takes the functions of the same names from ``calling.pxd`` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["call_by", "run_by"]


def call_by(one: object, slot: int, name: str) -> None:
    """Let calls of the object be calls of its method ``name``. All objects of a type need it; one type for each module.

    ``slot`` is an attribute of the object, a C ``size_t``, that nothing else uses. (Plain Python asks ``__call__``.)
    """


def run_by(kind: type, first_step: Callable[[Any], Any], rest: Callable[[Any], Any]) -> None:
    """Let ``await`` of such a coroutine have what ``first_step`` gives, or run ``rest`` where that is None.

    One type for each module. (Plain Python calls its ``send``.)
    """
