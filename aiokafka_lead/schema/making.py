"""Conversion of decoded values to the application's classes (models, dataclasses, enums) or with a function."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import importlib
import inspect
import sys
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, cast

from ..errors import ConfigTypeError, SchemaContentError
from ..errors.shown import shown
from .values import NamedRecord, is_message_class, is_model_class

Make = Callable[[Any], Any]

_OF_FIELDS = ("__dataclass_fields__", "__attrs_attrs__", "__struct_fields__")
"""Attributes of classes with fields in dataclasses, attrs and msgspec."""


class Making:
    """Converts decoded values to objects of the application's class."""

    def __init__(self, call: Make | None, messages: tuple[Any, ...] = (), *, by_name: bool = False) -> None:
        self._call = call
        self.by_name = by_name
        """True if the names of records in the value select classes."""
        self.messages = messages
        """Accepted classes of Protobuf messages; empty to accept all."""

    def __call__(self, value: Any) -> Any:
        """Convert a value. Raises `SchemaContentError` if the conversion fails."""
        if self._call is None:
            return value
        try:
            return self._call(value)
        except Exception as error:
            raise SchemaContentError("the decoded value cannot be converted", shown(str(error))) from error


def making(into: Any) -> Making:
    """Return the conversion for a deserializer's option ``into``. Raises `ConfigTypeError` for an invalid value."""
    if into is None:
        return Making(None)
    given = tuple(into) if isinstance(into, (list, tuple)) else (into,)
    if given and all(map(is_message_class, given)):
        return Making(None, given)
    if isinstance(into, (list, tuple)):
        if not given or not all(map(inspect.isclass, given)):
            raise ConfigTypeError("into must be a class, a list of classes or a function")
        return Making(_one_of(given, _Makers()), by_name=True)
    make = _Makers().of(into)
    if make is None and not callable(into):
        raise ConfigTypeError(f"into must be a class, a list of classes or a function, not {type(into).__name__}")
    return Making(make or into, by_name=_chooses(into, set()))


