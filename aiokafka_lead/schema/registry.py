"""`SchemaRegistry`, a client of a schema registry that also creates serializers and deserializers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, overload

import anyio

from .._options.checks import build, discreet, hide_secrets, instance, integer, text
from ..errors import ConfigError, IncompatibleSchemaError, InvalidSchemaError, SchemaNotFoundError, SchemaRegistryError
from .cache import Cache
from .deserializer import SchemaDeserializer
from .options import RegistryConfig, RegistryOptions
from .serializer import SchemaSerializer, SerializerOptions
from .transport import Query, Transport
from .types import (
    COMPATIBILITY_LEVELS,
    SCHEMA_TYPES,
    RegisteredSchema,
    ResolvedSchema,
    Schema,
    SchemaReference,
    SchemaRule,
    SchemaType,
    resolve,
)

if TYPE_CHECKING:
    from .columns import AvroColumns


_PHASES = ("domainRules", "encodingRules")


def schema_body(schema: Schema) -> dict[str, Any]:
    """Return the body of a request with a schema. The body has no type for Avro."""
    body: dict[str, Any] = {"schema": schema.text}
    if schema.type != "AVRO":
        body["schemaType"] = schema.type
    if schema.references:
        body["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version} for each in schema.references
        ]
    return body


def registered_of(
    content: Any,
    sent: Schema | None = None,
    *,
    schema_id: int | None = None,
    guid: str | None = None,
    subject: str | None = None,
) -> RegisteredSchema:
    """Return the schema in a response of the registry.

    The keyword arguments and ``sent``, the schema in the request, take precedence over the fields of the response.
    Raises `InvalidSchemaError` for an unknown type of schema, and `SchemaRegistryError` if the response is invalid.
    """
    if not isinstance(content, dict):
        raise SchemaRegistryError(f"the registry's answer is not a schema: {content!r:.200}")
    try:
        schema = sent if sent is not None else _schema(content)
        return RegisteredSchema(
            schema,
            schema_id if schema_id is not None else _optional(content, "id", int),
            guid if guid is not None else _optional(content, "guid", str),
            subject if subject is not None else _optional(content, "subject", str),
            _optional(content, "version", int),
            _rules(_optional(content, "ruleSet", dict) or {}),
        )
    except InvalidSchemaError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SchemaRegistryError(f"the registry's answer is not a schema ({error}): {content!r:.200}") from None


def _schema(content: dict[str, Any]) -> Schema:
    kind = content.get("schemaType") or "AVRO"
    if kind not in SCHEMA_TYPES:
        raise InvalidSchemaError(f"the schema has the type {kind!r:.50}, which this client does not support")
    references = tuple(
        SchemaReference(str(each["name"]), str(each["subject"]), int(each["version"]))
        for each in content.get("references") or ()
    )
    return Schema(content["schema"], cast(SchemaType, kind), references)


def _rules(given: dict[str, Any]) -> tuple[SchemaRule, ...]:
    every = [rule for phase in _PHASES for rule in _optional(given, phase, list) or ()]
    enabled = [rule for rule in every if not rule.get("disabled")]
    return tuple(SchemaRule(str(each["name"]), str(each.get("type")), _mode(each)) for each in enabled)


def _mode(rule: dict[str, Any]) -> str:
    return str(rule.get("mode") or "WRITEREAD").upper()


def _optional(content: dict[str, Any], name: str, kind: type) -> Any:
    value = content.get(name)
    if value is None or (isinstance(value, kind) and not isinstance(value, bool)):
        return value
    raise TypeError(f"{name} is {value!r:.50}")


def texts_of(content: Any) -> list[str]:
    """Return a response if it is a list of str. Raises `SchemaRegistryError` otherwise."""
    return _list_of(content, str)


def integers_of(content: Any) -> list[int]:
    """Return a response if it is a list of int. Raises `SchemaRegistryError` otherwise."""
    return _list_of(content, int)


def _list_of(content: Any, kind: type) -> list[Any]:
    if not isinstance(content, list) or not all(isinstance(each, kind) for each in content):
        raise SchemaRegistryError(f"the registry's answer is not a list of {kind.__name__}: {content!r:.200}")
    return content


T = TypeVar("T")

LAG_S = 0.25
"""Seconds until a missing schema is requested again, because a follower receives new schemas with a delay."""

STALE_AFTER_S = 0.25
"""Seconds to wait for the latest version before the known version is used."""

_SCHEMA = instance(Schema, "a Schema")
_SUBJECT = partial(text, "subject")
_VERSION = integer(1)
_Written = tuple[str, Schema, bool]
"""A subject, a schema, and the flag ``normalize``."""
_Version = tuple[str, int, bool]
"""A subject, a version, and True to include versions that were deleted but not permanently."""


class SchemaRegistry:
    """Client of a schema registry with Confluent's REST interface.

        registry = SchemaRegistry("https://registry.example.org", basic_auth=("orders", secret))
        producer = Producer(servers, value_serializer=registry.avro_serializer(ORDER))

    Supports the registries of Confluent, Apicurio (``/apis/ccompat/v7``) and Karapace. Times are in milliseconds.

    - ``urls``: URLs of the nodes of a registry, as a list or a comma-separated str. If a node does not answer, the next
      is tried.
    - ``basic_auth``: a user name and a password; or ``token_provider``: a token provider of `aiokafka_lead.oidc`.
    - ``headers``: additional HTTP headers of every request.
    - ``ssl_context``, or the clients' ``ssl_*`` options for files, for TLS.
    - ``allow_http`` (False): allow sending secrets to ``http://`` URLs.
    - ``request_timeout_ms`` (5000): time limit of a request; ``timeout_ms`` (30000): of a call with all its retries.
    - ``retry_backoff_ms`` (100) and ``retry_backoff_max_ms`` (2000): initial and maximum delay between retries.
    - ``latest_max_age_ms`` (300000): time until the latest version of a subject is requested again.
    - ``absent_max_age_ms`` (30000): time until a missing schema is requested again.
    - ``ignore_rules`` (False): write and read values without the rules of their schemas (Confluent's data contracts,
      for example field encryption). Otherwise schemas with rules raise `SchemaRulesError`, because this client cannot
      apply rules.

    Schemas are cached by id without a time limit, because the schema of an id never changes. A registry keeps no
    connections, needs no start or stop, and works on any event loop. Raises `ConfigError` or `ConfigTypeError` for an
    invalid argument.
    """

    @discreet
    def __init__(self, urls: str | Iterable[str], **options: Unpack[RegistryOptions]) -> None:
        given: dict[str, Any] = {"urls": urls, **options}
        hide_secrets(RegistryConfig, given)
        self._config = build(RegistryConfig, given)
        self._transport = Transport(self._config)
        self.absent_s = absent_s = self._config.absent_max_age_ms / 1000
        """Seconds until a missing schema is requested again."""
        self.ignore_rules = self._config.ignore_rules
        """True if values are written and read without the rules of their schemas."""
        self.registrations = 0
        """Number of registrations with this object. After a registration, missing schemas are requested again."""
        latest_s = self._config.latest_max_age_ms / 1000
        self._by_name: Cache[int | str, RegisteredSchema] = Cache(self._fetch_by_name, absent_s=absent_s)
        self._versions: Cache[_Version, RegisteredSchema] = Cache(self._fetch_version, absent_s=absent_s)
        self._latest: Cache[str, RegisteredSchema] = Cache(self._fetch_latest, absent_s=absent_s, kept_s=latest_s)
        self._looked_up: Cache[_Written, RegisteredSchema] = Cache(self._fetch_lookup, absent_s=absent_s)
        self._registered: Cache[_Written, RegisteredSchema] = Cache(self._register, absent_s=0)

    def __repr__(self) -> str:
        config = getattr(self, "_config", None)  # missing if the options were invalid
        return f"SchemaRegistry({','.join(config.urls) if config is not None else ''!r})"

    async def __aenter__(self) -> SchemaRegistry:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    # --- reading -----------------------------------------------------------------------------------------------------

    async def schema(self, name: int | str) -> RegisteredSchema:
        """Return the schema with an id (an int) or GUID (a str).

        A schema that was found is cached without a time limit; a missing schema is requested again after
        ``absent_max_age_ms``.

        Raises `SchemaNotFoundError` if the schema does not exist. Like every request, raises
        `SchemaRegistryUnavailableError` if no node answers within ``timeout_ms``, `SchemaRegistryAuthenticationError`
        if the registry rejects the login, or another `SchemaRegistryError`.
        """
        if isinstance(name, bool) or not isinstance(name, (int, str)):
            raise ConfigError(f"name must be an id (int) or a GUID (str), not {name!r}")
        return await self._by_name.get(name)

    async def version(self, subject: str, version: int) -> RegisteredSchema:
        """Return a version of a subject, with numbers from 1. Raises the errors of `schema`."""
        return await self._versions.get((_SUBJECT(subject), _VERSION("version", version), False))

    async def latest(self, subject: str) -> RegisteredSchema:
        """Return the latest version of a subject, at most ``latest_max_age_ms`` old. Raises the errors of `schema`."""
        return await self._latest.get(_SUBJECT(subject))

    async def latest_known(self, subject: str) -> tuple[RegisteredSchema, float]:
        """Return the latest version of a subject, and its expiry in monotonic seconds.

        If the registry does not answer, the version that was known before is returned. In this case, at most one call a
        second waits for the registry, for `STALE_AFTER_S` seconds. Without a known version, raises the errors of
        `schema`.
        """
        return await self._latest.known(_SUBJECT(subject), STALE_AFTER_S)

    def is_latest(self, subject: str, registered: RegisteredSchema) -> bool:
        """Return True if ``registered`` is still the latest known version of the subject."""
        return self._latest.has(subject, registered)

    async def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """Return a schema with its id and version in a subject.

        ``normalize`` ignores small differences in notation. Raises `SchemaNotFoundError` if the subject does not exist
        or does not have the schema, and the other errors of `schema`.
        """
        return await self._looked_up.get((_SUBJECT(subject), _SCHEMA("schema", schema), normalize))

    async def subjects(self, *, deleted: bool = False) -> list[str]:
        """Return the names of all subjects. ``deleted`` includes subjects that were deleted, but not permanently."""
        return texts_of(await self._ask("GET", "subjects", query={"deleted": "true"} if deleted else {}))

    async def versions(self, subject: str) -> list[int]:
        """Return the numbers of a subject's versions that are not deleted, in ascending order.

        Raises `SchemaNotFoundError` if the subject does not exist, and the other errors of `schema`.
        """
        return integers_of(await self._ask("GET", "subjects", _SUBJECT(subject), "versions"))

    async def resolved(self, schema: Schema) -> ResolvedSchema:
        """Return a schema with its direct and indirect references, even deleted ones. Raises the errors of `schema`."""
        return await resolve(schema, self._referenced)

    # --- changing ----------------------------------------------------------------------------------------------------

    async def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """Register a schema as the next version of a subject, unless the subject already has the schema.

        Returns the schema with its id. A subject that does not exist is created. ``normalize`` ignores small
        differences in notation.

        Raises `IncompatibleSchemaError` if the schema violates the compatibility level of the subject,
        `InvalidSchemaError` if the registry does not accept the schema, and the other errors of `schema`.
        """
        return await self._registered.get((_SUBJECT(subject), _SCHEMA("schema", schema), normalize))

    async def incompatibilities(self, subject: str, schema: Schema, version: int | str = "latest") -> list[str]:
        """Return the reasons why a schema is incompatible with a version of a subject.

            reasons = await registry.incompatibilities("orders-value", Schema(text))

        The list is empty if the schema is compatible. Apicurio returns no reasons, so the list then contains a general
        reason. ``version`` is a number or "latest" (the default). Raises `SchemaNotFoundError` if the subject or
        version does not exist, `InvalidSchemaError` if the schema is invalid, and the other errors of `schema`.
        """
        path = ("compatibility", "subjects", _SUBJECT(subject), "versions", version)
        content = await self._ask("POST", *path, query={"verbose": "true"}, body=schema_body(_SCHEMA("schema", schema)))
        if not isinstance(content, dict) or not isinstance(content.get("is_compatible"), bool):
            raise SchemaRegistryError(f"the registry's answer has no compatibility: {content!r:.200}")
        if content["is_compatible"]:
            return []
        return texts_of(content.get("messages") or []) or [f"it is incompatible with version {version} of {subject}"]

    async def compatibility(self, subject: str | None = None) -> str:
        """Return the compatibility level of a subject, or the global level if ``subject`` is None.

        The result is, for example, "BACKWARD". A subject for which no level was set has the global level. Raises the
        errors of `schema`.
        """
        where = () if subject is None else (_SUBJECT(subject),)
        query = {} if subject is None else {"defaultToGlobal": "true"}
        content = await self._ask("GET", "config", *where, query=query)
        return _level(content, "compatibilityLevel")

    async def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Set the compatibility level of a subject, or the global level if ``subject`` is None.

        Levels are "NONE", "BACKWARD", "FORWARD", "FULL", and the last three with "_TRANSITIVE". Raises `ConfigError`
        for another level, and the errors of `schema`.
        """
        if level not in COMPATIBILITY_LEVELS:
            raise ConfigError(f"level must be one of {', '.join(COMPATIBILITY_LEVELS)}, not {level!r}")
        where = () if subject is None else (_SUBJECT(subject),)
        await self._ask("PUT", "config", *where, body={"compatibility": level})

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete all versions of a subject, and return their numbers.

        Their schemas can still be read by id. With ``permanent``, the subject must already be deleted; afterwards it
        cannot be restored, and its schemas may be lost. Raises `SchemaNotFoundError` if the subject does not exist, and
        the other errors of `schema`.
        """
        content = await self._ask(
            "DELETE", "subjects", _SUBJECT(subject), query={"permanent": "true"} if permanent else {}
        )
        self.forget()
        return integers_of(content)

    async def delete_version(self, subject: str, version: int, *, permanent: bool = False) -> None:
        """Delete a version of a subject.

        Its schema can still be read by id. With ``permanent``, the version must already be deleted; afterwards it
        cannot be restored, and its schema may be lost. Raises `SchemaNotFoundError` if the subject or the version does
        not exist, and the other errors of `schema`.
        """
        query = {"permanent": "true"} if permanent else {}
        await self._ask("DELETE", "subjects", _SUBJECT(subject), "versions", version, query=query)
        self.forget()

    def forget(self) -> None:
        """Clear the cache. Existing serializers and deserializers keep their schemas."""
        for cache in (self._by_name, self._versions, self._latest, self._looked_up, self._registered):
            cache.forget()

    def forget_absent(self) -> None:
        """Request missing schemas again. For internal use."""
        for cache in (self._by_name, self._versions, self._looked_up):
            cache.forget_absent()

    # --- serializers and deserializers -------------------------------------------------------------------------------

    @overload
    def deserializer(
        self, into: None = None, *, schema: Any = None, validate: bool = True
    ) -> SchemaDeserializer[Any]: ...

    @overload
    def deserializer(
        self, into: type[T] | Sequence[type[T]] | Callable[[Any], T], *, schema: Any = None, validate: bool = True
    ) -> SchemaDeserializer[T]: ...

    def deserializer(self, into: Any = None, *, schema: Any = None, validate: bool = True) -> SchemaDeserializer[Any]:
        """Return a deserializer for a consumer's ``key_deserializer`` or ``value_deserializer``.

            consumer = Consumer("orders", value_deserializer=registry.deserializer(Order))

        It reads each key or value with its writer's schema, whether Avro, JSON Schema or Protobuf. `SchemaDeserializer`
        describes its errors.

        - ``into`` (None): convert values to this class (a pydantic model, a dataclass, or a class of Protobuf
          messages), to the matching class in a list of classes, or with this function. None returns dicts, lists and
          plain values, and generated messages for Protobuf.
        - ``schema`` (None): convert Avro values to this schema (text or parsed JSON) by Avro's rules of schema
          resolution.
        - ``validate`` (True): check JSON against its schema.
        """
        return SchemaDeserializer(self, into, schema=schema, validate=validate)

    def columns(self, schema: Any = None, *, values: bool = True, keys: bool = False) -> AvroColumns:
        """Return a converter of batches with Avro values to Apache Arrow.

            columns = registry.columns()
            table = await columns.to_arrow(batch)

        ``values`` (True) and ``keys`` (False) select the columns to convert. ``schema`` is the schema of the value
        column, as in `deserializer`, or of the key column if only keys are converted. The default is the schema with
        the highest id in the first batch, among schemas that have a type in Arrow.
        """
        from .columns import AvroColumns

        return AvroColumns(self, schema, values=values, keys=keys)

    def avro_serializer(self, schema: Any = None, **options: Unpack[SerializerOptions]) -> SchemaSerializer[Any]:
        """Return a serializer for a producer that writes dicts, lists, pydantic models and dataclasses as Avro.

        ``schema`` is text, parsed JSON, or a `Schema` with references. The default is the latest schema of the subject.
        `SchemaSerializer` describes the options.
        """
        from .avro import AvroFormat

        return SchemaSerializer(self, AvroFormat(schema), **options)

    @overload
    def json_serializer(
        self, schema: type[T], *, validate: bool = True, **options: Unpack[SerializerOptions]
    ) -> SchemaSerializer[T]: ...

    @overload
    def json_serializer(
        self, schema: Any = None, *, validate: bool = True, **options: Unpack[SerializerOptions]
    ) -> SchemaSerializer[Any]: ...

    def json_serializer(
        self, schema: Any = None, *, validate: bool = True, **options: Unpack[SerializerOptions]
    ) -> SchemaSerializer[Any]:
        """Return a serializer for a producer that writes values as JSON, with a JSON Schema.

        ``schema`` is a pydantic model, text, parsed JSON, or a `Schema` with references. The default is the latest
        schema of the subject. ``validate`` checks values against the schema. `SchemaSerializer` describes the options.
        """
        from .json_schema import JsonFormat

        return SchemaSerializer(self, JsonFormat(schema, validate=validate), **options)

    def protobuf_serializer(self, message: type[T], **options: Unpack[SerializerOptions]) -> SchemaSerializer[T]:
        """Return a serializer for a producer that writes Protobuf messages of a generated class.

        `SchemaSerializer` describes the options.
        """
        from .protobuf import ProtobufFormat

        return SchemaSerializer(self, ProtobufFormat(message), **options)

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _ask(self, method: str, *path: str | int, query: dict[str, str] | None = None, body: Any = None) -> Any:
        return await self._transport.ask(Query(method, path, query or {}, body))

    async def _fetch_by_name(self, name: int | str) -> RegisteredSchema:
        if isinstance(name, str):
            return registered_of(await self._written("schemas", "guids", name), guid=name)
        return registered_of(await self._written("schemas", "ids", name), schema_id=name)

    async def _referenced(self, subject: str, version: int) -> RegisteredSchema:
        # Also deleted versions: a deleted schema can still be requested by its id, so its references are needed, too.
        return await self._versions.get((subject, version, True))

    async def _fetch_version(self, place: _Version) -> RegisteredSchema:
        subject, version, deleted = place
        return registered_of(await self._written("subjects", subject, "versions", version, deleted=deleted))

    async def _written(self, *path: str | int, deleted: bool = False) -> Any:
        """Request a schema that a record or another schema refers to, from all nodes, and again after `LAG_S`.

        Such a schema exists, but a follower may not have received it yet.
        """
        query = Query("GET", path, {"deleted": "true"} if deleted else {}, anywhere=True)
        try:
            return await self._transport.ask(query)
        except SchemaNotFoundError:
            await anyio.sleep(LAG_S)
            return await self._transport.ask(query)

    async def _fetch_latest(self, subject: str) -> RegisteredSchema:
        return registered_of(await self._ask("GET", "subjects", subject, "versions", "latest"))

    async def _fetch_lookup(self, what: _Written) -> RegisteredSchema:
        subject, schema, normalize = what
        query = {"normalize": "true"} if normalize else {}
        content = await self._ask("POST", "subjects", subject, query=query, body=schema_body(schema))
        return registered_of(content, schema)

    async def _register(self, what: _Written) -> RegisteredSchema:
        subject, schema, normalize = what
        query = {"normalize": "true"} if normalize else {}
        try:
            content = await self._ask("POST", "subjects", subject, "versions", query=query, body=schema_body(schema))
        except IncompatibleSchemaError as error:
            reasons = await self._reasons(subject, schema)
            text = (
                f"the schema is incompatible with earlier versions of {subject}: {'; '.join(reasons) or error.message}"
            )
            raise IncompatibleSchemaError(
                text, status=error.status, error_code=error.error_code, reasons=reasons
            ) from None
        registered = registered_of(content, schema, subject=subject)
        self._latest.forget()
        self.forget_absent()
        self.registrations += 1
        return registered

    async def _reasons(self, subject: str, schema: Schema) -> Sequence[str]:
        try:
            return await self.incompatibilities(subject, schema)
        except SchemaRegistryError:
            return ()


def _level(content: Any, name: str) -> str:
    level = content.get(name) if isinstance(content, dict) else None
    if not isinstance(level, str):
        raise SchemaRegistryError(f"the registry's answer has no compatibility level: {content!r:.200}")
    return level
