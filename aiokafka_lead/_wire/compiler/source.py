"""Source code of decoders and encoders."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from struct import Struct as Layout
from typing import Any

from ..message import FIXED_FORMATS, Field, Struct

_fields: dict[type[Struct], tuple[Field, ...]] = {}


def fields_of(struct: type[Struct]) -> tuple[Field, ...]:
    """Return the fields of a struct, parsed from its schema."""
    known = _fields.get(struct)
    if known is None:
        known = _fields[struct] = tuple(map(Field.parse, struct.FIELDS))
    return known


def struct_class(owner: type[Struct], name: str) -> type[Struct]:
    """Return the class of a nested struct, which is defined in the same module."""
    found: type[Struct] = getattr(sys.modules[owner.__module__], name)
    return found


@cache
def layout(formats: str) -> Layout:
    """Return the `struct.Struct` for format characters. Codecs share these objects."""
    return Layout(">" + formats)


def identifier(formats: str) -> str:
    """Return format characters in a form that may be part of a name."""
    return formats.replace("?", "B_")


def minimum_size(owner: type[Struct], field: Field, version: int, flexible: bool) -> int:
    """Return the minimum size of an element of the field, or of its value.

    It limits the number of elements of an array.
    """
    if field.element in FIXED_FORMATS:
        return layout(FIXED_FORMATS[field.element]).size
    if not field.is_struct:
        return 1 if flexible else 2 if field.element == "string" else 4
    nested = struct_class(owner, field.element)
    total = 1 if flexible else 0
    for item in fields_of(nested):
        if version not in item.versions or item.tag is not None:
            continue
        if item.is_array:
            total += 1 if flexible else 4
        elif item.is_struct and version in item.nullable:
            total += 1
        else:
            total += minimum_size(nested, item, version, flexible)
    return total


_OBJECT_BYTES = 56
"""Estimated memory in bytes of an object with a few slots, its entry in a list, and the overhead of both."""
_SLOT_BYTES = 8
_NUMBER_BYTES = 36
"""Estimated memory in bytes of a number that Python does not cache, and its entry in a list."""
_VALUE_BYTES = 64
"""Estimated memory in bytes of a short string, an empty list, or an id."""


def memory_of(owner: type[Struct], field: Field, version: int) -> int:
    """Return the estimated memory in bytes of one element of the field, without the elements of arrays in it."""
    if field.element in FIXED_FORMATS and field.element != "uuid":
        return _NUMBER_BYTES
    if not field.is_struct:
        return _VALUE_BYTES
    nested = struct_class(owner, field.element)
    total = _OBJECT_BYTES
    for item in fields_of(nested):
        total += _SLOT_BYTES
        if version not in item.versions:
            continue
        if item.is_array:
            total += _VALUE_BYTES
        elif item.tag is None:
            total += memory_of(nested, item, version)
    return total


class LazyFunction:
    """A part of a codec that is rarely needed.

    It is compiled on first use, because compiling takes most of the time.
    """

    __slots__ = ("_function", "_make")

    def __init__(self, make: Callable[[], Callable[..., Any]]) -> None:
        self._make = make
        self._function: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        if self._function is None:
            self._function = self._make()
        return self._function(*arguments)


class Source:
    """Collects the lines of a function under construction, and the objects that they name."""

    def __init__(self, version: int, flexible: bool, names: dict[str, Any]) -> None:
        self.version = version
        self.flexible = flexible
        self.names = dict(names)
        self._lines: list[str] = []
        self._indent = " "
        self._count = 0

    def line(self, text: str) -> None:
        self._lines.append(self._indent + text)

    def indent(self) -> None:
        self._indent += " "

    def dedent(self) -> None:
        self._indent = self._indent[:-1]

    def local(self, prefix: str) -> str:
        """Return a variable name with this prefix that has not been used in the function."""
        self._count += 1
        return f"{prefix}{self._count}"

    def name(self, name: str, value: Any) -> str:
        """Make ``value`` available to the function as the global ``name``, and return the name."""
        self.names[name] = value
        return name

    def class_name(self, struct: type[Struct]) -> str:
        return self.name(struct.__name__, struct)

    def function(self, header: str, what: str) -> Any:
        """Compile the lines with this ``header`` and return the function, which must be named ``f``.

        ``what`` is the name of its file in tracebacks.
        """
        exec(compile("\n".join([header, *self._lines]), f"<{what}>", "exec"), self.names)
        return self.names["f"]
