"""Message classes built from the text of a ``.proto`` file, for programs without its generated module."""

from __future__ import annotations

import base64
import binascii
import importlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from ..errors import InvalidSchemaError
from ..errors.shown import shown
from .types import ResolvedSchema

_TOKEN = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | [{};] | [\w.]+ | \S""", re.DOTALL | re.VERBOSE
)
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


_VISIBILITIES = ("export", "local")
"""Keywords before ``message`` and ``enum`` in edition 2024."""


def message_names(text: str) -> dict[tuple[int, ...], str]:
    """Return the full names of the message types in a file by path. Raises `InvalidSchemaError` for an invalid file.

    For example, the path of the first type in the second type of the file is ``(1, 0)``. ``text`` is the text of the
    ``.proto`` file, or its descriptor in base64.
    """
    if is_descriptor(text):
        return _described_name(text)
    names: dict[tuple[int, ...], str] = {}
    package = ""
    open_blocks: list[tuple[tuple[int, ...], str] | None] = [((), "")]
    """Enclosing blocks, outermost first: the path and name of a message type, or None for any other block."""
    counts: dict[tuple[int, ...], int] = {}
    statement: list[str] = []
    for token in tokens(text):
        if token == "{":
            around = open_blocks[-1]
            own = statement[1:] if statement[:1] and statement[0] in _VISIBILITIES else statement
            if len(own) == 2 and own[0] == "message" and around is not None:
                above, prefix = around
                index = counts[above] = counts.get(above, -1) + 1
                name = f"{prefix}.{own[1]}" if prefix else own[1]
                names[*above, index] = name
                open_blocks.append(((*above, index), name))
            else:
                open_blocks.append(None)
            statement = []
        elif token == "}":
            if len(open_blocks) == 1:
                raise InvalidSchemaError("invalid .proto file: it closes a brace that it has not opened")
            open_blocks.pop()
            statement = []
        elif token == ";":
            if len(statement) == 2 and statement[0] == "package":
                package = statement[1]
            statement = []
        else:
            statement.append(token)
    if len(open_blocks) != 1:
        raise InvalidSchemaError("invalid .proto file: it does not close a brace")
    return {path: f"{package}.{name}" if package else name for path, name in names.items()}


def is_descriptor(text: str) -> bool:
    """Return True if ``text`` is a descriptor in base64, not the text of a ``.proto`` file."""
    return _BASE64.fullmatch(text.strip()) is not None


def tokens(text: str) -> Iterator[str]:
    """Yield the tokens of a ``.proto`` file, without comments."""
    for found in _TOKEN.finditer(text):
        token = found[0]
        if not token.startswith(("//", "/*")):
            yield token


def _from_base64(text: str) -> descriptor_pb2.FileDescriptorProto:
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text.strip(), validate=True))
    except (DecodeError, binascii.Error):
        raise InvalidSchemaError("this is neither a .proto file nor its descriptor in base64") from None


def _described_name(text: str) -> dict[tuple[int, ...], str]:
    file = _from_base64(text)
    names: dict[tuple[int, ...], str] = {}

    def add(types: object, path: tuple[int, ...], prefix: str) -> None:
        for index, each in enumerate(types):  # type: ignore[arg-type,var-annotated]
            name = f"{prefix}.{each.name}" if prefix else each.name
            names[*path, index] = name
            add(each.nested_type, (*path, index), name)

    add(file.message_type, (), file.package)
    return names


_FIELD = descriptor_pb2.FieldDescriptorProto
_LABELS = {
    "optional": _FIELD.LABEL_OPTIONAL,
    "required": _FIELD.LABEL_REQUIRED,
    "repeated": _FIELD.LABEL_REPEATED,
}
_SCALARS = {
    name.removeprefix("TYPE_").lower(): number
    for name, number in _FIELD.Type.items()
    if name not in ("TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP")
}
_CLOSING = {"{": "}", "[": "]", "(": ")", "<": ">"}
_DECIMAL = "confluent/type/decimal.proto"
_KNOWN = {
    _DECIMAL: "package confluent.type; message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"
}
"""Files that schemas import without a reference, and that are not in Google's package."""


