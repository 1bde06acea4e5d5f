"""Encoders: ``encode(message, chunks, out) -> out``.

Everything is appended to ``out``; where large records pass through, ``out`` and they are appended to ``chunks`` and a
new ``out`` goes on. Fields of a fixed size that follow each other, and the length after them, are written by one
``pack``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from .. import primitives
from ..message import ZERO_UUID, Buffer, Message, Struct
from ..schema import FIXED_FORMATS, NO_VERSIONS, Field
from .source import ARRAY_FORMATS, Source, array_name, fields_of, layout, struct_class

Encoder: TypeAlias = "Callable[[Message, list[Buffer], bytearray], bytearray]"

_HELPERS = {
    "ZERO_UUID": ZERO_UUID,
    "long_string": primitives.long_string,
    "missing_field": primitives.missing_field,
    "null_field": primitives.null_field,
    "put_records": primitives.put_records,
    "uvarint": primitives.uvarint,
    **{array_name(kind): primitives.ArrayWriters(kind) for kind in ARRAY_FORMATS},
}


def make_encoder(message: type[Message], version: int) -> Encoder:
    """An encoder of ``message``'s body in ``version``."""
    writer = _EncoderWriter(message, version)
    writer.names.update(_HELPERS)
    writer.struct(message, "m")
    writer.flush()
    writer.line("return out")
    encoder: Encoder = writer.function("def f(m, chunks, out):", f"encoder of {message.__name__} version {version}")
    return encoder


class _EncoderWriter(Source):
    def __init__(self, message: type[Message], version: int) -> None:
        super().__init__(version, message.is_flexible(version))
        self._formats = ""
        """The run at hand: format characters of values that have not been written yet, ..."""
        self._values: list[str] = []
        """... and their expressions."""

    def struct(self, struct: type[Struct], var: str) -> None:
        """Statements that write the instance in ``var``."""
        tagged: list[Field] = []
        for field in fields_of(struct):
            value = f"{var}.{field.name}"
            if self.version not in field.versions:
                if not field.ignorable:
                    refused = f"missing_field({var}, '{field.name}', {self.version})"
                    self.line(f"if {self._differs(struct, field, value)}: {refused}")
            elif field.tag is not None:
                tagged.append(field)
            else:
                self._value(struct, field, var)
        if self.flexible:
            self._tags(struct, tagged, var)

    def _tags(self, struct: type[Struct], tagged: list[Field], var: str) -> None:
        """The section of tagged fields: those that differ from their default, by number."""
        if not tagged:
            self._fixed("x")
            return
        self.flush()
        count, section, saved = self.local("n"), self.local("t"), self.local("o")
        self.line(f"{count} = 0; {section} = b''")
        for field in sorted(tagged, key=lambda field: field.tag or 0):
            self.line(f"if {self._differs(struct, field, f'{var}.{field.name}')}:")
            self.indent()
            self.line(f"{saved} = out; out = bytearray()")
            self._value(struct, field, var)
            self.flush()
            self.line(f"{section} += uvarint({field.tag}) + uvarint(len(out)) + out; {count} += 1; out = {saved}")
            self.dedent()
        self.line(f"out += uvarint({count}) + {section}")

    def _differs(self, owner: type[Struct], field: Field, value: str) -> str:
        """The condition that a value is not the schema's default."""
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

    def _run(self, kind: str = "", value: str | None = None) -> str:
        """The expression that packs the run at hand and one value more."""
        formats = self._formats + kind
        if not formats:
            return "b''"
        values = self._values if value is None else [*self._values, value]
        if not values:
            return repr(bytes(len(formats)))
        name = "p_" + formats.replace("?", "B_")
        self.names[name] = layout(formats).pack
        return f"{name}({', '.join(values)})"

    def _done(self) -> None:
        self._formats, self._values = "", []

    def flush(self) -> None:
        """Writes the run at hand."""
        if self._formats:
            self.line(f"out += {self._run()}")
            self._done()

    def _value(self, owner: type[Struct], field: Field, var: str) -> None:
        value = f"{var}.{field.name}"
        may_be_none = field.nullable != NO_VERSIONS
        if field.type in FIXED_FORMATS:
            self._fixed(FIXED_FORMATS[field.type], value + ".bytes" if field.type == "uuid" else value)
            return
        if may_be_none and self.version not in field.nullable:
            self.line(f"if {value} is None: null_field({var}, '{field.name}', {self.version})")
        nullable = self.version in field.nullable
        if field.is_array:
            self._array(owner, field, value, nullable)
        elif field.is_struct:
            self._struct_value(owner, field, value, nullable)
        elif field.type == "records":
            self.flush()
            self.line(f"out = put_records(chunks, out, {value}, {self.flexible})")
        else:
            self._sized(field.type, value, nullable)

    def _struct_value(self, owner: type[Struct], field: Field, value: str, nullable: bool) -> None:
        var = self.local("m")
        self.line(f"{var} = {value}")
        if nullable:
            self.flush()
            self.line(f"if {var} is None: out += b'\\xff'")
            self.line("else:")
            self.indent()
            self.line("out.append(1)")
        self.struct(struct_class(owner, field.element), var)
        if nullable:
            self.flush()
            self.dedent()

    def _null(self, var: str, wide: bool) -> None:
        """The branch for None."""
        kind, null = ("x", None) if self.flexible else ("i" if wide else "h", "-1")
        self.line(f"if {var} is None: out += {self._run(kind, null)}")
        self.line("else:")
        self.indent()

    def _sized(self, kind: str, value: str, nullable: bool) -> None:
        """A string or bytes."""
        var = self.local("s")
        self.line(f"{var} = {value}")
        is_string = kind == "string"
        if nullable:
            self._null(var, wide=not is_string)
        if is_string:
            self.line(f"{var} = {var}.encode()")
        if self.flexible:
            count = self.local("n")
            self.line(f"{count} = len({var}) + 1")
            long = f"long_string({var})" if is_string else f"uvarint({count}) + {var}"
            self.line(f"out += {self._run('B', count)} + {var} if {count} < 128 else {self._run()} + {long}")
        else:
            self.line(f"out += {self._run('h' if is_string else 'i', f'len({var})')} + {var}")
        if nullable:
            self.dedent()
        self._done()

    def _array(self, owner: type[Struct], field: Field, value: str, nullable: bool) -> None:
        var, count = self.local("a"), self.local("n")
        self.line(f"{var} = {value}")
        if nullable:
            self._null(var, wide=True)
        self.line(f"{count} = len({var})")
        if self.flexible:
            long = f"{self._run()} + uvarint({count} + 1)"
            self.line(f"out += {self._run('B', f'{count} + 1')} if {count} < 127 else {long}")
        else:
            self.line(f"out += {self._run('i', count)}")
        self._done()
        self._elements(owner, field, var, count)
        if nullable:
            self.dedent()

    def _elements(self, owner: type[Struct], field: Field, var: str, count: str) -> None:
        kind = FIXED_FORMATS.get(field.element)
        if field.element == "uuid":
            self.line(f"out += b''.join([u.bytes for u in {var}])")
        elif kind is not None:
            self.line(f"out += {array_name(kind)}[{count}](*{var})")
        else:
            item = self.local("m")
            self.line(f"for {item} in {var}:")
            self.indent()
            if field.is_struct:
                self.struct(struct_class(owner, field.element), item)
                self.flush()
                self.line("pass")
            else:
                self._sized(field.element, item, False)
            self.dedent()
