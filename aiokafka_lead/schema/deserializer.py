"""`SchemaDeserializer`, which converts the bytes of keys and values to objects with the schemas in a registry."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import anyio

from .._options.checks import boolean
from .._options.serialization import Prepared
from ..errors import InvalidSchemaError, KafkaError, SchemaContentError, SchemaNotReadyError
from ..errors.base import own_copy, without_frames
from ..types import Headers, SerializationContext
from .cache import MAX_ABSENT
from .framing import id_of, key_of
from .making import Making, making
from .types import ResolvedSchema, SchemaSource, usable

T = TypeVar("T", covariant=True)

AT_ONCE = 8
"""Maximum number of schemas that are requested at the same time."""


class Reader(Protocol):
    """Reads the data that was written with one particular schema."""

    def read(self, content: bytes, at: int, indexes: bytes | None) -> Any:
        """Read the data at position ``at``.

        ``indexes`` are the bytes after the GUID in the header, or None if the schema is identified by a prefix. Raises
        `SchemaContentError` if the data does not match the schema.
        """
        ...


def of_schema(error: SchemaContentError, key: bytes) -> SchemaContentError:
    """Return a copy of the error that names the schema identified by ``key``."""
    made = SchemaContentError(f"schema {id_of(key)}: {error.message}")
    made.unquoted = f"schema {id_of(key)}: {error.unquoted}"
    made.schema_id = id_of(key)
    return made


class SchemaDeserializer(Prepared, Generic[T]):
    """Deserializer for a consumer's ``key_deserializer`` or ``value_deserializer``.

    `SchemaRegistry.deserializer` creates it and describes its options. To use it without a consumer, call `decode`.

    Before a consumer returns a batch, the deserializer requests the unknown schemas of its records, each once. A record
    that does not match its schema, or whose schema does not exist, raises a `RecordDeserializationError` when the
    consumer reaches it. If the registry is unreachable, the cause of this error is ``retriable``, and the next call
    tries the record again.

    With ``described``, Protobuf messages have classes that are built from the schema, and need no generated module.
    """

    def __init__(
        self,
        registry: SchemaSource,
        into: Any = None,
        *,
        schema: Any = None,
        validate: bool = True,
        described: bool = False,
    ) -> None:
        self._registry = registry
        self._making: Making = making(into)
        self._as = schema
        self._validate = boolean("validate", validate)
        self._described = described
        self._readers: dict[bytes, Reader] = {}
        self._troubles: dict[bytes, tuple[KafkaError, float, int]] = {}
        """For each unusable schema, the error, its expiry in monotonic seconds, and the value of `registrations` at the
        time.
        """

    def __repr__(self) -> str:
        return f"SchemaDeserializer({self._registry!r})"

    async def decode(self, content: bytes | None, *, headers: Headers = (), is_key: bool = False) -> T | None:
        """Return the object for the bytes of a key or value, or None for None.

        ``headers`` are the record's headers, which may identify the schema. Raises `SchemaContentError` if the bytes do
        not match their schema, and the errors of `SchemaRegistry.schema`.
        """
        if content is None:
            return None
        waiting = self.prepare((content,), (headers,), "", is_key)
        if waiting is not None:
            await waiting
        return self(content, SerializationContext("", headers, is_key))

    def prepare(
        self, contents: Sequence[bytes | None], headers: Sequence[Headers], topic: str, is_key: bool
    ) -> Awaitable[None] | None:
        """Return an awaitable that requests the unknown schemas of these records, or None if all are known."""
        missing: dict[bytes, None] = {}
        readers = self._readers
        for content, some in zip(contents, headers, strict=True):
            if content is None:
                continue
            if not some and content[:5] in readers:
                continue
            try:
                key, _ = key_of(content, some, is_key)
            except SchemaContentError:
                continue  # raised later, by the call for this content
            if key not in readers and self._is_due(key):
                missing[key] = None
        return self._resolve(list(missing)) if missing else None

    def __call__(self, content: bytes, context: SerializationContext, /) -> T:
        """Return the object for a key or value. Raises `SchemaNotReadyError` if `prepare` has not been awaited."""
        key, indexes = key_of(content, context.headers, context.is_key)
        reader = self._readers.get(key)
        if reader is None:
            trouble = self._troubles.get(key)
            if trouble is not None:
                raise own_copy(trouble[0])
            raise SchemaNotReadyError(f"schema {id_of(key)} has not been requested yet; use await decode()")
        try:
            made: T = self._making(reader.read(content, 0 if indexes is not None else len(key), indexes))
        except SchemaContentError as error:
            raise of_schema(error, key) from (error.__cause__ or error)
        return made

    def _is_due(self, key: bytes) -> bool:
        trouble = self._troubles.get(key)
        return trouble is None or time.monotonic() >= trouble[1] or self._registry.registrations != trouble[2]

    async def _resolve(self, keys: list[bytes]) -> None:
        limit = anyio.Semaphore(AT_ONCE)

        async def one(key: bytes) -> None:
            async with limit:
                await self._resolve_one(key)

        if len(keys) == 1:
            return await self._resolve_one(keys[0])
        async with anyio.create_task_group() as tasks:
            for key in keys:
                tasks.start_soon(one, key)

    async def _resolve_one(self, key: bytes) -> None:
        registrations = self._registry.registrations
        try:
            registered = await self._registry.schema(id_of(key))
            resolved = await usable(self._registry, registered, "READ")
            if key not in self._readers:  # built for another call in the meantime
                self._readers[key] = await self._reader(resolved)
        except KafkaError as error:
            if isinstance(error, InvalidSchemaError):
                error = InvalidSchemaError(f"schema {id_of(key)}: {error.message}")
            at_fault = getattr(error, "at_fault", False)  # if True, the registry's cache delays the next request
            until = time.monotonic() + (0 if error.retriable or at_fault else self._registry.absent_s)
            self._troubles.pop(key, None)
            while len(self._troubles) >= MAX_ABSENT:
                del self._troubles[next(iter(self._troubles))]
            self._troubles[key] = (without_frames(error), until, registrations)
        else:
            self._troubles.pop(key, None)

    async def _reader(self, resolved: ResolvedSchema) -> Reader:
        kind = resolved.schema.type
        if self._as is not None and kind != "AVRO":
            raise InvalidSchemaError(f"the option schema is for Avro, but the data has a schema of type {kind}")
        if kind == "AVRO":
            from .avro import AvroReader, avro_schema

            wanted = None if self._as is None else avro_schema(self._as)
            reader = None if wanted is None else await self._registry.resolved(wanted)
            return AvroReader(resolved, reader, named=self._making.by_name)
        if kind == "JSON":
            from .json_schema import JsonReader

            return JsonReader(resolved, validate=self._validate)
        from .protobuf import ProtobufReader

        return ProtobufReader(resolved, self._making.messages, described=self._described)
