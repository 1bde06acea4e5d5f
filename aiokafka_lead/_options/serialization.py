"""Serializers and deserializers of the application: what they take, and whether they are awaited."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NamedTuple, TypeVar

from ..errors import ConfigTypeError
from ..types import Headers, SerializationContext
from .callables import function_of

__all__ = [
    "AsyncDeserializer",
    "Deserializer",
    "Function",
    "Prepared",
    "Serializer",
    "WithHeaders",
    "application_function",
    "inspected",
]

T = TypeVar("T")


class WithHeaders(NamedTuple):
    """Bytes of a key or value, and headers that the record gets beside its own: of a `Prepared` serializer."""

    content: bytes
    headers: Headers


_Bytes = bytes | WithHeaders | Coroutine[Any, Any, bytes | None] | None

Serializer = Callable[[T], _Bytes] | Callable[[T, SerializationContext], _Bytes]
"""Makes bytes of a key or a value; a coroutine function is awaited. See `SerializationContext` for the second form."""

Deserializer = Callable[[bytes], T] | Callable[[bytes, SerializationContext], T]
"""Makes a key or a value of bytes."""

AsyncDeserializer = (
    Callable[[bytes], Coroutine[Any, Any, T]] | Callable[[bytes, SerializationContext], Coroutine[Any, Any, T]]
)
"""The same as a coroutine function."""


class Prepared(ABC):
    """A serializer or deserializer that seldom has to wait: asked once for many records, it is then called for each.

    So a batch of records costs one wait at most, and none where everything is known, and calls are plain ones.
    """

    @abstractmethod
    def prepare(
        self, contents: Sequence[Any], headers: Sequence[Headers], topic: str, is_key: bool
    ) -> Awaitable[None] | None:
        """What to await before it is called for these contents, or None where it can be called at once.

        A content may be None, which it is not called for. What is wrong with one content is raised by the call for it,
        and not here.
        """

    @abstractmethod
    def __call__(self, content: Any, context: SerializationContext, /) -> Any:
        """Make the bytes (or `WithHeaders`) of a key or value, or what the application works with of bytes."""


class Function(NamedTuple):
    """A serializer or deserializer, looked at once."""

    call: Callable[..., Any]
    asks: bool
    """Whether it takes a `SerializationContext` behind the content."""
    waits: bool
    """Whether it is a coroutine function."""
    prepare: Callable[[Sequence[Any], Sequence[Headers], str, bool], Awaitable[None] | None] | None = None
    """Of one that is `Prepared`."""


def inspected(name: str, function: Any) -> Function:
    """Look at what was given for the option of this name; raises `ConfigTypeError` for what cannot be called so."""
    if not callable(function):
        raise ConfigTypeError(f"{name} must be callable, not {type(function).__name__}")
    if isinstance(function, Prepared):
        return Function(function, asks=True, waits=False, prepare=function.prepare)
    return Function(function, _asks(name, function), inspect.iscoroutinefunction(function_of(function)))


def application_function(name: str, value: Any) -> Any:
    """The check of such an option."""
    return inspected(name, value).call


def _asks(name: str, function: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have none
        return False
    by_position = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    second = by_position[1] if len(by_position) > 1 else None
    asks = second is not None and (second.default is second.empty or second.name == "context")
    try:
        signature.bind(*[None] * (1 + asks))
    except TypeError as error:
        raise ConfigTypeError(
            f"{name} must take the key or value alone, or that and a SerializationContext: {error}"
        ) from None
    return asks
