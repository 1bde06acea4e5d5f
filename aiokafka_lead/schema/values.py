"""Inspects the application's values: models, dataclasses, structs."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ..errors import SchemaContentError
from ..errors.shown import shown


def is_model_class(kind: Any) -> bool:
    """Return True for a class of pydantic's models, without importing pydantic."""
    return inspect.isclass(kind) and hasattr(kind, "model_validate") and hasattr(kind, "model_json_schema")


def is_message_class(kind: Any) -> bool:
    """Return True for a class of Protobuf messages."""
    return inspect.isclass(kind) and hasattr(kind, "DESCRIPTOR") and hasattr(kind, "FromString")


class NamedRecord(dict[str, Any]):
    """A record read from a union of several records: a dict with the record's name.

    If it is written again, the name selects the same branch.
    """

    __slots__ = ("record_name",)

    def __init__(self, record_name: str, content: Mapping[str, Any]) -> None:
        super().__init__(content)
        self.record_name = record_name
        """The record's full name."""

    def __reduce__(self) -> tuple[Any, ...]:
        return NamedRecord, (self.record_name, dict(self))


def content_of(value: Any, *, keep_classes: bool = False, for_json: bool = False) -> Any:
    """Return the content of a model, a dataclass, a struct or a numpy number; None for other values.

    Dataclasses and structs (msgspec, attrs) are converted one level deep, and so are pydantic's models with
    ``keep_classes``. Raises `SchemaContentError` if a model cannot be converted.
    """
    kind = type(value)
    if kind in _LEAVES or inspect.isclass(value):
        return None
    try:
        if is_model_class(kind):
            if keep_classes and not getattr(kind, "__pydantic_root_model__", False):
                names = {
                    name: each.serialization_alias or each.alias or name for name, each in kind.model_fields.items()
                }
                return {names.get(name, name): content for name, content in value}
            return value.model_dump(mode="json" if for_json else "python", by_alias=True)
        if dataclasses.is_dataclass(value):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        if hasattr(kind, "__struct_encode_fields__"):  # msgspec
            pairs = zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)
            tag = kind.__struct_config__.tag_field if for_json else None
            tagged = {} if tag is None else {tag: kind.__struct_config__.tag}
            return tagged | {name: getattr(value, attribute) for name, attribute in pairs}
        if hasattr(kind, "__attrs_attrs__"):
            return {each.name: getattr(value, each.name) for each in kind.__attrs_attrs__}
        if getattr(getattr(value, "dtype", None), "kind", "") in _NUMBERS and getattr(value, "shape", None) == ():
            return value.item()
    except Exception as error:
        reason = f"{type(error).__name__}: {shown(str(error))}"
        raise SchemaContentError("the value's content cannot be taken out of it", reason) from error
    return None


_NUMBERS = ("b", "i", "u", "f")
"""numpy's kinds of numbers."""

_LEAVES = frozenset((type(None), bool, int, float, str, bytes, bytearray))


def values_in(value: Any) -> Iterator[Any] | None:
    """Return an iterator over the values in a record, map or array, or None for any other value."""
    if type(value) in _LEAVES:
        return None
    if type(value) is tuple and len(value) == 2 and isinstance(value[0], str) and not isinstance(value[1], tuple):
        value = value[1]  # fastavro's notation for a branch of a union
    if isinstance(value, Mapping):
        return iter(value.values())
    if isinstance(value, Collection) and not isinstance(value, (str, bytes, bytearray, memoryview)):
        return iter(value)
    return None


def is_deeper(value: Any, levels: int, values_in: Callable[[Any], Iterator[Any] | None] = values_in) -> bool:
    """Return True if values are nested more than ``levels`` deep; ``values_in`` returns the values in a value.

    Works without recursion. A value that contains itself is deeper than any number.
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
