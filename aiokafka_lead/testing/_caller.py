"""Protocol for calls into a cluster that may run in another thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Caller(Protocol):
    """Runs a function in the thread of the cluster, and returns its result."""

    def __call__(self, function: Callable[[], T], /) -> T: ...
