"""Creating decoders of the form ``decode(buffer, position, end, view) -> (message, position)``.

Adjacent fields of fixed size and the length or count after them are read with a single ``unpack_from``, which also
checks their bounds. Lengths are checked against the remaining bytes before any object is created. ``view`` is a
memoryview of the same buffer, for records.

An element of seven bytes in a frame may take two hundred bytes of memory. ``room`` is the memory in bytes that a
message may still use for the elements of its arrays. An array that needs more is refused before any element is created.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias

from .. import primitives
from ..message import FIXED_FORMATS, ZERO_UUID, Buffer, Field, Struct
from .source import LazyFunction, Source, fields_of, identifier, layout, memory_of, minimum_size, struct_class

Decoder: TypeAlias = "Callable[[Buffer, int, int, memoryview], tuple[Any, int]]"
Elements: TypeAlias = "Callable[[Any, int, int, int, memoryview], Generator[None, None, tuple[list[Any], int]]]"
"""Reads the elements of an array in steps: ``elements(buffer, position, count, end, view)``.

It returns the elements and the position after them.
"""
StepwiseDecoder: TypeAlias = (
    "Callable[[Buffer, int, int, memoryview, Elements], Generator[None, None, tuple[Any, int]]]"
)

_HEADER = "def f(buf, pos, end, view):"
_STEPWISE_HEADER = "def f(buf, pos, end, view, elements):"
_FIELD_HEADER = "def f(buf, pos, end, view, room):"
_FEW_NUMBERS = 15
"""Arrays with at most this many numbers do not count towards the memory limit.

