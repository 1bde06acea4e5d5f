"""Reader and writer of Protobuf messages, with Google's package (the ``protobuf`` extra)."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import ConfigError, ConfigTypeError, InvalidSchemaError, SchemaContentError
from ..errors.shown import shown
from .framing import indexes_bytes, read_indexes
from .types import ResolvedSchema, Schema, SchemaReference, SchemaSource
from .values import is_deeper, is_message_class

try:
    from google.protobuf import descriptor_pb2, descriptor_pool
    from google.protobuf.message import DecodeError, EncodeError, Message
    from google.protobuf.message_factory import GetMessageClass

    from .proto_file import DescribedMessages, message_names
    from .proto_text import NoText, proto_text
except ImportError:
    raise ConfigError("Protobuf needs Google's package; install with: pip install 'aiokafka-lead[protobuf]'") from None

_BUILT_IN = ("google/protobuf/", "google/type/", "confluent/")
"""Imported files that every registry and every Protobuf library has, so that they need no reference."""

DEPTH_MAX = 101
"""Maximum nesting of messages. No library reads more, and Google's crashes if it writes much deeper messages."""


class ProtobufReader:
    """Reads messages that were written with a schema.

    The classes of the messages are the application's ``classes``, or if there are none, imported generated classes.
    With ``described``, they are built from the schema instead.
    """

    def __init__(self, writer: ResolvedSchema, classes: tuple[Any, ...], *, described: bool = False) -> None:
        self._names = message_names(writer.schema.text)
        self._described = DescribedMessages(writer) if described else None
        self._by_name = {kind.DESCRIPTOR.full_name: kind for kind in classes}
        self._kinds: dict[tuple[int, ...], Any] = {}

    def read(self, content: bytes, at: int, indexes: bytes | None) -> Any:
        if indexes is None:
            path, at = read_indexes(content, at)
        else:
            path, _ = read_indexes(indexes, 0)
        kind = self._kinds.get(path)
        if kind is None:
            kind = self._kinds[path] = self._kind(path)
        try:
            return kind.FromString(content[at:])
        except DecodeError as error:
            name = kind.DESCRIPTOR.full_name
            raise SchemaContentError(f"the bytes are not a message {name}: {shown(str(error))}") from error

    def _kind(self, path: tuple[int, ...]) -> Any:
        name = self._names.get(path)
        if name is None:
            raise SchemaContentError(f"the schema has no message type at {list(path)}")
        if self._described is not None:
            return self._described.kind(name)
        if self._by_name:
            found = self._by_name.get(name)
            if found is None:
                raise SchemaContentError(f"the message has the type {name}, not {' or '.join(self._by_name)}")
            return found
        try:
            return GetMessageClass(descriptor_pool.Default().FindMessageTypeByName(name))
        except KeyError:
            text = f"the class of message type {name} is unknown; pass it as into=, or import its generated module"
            raise SchemaContentError(text) from None


class ProtobufWriter:
    """Writes messages of one class, with a schema that contains its message type."""

    def __init__(self, kind: Any, schema: Schema) -> None:
        self._kind = kind
        self._recursive = _is_recursive(kind.DESCRIPTOR)
        name = kind.DESCRIPTOR.full_name
        path = next((path for path, each in message_names(schema.text).items() if each == name), None)
        if path is None:
            raise InvalidSchemaError(f"the subject's schema has no message type {name}")
        self.indexes = indexes_bytes(path)

    def write(self, value: Any, before: bytes) -> bytes:
        if not isinstance(value, self._kind):
            raise SchemaContentError(f"the value must be a {self._kind.__name__}, not {type(value).__name__}")
        if self._recursive and is_deeper(value, DEPTH_MAX, _messages_in):
            raise SchemaContentError(f"the message is nested more than {DEPTH_MAX} levels deep")
        try:
            return before + bytes(value.SerializeToString())
        except EncodeError as error:
            raise SchemaContentError(f"the message cannot be written: {shown(str(error))}") from error


