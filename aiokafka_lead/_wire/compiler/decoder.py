"""Decoders: ``decode(buffer, position, end) -> (message, position)``.

Fields of a fixed size that follow each other, and the length or count after them, are read by one ``unpack_from``,
which also checks their bounds. Lengths are checked against the bytes that remain before anything is made from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from .. import primitives
from ..message import ZERO_UUID, Buffer, Message, Struct
from ..schema import FIXED_FORMATS, Field
from .source import ARRAY_FORMATS, Source, array_name, fields_of, layout, minimum_size, struct_class

Decoder: TypeAlias = "Callable[[Buffer, int, int], tuple[Message, int]]"

_HELPERS = {
    "ZERO_UUID": ZERO_UUID,
    "malformed": primitives.malformed,
    "new": object.__new__,
    "read_uvarint": primitives.read_uvarint,
    "skip_tags": primitives.skip_tags,
    "uvarint_tail": primitives.uvarint_tail,
    "uuid": primitives.uuid_from_bytes,
    **{array_name(kind): primitives.ArrayReaders(kind) for kind in ARRAY_FORMATS},
}


def make_decoder(message: type[Message], version: int) -> Decoder:
    """A decoder of ``message``'s body in ``version``."""
    writer = _DecoderWriter(message, version)
    writer.names.update(_HELPERS)
    writer.struct(message, "m")
    writer.line("return m, pos")
    decoder: Decoder = writer.function("def f(buf, pos, end):", f"decoder of {message.__name__} version {version}")
    return decoder