They take at most nine times as much memory as they have bytes, and each partition has some of them.
"""

_COMMON = {
    "ZERO_UUID": ZERO_UUID,
    "malformed": primitives.malformed,
    "new": object.__new__,
    "read_tags": primitives.read_tags,
    "skip_tags": primitives.skip_tags,
    "tag_count": primitives.tag_count,
    "too_much": primitives.too_much,
    "uuid": primitives.uuid_from_bytes,
    "uvarint_tail": primitives.uvarint_tail,
}
_FLEXIBLE = {
    **_COMMON,
    "count": primitives.compact_count,
    "slice": primitives.compact_view,
    "string": primitives.compact_string,
}
_LEGACY = {
    **_COMMON,
    "count": primitives.legacy_count,
    "slice": primitives.legacy_view,
    "string": primitives.legacy_string,
}

_ARRAYS = {
    (kind, flexible): primitives.ArrayReaders(kind, int(flexible))
    for kind in FIXED_FORMATS.values()
    for flexible in (False, True)
}


def make_decoder(
    struct: type[Struct], version: int, flexible: bool, room: int = primitives.ELEMENTS_MAX_BYTES
) -> Decoder:
    """Return a decoder for the body of a message, or for a struct in it, in ``version``."""
    writer = _DecoderWriter(version, flexible)
    writer.line(f"room = {room}")
    writer.struct(struct, "m")
    writer.line("return m, pos")
    decoder: Decoder = writer.function(_HEADER, f"decoder of {struct.__name__} version {version}")
    return decoder


def make_stepwise_decoder(struct: type[Struct], version: int, flexible: bool, array: str) -> StepwiseDecoder:
    """Return a decoder like `make_decoder` that leaves the field ``array`` to a generator, its last argument."""
    writer = _DecoderWriter(version, flexible, array)
    writer.line(f"room = {primitives.ELEMENTS_MAX_BYTES}")
    writer.struct(struct, "m")
    writer.line("return m, pos")
    what = f"decoder of {struct.__name__} version {version} but its {array}"
    decoder: StepwiseDecoder = writer.function(_STEPWISE_HEADER, what)
    return decoder


def _make_field_decoder(owner: type[Struct], field: Field, version: int) -> Callable[..., Any]:
    """Return a decoder for the value of one tagged field, which also returns ``room``.

    This is only for flexible versions.
    """
    writer = _DecoderWriter(version, True)
    writer.field(owner, field, "v")
    writer.line("return v, pos, room")
    what = f"decoder of {owner.__name__}.{field.name} version {version}"
    decoder: Callable[..., Any] = writer.function(_FIELD_HEADER, what)
    return decoder


class _DecoderWriter(Source):
    def __init__(self, version: int, flexible: bool, stepwise: str | None = None) -> None:
        super().__init__(version, flexible, _FLEXIBLE if flexible else _LEGACY)
        self._stepwise = None if stepwise is None else f"m.{stepwise}"
        """The array of the message that is left to another decoder, or None."""
        self._formats = ""
        """Format characters of the current run: the fields for which no statement has been written yet."""
        self._targets: list[str] = []
        """Variables or attributes to which the fields of the current run are assigned."""
        self._after: list[str] = []
        """Statements to write after the current run."""

    def struct(self, struct: type[Struct], var: str) -> None:
        """Write statements that create an instance in ``var``."""
        self.line(f"{var} = new({self.class_name(struct)})")
        present = [field for field in fields_of(struct) if self.version in field.versions and field.tag is None]
        tagged = [field for field in fields_of(struct) if self.version in field.versions and field.tag is not None]
        self._defaults(struct, [field for field in fields_of(struct) if field not in present], var)
        for field in present:
            self._value(struct, field, f"{var}.{field.name}")
        if self.flexible:
            self._tags(struct, tagged, var)
        self._flush()

    def field(self, owner: type[Struct], field: Field, var: str) -> None:
        """Write statements that read the value of one field into ``var``."""
        self._value(owner, field, var)
        self._flush()

    def _defaults(self, struct: type[Struct], fields: list[Field], var: str) -> None:
        """Assign the defaults of fields that may be absent. Equal constants are assigned in one statement."""
        constants: dict[str, str] = {}
        for field in fields:
            value, target = field.python_default(), f"{var}.{field.name}"
            if value is None:
                nested, instance = struct_class(struct, field.element), self.local("d")
                self.line(f"{target} = {instance} = new({self.class_name(nested)})")
                self._defaults(nested, list(fields_of(nested)), instance)
            elif value == "[]":
                self.line(f"{target} = []")
            else:
                constants[value] = constants.get(value, "") + f"{target} = "
        for value, targets in constants.items():
            self.line(targets + value)

    def _tags(self, struct: type[Struct], tagged: list[Field], var: str) -> None:
        """Read the tagged fields.

        Most are rarely present, so their decoders are compiled on first use.
        """
        count = self._size("B")
        if not tagged:
            self.line(f"if {count}: pos = skip_tags(buf, pos, {count}, end)")
            return
        tag, limit = self.local("t"), self.local("l")
        self.line(f"if {count}:")
        self.indent()
        self.line(f"{count}, pos = tag_count(buf, pos, {count})")
        self.line(f"for {tag}, pos, {limit} in read_tags(buf, pos, {count}, end):")
        self.indent()
        word = "if"
        for field in tagged:
            reader = self.name(f"{struct.__name__}_{field.name}", self._lazy(struct, field))
            value = f"{var}.{field.name}"
            self.line(f"{word} {tag} == {field.tag}: {value}, pos, room = {reader}(buf, pos, {limit}, view, room)")
            word = "elif"
        self.line(f"else: pos = {limit}")
        self.line(f"if pos != {limit}: malformed(pos, 'a tagged field')")
        self.dedent()
        self.dedent()

    def _lazy(self, struct: type[Struct], field: Field) -> LazyFunction:
        return LazyFunction(lambda: _make_field_decoder(struct, field, self.version))

    def _fixed(self, kind: str, target: str) -> None:
        self._formats += kind
        self._targets.append(target)

    def _size(self, legacy_kind: str) -> str:
        """Read a length or count with the run before it. Of a compact length, only the first byte is read."""
        size = self.local("n")
        self._fixed("B" if self.flexible else legacy_kind, size)
        self._flush()
        return size

    def _flush(self) -> None:
        """Write the code that reads the current run of fixed-size fields in one call."""
        if self._formats == "B":
            self.line(f"{self._targets[0]} = buf[pos]; pos += 1")
        elif self._formats:
            run = layout(self._formats)
            reader = self.name("u_" + identifier(self._formats), run.unpack_from)
            self.line(f"{', '.join(self._targets)}, = {reader}(buf, pos); pos += {run.size}")
        for statement in self._after:
            self.line(statement)
        self._formats, self._targets, self._after = "", [], []

    def _value(self, owner: type[Struct], field: Field, target: str) -> None:
        # Some brokers send null if there are no records, in any version.
        nullable = self.version in field.nullable or field.type == "records"
        if field.type in FIXED_FORMATS:
            self._number(field.type, target)
        elif field.is_struct and not field.is_array:
            self._struct_value(owner, field, target, nullable)
        elif not nullable:
            self._sized(owner, field, target, self._size("h" if field.type == "string" else "i"))
        else:
            size = self._size("h" if field.type == "string" else "i")
            self.line(f"if {size}{'' if self.flexible else ' >= 0'}:")
            self.indent()
            self._sized(owner, field, target, size)
            self._flush()
            self.dedent()
            self.line(f"else: {target} = None")

    def _number(self, kind: str, target: str) -> None:
        if kind == "uuid":
            raw = self.local("b")
            self._fixed("16s", raw)
            self._after.append(f"{target} = uuid({raw})")
        else:
            self._fixed(FIXED_FORMATS[kind], target)

    def _struct_value(self, owner: type[Struct], field: Field, target: str, nullable: bool) -> None:
        """Read a nullable struct. It begins with a byte that is negative for null (KIP-893)."""
        var = self.local("m")
        if nullable:
            flag = self.local("n")
            self._fixed("b", flag)
            self._flush()
            self.line(f"if {flag} < 0: {target} = None")
            self.line("else:")
            self.indent()
        self.struct(struct_class(owner, field.element), var)
        self.line(f"{target} = {var}")
        if nullable:
            self.dedent()

    def _sized(self, owner: type[Struct], field: Field, target: str, size: str) -> None:
        """Read a value with a length or count that is not null."""
        if field.is_array:
            self._elements(owner, field, target, size)
        else:
            self._text(field.element, target, size)

    def _text(self, kind: str, target: str, size: str) -> None:
        """Read a string, bytes or records."""
        if kind == "string":
            self.line(f"{target}, pos = string(buf, pos, {size}, end)")
        else:
            self.line(f"{target}, pos = slice(view, pos, {size}, end)")
            if kind == "bytes":
                self.line(f"{target} = bytes({target})")

    def _elements(self, owner: type[Struct], field: Field, target: str, size: str) -> None:
        """Read the elements of an array, of which ``size`` contains the count."""
        kind = FIXED_FORMATS.get(field.element)
        if kind is not None and field.element != "uuid":
            if self.flexible:
                self.line(f"if {size} > 127: {size}, pos = uvarint_tail(buf, pos, {size})")
            self.line(f"if {size} > {_FEW_NUMBERS}:")
            self.indent()
            self._charge(size, memory_of(owner, field, self.version))
            self.dedent()
            readers = self.name(f"a_{identifier(kind)}", _ARRAYS[kind, self.flexible])
            width = layout(kind).size
            less = f" - {width}" if self.flexible else ""
            self.line(f"{target} = list({readers}[{size}](buf, pos)); pos += {width} * {size}{less}")
            return
        least = minimum_size(owner, field, self.version, self.flexible)
        items, item = self.local("a"), self.local("m")
        self.line(f"{size}, pos = count(buf, pos, {size}, end, {least})")
        self._charge(size, memory_of(owner, field, self.version))
        if target == self._stepwise:
            self.line(f"{target}, pos = yield from elements(buf, pos, {size}, end, view)")
            return
        self.line(f"{target} = {items} = []")
        self.line(f"for _ in range({size}):")
        self.indent()
        if field.is_struct:
            self.struct(struct_class(owner, field.element), item)
        elif field.element == "uuid":
            self._number("uuid", item)
            self._flush()
        else:
            self._text(field.element, item, self._size("h" if field.element == "string" else "i"))
        self.line(f"{items}.append({item})")
        self.dedent()

    def _charge(self, size: str, each: int) -> None:
        """Subtract the memory of an array's elements from ``room``."""
        self.line(f"room -= {each} * {size}")
        self.line("if room < 0: too_much(pos)")
