"""Access to the content of values such as models and dataclasses, without importing their libraries."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

from ..errors import SchemaContentError
from ..errors.shown import shown


def is_model_class(kind: Any) -> bool:
    """Return True if this is the class of a pydantic model."""
    return inspect.isclass(kind) and hasattr(kind, "model_validate") and hasattr(kind, "model_json_schema")


def is_message_class(kind: Any) -> bool:
    """Return True if this is the class of a Protobuf message."""
    return inspect.isclass(kind) and hasattr(kind, "DESCRIPTOR") and hasattr(kind, "FromString")


class NamedRecord(dict[str, Any]):
    """Dict with the name of an Avro record, for a value from a union of several records.

    If the value is written again, the name selects the same branch of the union.
    """

    __slots__ = ("record_name",)

    def __init__(self, record_name: str, content: Mapping[str, Any]) -> None:
        super().__init__(content)
        self.record_name = record_name
        """Full name of the record."""

    def __reduce__(self) -> tuple[Any, ...]:
        return NamedRecord, (self.record_name, dict(self))


def content_of(value: Any, *, keep_classes: bool = False, for_json: bool = False) -> Any:
    """Return the content of a model, dataclass, struct or numpy number, or None for any other value.

    Dataclasses, msgspec structs and attrs classes are converted one level deep. Pydantic converts its models and
    dataclasses completely, with ``keep_classes`` to dicts that have the names of the classes (`NamedRecord`). With
    ``for_json``, the content has only JSON's types. Raises `SchemaContentError` if the conversion fails.
    """
    kind = type(value)
    if kind in _LEAVES or inspect.isclass(value):
        return None
    mode: Any = "json" if for_json else "python"
    try:
        if is_model_class(kind) or hasattr(kind, "__pydantic_serializer__"):
            if is_model_class(kind):
                dumped = value.model_dump(mode=mode, by_alias=True)
            else:  # a pydantic dataclass
                dumped = kind.__pydantic_serializer__.to_python(value, mode=mode, by_alias=True)
            return _with_classes(value, dumped) if keep_classes else dumped
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
        raise SchemaContentError("the content of the value cannot be read", reason) from error
    return None


def _with_classes(value: Any, dumped: Any) -> Any:
    """Return the dump of a pydantic value, with a `NamedRecord` for each model and dataclass in it."""
    if type(dumped) not in _NESTED:
        return dumped
    kind: Any = type(value)
    if getattr(kind, "__pydantic_root_model__", False):
        return _with_classes(value.root, dumped)
    if type(dumped) is not dict:
        if _NESTED.isdisjoint(map(type, dumped)) or not isinstance(value, Collection) or len(value) != len(dumped):
            return dumped
        return type(dumped)(map(_with_classes, value, dumped))
    if isinstance(value, Mapping):
        content = {key: _with_classes(value.get(key), inner) for key, inner in dumped.items()}
        return NamedRecord(value.record_name, content) if isinstance(value, NamedRecord) else content
    attributes, most = _attributes(kind)
    if attributes is None:
        return dumped
    if len(dumped) < most:
        dumped = _dumped_by_own_class(value, dumped)
    record = NamedRecord(kind.__name__, dumped)
    for name, inner in dumped.items():
        if type(inner) in _NESTED:
            record[name] = _with_classes(getattr(value, attributes.get(name, name), None), inner)
    return record


_NESTED = frozenset((dict, list, tuple))


@lru_cache(1000)
def _attributes(kind: Any) -> tuple[Mapping[str, str] | None, int]:
    """Return the attributes of a model or dataclass, and the usual number of names in its dump.

    The attributes are a dict by the names in a dump, or None if the class is neither.
    """
    described = kind.model_fields if is_model_class(kind) else getattr(kind, "__pydantic_fields__", None)
    if described is None:
        if not dataclasses.is_dataclass(kind):
            return None, 0
        return {field.name: field.name for field in dataclasses.fields(kind)}, 0
    fields = {each.serialization_alias or each.alias or name: name for name, each in described.items()}
    if not is_model_class(kind):
        return fields, 0
    computed = {each.alias or name: name for name, each in kind.model_computed_fields.items()}
    excluded = sum(bool(each.exclude) for each in described.values())
    return fields | computed, len(fields) + len(computed) - excluded


def _dumped_by_own_class(value: Any, dumped: Any) -> Any:
    """Dump a model again with its own class if pydantic has dumped it with the base class in the annotation.

    The name of its own class selects the branch of a union, and that branch may have fields that the base class lacks.
    """
    every: tuple[Any, ...] = type(value).__mro__[1:]
    bases = (each for each in every if getattr(each, "__pydantic_complete__", False))
    if any(dumped == each.__pydantic_serializer__.to_python(value, by_alias=True) for each in bases):
        return value.model_dump(by_alias=True)
    return dumped


_NUMBERS = ("b", "i", "u", "f")
"""Kinds of numpy types that are numbers."""

_LEAVES = frozenset((type(None), bool, int, float, str, bytes, bytearray))


def values_in(value: Any) -> Iterator[Any] | None:
    """Return an iterator over the values in a record, map or array, or None for any other value."""
    if type(value) in _LEAVES:
        return None
    if type(value) is tuple and len(value) == 2 and isinstance(value[0], str) and not isinstance(value[1], tuple):
        value = value[1]  # fastavro's notation for a named branch of a union
    if isinstance(value, Mapping):
        return iter(value.values())
    if isinstance(value, Collection) and not isinstance(value, (str, bytes, bytearray, memoryview)):
        return iter(value)
    return None


def is_deeper(value: Any, levels: int, values_in: Callable[[Any], Iterator[Any] | None] = values_in) -> bool:
    """Return True if values are nested more than ``levels`` deep, for example because a value contains itself.

    ``values_in`` returns the values in a value. Works without recursion.
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