class _DecoderWriter(Source):
    def __init__(self, message: type[Message], version: int) -> None:
        super().__init__(version, message.is_flexible(version))
        self._formats = ""
        """The run at hand: format characters of fields that have not been read yet, ..."""
        self._targets: list[str] = []
        """... what each is assigned to, ..."""
        self._after: list[str] = []
        """... and statements to follow once they are."""

    def struct(self, struct: type[Struct], var: str) -> None:
        """Statements that make an instance in ``var``."""
        self.line(f"{var} = new({self.name('C', struct)})")
        tagged: list[Field] = []
        for field in fields_of(struct):
            if self.version not in field.versions:
                self._default(struct, field, f"{var}.{field.name}")
            elif field.tag is not None:
                self._default(struct, field, f"{var}.{field.name}")
                tagged.append(field)
            else:
                self._value(struct, field, f"{var}.{field.name}")
        if self.flexible:
            self._tags(struct, tagged, var)
        self._flush()

    def _tags(self, struct: type[Struct], tagged: list[Field], var: str) -> None:
        count = self.local("n")
        self._fixed("B", count)
        self._flush()
        if not tagged:
            self.line(f"if {count}: pos = skip_tags(buf, pos, {count})")
            return
        self.line(f"if {count} > 127: {count}, pos = uvarint_tail(buf, pos, {count})")
        self.line(f"for _ in range({count}):")
        self.indent()
        tag, limit = self.local("t"), self.local("l")
        self.line(f"{tag}, pos = read_uvarint(buf, pos)")
        self.line(f"{limit}, pos = read_uvarint(buf, pos)")
        self.line(f"{limit} += pos")
        self.line(f"if {limit} > end: malformed(pos, 'a tagged field')")
        for field in tagged:
            self.line(f"if {tag} == {field.tag}:")
            self.indent()
            self._value(struct, field, f"{var}.{field.name}")
            self._flush()
            self.line(f"if pos != {limit}: malformed(pos, '{field.name}')")
            self.dedent()
        self.line(f"pos = {limit}")
        self.dedent()

    def _fixed(self, kind: str, target: str) -> None:
        self._formats += kind
        self._targets.append(target)

    def _flush(self) -> None:
        """Reads the run at hand."""
        if self._formats == "B":
            self.line(f"{self._targets[0]} = buf[pos]; pos += 1")
        elif self._formats:
            run = layout(self._formats)
            name = "u_" + self._formats.replace("?", "B_")
            self.names[name] = run.unpack_from
            targets = ", ".join(self._targets) + ("," if len(self._targets) == 1 else "")
            self.line(f"{targets} = {name}(buf, pos); pos += {run.size}")
        for statement in self._after:
            self.line(statement)
        self._formats, self._targets, self._after = "", [], []

    def _default(self, owner: type[Struct], field: Field, target: str) -> None:
        value = field.python_default()
        if value is not None:
            self.line(f"{target} = {value}")
            return
        nested = struct_class(owner, field.element)
        var = self.local("d")
        self.line(f"{target} = {var} = new({self.name('C', nested)})")
        for item in fields_of(nested):
            self._default(nested, item, f"{var}.{item.name}")

    def _value(self, owner: type[Struct], field: Field, target: str) -> None:
        if field.is_array:
            self._array(owner, field, target)
        elif field.type == "uuid":
            raw = self.local("b")
            self._fixed("16s", raw)
            self._after.append(f"{target} = uuid({raw})")
        elif field.type in FIXED_FORMATS:
            self._fixed(FIXED_FORMATS[field.type], target)
        elif field.is_struct:
            self._struct_value(owner, field, target)
        else:
            self._sized(field.type, self.version in field.nullable, field.name, target)

    def _struct_value(self, owner: type[Struct], field: Field, target: str) -> None:
        nullable = self.version in field.nullable
        if nullable:
            flag = self.local("n")
            self._fixed("b", flag)
            self._flush()
            self.line(f"{target} = None")
            self.line(f"if {flag} >= 0:")
            self.indent()
        var = self.local("m")
        self.struct(struct_class(owner, field.element), var)
        self.line(f"{target} = {var}")
        if nullable:
            self.dedent()

    def _length(self, wide: bool) -> str:
        """Reads a length or count; a compact one stays greater by one, so that 0 is null."""
        count = self.local("n")
        self._fixed("B" if self.flexible else "i" if wide else "h", count)
        self._flush()
        if self.flexible:
            self.line(f"if {count} > 127: {count}, pos = uvarint_tail(buf, pos, {count})")
        return count

    def _sized(self, kind: str, nullable: bool, what: str, target: str) -> None:
        """A string, bytes or records."""
        count = self._length(wide=kind != "string")
        stop = self.local("e")
        value = {"string": f"str(buf[pos:{stop}], 'utf-8')", "bytes": f"bytes(buf[pos:{stop}])"}.get(
            kind, f"buf[pos:{stop}]"
        )
        read = f"{target} = {value}; pos = {stop}"
        size = f"{count} - 1" if self.flexible else count
        null = f"{count} == 0" if self.flexible else f"{count} < 0"
        if nullable:
            self.line(f"if {null}: {target} = None")
            self.line(f"elif ({stop} := pos + {size}) > end: malformed(pos, '{what}')")
            self.line(f"else: {read}")
        else:
            self.line(f"if {null} or ({stop} := pos + {size}) > end: malformed(pos, '{what}')")
            self.line(read)

    def _array(self, owner: type[Struct], field: Field, target: str) -> None:
        count = self._length(wide=True)
        least = minimum_size(owner, field, self.version, self.flexible)
        bound = f"{count} * {least} > end - pos" if least > 1 else f"{count} > end - pos"
        null = f"{count} < 0"
        if self.flexible:
            self.line(f"{count} -= 1")
        if self.version in field.nullable:
            self.line(f"if {null}: {target} = None")
            self.line(f"elif {bound}: malformed(pos, '{field.name}')")
            self.line("else:")
            self.indent()
            self._elements(owner, field, target, count)
            self.dedent()
        else:
            self.line(f"if {null} or {bound}: malformed(pos, '{field.name}')")
            self._elements(owner, field, target, count)

    def _elements(self, owner: type[Struct], field: Field, target: str, count: str) -> None:
        kind = FIXED_FORMATS.get(field.element)
        if field.element == "uuid":
            self.line(f"{target} = [uuid(bytes(buf[p : p + 16])) for p in range(pos, pos + 16 * {count}, 16)]")
            self.line(f"pos += 16 * {count}")
        elif kind is not None:
            self.line(f"{target} = list({array_name(kind)}[{count}](buf, pos)); pos += {layout(kind).size} * {count}")
        else:
            items, item = self.local("a"), self.local("m")
            self.line(f"{target} = {items} = []")
            self.line(f"for _ in range({count}):")
            self.indent()
            if field.is_struct:
                self.struct(struct_class(owner, field.element), item)
            else:
                self._sized(field.element, False, field.name, item)
            self.line(f"{items}.append({item})")
            self.dedent()
