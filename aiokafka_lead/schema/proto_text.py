"""Conversion of a Protobuf descriptor to ``.proto`` text, which all registries and clients accept as a schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSequence
from typing import Any

from google.protobuf import descriptor_pb2, text_format
from google.protobuf.unknown_fields import UnknownFieldSet

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS: dict[int, str] = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in _FIELD.Type.items()
    if name not in ("TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP")
}
_QUOTED = (_FIELD.TYPE_STRING, _FIELD.TYPE_BYTES)
_NUMBER_MAX = 2**29 - 1
"""Largest field number."""
_ENUM_MAX = 2**31 - 1
_INDENT = "  "
_ESCAPED = {ord('"'): r"\"", ord("\\"): r"\\", ord("\n"): r"\n"}


class NoText(Exception):
    """The file has a feature that `proto_text` does not support: editions, groups, or unknown options."""


def proto_text(file: descriptor_pb2.FileDescriptorProto) -> str:
    """Return the ``.proto`` text of a descriptor, without comments. Raises `NoText` for an unsupported feature."""
    if file.syntax not in ("", "proto2", "proto3"):
        raise NoText(file.syntax)
    return "\n".join(_File(file).lines()) + "\n"


class _File:
    def __init__(self, file: descriptor_pb2.FileDescriptorProto) -> None:
        self._file = file
        self._is_3 = file.syntax == "proto3"

    def lines(self) -> Iterator[str]:
        file = self._file
        yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        for index, name in enumerate(file.dependency):
            kind = "public " if index in file.public_dependency else "weak " if index in file.weak_dependency else ""
            yield f"import {kind}{_quoted(name)};"
        yield from _statements(file.options)
        for enum in file.enum_type:
            yield from _enum(enum)
        for message in file.message_type:
            yield from self._message(message)
        yield from self._extensions(file.extension)
        for service in file.service:
            yield from _service(service)

    def _message(self, message: descriptor_pb2.DescriptorProto) -> Iterator[str]:
        maps = {each.name: each for each in message.nested_type if each.options.map_entry}

        def inside() -> Iterator[str]:
            yield from _statements(message.options)
            for enum in message.enum_type:
                yield from _enum(enum)
            for nested in message.nested_type:
                if nested.name not in maps:
                    yield from self._message(nested)
            begun: set[int] = set()
            for field in message.field:
                if field.HasField("oneof_index") and not field.proto3_optional:
                    if field.oneof_index not in begun:
                        begun.add(field.oneof_index)
                        yield from self._oneof(message, field.oneof_index)
                else:
                    yield self._field(field, maps)
            yield from _reserved(message.reserved_range, message.reserved_name, _NUMBER_MAX, open_end=True)
            for some in message.extension_range:
                yield f"extensions {_range(some.start, some.end - 1, _NUMBER_MAX)}{_brackets(some.options)};"
            yield from self._extensions(message.extension)

        return _block(f"message {message.name}", inside())

    def _oneof(self, message: descriptor_pb2.DescriptorProto, index: int) -> Iterator[str]:
        def inside() -> Iterator[str]:
            yield from _statements(message.oneof_decl[index].options)
            for field in message.field:
                if field.HasField("oneof_index") and field.oneof_index == index:
                    yield self._field(field, {}, label="")

        return _block(f"oneof {message.oneof_decl[index].name}", inside())

    def _extensions(self, fields: Iterable[descriptor_pb2.FieldDescriptorProto]) -> Iterator[str]:
        for field in fields:
            yield from _block(f"extend {field.extendee}", [self._field(field, {})])

    def _field(
        self,
        field: descriptor_pb2.FieldDescriptorProto,
        maps: dict[str, descriptor_pb2.DescriptorProto],
        label: str | None = None,
    ) -> str:
        entry = maps.get(field.type_name.rpartition(".")[2])
        if entry is not None and field.type == _FIELD.TYPE_MESSAGE:
            kind, label = f"map<{_type(entry.field[0])}, {_type(entry.field[1])}>", ""
        else:
            kind = _type(field)
        if label is None:
            label = self._label(field)
        options = []
        if field.HasField("default_value"):
            options.append(f"default = {_default(field)}")
        if field.HasField("json_name") and field.json_name != _json_name(field.name):
            options.append(f"json_name = {_quoted(field.json_name)}")
        return f"{label}{kind} {field.name} = {field.number}{_brackets(field.options, options)};"

    def _label(self, field: descriptor_pb2.FieldDescriptorProto) -> str:
        if field.label == _FIELD.LABEL_REPEATED:
            return "repeated "
        if field.label == _FIELD.LABEL_REQUIRED:
            return "required "
        return "" if self._is_3 and not field.proto3_optional else "optional "


def _type(field: descriptor_pb2.FieldDescriptorProto) -> str:
    if field.type == _FIELD.TYPE_GROUP:
        raise NoText("a group")
    return _SCALARS[field.type] if field.type in _SCALARS else str(field.type_name)


def _default(field: descriptor_pb2.FieldDescriptorProto) -> str:
    if field.type == _FIELD.TYPE_BYTES:
        return f'"{field.default_value}"'  # descriptors contain defaults of bytes fields already escaped
    return _quoted(field.default_value) if field.type == _FIELD.TYPE_STRING else field.default_value


def _json_name(name: str) -> str:
    """Return the default JSON name of a field."""
    first, *others = name.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in others)


def _enum(enum: descriptor_pb2.EnumDescriptorProto) -> Iterator[str]:
    def inside() -> Iterator[str]:
        yield from _statements(enum.options)
        for value in enum.value:
            yield f"{value.name} = {value.number}{_brackets(value.options)};"
        yield from _reserved(enum.reserved_range, enum.reserved_name, _ENUM_MAX, open_end=False)

    return _block(f"enum {enum.name}", inside())


def _service(service: descriptor_pb2.ServiceDescriptorProto) -> Iterator[str]:
    def inside() -> Iterator[str]:
        yield from _statements(service.options)
        for method in service.method:
            takes = ("stream " if method.client_streaming else "") + method.input_type
            gives = ("stream " if method.server_streaming else "") + method.output_type
            head = f"rpc {method.name}({takes}) returns ({gives})"
            options = list(_statements(method.options))
            if options:
                yield from _block(head, options)
            else:
                yield f"{head};"

    return _block(f"service {service.name}", inside())


def _reserved(ranges: Iterable[Any], names: Iterable[str], largest: int, *, open_end: bool) -> Iterator[str]:
    """Yield lines for reserved ranges and names.

    With ``open_end``, the end of a range is exclusive, as it is for messages.
    """
    for each in ranges:
        yield f"reserved {_range(each.start, each.end - open_end, largest)};"
    for name in names:
        yield f"reserved {_quoted(name)};"


def _range(first: int, last: int, largest: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last >= largest else last}"


def _block(head: str, inside: Iterable[str]) -> Iterator[str]:
    yield f"{head} {{"
    for line in inside:
        yield _INDENT + line
    yield "}"


def _statements(options: Any) -> Iterator[str]:
    for each in _options(options):
        yield f"option {each};"


def _brackets(options: Any, before: Iterable[str] = ()) -> str:
    every = [*before, *_options(options)]
    return f" [{', '.join(every)}]" if every else ""


def _options(options: Any) -> Iterator[str]:
    if len(UnknownFieldSet(options)):
        raise NoText("options whose definition is not imported")
    for field, content in options.ListFields():
        name = f"({field.full_name})" if field.is_extension else field.name
        if name == "map_entry":
            continue
        for value in content if isinstance(content, MutableSequence) else [content]:
            yield f"{name} = {_value(field, value)}"


def _value(field: Any, value: Any) -> str:
    if field.type == _FIELD.TYPE_MESSAGE:
        return f"{{ {text_format.MessageToString(value, as_one_line=True)} }}"
    if field.type == _FIELD.TYPE_ENUM:
        return str(field.enum_type.values_by_number[value].name)
    if field.type == _FIELD.TYPE_BOOL:
        return "true" if value else "false"
    return _quoted(value) if field.type in _QUOTED else str(value)


def _quoted(value: str | bytes) -> str:
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPED)}"'
    escaped = "".join(chr(each) if 32 <= each < 127 else f"\\{each:03o}" for each in value.replace(b"\\", b"\\\\"))
    return '"' + escaped.replace('"', '\\"') + '"'
