"""The base classes of all generated messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar
from uuid import UUID

Buffer: TypeAlias = "bytes | bytearray | memoryview"
"""A contiguous run of bytes; a memoryview's items must be bytes too."""
Records: TypeAlias = "Buffer | Sequence[Buffer] | None"
"""Record batches to send: one buffer, or several in a row. Decoded, they are a slice of the frame."""

ZERO_UUID = UUID(int=0)
"""The protocol's value for an absent topic id, and the default of every uuid field."""

DEFAULT: Any = object()
"""A constructor's placeholder for a new list, or a new struct with default values."""


SECRET_FIELDS = frozenset({"auth_bytes", "hmac", "salted_password"})
"""Fields with credentials, which ``repr`` omits, so that no log, traceback or debugger shows them."""


class Struct:
    """Part of a message. Its fields are attributes and keywords of the constructor, with the schema's defaults."""

    __slots__: tuple[str, ...] = ()

    FIELDS: ClassVar[tuple[str, ...]] = ()
    """The schema, a line for each field, in the notation of `aiokafka_lead._wire.schema`."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={self._shown(name)}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"

    def _shown(self, name: str) -> str:
        value = getattr(self, name)
        return f"<{len(value)} bytes>" if name in SECRET_FIELDS and value else repr(value)


class Message(Struct):
    """The root of a schema, accepted by `encode` and `decode`."""

    __slots__ = ()

    NAME: ClassVar[str]
    """The API's (or data schema's) name in Kafka, without Request or Response."""
    API_KEY: ClassVar[int] = -1
    """The number of the API; -1 for a data schema."""
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]
    """The latest stable version of the schema."""
    FLEXIBLE_FROM: ClassVar[int | None] = None
    """The first version with compact lengths and tagged fields (KIP-482), or None."""
    OWN_ENCODER: ClassVar[Callable[..., bytearray] | None] = None
    """``encode(version, message, chunks, out)`` in place of the encoder generated from the schema."""
    OWN_DECODER: ClassVar[Callable[..., tuple[Any, int]] | None] = None
    """``decode(version, buffer, position, end, view)`` in place of the decoder generated from the schema."""

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        return cls.FLEXIBLE_FROM is not None and version >= cls.FLEXIBLE_FROM


class Response(Message):
    """A broker's answer."""

    __slots__ = ()


R_co = TypeVar("R_co", bound=Response, covariant=True)


class Request(Message, Generic[R_co]):
    """A client's request; `R_co` is the class of the answer."""

    __slots__ = ()

    RESPONSE: ClassVar[type[Response]]