class DescribedMessages:
    """Message classes built from a schema and its references, without generated modules."""

    def __init__(self, resolved: ResolvedSchema) -> None:
        """Build the descriptors. Raises `InvalidSchemaError` if a file is invalid, or a type is missing."""
        self._pool: Any = descriptor_pool.DescriptorPool()
        self._texts = {**_KNOWN, **{name: schema.text for name, schema in resolved.references}}
        self._added: set[str] = set()
        for name, _ in resolved.references:  # a file is after the files that it imports
            self._has(name)
        self._add(_described("", resolved.schema.text))

    def kind(self, name: str) -> Any:
        """Return the class of the message type with this full name. Raises KeyError if there is none."""
        return GetMessageClass(self._pool.FindMessageTypeByName(name))

    def _add(self, file: descriptor_pb2.FileDescriptorProto) -> None:
        self._added.add(file.name)
        imports = [name for name in file.dependency if self._has(name)]
        # Drop unknown imports, which may only define options. If a type is missing, the next statement raises an error.
        del file.dependency[:], file.public_dependency[:], file.weak_dependency[:]
        file.dependency.extend(imports)
        try:
            self._pool.AddSerializedFile(file.SerializeToString())
        except TypeError as error:
            raise InvalidSchemaError(f"the Protobuf schema cannot be used: {shown(str(error))}") from None

    def _has(self, name: str) -> bool:
        """Add the imported file with this name to the pool, if it is not there. Return False if the file is unknown."""
        if name not in self._added:
            text = self._texts.get(name)
            file = _built_in(name) if text is None else _described(name, text)
            if file is None:
                return False
            self._add(file)
        return True


def _built_in(name: str) -> descriptor_pb2.FileDescriptorProto | None:
    """Return a file of Google's package, or None. This never imports other modules, because a schema is untrusted."""
    if not name.startswith("google/"):
        return None
    try:
        module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        return None
    return descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def _described(name: str, text: str) -> descriptor_pb2.FileDescriptorProto:
    """Return the descriptor of a ``.proto`` file, without extensions and services, and of the options only features.

    Raises `InvalidSchemaError`.
    """
    if is_descriptor(text):
        file = _from_base64(text)
        file.name = name
        return file
    try:
        return _Parser(name, text).file
    except (IndexError, ValueError, RecursionError) as error:
        why = "it ends too early" if isinstance(error, IndexError) else shown(str(error))
        raise InvalidSchemaError(f"invalid .proto file: {why}") from None


