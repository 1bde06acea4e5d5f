"""The types of keys and values that producers take: ``bytes`` where nothing else is said (PEP 696)."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["KS", "VS", "K", "V"]

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

KS = TypeVar("KS")
"""What a serializer of keys takes."""
VS = TypeVar("VS")
"""What a serializer of values takes."""
