"""Type variables of the keys and values that consumers return: ``bytes | None`` by default (PEP 696)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes | None)
    V = TypeVar("V", default=bytes | None)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
