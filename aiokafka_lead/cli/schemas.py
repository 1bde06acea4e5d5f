"""Keys and values that a schema registry describes: shown as JSON, and written from JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from .._options.checks import Checked, boolean, option, optional, path, text
from .._records.record import ConsumerRecord
from ..errors import ConfigError, KafkaError
from ..schema import SchemaRegistry, SchemaSerializer
from ..types import SerializationContext
from .failures import Failed

__all__ = ["BY_SCHEMA", "AsJson", "RegistrySettings", "registry_of", "serializer_of"]

Record = ConsumerRecord[Any, Any]

BY_SCHEMA = "schema"
"""What ``--key-as`` and ``--value-as`` call it."""

LATEST = "latest"
"""What ``--value-schema`` calls the subject's latest version."""


@dataclass(frozen=True, init=False, repr=False, eq=False)
class RegistrySettings(Checked):
    """Settings of profiles, the environment and ``--option`` beside those of clients."""

    schema_registry_url: str | None = option(None, optional(text))
    schema_registry_user: str | None = option(None, optional(text))
    schema_registry_password: str | None = option(None, optional(text), secret=True)
    schema_registry_cafile: str | None = option(None, optional(path))
    schema_registry_allow_http: bool = option(False, boolean)


def registry_of(options: dict[str, Any]) -> SchemaRegistry:
    """The registry that the settings name; raises `ConfigError` where they name none."""
    url = options.get("schema_registry_url")
    if not url:
        raise ConfigError("no schema registry is named: set schema_registry_url (--option, a profile, the environment)")
    user, password = options.get("schema_registry_user"), options.get("schema_registry_password")
    if (user is None) != (password is None):
        raise ConfigError("schema_registry_user and schema_registry_password go together")
    return SchemaRegistry(
        url,
        basic_auth=None if user is None or password is None else (user, password),
        ssl_cafile=options.get("schema_registry_cafile"),
        allow_http=options.get("schema_registry_allow_http", False),
    )


class AsJson:
    """Puts JSON in place of keys or values, by the schemas they were written with."""

    def __init__(self, registry: SchemaRegistry, *, keys: bool, values: bool) -> None:
        self._keys = keys
        self._values = values
        self._deserializer = registry.deserializer(validate=False)

    async def records(self, records: Sequence[Record]) -> list[Record]:
        """The same records; raises `Failed` for one that cannot be read, which it names."""
        headers = [record.headers for record in records]
        for wanted, is_key in ((self._keys, True), (self._values, False)):
            if wanted:
                contents = [record.key if is_key else record.value for record in records]
                waiting = self._deserializer.prepare(contents, headers, records[0].topic if records else "", is_key)
                if waiting is not None:
                    await waiting
        return [
            record.with_content(
                self._json(record, record.key, is_key=True) if self._keys else record.key,
                self._json(record, record.value, is_key=False) if self._values else record.value,
            )
            for record in records
        ]

    def _json(self, record: Record, content: bytes | None, *, is_key: bool) -> bytes | None:
        if content is None:
            return None
        part = "key" if is_key else "value"
        try:
            value = self._deserializer(content, SerializationContext(record.topic, record.headers, is_key))
            return json.dumps(value, default=_plain, ensure_ascii=False).encode()
        except (KafkaError, TypeError, ValueError, RecursionError) as error:
            where = f"{record.topic}-{record.partition} at offset {record.offset}"
            raise Failed(f"the {part} of the record of {where} cannot be read: {error}") from None


def _plain(value: Any) -> Any:
    """What JSON has no word for: bytes in base64, messages of Protobuf as objects, times and numbers as text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if hasattr(value, "DESCRIPTOR"):
        from google.protobuf.json_format import MessageToDict

        return MessageToDict(value, preserving_proto_field_name=True)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


async def serializer_of(
    registry: SchemaRegistry, given: str, topic: str, *, is_key: bool, register: bool
) -> SchemaSerializer[Any]:
    """What writes by a schema: that of a file (``.avsc`` of Avro, ``.json`` JSON Schema), or the subject's latest."""
    if given == LATEST:
        if register:
            raise ConfigError("--register is of no use with the latest schema: that is registered")
        kind = (await registry.latest(f"{topic}-{'key' if is_key else 'value'}")).schema.type
        if kind == "PROTOBUF":
            raise ConfigError("the latest schema is one of Protobuf, whose messages are not written from JSON here")
        return registry.avro_serializer() if kind == "AVRO" else registry.json_serializer()
    file = Path(given)
    if file.suffix not in (".avsc", ".json"):
        raise ConfigError(f"a schema is a file .avsc (Avro) or .json (JSON Schema), or {LATEST!r}, not {given!r}")
    try:
        schema = await anyio.Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{given} cannot be read: {error}") from None
    if file.suffix == ".avsc":
        return registry.avro_serializer(schema, auto_register=register)
    return registry.json_serializer(schema, auto_register=register)