class _Parser:
    """A recursive descent parser of ``.proto`` files.

    Raises IndexError if the file ends too early, and ValueError for other errors.
    """

    def __init__(self, name: str, text: str) -> None:
        self.file = descriptor_pb2.FileDescriptorProto(name=name)
        self._tokens = list(tokens(text))
        self._at = 0
        while self._at < len(self._tokens):
            self._file_part()

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _must(self, wanted: str) -> None:
        found = self._next()
        if found != wanted:
            raise ValueError(f"{found!r} instead of {wanted!r}")

    def _if(self, wanted: str) -> bool:
        found = self._tokens[self._at] == wanted
        self._at += found
        return found

    def _skip(self) -> None:
        """Skip a statement up to its semicolon, or to the end of its block."""
        while (token := self._next()) != ";":
            if token in _CLOSING:
                self._skip_to(_CLOSING[token])
            if token == "{":
                return

    def _skip_to(self, closing: str) -> None:
        while (token := self._next()) != closing:
            if token in _CLOSING:
                self._skip_to(_CLOSING[token])

    def _option(self, options: Any) -> None:
        """Skip an option, but set the features of editions, which determine how messages are encoded."""
        begin = self._at
        self._skip()
        _set_features(options, self._tokens[begin : self._at])

    def _file_part(self) -> None:
        """Parse the next statement of the file. Statements that the descriptor does not need are skipped."""
        word = self._next()
        if word in _VISIBILITIES:
            word = self._next()
        if word == "message":
            self._message(self.file.message_type.add())
        elif word == "enum":
            self._enum(self.file.enum_type.add())
        elif word in ("syntax", "edition"):
            self._must("=")
            said = self._next()[1:-1]
            self.file.syntax = said if word == "syntax" else "editions"
            if word == "edition":
                self.file.edition = descriptor_pb2.Edition.Value(f"EDITION_{said}")
        elif word == "package":
            self.file.package = self._next()
        elif word == "import":
            kind = self._next()
            self.file.dependency.append((self._next() if kind in ("public", "weak", "option") else kind)[1:-1])
        elif word == "option":
            self._option(self.file.options)
        elif word != ";":
            self._skip()

    def _message(self, made: descriptor_pb2.DescriptorProto) -> None:
        """Parse a message, after the word ``message``, into ``made``."""
        made.name = self._next()
        self._must("{")
        while not self._if("}"):
            word = self._next()
            if word in _VISIBILITIES and self._tokens[self._at + 2] == "{":
                word = self._next()
            if word == "message" and self._tokens[self._at + 1] == "{":
                self._message(made.nested_type.add())
            elif word == "enum" and self._tokens[self._at + 1] == "{":
                self._enum(made.enum_type.add())
            elif word == "oneof" and self._tokens[self._at + 1] == "{":
                self._oneof(made)
            elif word == "option":
                self._option(made.options)
            elif word in ("reserved", "extensions", "extend"):
                self._skip()
            elif word != ";":
                self._field(made, word)
        # The synthetic oneofs of optional proto3 fields must follow all other oneofs.
        for field in made.field:
            if field.proto3_optional:
                field.oneof_index = len(made.oneof_decl)
                made.oneof_decl.add(name=f"_{field.name}")

    def _oneof(self, made: descriptor_pb2.DescriptorProto) -> None:
        index = len(made.oneof_decl)
        made.oneof_decl.add(name=self._next())
        self._must("{")
        while not self._if("}"):
            word = self._next()
            if word == "option":
                self._skip()
            elif word != ";":
                self._field(made, word).oneof_index = index

    def _field(self, made: descriptor_pb2.DescriptorProto, word: str) -> descriptor_pb2.FieldDescriptorProto:
        field = made.field.add(label=_FIELD.LABEL_OPTIONAL)
        if word in _LABELS:
            field.label = _LABELS[word]
            field.proto3_optional = word == "optional" and self.file.syntax == "proto3"
            word = self._next()
        if word == "group":
            raise ValueError("it contains a group, which only generated classes can read")
        if word == "map" and self._if("<"):
            self._map(made, field)
        else:
            _set_type(field, word)
            field.name = self._next()
        self._must("=")
        field.number = _integer(self._next())
        self._field_options(field)
        return field

    def _map(self, made: descriptor_pb2.DescriptorProto, field: descriptor_pb2.FieldDescriptorProto) -> None:
        key = self._next()
        self._must(",")
        value = self._next()
        self._must(">")
        field.name = self._next()
        entry = made.nested_type.add(name=f"{_camel(field.name)}Entry")
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", key), ("value", value)), 1):
            _set_type(entry.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL), kind)
        field.label = _FIELD.LABEL_REPEATED
        field.type_name = entry.name
        field.type = _FIELD.TYPE_MESSAGE

    def _field_options(self, field: descriptor_pb2.FieldDescriptorProto) -> None:
        if not self._if("["):
            return self._must(";")
        begin = self._at
        self._skip_to("]")
        given = self._tokens[begin : self._at]
        _set_features(field.options, given)
        for at, name in enumerate(given[:-2]):
            if name == "json_name" and given[at + 1] == "=":
                field.json_name = given[at + 2][1:-1]
        return self._must(";")

    def _enum(self, made: descriptor_pb2.EnumDescriptorProto) -> None:
        made.name = self._next()
        self._must("{")
        while not self._if("}"):
            word = self._next()
            if word == "option" and self._tokens[self._at] != "=":
                self._option(made.options)
            elif word == "reserved" and self._tokens[self._at] != "=":
                self._skip()
            elif word != ";":
                self._must("=")
                sign = -1 if self._if("-") else 1
                made.value.add(name=word, number=sign * _integer(self._next()))
                self._skip()
        made.options.allow_alias = len({value.number for value in made.value}) < len(made.value)


_FEATURES: dict[str, Any] = {
    f"features.{field.name}": field for field in descriptor_pb2.FeatureSet.DESCRIPTOR.fields if field.enum_type
}


def _set_features(options: Any, given: Sequence[str]) -> None:
    """Set the features that are assigned in these tokens."""
    for name, equals, value in zip(given, given[1:], given[2:], strict=False):
        feature = _FEATURES.get(name) if equals == "=" else None
        if feature is not None and value in feature.enum_type.values_by_name:
            setattr(options.features, feature.name, feature.enum_type.values_by_name[value].number)


def _set_type(field: descriptor_pb2.FieldDescriptorProto, name: str) -> None:
    """Set the type of a field. The descriptor pool resolves the names of messages and enums later."""
    if name in _SCALARS:
        field.type = _SCALARS[name]
    else:
        field.type_name = name


def _integer(text: str) -> int:
    return int(text, 8 if text[:1] == "0" and text.isdigit() else 0)


def _camel(name: str) -> str:
    return "".join(each[:1].upper() + each[1:] for each in name.split("_"))
