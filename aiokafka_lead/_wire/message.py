"""The base classes of the generated messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar
from uuid import UUID

Buffer: TypeAlias = "bytes | bytearray | memoryview"
"""A contiguous run of bytes. The items of a memoryview must be bytes as well."""
Records: TypeAlias = "Buffer | Sequence[Buffer] | None"
"""Record batches to send, as one buffer or several in a row. Decoded records are a slice of the frame."""

ZERO_UUID = UUID(int=0)
"""The protocol's value for a missing topic id, and the default of all uuid fields."""

DEFAULT: Any = object()
"""Default argument of constructors that means a new list, or a new struct with default values."""


SECRET_FIELDS = frozenset({"auth_bytes", "hmac", "salted_password"})
"""Fields that contain credentials. ``repr`` omits them, so that no log, traceback or debugger shows them."""


class Struct:
    """Part of a message.

    Its fields are attributes and keyword arguments of the constructor, with the schema's defaults.
    """

    __slots__: tuple[str, ...] = ()

    FIELDS: ClassVar[tuple[str, ...]] = ()
    """The schema, with a line for each field in the notation of `aiokafka_lead._wire.schema`."""

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
    """The root of a schema. `encode` and `decode` accept it."""

    __slots__ = ()

    NAME: ClassVar[str]
    """Kafka's name of the API or of the data schema, without Request or Response."""
    API_KEY: ClassVar[int] = -1
    """The number of the API, or -1 for a data schema."""
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]
    """The latest stable version of the schema."""
    FLEXIBLE_FROM: ClassVar[int | None] = None
    """First version with compact lengths and tagged fields (KIP-482), or None."""
    OWN_ENCODER: ClassVar[Callable[..., bytearray] | None] = None
    """A function ``encode(version, message, chunks, out)`` that replaces the generated encoder."""
    OWN_DECODER: ClassVar[Callable[..., tuple[Any, int]] | None] = None
    """A function ``decode(version, buffer, position, end, view)`` that replaces the generated decoder."""

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        return cls.FLEXIBLE_FROM is not None and version >= cls.FLEXIBLE_FROM


class Response(Message):
    """The response of a broker."""

    __slots__ = ()


R_co = TypeVar("R_co", bound=Response, covariant=True)


class Request(Message, Generic[R_co]):
    """The request of a client. ``R_co`` is the class of the response."""

    __slots__ = ()

    RESPONSE: ClassVar[type[Response]]
