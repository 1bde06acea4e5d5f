"""`SchemaSerializer`: converts the application's keys and values to bytes that identify their schema."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypedDict, TypeVar, cast

from .._options.checks import boolean, one_of, text
from .._options.serialization import Prepared, WithHeaders
from ..errors import ConfigError, ConfigTypeError, InvalidSchemaError, SchemaNotReadyError, SchemaRegistryError
from ..types import Header, Headers, SerializationContext
from .framing import KEY_HEADER, VALUE_HEADER, header_of, prefix_of
from .resolved import ResolvedSchema
from .source import SchemaSource, usable
from .types import RegisteredSchema, Schema

SubjectOf = Callable[[str, bool, str | None], str]
"""Takes the topic, True for the key's schema, and the record's full name or None; returns the subject."""

Subject = Literal["topic", "record", "topic-record"] | SubjectOf
"""The name of a strategy, or a custom strategy."""


def subject_strategy(given: Any) -> SubjectOf:
    """Return the function for an option's value; raise `ConfigError`."""
    if inspect.iscoroutinefunction(given):
        raise ConfigTypeError("subject must be a plain function, not an async one")
    if callable(given):
        return cast(SubjectOf, given)
    found = _STRATEGIES.get(given) if isinstance(given, str) else None
    if found is None:
        names = ", ".join(map(repr, _STRATEGIES))
        raise ConfigError(f"subject must be one of {names}, or a function, not {given!r}")
    return found


def _topic(topic: str, is_key: bool, _record: str | None) -> str:
    return f"{topic}-key" if is_key else f"{topic}-value"


def _record(_topic: str, _is_key: bool, record: str | None) -> str:
    if record is None:
        raise InvalidSchemaError("the schema has no name (a record's, a title), which its subject is to be made of")
    return record


def _topic_record(topic: str, is_key: bool, record: str | None) -> str:
    return f"{topic}-{_record(topic, is_key, record)}"


_STRATEGIES: dict[str, SubjectOf] = {"topic": _topic, "record": _record, "topic-record": _topic_record}


T = TypeVar("T", contravariant=True)


class Writer(Protocol):
    """Writes values with a certain schema."""

    def write(self, value: Any, before: bytes) -> bytes:
        """Return the value's bytes, prefixed by ``before``. Raises `SchemaContentError`."""
        ...

    @property
    def indexes(self) -> bytes:
        """Bytes after the schema's identification: Protobuf's path to the message type."""
        ...


class Format(Protocol):
    """A serializer's schema, and the writers for it."""

    @property
    def schema(self) -> Schema | None:
        """The schema, or None if it is the subject's latest."""
        ...

    @property
    def record_name(self) -> str | None:
        """Full name of the described type, for `SubjectOf`."""
        ...

    def writer(self, resolved: ResolvedSchema) -> Writer:
        """Return a writer for this schema; raise `InvalidSchemaError`."""
        ...

    async def prepared(self, registry: SchemaSource, *, register: bool) -> Schema | None:
        """Return the schema with its references, which are registered first if ``register`` is set."""
        ...


class _Ready(NamedTuple):
    """The schema and writer for a subject's values."""

    writer: Writer
    before: bytes
    header: Header | None
    subject: str
    registered: RegisteredSchema
    until: float
    """Time of the next request for the subject's latest version, in monotonic seconds."""


class SerializerOptions(TypedDict, total=False):
    """The options of `SchemaSerializer`; see there."""

    subject: Subject
    auto_register: bool
    use_latest: bool
    normalize: bool
    ids_in: Literal["content", "headers"]