class _Makers:
    """Builds conversion functions from type annotations, which may be recursive."""

    def __init__(self) -> None:
        self._classes: dict[Any, Make] = {}
        self._names: dict[Any, dict[str, str]] = {}
        """For classes of pydantic, the names of fields in records, by their names in the class."""
        self._hints: dict[Any, dict[str, Any]] = {}
        """For classes of pydantic, the annotations of fields, by their names in records."""

    def of(self, hint: Any) -> Make | None:
        """Return a function that converts values to this type, or None if values stay unchanged."""
        hint = _unwrapped(hint)
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            return _one_of(inner, self)
        if inspect.isclass(origin) and issubclass(origin, (list, tuple, set, frozenset)):
            return self._items(origin, inner)
        if inspect.isclass(origin) and issubclass(origin, Mapping) and len(inner) == 2:
            return self._members(inner[1])
        if inspect.isclass(origin) and any(hasattr(origin, each) for each in _OF_FIELDS):
            return self._class(origin, hint)
        if inspect.isclass(origin):
            return self._items(list, inner)
        return self._class(hint, hint) if inspect.isclass(hint) else None

    def _class(self, kind: Any, hint: Any) -> Make | None:
        """Return the function for a class. ``hint`` is the class, or a generic alias such as ``Box[int]``."""
        if is_model_class(kind):
            names = {name: (field.alias or name) for name, field in kind.model_fields.items()}
            return self._or_with_members(kind, self._by_pydantic(kind.model_validate, kind, names), names)
        if hint is kind and hasattr(kind, "__pydantic_fields__") and hasattr(kind, "__pydantic_validator__"):
            names = {name: (field.alias or name) for name, field in kind.__pydantic_fields__.items()}
            validate = self._by_pydantic(kind.__pydantic_validator__.validate_python, kind, names)
            return self._or_with_members(kind, validate, names)
        if issubclass(kind, Enum):
            return lambda value: _member(kind, value)
        if hasattr(kind, "__struct_fields__"):
            convert = importlib.import_module("msgspec").convert
            names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
            return self._or_with_members(hint, lambda value: convert(value, type=hint), names)
        if dataclasses.is_dataclass(kind) or hasattr(kind, "__attrs_attrs__"):
            return self._classes.get(hint) or self._fields(kind, hint)
        if typing.is_typeddict(kind):
            return self._classes.get(kind) or self._entries(kind)
        return _OF_TEXT.get(kind)

    def _by_pydantic(self, validate: Make, kind: Any, names: dict[str, str]) -> Make:
        """Extend pydantic's conversion to choose classes in unions by the names of records."""
        self._names[kind] = names
        return (lambda value: validate(self._chosen(kind, value))) if _chooses(kind, set()) else validate

    def _chosen(self, hint: Any, value: Any) -> Any:
        """Return a copy of a value in which records whose names select a class in a union have this class."""
        if not isinstance(value, (Mapping, list)):
            return value
        hint = _unwrapped(hint)
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            found = _with_name_of(value, inner)
            make = None if found is None else self.of(found)
            others = [each for each in inner if each is not types.NoneType]
            return make(value) if make is not None else self._chosen(others[0], value) if len(others) == 1 else value
        if isinstance(value, list):
            many = len(inner) == 1 or inner[1:] == (Ellipsis,)
            return [self._chosen(inner[0], each) for each in value] if many else value
        if inspect.isclass(origin) and issubclass(origin, Mapping) and len(inner) == 2:
            return {key: self._chosen(inner[1], each) for key, each in value.items()}
        if inspect.isclass(hint) and hint not in self._names and hasattr(hint, "__pydantic_validator__"):
            self.of(hint)
        if not inspect.isclass(hint) or hint not in self._names:
            return value
        if hint not in self._hints:
            found_hints = _pydantic_fields(hint) or {}
            self._hints[hint] = {outside: found_hints.get(name) for name, outside in self._names[hint].items()}
        fields = self._hints[hint]
        return {name: self._chosen(fields.get(name), each) for name, each in value.items()}

    def _or_with_members(self, kind: Any, make: Make, names: dict[str, str]) -> Make:
        """Extend a library's conversion, which accepts enum members by value, to accept them by name, as in Avro."""

        def make_in_two_ways(value: Any) -> Any:
            try:
                return make(value)
            except Exception:
                if not isinstance(value, Mapping):
                    raise
                content = dict(value)
                for name, each in self._makes(kind, names).items():
                    if each is not None and name in content:
                        made = each(content[name])
                        content[name] = made.value if isinstance(made, Enum) else made
                if content == value:
                    raise
                return make(content)

        return make_in_two_ways

    def _makes(self, kind: Any, names: dict[str, str]) -> dict[str, Make | None]:
        """Return the functions for the fields of a class, by their names in records."""
        hints = _hints(kind)
        return {outside: self.of(hints.get(name)) for name, outside in names.items()}

    def _entries(self, kind: Any) -> Make:
        """Return a function that converts the values of a TypedDict."""
        makes: dict[str, Make | None] = {}

        def make(value: Any) -> Any:
            if not isinstance(value, Mapping):
                raise TypeError(f"{kind.__name__} needs a record, not {type(value).__name__}")
            found = ((name, content, makes.get(name)) for name, content in value.items())
            return {name: content if each is None else each(content) for name, content, each in found}

        self._classes[kind] = make
        makes.update(self._makes(kind, {name: name for name in kind.__required_keys__ | kind.__optional_keys__}))
        return make

    def _fields(self, kind: Any, hint: Any) -> Make:
        """Return the function that creates a dataclass or an attrs class from a record. It ignores unknown fields."""
        makes: dict[str, Make | None] = {}
        if hasattr(kind, "__attrs_attrs__"):
            arguments = {each.name: each.alias for each in kind.__attrs_attrs__ if each.init}
        else:
            arguments = {field.name: field.name for field in dataclasses.fields(kind) if field.init}

        def make(value: Any) -> Any:
            if isinstance(value, kind):
                return value
            if not isinstance(value, Mapping):
                raise TypeError(f"{kind.__name__} needs a record, not {type(value).__name__}")
            given = {}
            for name, content in value.items():
                if name in makes:  # ignore fields that the class lacks; the data may have a newer schema
                    each = makes[name]
                    given[arguments[name]] = content if each is None else each(content)
            return kind(**given)

        self._classes[hint] = make
        makes.update(self._makes(hint, {name: name for name in arguments}))
        return make

    def _items(self, kind: Any, inner: tuple[Any, ...]) -> Make | None:
        if issubclass(kind, tuple) and inner[-1:] != (Ellipsis,):
            return _tuple_of(kind, [self.of(each) for each in inner])
        each = self.of(inner[0]) if len(inner) == 1 or inner[1:] == (Ellipsis,) else None
        if each is None and kind is list:
            return None
        make_each: Make = each or (lambda value: value)
        return lambda value: kind(map(make_each, value)) if isinstance(value, (list, tuple)) else value

    def _members(self, hint: Any) -> Make | None:
        each = self.of(hint)
        if each is None:
            return None
        return lambda value: {name: each(content) for name, content in value.items()}