def _is_recursive(kind: Any) -> bool:
    """Return True if messages of this type may directly or indirectly contain messages of the same type."""
    done: set[str] = set()
    within = [(kind.full_name, iter(kind.fields))]
    while within:
        name, fields = within[-1]
        inner = next((field.message_type for field in fields if field.message_type is not None), None)
        if inner is None:
            done.add(name)
            within.pop()
        elif any(inner.full_name == outer for outer, _ in within):
            return True
        elif inner.full_name not in done:
            within.append((inner.full_name, iter(inner.fields)))
    return False


def _messages_in(message: Any) -> Iterator[Any]:
    """Yield the message and map types in a message, or the message types in a map."""
    if not isinstance(message, Message):
        yield from (each for each in message.values() if isinstance(each, Message))
        return
    for _, content in message.ListFields():
        if isinstance(content, (Message, Mapping)):
            yield content
        elif not isinstance(content, (str, bytes, int, float)):
            yield from (each for each in content if isinstance(each, Message))


class ProtobufFormat:
    """The format of a serializer for a message class. The file that defines the class is the schema."""

    def __init__(self, message: Any, text: str | None = None) -> None:
        """Create a format. ``text`` is the ``.proto`` file from which the class was built, without references."""
        if not is_message_class(message):
            raise ConfigTypeError(f"message must be a class of Protobuf messages, not {message!r:.100}")
        self.kind = message
        self._given = None if text is None else Schema(text, "PROTOBUF")
        self.record_name: str = message.DESCRIPTOR.full_name
        self.schema = self._given or _schema_of(message.DESCRIPTOR.file, ())

    def writer(self, resolved: ResolvedSchema) -> ProtobufWriter:
        if resolved.schema.type != "PROTOBUF":
            raise InvalidSchemaError(
                f"the latest schema of the subject has the type {resolved.schema.type}, not PROTOBUF"
            )
        return ProtobufWriter(self.kind, resolved.schema)

    async def prepared(self, registry: SchemaSource, *, register: bool) -> Schema | None:
        return self._given or await _with_imports(self.kind.DESCRIPTOR.file, registry, register=register)


def described_format(resolved: ResolvedSchema, name: str, *, is_latest: bool) -> ProtobufFormat:
    """Return the format for a message type in a schema, without a generated class.

    ``name`` is the full name of the type, or empty for the first type in the schema. ``is_latest`` means that the
    schema is the latest version of the subject, so it is already registered. Raises `InvalidSchemaError` if the schema
    has no such type.
    """
    names = message_names(resolved.schema.text)
    wanted = name or names.get((0,), "")
    if wanted not in names.values():
        known = f" {shown(wanted)}; its types are {', '.join(names.values())}" if names else ""
        raise InvalidSchemaError(f"the schema has no message type{known}")
    return ProtobufFormat(DescribedMessages(resolved).kind(wanted), None if is_latest else resolved.schema.text)


async def _with_imports(file: Any, registry: SchemaSource, *, register: bool) -> Schema:
    """Return the schema of a file, with references for its imports.

    The subject of an imported file is its name. With ``register``, imported files are registered first.
    """
    references = []
    for each in file.dependencies:
        if each.name.startswith(_BUILT_IN):
            continue
        schema = await _with_imports(each, registry, register=register)
        if register:
            await registry.register(each.name, schema)
        found = await registry.lookup(each.name, schema)
        if found.version is None:
            raise InvalidSchemaError(f"the registry returned no version for {each.name}")
        references.append(SchemaReference(each.name, each.name, found.version))
    return _schema_of(file, tuple(references))


def _schema_of(file: Any, references: tuple[SchemaReference, ...]) -> Schema:
    """Return the schema of a file as ``.proto`` text, which every registry and client accepts.

    If `proto_text` cannot write the file, the schema is the descriptor in base64. Confluent's registry converts it to
    text, but Apicurio's Java clients cannot read it.
    """
    described = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(described)
    try:
        text = proto_text(described)
    except NoText:
        text = base64.b64encode(described.SerializeToString()).decode()
    return Schema(text, "PROTOBUF", references)
