"""Creating encoders of the form ``encode(message, chunks, out) -> out``.

All bytes are appended to ``out``. When large records are encoded, ``out`` and the records are appended to ``chunks``,
and a new ``out`` begins. Adjacent fields of fixed size and a string or array of numbers after them are written with a
single ``pack``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from .. import primitives
from ..message import FIXED_FORMATS, NO_VERSIONS, ZERO_UUID, Buffer, Field, Message, Struct
from .source import LazyFunction, Source, fields_of, identifier, layout, struct_class

Encoder: TypeAlias = "Callable[[Message, list[Buffer], bytearray], bytearray]"

_HEADER = "def f(m, chunks, out):"
_NAMES = {
    "ZERO_UUID": ZERO_UUID,
    "missing_field": primitives.missing_field,
    "null_field": primitives.null_field,
    "put_records": primitives.put_records,
    "sizes": primitives.compact_sizes,
    "tagged_field": primitives.tagged_field,
    "uvarint": primitives.uvarint,
}

_sized_writers: dict[tuple[str, str, str, int | None], primitives.SizedWriters] = {}


def make_encoder(message: type[Message], version: int) -> Encoder:
    """Return an encoder for the body of ``message`` in ``version``."""
    writer = _EncoderWriter(version, message.is_flexible(version), _NAMES)
    writer.struct(message, "m")
    writer.flush()
    writer.line("return out")
    encoder: Encoder = writer.function(_HEADER, f"encoder of {message.__name__} version {version}")
    return encoder


def _make_field_encoder(owner: type[Struct], field: Field, version: int) -> Callable[..., Any]:
    """Return an encoder for one tagged field of the struct ``m``. This is only for flexible versions."""
    writer = _EncoderWriter(version, True, _NAMES)
    writer.field(owner, field, "m")
    writer.flush()
    writer.line("return out")
    what = f"encoder of {owner.__name__}.{field.name} version {version}"
    encoder: Callable[..., Any] = writer.function(_HEADER, what)
    return encoder


class _EncoderWriter(Source):
    def __init__(self, version: int, flexible: bool, names: dict[str, Any]) -> None:
        super().__init__(version, flexible, names)
        self._formats = ""
        """Format characters of the current run: the fields for which no statement has been written yet."""
        self._values: list[str] = []
        """Expressions for the values of the current run."""

    def struct(self, struct: type[Struct], var: str) -> None:
        """Write statements that encode the instance in ``var``."""
        tagged: list[Field] = []
        for field in fields_of(struct):
            if self.version not in field.versions:
                if not field.ignorable:
                    refused = f"missing_field({var}, '{field.name}', {self.version})"
                    self.line(f"if {self._differs(struct, field, f'{var}.{field.name}')}: {refused}")
            elif field.tag is not None:
                tagged.append(field)
            else:
                self.field(struct, field, var)
        if self.flexible:
            self._tags(struct, tagged, var)

    def field(self, owner: type[Struct], field: Field, var: str) -> None:
        """Write statements that encode one field of the instance in ``var``."""
        value = f"{var}.{field.name}"
        if field.type in FIXED_FORMATS:
            self._fixed(FIXED_FORMATS[field.type], value + ".bytes" if field.type == "uuid" else value)
            return
        nullable = self.version in field.nullable
        if field.nullable != NO_VERSIONS and not nullable:
            self.line(f"if {value} is None: null_field({var}, '{field.name}', {self.version})")
        if field.type == "records":
            self.flush()
            self.line(f"out = put_records(chunks, out, {value}, {self.flexible})")
            return
        item = self.local("v")
        self.line(f"{item} = {value}")
        if nullable:
            self.flush()
            is_struct = field.is_struct and not field.is_array
            null = b"\xff" if is_struct else b"\0" if self.flexible else b"\xff" * (2 if field.type == "string" else 4)
            self.line(f"if {item} is None: out += {null!r}")
            self.line("else:")
            self.indent()
            if is_struct:
                self.line("out.append(1)")
        self._present(owner, field, item)
        if nullable:
            self.flush()
            self.dedent()

    def _present(self, owner: type[Struct], field: Field, var: str) -> None:
        """Write a value of variable size that is known not to be null."""
        if field.is_array:
            self._array(owner, field, var)
        elif field.is_struct:
            self.struct(struct_class(owner, field.element), var)
        else:
            self._text(field.element, var)

    def _text(self, kind: str, var: str) -> None:
        """Write a string or bytes."""
        if kind == "string":
            self.line(f"{var} = {var}.encode()")
            self._sized("h", "s", primitives.MAX_STRING_BYTES, var, var)
        else:
            self._sized("i", "s", None, var, var)

    def _array(self, owner: type[Struct], field: Field, var: str) -> None:
        kind = FIXED_FORMATS.get(field.element)
        if kind is not None and field.element != "uuid":
            self._sized("i", kind, None, var, f"*{var}")
            return
        self._sized("i", "", None, var, "")
        item = self.local("m")
        self.line(f"for {item} in {var}:")
        self.indent()
        if field.element == "uuid":
            self._fixed("16s", f"{item}.bytes")
        elif field.is_struct:
            self.struct(struct_class(owner, field.element), item)
        else:
            self._text(field.element, item)
        self.flush()
        self.dedent()

    def _sized(self, size: str, kind: str, limit: int | None, var: str, values: str) -> None:
        """Write the current run, the length of ``var`` and, if given, ``values`` of format ``kind``."""
        key = (self._formats, "" if self.flexible else size, kind, limit)
        writers = _sized_writers.get(key)
        if writers is None:
            writers = _sized_writers[key] = primitives.SizedWriters(*key)
        name = self.name(f"w_{identifier(self._formats)}_{key[1]}_{identifier(kind)}_{limit}", writers)
        count = self.local("n")
        self.line(f"{count} = len({var})")
        arguments = [*self._values, f"sizes[{count}]" if self.flexible else count, *([values] if values else [])]
        self.line(f"out += {name}[{count}]({', '.join(arguments)})")
        self._formats, self._values = "", []

    def _tags(self, struct: type[Struct], tagged: list[Field], var: str) -> None:
        """Write the tagged fields that differ from their defaults, in the order of their numbers.

        Most are rarely present, so their encoders are compiled on first use.
        """
        if not tagged:
            self._fixed("x")
            return
        self.flush()
        count, section = self.local("n"), self.local("t")
        self.line(f"{count} = 0; {section} = b''")
        for field in sorted(tagged, key=lambda field: field.tag or 0):
            writer = self.name(f"{struct.__name__}_{field.name}", self._lazy(struct, field))
            self.line(f"if {self._differs(struct, field, f'{var}.{field.name}')}:")
            self.line(f" {count} += 1; {section} += tagged_field({field.tag}, {writer}({var}, chunks, bytearray()))")
        self.line(f"out += uvarint({count}) + {section}")

    def _lazy(self, struct: type[Struct], field: Field) -> LazyFunction:
        return LazyFunction(lambda: _make_field_encoder(struct, field, self.version))

    def _differs(self, owner: type[Struct], field: Field, value: str) -> str:
        """Return the source of the condition that a value differs from the schema's default."""
        default = field.python_default()
        if default == "None":
            return f"{value} is not None"
        if default == "[]":
            return value if field.nullable == NO_VERSIONS else f"({value} is None or {value})"
        if default is not None:
            return f"{value} != {default}"
        nested = struct_class(owner, field.element)
        return " or ".join(self._differs(nested, item, f"{value}.{item.name}") for item in fields_of(nested))

    def _fixed(self, kind: str, value: str | None = None) -> None:
        self._formats += kind
        if value is not None:
            self._values.append(value)

    def flush(self) -> None:
        """Write the code that encodes the current run of fixed-size fields in one call."""
        if self._values:
            packer = self.name("p_" + identifier(self._formats), layout(self._formats).pack)
            self.line(f"out += {packer}({', '.join(self._values)})")
        elif self._formats:
            self.line(f"out += {bytes(len(self._formats))!r}")
        self._formats, self._values = "", []
