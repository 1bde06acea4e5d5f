"""How controls reach a cluster that may live in another thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

__all__ = ["Caller"]

T = TypeVar("T")


class Caller(Protocol):
    """Runs a function where the cluster lives, and returns what it returns."""

    def __call__(self, function: Callable[[], T], /) -> T: ...