def _tuple_of(kind: Any, makes: list[Make | None]) -> Make:
    """Return a function that creates a tuple with a type for each item."""

    def make(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            return value
        if len(value) != len(makes):
            raise ValueError(f"there are {len(value)} items, not {len(makes)}")
        return kind(item if each is None else each(item) for each, item in zip(makes, value, strict=True))

    return make


def _hints(hint: Any) -> dict[str, Any]:
    """Return the annotations of a class or, with its types inserted, of a generic alias such as ``Box[int]``."""
    kind = typing.get_origin(hint) or hint
    types_of = dict(zip(getattr(kind, "__parameters__", ()), typing.get_args(hint), strict=False))
    found = _annotations(kind)
    return {name: _with_types(each, types_of) for name, each in found.items()} if types_of else found


def _with_types(hint: Any, types_of: dict[Any, Any]) -> Any:
    if isinstance(hint, typing.TypeVar):
        return types_of.get(hint, hint)
    variables = getattr(hint, "__parameters__", ())
    if not variables or inspect.isclass(hint):
        return hint
    return hint[tuple(types_of.get(each, each) for each in variables)]


def _annotations(kind: type) -> dict[str, Any]:
    """Return the annotations of a class, without annotations that cannot be evaluated."""
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except NameError:  # for example a class in a function, or an import under TYPE_CHECKING
        found: dict[str, Any] = {}
    for owner in reversed(kind.__mro__):
        for name, hint in _own_annotations(owner).items():
            holder = type("Holder", (), {"__annotations__": {name: hint}, "__module__": owner.__module__})
            try:
                found |= typing.get_type_hints(holder, include_extras=True)
            except NameError:
                found.pop(name, None)
    return found


def _own_annotations(kind: type) -> dict[str, Any]:
    """Return the annotations in a class's body, not all of which can be evaluated."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(kind, format=annotationlib.Format.FORWARDREF)
    return dict(vars(kind).get("__annotations__", {}))


def _one_of(hints: tuple[Any, ...], makers: _Makers) -> Make | None:
    """Return a conversion to one of several types: the type with the record's name, otherwise the first that fits."""
    options = [(hint, makers.of(hint)) for hint in hints if hint is not types.NoneType]
    if not any(make for _, make in options):
        return None
    nullable = len(options) < len(hints)

    def make(value: Any) -> Any:
        if value is None and nullable:
            return None
        named = _with_name_of(value, hints)
        for hint, each in options:
            if each is not None and hint is named:
                return each(value)
        errors: list[Exception] = []
        for hint, each in options:
            if each is None:
                if not inspect.isclass(hint) or isinstance(value, hint):
                    return value
                continue
            try:
                return each(value)
            except Exception as error:
                errors.append(error)
        raise errors[-1]

    return make


def _with_name_of(value: Any, hints: tuple[Any, ...]) -> Any:
    """Return the class with the name of a record, or None."""
    if not isinstance(value, NamedRecord):
        return None
    own = value.record_name.rpartition(".")[2]
    return next((each for each in hints if getattr(each, "__name__", None) == own), None)


def _chooses(hint: Any, seen: set[Any]) -> bool:
    """Return True if a type contains a union of several classes with fields. ``seen`` are examined classes."""
    hint = _unwrapped(hint)
    kind = typing.get_origin(hint) or hint
    inner = typing.get_args(hint)
    if kind in (typing.Union, types.UnionType) and sum(_has_fields(_unwrapped(each)) for each in inner) > 1:
        return True
    if _has_fields(kind) and kind not in seen:
        seen.add(kind)
        fields = _pydantic_fields(kind)
        inner = (*inner, *(_annotations(cast(type, kind)) if fields is None else fields).values())
    return any(_chooses(each, seen) for each in inner)


def _pydantic_fields(kind: Any) -> dict[str, Any] | None:
    """Return the annotations of the fields of a pydantic model or dataclass, or None for another class."""
    fields = kind.model_fields if is_model_class(kind) else getattr(kind, "__pydantic_fields__", None)
    return None if fields is None else {name: field.annotation for name, field in fields.items()}


def _has_fields(kind: Any) -> bool:
    return inspect.isclass(kind) and (
        is_model_class(kind) or typing.is_typeddict(kind) or any(hasattr(kind, each) for each in _OF_FIELDS)
    )


def _unwrapped(hint: Any) -> Any:
    """Return the type that a NewType, a type alias or an annotation with metadata names."""
    for plainer in ("__supertype__", "__value__"):  # attributes of NewType and of type aliases
        hint = getattr(hint, plainer, hint)
    if typing.get_origin(hint) in (typing.Annotated, typing.Required, typing.NotRequired):
        return _unwrapped(typing.get_args(hint)[0])
    return hint


def _member(kind: Any, value: Any) -> Any:
    """Return an enum member by its value, as in JSON, or by its name, as in Avro."""
    try:
        return kind(value)
    except ValueError:
        if isinstance(value, str) and value in kind.__members__:
            return kind[value]
        raise


def _decimal(value: Any) -> Any:
    return decimal.Decimal(repr(value) if isinstance(value, float) else value) if _is_number(value) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, str)) and not isinstance(value, bool)


def _of_text(make: Make) -> Make:
    return lambda value: make(value) if isinstance(value, str) else value


_OF_TEXT: dict[Any, Make] = {
    decimal.Decimal: _decimal,
    datetime.datetime: _of_text(datetime.datetime.fromisoformat),
    datetime.date: _of_text(datetime.date.fromisoformat),
    datetime.time: _of_text(datetime.time.fromisoformat),
    uuid.UUID: _of_text(uuid.UUID),
}
"""Types that JSON represents as a string or number."""
