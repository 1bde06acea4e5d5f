"""`SchemaSerializer`, which converts keys and values to bytes that identify their schema."""

from __future__ import annotations

import inspect
import math
import struct
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypedDict, TypeVar, cast

from .. import errors
from .._options.checks import boolean, one_of, text
from .._options.serialization import Prepared, WithHeaders
from ..types import Header, Headers, SerializationContext
from .framing import KEY_HEADER, VALUE_HEADER, header_of, prefix_of
from .types import RegisteredSchema, ResolvedSchema, Schema, SchemaSource, usable

SubjectOf = Callable[[str, bool, str | None], str]
"""Function that returns the subject for a topic, True for keys, and the schema's full name or None."""

Subject = Literal["topic", "record", "topic-record"] | SubjectOf
"""Name of a strategy for subjects, or a function; see `SchemaSerializer`."""


def subject_strategy(given: Any) -> SubjectOf:
    """Return the function for the option ``subject``.

    Raises `ConfigError` or `ConfigTypeError` for an invalid value.
    """
    if inspect.iscoroutinefunction(given):
        raise errors.ConfigTypeError("subject must not be an async function")
    if callable(given):
        return cast(SubjectOf, given)
    found = _STRATEGIES.get(given) if isinstance(given, str) else None
    if found is None:
        names = ", ".join(map(repr, _STRATEGIES))
        raise errors.ConfigError(f"subject must be one of {names}, or a function, not {given!r}")
    return found


def _topic(topic: str, is_key: bool, _record: str | None) -> str:
    return f"{topic}-key" if is_key else f"{topic}-value"


def _record(_topic: str, _is_key: bool, record: str | None) -> str:
    if record is None:
        raise errors.InvalidSchemaError(
            "the schema has no name (of a record, or a title), from which to derive the subject"
        )
    return record


def _topic_record(topic: str, is_key: bool, record: str | None) -> str:
    return f"{topic}-{_record(topic, is_key, record)}"


_STRATEGIES: dict[str, SubjectOf] = {"topic": _topic, "record": _record, "topic-record": _topic_record}


T = TypeVar("T", contravariant=True)


class Writer(Protocol):
    """Writes values with one particular schema."""

    def write(self, value: Any, before: bytes) -> bytes:
        """Return ``before`` followed by the bytes of the value.

        Raises `SchemaContentError` if the value does not match the schema.
        """
        ...

    @property
    def indexes(self) -> bytes:
        """Bytes after the schema's id: the path to the message type in Protobuf, empty in other formats."""
        ...


class Format(Protocol):
    """The schema of a serializer, for which it creates writers."""

    @property
    def schema(self) -> Schema | None:
        """The schema, or None for the latest version of the subject."""
        ...

    @property
    def record_name(self) -> str | None:
        """Full name of the schema's type, for `SubjectOf`."""
        ...

    def writer(self, resolved: ResolvedSchema) -> Writer:
        """Return a writer for this schema. Raises `InvalidSchemaError` if the schema cannot be used."""
        ...

    async def prepared(self, registry: SchemaSource, *, register: bool) -> Schema | None:
        """Return the schema with its references. With ``register``, first register the referenced schemas."""
        ...


class _Ready(NamedTuple):
    """The schema and the writer for the keys or values of a topic."""

    writer: Writer
    before: bytes
    header: Header | None
    subject: str
    registered: RegisteredSchema
    until: float
    """Monotonic time of the next request for the latest version of the subject."""


class SerializerOptions(TypedDict, total=False):
    """Options of `SchemaSerializer`, whose docstring describes them."""

    subject: Subject
    auto_register: bool
    use_latest: bool
    normalize: bool
    ids_in: Literal["content", "headers"]


