"""Serializers and deserializers of the application: what they take, and whether they are awaited."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

from ..errors import ConfigTypeError
from ..types import SerializationContext
from .callables import function_of

__all__ = ["AsyncDeserializer", "Deserializer", "Function", "Serializer", "application_function", "inspected"]

T = TypeVar("T")

_Bytes = bytes | Coroutine[Any, Any, bytes | None] | None

Serializer = Callable[[T], _Bytes] | Callable[[T, SerializationContext], _Bytes]
"""Makes bytes of a key or a value; a coroutine function is awaited. See `SerializationContext` for the second form."""

Deserializer = Callable[[bytes], T] | Callable[[bytes, SerializationContext], T]
"""Makes a key or a value of bytes."""

AsyncDeserializer = (
    Callable[[bytes], Coroutine[Any, Any, T]] | Callable[[bytes, SerializationContext], Coroutine[Any, Any, T]]
)
"""The same as a coroutine function."""


class Function(NamedTuple):
    """A serializer or deserializer, looked at once."""

    call: Callable[..., Any]
    asks: bool
    """Whether it takes a `SerializationContext` behind the content."""
    waits: bool
    """Whether it is a coroutine function."""


def inspected(name: str, function: Any) -> Function:
    """Look at what was given for the option of this name; raises `ConfigTypeError` for what cannot be called so."""
    if not callable(function):
        raise ConfigTypeError(f"{name} must be callable, not {type(function).__name__}")
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
