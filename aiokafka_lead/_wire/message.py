"""The base classes of the generated messages, and the notation of their schemas.

A field is one line: ``name type versions [null versions] [tag number] [= default] [ignorable]``, for example
``error_message string 8+ null 8+ = null ignorable``. The types are the types of Kafka's schemas. The prefix ``[]``
makes an array. The code generator and the codec compiler read this notation."""

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
    """The schema, with a line for each field in the notation that this module describes."""

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
    """Base class of messages, which are the roots of schemas. `encode` and `decode` accept them."""

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
    """Base class of the responses of brokers."""

    __slots__ = ()


R_co = TypeVar("R_co", bound=Response, covariant=True)


class Request(Message, Generic[R_co]):
    """Base class of the requests of clients. ``R_co`` is the class of the response."""

    __slots__ = ()

    RESPONSE: ClassVar[type[Response]]


MAX_VERSION = 32767


class Versions:
    """An inclusive range of versions. It is empty if ``low`` is above ``high``. Immutable."""

    __slots__ = ("high", "low")

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Versions) and (self.low, self.high) == (other.low, other.high)

    def __hash__(self) -> int:
        return hash((self.low, self.high))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __str__(self) -> str:
        if self.low > self.high:
            return "none"
        if self.high == MAX_VERSION:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"

    @classmethod
    def parse(cls, text: str) -> Versions:
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return cls(int(text[:-1]), MAX_VERSION)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))


NO_VERSIONS = Versions(1, 0)

FIXED_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""Types of fixed size, and their format characters in `struct`."""

PRIMITIVES = {*FIXED_FORMATS, "string", "bytes", "records"}


class Field:
    """One field of a struct. Immutable."""

    __slots__ = ("default", "ignorable", "name", "nullable", "tag", "type", "versions")

    def __init__(
        self,
        name: str,
        type: str,
        versions: Versions,
        nullable: Versions = NO_VERSIONS,
        tag: int | None = None,
        default: str | None = None,
        ignorable: bool = False,
    ) -> None:
        self.name = name
        self.type = type
        self.versions = versions
        self.nullable = nullable
        """Versions in which the value may be null."""
        self.tag = tag
        """Number of a tagged field (only in flexible versions), otherwise None."""
        self.default = default
        """Default in the notation, or None for the default of the type."""
        self.ignorable = ignorable
        """True if versions without the field drop its value silently."""

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def element(self) -> str:
        """The type without the array prefix."""
        return self.type.removeprefix("[]")

    @property
    def is_struct(self) -> bool:
        """True if the type, or the type of an array's elements, is a struct."""
        return self.element not in PRIMITIVES

    @property
    def default_is_null(self) -> bool:
        return self.default == "null" or self.type == "records"

    def python_default(self) -> str | None:
        """Return the default as Python source. None for a struct, whose default is a new instance."""
        if self.default_is_null:
            return "None"
        if self.is_array:
            return "[]"
        if self.is_struct:
            return None
        if self.default is not None:
            return {"true": "True", "false": "False"}.get(self.default, self.default)
        return {"string": '""', "bytes": 'b""', "bool": "False", "uuid": "ZERO_UUID", "float64": "0.0"}.get(
            self.type, "0"
        )

    def __str__(self) -> str:
        parts = [self.name, self.type, str(self.versions)]
        if self.nullable != NO_VERSIONS:
            parts += ["null", str(self.nullable)]
        if self.tag is not None:
            parts += ["tag", str(self.tag)]
        if self.default is not None:
            parts += ["=", self.default]
        if self.ignorable:
            parts.append("ignorable")
        return " ".join(parts)

    @classmethod
    def parse(cls, line: str) -> Field:
        name, kind, versions, *rest = line.split()
        words = iter(rest)
        nullable, tag, default, ignorable = NO_VERSIONS, None, None, False
        for word in words:
            match word:
                case "null":
                    nullable = Versions.parse(next(words))
                case "tag":
                    tag = int(next(words))
                case "=":
                    default = next(words)
                case "ignorable":
                    ignorable = True
                case _:
                    raise ValueError(f"unknown word {word!r} in field {line!r}")
        return cls(name, kind, Versions.parse(versions), nullable, tag, default, ignorable)
