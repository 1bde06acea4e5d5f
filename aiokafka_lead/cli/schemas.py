"""Conversion of keys and values between JSON and the formats of a schema registry."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio

from .._options.checks import Checked, Secret, boolean, build, option, optional, path, text
from .._records.record import ConsumerRecord
from ..errors import ConfigError, KafkaError, SchemaContentError, SchemaRegistryError
from ..oidc.http import checked_url
from ..schema import Schema, SchemaDeserializer, SchemaRegistry, SchemaSerializer
from ..schema.framing import ID_SIZE, key_of
from ..schema.types import ResolvedSchema
from ..types import Headers, SerializationContext
from .failures import Failed
from .json_text import read_json, strict_json
from .record_text import SchemaJson
from .schema_json import AvroJson, keep_odd_times, message_of, plain
from .streams import JSON_ESCAPES

Record = ConsumerRecord[Any, Any]

LATEST = "latest"
"""Value of ``--value-schema`` and ``--key-schema`` for the latest version of the subject's schema."""


class RegistrySettings(Checked):
    """Options of the schema registry, from the same sources as the clients' options."""

    schema_registry_url: str | None = option(None, optional(text))
    schema_registry_user: str | None = option(None, optional(text))
    schema_registry_password: str | None = option(None, optional(text), secret=True)
    schema_registry_token: str | None = option(None, optional(text), secret=True)
    schema_registry_cafile: str | None = option(None, optional(path))
    schema_registry_certfile: str | None = option(None, optional(path))
    schema_registry_keyfile: str | None = option(None, optional(path))
    schema_registry_key_password: str | None = option(None, optional(text), secret=True)
    schema_registry_allow_http: bool = option(False, boolean)
    schema_registry_ignore_rules: bool = option(False, boolean)


def registry_of(options: dict[str, Any]) -> SchemaRegistry:
    """Return the schema registry for these options. Raises `ConfigError` if they are invalid, or name no registry."""
    names = {field.name for field in dataclasses.fields(RegistrySettings)}
    settings = build(RegistrySettings, {name: value for name, value in options.items() if name in names})
    if not settings.schema_registry_url:
        raise ConfigError(
            "no schema registry is set; set schema_registry_url with --option, in a profile or in the environment"
        )
    for url in settings.schema_registry_url.split(","):
        # Checked here, so that the error names this option; `SchemaRegistry` checks schema_registry_allow_http.
        checked_url("schema_registry_url", url.strip(), allow_http=True)
    user, password = settings.schema_registry_user, settings.schema_registry_password
    if (user is None) != (password is None):
        raise ConfigError("schema_registry_user and schema_registry_password must be set together")
    token = settings.schema_registry_token
    if user is not None and token is not None:
        raise ConfigError("schema_registry_user and schema_registry_token cannot be combined")
    return SchemaRegistry(
        settings.schema_registry_url,
        basic_auth=None if user is None or password is None else (user, password),
        headers=None if token is None else {"Authorization": Secret(f"Bearer {token}")},
        ssl_cafile=settings.schema_registry_cafile,
        ssl_certfile=settings.schema_registry_certfile,
        ssl_keyfile=settings.schema_registry_keyfile,
        ssl_password=settings.schema_registry_key_password,
        timeout_ms=options["request_timeout_ms"],
        allow_http=settings.schema_registry_allow_http,
        ignore_rules=settings.schema_registry_ignore_rules,
    )


class BadRecord(Failed):
    """A record does not match its schema, or has none."""

    def __init__(self, record: Record, part: str, why: Exception) -> None:
        where = f"{record.topic}-{record.partition} at offset {record.offset}"
        super().__init__(f"cannot decode the {part} of the record in {where}: {why}")


class AsJson:
    """Decodes keys and values with the schemas of their writers, and converts them to JSON."""

    def __init__(self, registry: SchemaRegistry, *, keys: bool, values: bool) -> None:
        self._keys = keys
        self._values = values
        self._deserializer: SchemaDeserializer[Any] = SchemaDeserializer(registry, validate=False, described=True)
        keep_odd_times()

    async def prepare(self, records: Sequence[Record]) -> None:
        """Request the schemas of these records from the registry. Must be called before `record`."""
        headers = [record.headers for record in records]
        for wanted, is_key in ((self._keys, True), (self._values, False)):
            if wanted:
                contents = [record.key if is_key else record.value for record in records]
                waiting = self._deserializer.prepare(contents, headers, records[0].topic if records else "", is_key)
                if waiting is not None:
                    await waiting

    def record(self, record: Record) -> Record:
        """Return the converted record.

        Raises `BadRecord`, or `SchemaRegistryError` if the registry has failed and the record may be valid.
        """
        return record.with_content(
            self._json(record, record.key, is_key=True) if self._keys else record.key,
            self._json(record, record.value, is_key=False) if self._values else record.value,
        )

    def _json(self, record: Record, content: bytes | None, *, is_key: bool) -> bytes | None:
        if content is None:
            return None
        try:
            value = self._deserializer(content, SerializationContext(record.topic, record.headers, is_key))
            text = _own_json(content, record.headers, is_key, value)
            if text is None:
                text = json.dumps(plain(value), ensure_ascii=False)
            return SchemaJson(text.encode("utf-8", JSON_ESCAPES))
        except (KafkaError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, SchemaRegistryError) and error.at_fault:
                raise
            raise BadRecord(record, "key" if is_key else "value", error) from None


