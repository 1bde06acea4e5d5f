"""Type variables of the keys and values that producers accept: ``bytes`` by default (PEP 696)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

KS = TypeVar("KS")
"""Type of keys that a serializer accepts."""
VS = TypeVar("VS")
"""Type of values that a serializer accepts."""
