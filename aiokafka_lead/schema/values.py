"""From what a format reads to what the application wants, and back: pydantic models, dataclasses, functions."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ..errors import ConfigTypeError, SchemaContentError
from ..errors.shown import shown

__all__ = ["Making", "is_deeper", "is_message_class", "is_model_class", "making", "plain", "values_in"]


def is_model_class(kind: Any) -> bool:
    """Whether it is a class of pydantic's models (which this needs not import)."""
    return inspect.isclass(kind) and hasattr(kind, "model_validate") and hasattr(kind, "model_json_schema")


def is_message_class(kind: Any) -> bool:
    """Whether it is a class of Protobuf messages."""
    return inspect.isclass(kind) and hasattr(kind, "DESCRIPTOR") and hasattr(kind, "FromString")


class Making:
    """Makes the application's values."""

    def __init__(self, call: Callable[[Any], Any] | None, messages: tuple[Any, ...] = ()) -> None:
        self._call = call
        self.messages = messages
        """The classes of Protobuf messages that are wanted; empty where any is."""

    def __call__(self, value: Any) -> Any:
        """The value. Raises `SchemaContentError` for what cannot be made."""
        if self._call is None:
            return value
        try:
            return self._call(value)
        except Exception as error:
            raise SchemaContentError(f"what was read cannot be used: {shown(str(error))}") from error


def making(into: Any) -> Making:
    """What an option ``into`` asks for; raises `ConfigTypeError`."""
    if into is None:
        return Making(None)
    if isinstance(into, (list, tuple)) and into and all(is_message_class(each) for each in into):
        return Making(None, tuple(into))
    if is_message_class(into):
        return Making(None, (into,))
    if is_model_class(into):
        model: Any = into
        return Making(model.model_validate)
    if inspect.isclass(into) and dataclasses.is_dataclass(into):
        return Making(lambda value: into(**value))
    if not callable(into):
        raise ConfigTypeError(f"into must be a class or a function, not {type(into).__name__}")
    return Making(into)


def plain(value: Any, *, for_json: bool) -> Any:
    """A pydantic model's or dataclass's content; anything else as it is.

    Raises `SchemaContentError` for what has none: it holds itself, say, or is too deep.
    """
    try:
        if is_model_class(type(value)):
            return value.model_dump(mode="json" if for_json else "python", by_alias=True)
        if dataclasses.is_dataclass(value) and not inspect.isclass(value):
            return dataclasses.asdict(value)
    except Exception as error:
        reason = f"{type(error).__name__}: {shown(str(error))}"
        raise SchemaContentError(f"the value's content cannot be taken out of it ({reason})") from error
    return value


_LEAVES = frozenset((type(None), bool, int, float, str, bytes, bytearray))


def values_in(value: Any) -> Iterator[Any] | None:
    """What a record, map or array of the application's has in it; None for any other value."""
    if type(value) in _LEAVES:
        return None
    if type(value) is tuple and len(value) == 2 and isinstance(value[0], str) and not isinstance(value[1], tuple):
        value = value[1]  # fastavro's way to name a branch of a union
    if isinstance(value, Mapping):
        return iter(value.values())
    if isinstance(value, Collection) and not isinstance(value, (str, bytes, bytearray, memoryview)):
        return iter(value)
    return None


def is_deeper(value: Any, levels: int, values_in: Callable[[Any], Iterator[Any] | None] = values_in) -> bool:
    """Whether values that have others, by ``values_in``, are in each other for more than so many levels.

    Goes over them without recursion. One that holds itself is deeper than any number.
    """
    within = [iter((value,))]
    while within:
        for found in within[-1]:
            inner = values_in(found)
            if inner is not None:
                if len(within) > levels:
                    return True
                within.append(inner)
                break
        else:
            within.pop()
    return False