class SchemaSerializer(Prepared, Generic[T]):
    """Serializer for a producer's ``key_serializer`` or ``value_serializer``.

    Methods of `SchemaRegistry`, such as `SchemaRegistry.avro_serializer`, create it. To use it without a producer, call
    `encode`. The options are:

    - ``subject`` ("topic"): strategy for the subject's name. "topic" gives for example ``orders-value``, "record" the
      full name of the schema, and "topic-record" both. A function takes the topic, ``is_key`` and the name of the
      schema or None, and returns the subject.
    - ``auto_register`` (False): register the schema if the subject does not have it. Otherwise a missing schema raises
      `SchemaNotFoundError`.
    - ``use_latest`` (False): write with the latest version of the subject instead.
    - ``normalize`` (False): ignore small differences in notation when the schema is looked up or registered.
    - ``ids_in`` ("content"): place of the schema's identification. "content" is an id before the bytes, and "headers" a
      GUID in a header, which needs Confluent's registry 8.0 or later.

    The schema is looked up once. Raises `ConfigError` or `ConfigTypeError` for an invalid option.
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
            raise errors.ConfigError(
                "auto_register needs a schema; the latest schema of the subject is already registered"
            )
        self._normalize = boolean("normalize", normalize)
        self._in_headers = one_of("content", "headers")("ids_in", ids_in) == "headers"
        self._ready: dict[tuple[str, bool], _Ready] = {}

    def __repr__(self) -> str:
        return f"SchemaSerializer({self._registry!r})"

    async def encode(self, value: T, topic: str, *, is_key: bool = False) -> bytes:
        """Return the bytes of a key or value, including the id of the schema.

        ``topic`` and ``is_key`` determine the subject. The first call for a subject looks up or registers its schema.

        Raises `SchemaContentError` if the value does not match the schema, `ConfigError` if ``ids_in`` is "headers"
        (call `encode_with_headers`), and the errors of `ready`.
        """
        if self._in_headers:
            raise errors.ConfigError('with ids_in="headers", use encode_with_headers()')
        return (await self.encode_with_headers(value, topic, is_key=is_key)).content

    async def encode_with_headers(self, value: T, topic: str, *, is_key: bool = False) -> WithHeaders:
        """Return the bytes of a key or value, and the headers that identify its schema.

        The headers are empty unless ``ids_in`` is "headers". ``topic`` and ``is_key`` determine the subject. Raises
        `SchemaContentError` if the value does not match the schema, and the errors of `ready`.
        """
        await self.ready(topic, is_key=is_key)
        made = self(value, SerializationContext(topic, (), is_key))
        return made if isinstance(made, WithHeaders) else WithHeaders(made, ())

    async def ready(self, topic: str, *, is_key: bool = False) -> None:
        """Look up or register the schema for the values of a topic, or with ``is_key`` for its keys.

        `Producer.send_nowait` needs this once before the first call, because it cannot wait for the registry. Raises
        `SchemaNotFoundError` if the subject does not have the schema and ``auto_register`` is False,
        `IncompatibleSchemaError` if it cannot be registered, and the other errors of `SchemaRegistry.schema`.
        """
        waiting = self.prepare((), (), topic, is_key)
        if waiting is not None:
            await waiting

    def prepare(
        self, contents: Sequence[Any], headers: Sequence[Headers], topic: str, is_key: bool
    ) -> Awaitable[None] | None:
        """Return an awaitable that requests the schema, or None if it is known."""
        ready = self._ready.get((topic, is_key))
        if ready is None:
            return self._find(topic, is_key)
        if not self._use_latest or (
            time.monotonic() < ready.until and self._registry.is_latest(ready.subject, ready.registered)
        ):
            return None
        return self._find_latest(topic, is_key, ready)

    def __call__(self, value: T, context: SerializationContext, /) -> bytes | WithHeaders:
        """Return the bytes of a value. Raises `SchemaNotReadyError` if `prepare` has not been awaited."""
        ready = self._ready.get((context.topic, context.is_key))
        if ready is None:
            text = (
                f"the schema for topic {context.topic!r} has not been requested yet; use await ready({context.topic!r})"
                " or await send()"
            )
            raise errors.SchemaNotReadyError(text)
        content = ready.writer.write(value, ready.before)
        return content if ready.header is None else WithHeaders(content, (ready.header,))

    async def _find_latest(self, topic: str, is_key: bool, ready: _Ready) -> None:
        registered, until = await self._registry.latest_known(ready.subject)
        if registered == ready.registered:
            self._ready[topic, is_key] = ready._replace(registered=registered, until=until)
        else:
            await self._find(topic, is_key)

    async def _find(self, topic: str, is_key: bool) -> None:
        """Get the schema of a topic's keys or values from the registry, and store its writer in ``_ready``."""
        registry = self._registry
        subject = text("the subject", self._subject_of(topic, is_key, self._format.record_name))
        until = math.inf
        if self._use_latest:
            registered, until = await registry.latest_known(subject)
        else:
            schema = await self._format.prepared(registry, register=self._register)
            assert schema is not None  # without a schema, _use_latest is True
            if self._register:
                registered = await registry.register(subject, schema, normalize=self._normalize)
            else:
                try:
                    registered = await registry.lookup(subject, schema, normalize=self._normalize)
                except errors.SchemaNotFoundError as error:
                    hint = f"{error.message}; register the schema for subject {subject!r}, or pass auto_register=True"
                    raise errors.SchemaNotFoundError(hint, status=error.status, error_code=error.error_code) from error
        resolved = await usable(registry, registered, "WRITE")
        ready = self._ready.get((topic, is_key))
        if ready is not None and ready.registered is registered:
            return  # a concurrent call has already built the writer
        writer = self._format.writer(resolved)
        if not self._in_headers:
            before = _framed(prefix_of, registered.id, "id", subject) + writer.indexes
            self._ready[topic, is_key] = _Ready(writer, before, None, subject, registered, until)
            return
        name = KEY_HEADER if is_key else VALUE_HEADER
        guid = _framed(header_of, registered.guid, 'GUID, which ids_in="headers" needs,', subject)
        header = (name, guid + writer.indexes)
        self._ready[topic, is_key] = _Ready(writer, b"", header, subject, registered, until)


def _framed(framing: Callable[[Any], bytes], name: int | str | None, what: str, subject: str) -> bytes:
    """Return the bytes for an id or GUID. Raises `SchemaRegistryError` if there is none, or it is invalid."""
    try:
        return framing(name)
    except (struct.error, AttributeError, TypeError, ValueError):
        found = "no" if name is None else "an invalid"
        raise errors.SchemaRegistryError(f"the registry returned {found} {what} for the schema of {subject}") from None