class SchemaSerializer(Prepared, Generic[T]):
    """Serializer for ``key_serializer`` and ``value_serializer``; call `encode` to use it without a producer.

    ``subject`` names the subject: "topic" (``orders-value``), "record" (the schema's name), "topic-record" (both), or a
    function of the topic, ``is_key`` and the schema's name. The schema must be registered under the subject; it is
    looked up once (``normalize`` ignores small differences in notation). With ``auto_register`` a missing schema is
    registered. With ``use_latest`` values are written with the subject's latest version.

    ``ids_in`` is the place of the schema's identification: "content", an id before the bytes, or "headers", a GUID in a
    header (Confluent's registry from 8.0 on).
    """

    def __init__(
        self,
        registry: SchemaSource,
        form: Format,
        *,
        subject: Subject = "topic",
        auto_register: bool = False,
        use_latest: bool = False,
        normalize: bool = False,
        ids_in: Literal["content", "headers"] = "content",
    ) -> None:
        self._registry = registry
        self._format = form
        self._subject_of = subject_strategy(subject)
        self._register = boolean("auto_register", auto_register)
        self._use_latest = boolean("use_latest", use_latest) or form.schema is None
        if auto_register and self._use_latest:
            raise ConfigError("auto_register is of no use where the subject's latest schema is taken")
        self._normalize = boolean("normalize", normalize)
        self._in_headers = one_of("content", "headers")("ids_in", ids_in) == "headers"
        self._ready: dict[tuple[str, bool], _Ready] = {}

    def __repr__(self) -> str:
        return f"SchemaSerializer({self._registry!r})"

    async def encode(self, value: T, topic: str, *, is_key: bool = False) -> bytes:
        """Return the bytes of a value, including the schema's id.

        Raises `SchemaContentError` if the value does not match the schema, the registry's errors, and `ConfigError` if
        ``ids_in`` is "headers".
        """
        if self._in_headers:
            raise ConfigError('ids_in="headers" needs encode_with_headers()')
        return (await self.encode_with_headers(value, topic, is_key=is_key)).content

    async def encode_with_headers(self, value: T, topic: str, *, is_key: bool = False) -> WithHeaders:
        """Return the bytes of a value, with the header that identifies its schema if ``ids_in`` is "headers".

        Raises `SchemaContentError` if the value does not match the schema, and the registry's errors.
        """
        await self.ready(topic, is_key=is_key)
        made = self(value, SerializationContext(topic, (), is_key))
        return made if isinstance(made, WithHeaders) else WithHeaders(made, ())

    async def ready(self, topic: str, *, is_key: bool = False) -> None:
        """Look up (or register) the schema of this topic's values, or of its keys with ``is_key``, and wait for it.

        `Producer.send_nowait` can be used afterwards. Raises the registry's errors.
        """
        waiting = self.prepare((), (), topic, is_key)
        if waiting is not None:
            await waiting

    def prepare(
        self, contents: Sequence[Any], headers: Sequence[Headers], topic: str, is_key: bool
    ) -> Awaitable[None] | None:
        """Request the schema from the registry, unless it is known."""
        ready = self._ready.get((topic, is_key))
        if ready is None:
            return self._find(topic, is_key)
        if not self._use_latest or (
            time.monotonic() < ready.until and self._registry.is_latest(ready.subject, ready.registered)
        ):
            return None
        return self._find_latest(topic, is_key, ready)

    def __call__(self, value: T, context: SerializationContext, /) -> bytes | WithHeaders:
        """Return the bytes of a value; raise `SchemaNotReadyError` without a preceding `prepare`."""
        ready = self._ready.get((context.topic, context.is_key))
        if ready is None:
            text = f"the schema for {context.topic} has not been asked for: await ready({context.topic!r}), or send()"
            raise SchemaNotReadyError(text)
        content = ready.writer.write(value, ready.before)
        return content if ready.header is None else WithHeaders(content, (ready.header,))

    async def _find_latest(self, topic: str, is_key: bool, ready: _Ready) -> None:
        registered, until = await self._registry.latest_known(ready.subject)
        if registered == ready.registered:
            self._ready[topic, is_key] = ready._replace(registered=registered, until=until)
        else:
            await self._find(topic, is_key)

    async def _find(self, topic: str, is_key: bool) -> None:
        registry = self._registry
        subject = text("the subject", self._subject_of(topic, is_key, self._format.record_name))
        until = math.inf
        if self._use_latest:
            registered, until = await registry.latest_known(subject)
        else:
            schema = await self._format.prepared(registry, register=self._register)
            assert schema is not None  # otherwise the latest is used
            if self._register:
                registered = await registry.register(subject, schema, normalize=self._normalize)
            else:
                registered = await registry.lookup(subject, schema, normalize=self._normalize)
        resolved = await usable(registry, registered, "WRITE")
        ready = self._ready.get((topic, is_key))
        if ready is not None and ready.registered is registered:
            return  # another call has built the writer in the meantime
        writer = self._format.writer(resolved)
        if not self._in_headers:
            before = prefix_of(_known_id(registered, subject)) + writer.indexes
            self._ready[topic, is_key] = _Ready(writer, before, None, subject, registered, until)
            return
        if registered.guid is None:
            raise SchemaRegistryError(f'the registry gives no GUID for {subject}, which ids_in="headers" needs')
        name = KEY_HEADER if is_key else VALUE_HEADER
        header = (name, header_of(registered.guid) + writer.indexes)
        self._ready[topic, is_key] = _Ready(writer, b"", header, subject, registered, until)


def _known_id(registered: RegisteredSchema, subject: str) -> int:
    if registered.id is None:
        raise SchemaRegistryError(f"the registry gives no id for {subject}")
    return registered.id
