"""The application's serializers and deserializers: their arguments, and whether they must be awaited."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from .._cpython import naming
from .._values import NamedTuple
from ..errors import ConfigTypeError
from ..types import Headers, SerializationContext
from .checks import function_of, signature_of

T = TypeVar("T")


class WithHeaders(NamedTuple):
    """The bytes of a key or value from a `Prepared` serializer, and headers to add to the record."""

    content: bytes
    headers: Headers


naming.show_in("aiokafka_lead.schema", WithHeaders)


_Bytes = bytes | WithHeaders | Coroutine[Any, Any, bytes | None] | None

Serializer = Callable[[T], _Bytes] | Callable[[T, SerializationContext], _Bytes]
"""Converts a key or a value to bytes. A coroutine function is awaited.

The `SerializationContext` argument is optional.
"""

Deserializer = Callable[[bytes], T] | Callable[[bytes, SerializationContext], T]
"""Converts bytes to a key or a value."""

AsyncDeserializer = (
    Callable[[bytes], Coroutine[Any, Any, T]] | Callable[[bytes, SerializationContext], Coroutine[Any, Any, T]]
)
"""A `Deserializer` that is a coroutine function."""


class Prepared(ABC):
    """A serializer or deserializer that is prepared for many records together, for example by requesting schemas.

    Await `prepare` for the records, and then call the object for each. The calls are synchronous, so a batch of records
    waits at most once, or not at all if everything is known.
    """

    @abstractmethod
    def prepare(
        self, contents: Sequence[Any], headers: Sequence[Headers], topic: str, is_key: bool
    ) -> Awaitable[None] | None:
        """Return an awaitable that must be awaited before the calls for these contents, or None.

        None means that the calls can be made at once. A content may be None, for which there is no call. The call for
        an invalid content raises the error.
        """

    @abstractmethod
    def __call__(self, content: Any, context: SerializationContext, /) -> Any:
        """Return the bytes (or `WithHeaders`) of a key or value, or the application's object for bytes."""


class Function(NamedTuple):
    """A serializer or deserializer of the application, and how it must be called."""

    call: Callable[..., Any]
    asks: bool
    """True if it takes a `SerializationContext` as the second argument."""
    waits: bool
    """True if it is a coroutine function."""
    prepare: Callable[[Sequence[Any], Sequence[Headers], str, bool], Awaitable[None] | None] | None = None
    """The method ``prepare`` of a `Prepared` serializer or deserializer, otherwise None."""


def inspected(name: str, function: Any) -> Function:
    """Return the function passed for this option, inspected. Raises `ConfigTypeError` if it is unsuitable."""
    if not callable(function):
        raise ConfigTypeError(f"{name} must be callable, not {type(function).__name__}")
    if isinstance(function, Prepared):
        return Function(function, asks=True, waits=False, prepare=function.prepare)
    return Function(function, _asks(name, function), inspect.iscoroutinefunction(function_of(function)))


def application_function(name: str, value: Any) -> Any:
    """Check an option whose value is a serializer or deserializer."""
    return inspected(name, value).call


def _asks(name: str, function: Callable[..., Any]) -> bool:
    """Return True if the function must be called with a `SerializationContext` as its second argument.

    That is the case if it requires a second argument, or has one named ``context``. Raises `ConfigTypeError` if the
    function takes neither one argument nor these two.
    """
    try:
        signature = signature_of(function)
    except (TypeError, ValueError):  # some builtin functions have no signature
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