def _own_json(content: bytes, headers: Headers, is_key: bool, value: Any) -> str | None:
    """Return the original JSON text of a JSON Schema record, or None if the record has another format.

    Unlike encoding ``value`` again, this keeps all digits and escapes. Bytes in Avro or Protobuf are never JSON of the
    same value. For example, the length precedes an Avro string.
    """
    key, indexes = key_of(content, headers, is_key)
    try:
        text = content[0 if indexes is not None else len(key) :].decode()
        return text.strip().replace("\r", " ").replace("\n", " ") if strict_json(text) == value else None
    except ValueError:
        return None


class FromJson:
    """Encodes JSON texts as keys or values with a schema."""

    def __init__(self, serializer: SchemaSerializer[Any], convert: Callable[[str], Any] | None) -> None:
        """Create an encoder.

        ``convert`` returns the value of a JSON text for the serializer. None means JSON Schema, for which `encode`
        writes the original text.
        """
        self._serializer = serializer
        self._convert = convert

    async def encode(self, content: bytes, topic: str, *, is_key: bool) -> bytes:
        """Convert a JSON text to the bytes of a key or value.

        Raises `SchemaContentError` if it is not JSON or does not match the schema.
        """
        try:
            value = (self._convert or read_json)(content.decode())
        except RecursionError:
            raise SchemaContentError("it is nested too deeply") from None
        except SchemaContentError:
            raise
        except ValueError as error:
            raise SchemaContentError(f"it is not JSON: {error}") from None
        encoded = await self._serializer.encode(value, topic, is_key=is_key)
        # With JSON Schema, keep the original text, because encoding the value again loses digits.
        return encoded if self._convert is not None else encoded[:ID_SIZE] + content.strip()


async def writer_of(registry: SchemaRegistry, given: str, topic: str, *, is_key: bool, register: bool) -> FromJson:
    """Return the encoder for a value of ``--value-schema`` or ``--key-schema``. Raises `ConfigError` if it is invalid.

    ``given`` is a file (``.avsc``, ``.json`` or ``.proto``) or ``latest``. A Protobuf message type may follow after
    ``#``; the default is the first message type. With ``register``, the encoder registers the schema of a file.
    """
    source, _, message = given.partition("#")
    if source == LATEST:
        if register:
            raise ConfigError("--register needs the schema of a file; the latest schema is already registered")
        latest = (await registry.latest(f"{topic}-{'key' if is_key else 'value'}")).schema
        if latest.type == "JSON":
            return FromJson(registry.json_serializer(), None)
        resolved = await registry.resolved(latest)
        if latest.type == "PROTOBUF":
            return _protobuf(registry, resolved, message, None)
        return FromJson(registry.avro_serializer(), _avro_values(resolved))
    kinds = {".avsc": "Avro", ".json": "JSON Schema", ".proto": "Protobuf"}
    file = Path(source if Path(source).suffix == ".proto" else given)
    if file.suffix not in kinds:
        known = ", ".join(f"{suffix} ({kind})" for suffix, kind in kinds.items())
        raise ConfigError(f"a schema must be {LATEST!r} or a file with the suffix {known}, not {given!r}")
    try:
        schema = await anyio.Path(file).read_text("utf-8-sig")  # Windows editors add a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {given}: {error}") from None
    if file.suffix == ".json":
        return FromJson(registry.json_serializer(schema, auto_register=register), None)
    if file.suffix == ".proto":
        return _protobuf(registry, ResolvedSchema(Schema(schema, "PROTOBUF")), message, register)
    serializer = registry.avro_serializer(schema, auto_register=register)  # raises for an invalid schema
    from ..schema.avro import avro_schema

    return FromJson(serializer, _avro_values(ResolvedSchema(avro_schema(schema))))


def _avro_values(resolved: ResolvedSchema) -> Callable[[str], Any]:
    """Return a function that converts JSON texts to values for Avro's writer."""
    # Times beyond Python's range are shown as numbers. Without this call, the writer would reject these numbers.
    keep_odd_times()
    return AvroJson(json.loads(resolved.schema.text), [json.loads(each.text) for _, each in resolved.references]).value


def _protobuf(registry: SchemaRegistry, resolved: ResolvedSchema, message: str, register: bool | None) -> FromJson:
    """Return an encoder for messages. ``register`` is None for the subject's latest schema."""
    from ..schema.protobuf import described_format

    form = described_format(resolved, message, is_latest=register is None)
    serializer: SchemaSerializer[Any] = SchemaSerializer(
        registry, form, auto_register=bool(register), use_latest=register is None
    )
    return FromJson(serializer, lambda text: message_of(text, form.kind))
