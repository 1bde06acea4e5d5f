"""Options of *typed columns*, which contain Avro keys or values as a Spark type instead of ``binary``.

``valueSchema`` and ``keySchema`` make a column typed. Their value is the text of a schema, or ``latest`` for the latest
version of the subject. ``valueSubject`` and ``keySubject`` name the subject (``TOPIC-value`` and ``TOPIC-key``). The
schema registry is given by ``schema.registry.url``, ``schema.registry.user``, ``schema.registry.password`` and
``schema.registry.ssl.cafile``. The password may be a variable of a config provider, and Spark redacts it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.types import DataType, StructField

from ..errors import KafkaError
from .config_providers import with_variables
from .kafka_options import PREFIX

if TYPE_CHECKING:
    from ..schema import Schema, SchemaRegistry

LATEST = "latest"

_URL = "schema.registry.url"
_USER = "schema.registry.user"
_PASSWORD = "schema.registry.password"
_CAFILE = "schema.registry.ssl.cafile"
_METADATA = "aiokafka_lead.avro"


class Typed(NamedTuple):
    """Definition of the typed columns of a query, which Spark sends to tasks."""

    settings: dict[str, str]
    """Options of the schema registry, and of the config providers that resolve variables in each task."""
    schemas: dict[str, str]
    """``latest`` or the text of a schema, by column (``"key"`` or ``"value"``)."""
    subjects: dict[str, str]
    """Subject, by column, if the options name one."""

    def __repr__(self) -> str:
        return f"Typed({self.settings[_URL]!r}, {self.schemas!r})"

    def subject(self, column: str, topic: str) -> str:
        """Return the subject with the schemas of a column."""
        return self.subjects.get(column, f"{topic}-{column}")


def typed_columns(options: Mapping[str, str]) -> Typed | None:
    """Return the typed columns in the options, or None if there are none. Raises ValueError for invalid options."""
    given = {name.lower(): value for name, value in options.items()}
    schemas = {name: given[f"{name}schema"] for name in ("key", "value") if given.get(f"{name}schema")}
    if not schemas:
        return None
    if not given.get(_URL):
        raise ValueError(f"option '{next(iter(schemas))}Schema' needs option '{_URL}'")
    if (_USER in given) != (_PASSWORD in given):
        raise ValueError(f"options '{_USER}' and '{_PASSWORD}' must be given together")
    subjects = {name: given[f"{name}subject"] for name in schemas if given.get(f"{name}subject")}
    settings = {name: given[name] for name in (_URL, _USER, _PASSWORD, _CAFILE) if name in given}
    providers = f"{PREFIX}config.providers"
    settings |= {name: value for name, value in given.items() if name.startswith(providers)}
    return Typed(settings, schemas, subjects)


def registry_of(typed: Typed) -> SchemaRegistry:
    """Return a new schema registry client. Raises ValueError for invalid options."""
    return _registry(with_variables(typed.settings))


def registry_of_tasks(typed: Typed) -> SchemaRegistry:
    """Return the schema registry client that the reading tasks of this process share.

    The client requests the schema of an id once for all tasks. Each call makes the client request previously missing
    ids again. Raises ValueError for invalid options.
    """
    registry = _shared(tuple(sorted(with_variables(typed.settings).items())))
    registry.forget_absent()
    return registry


@lru_cache(maxsize=8)
def _shared(settings: tuple[tuple[str, str], ...]) -> SchemaRegistry:
    return _registry(dict(settings))


def _registry(settings: Mapping[str, str]) -> SchemaRegistry:
    from ..schema import SchemaRegistry

    user, password = settings.get(_USER), settings.get(_PASSWORD)
    try:
        return SchemaRegistry(
            settings[_URL],
            basic_auth=None if user is None or password is None else (user, password),
            ssl_cafile=settings.get(_CAFILE),
        )
    except KafkaError as error:
        raise ValueError(f"option '{_URL}': {error}") from None


async def resolved_at_once(typed: Typed, column: str, topic: str | None) -> Schema:
    """Return the schema for reading a column.

    ``topic`` is the topic of the query, or None if it may read several. Raises ValueError if the subject is unknown.
    """
    from ..schema import Schema

    given = typed.schemas[column]
    if given != LATEST:
        return Schema(given)
    if topic is None and column not in typed.subjects:
        raise ValueError(f"option '{column}Subject' is required, because the query may read more than one topic")
    return (await registry_of(typed).latest(typed.subject(column, topic or ""))).schema


def typed_field(name: str, kind: DataType, schema: Schema) -> StructField:
    """Return a typed column. Its metadata contains the schema, so that tasks read with the schema of the plan."""
    references = [[each.name, each.subject, each.version] for each in schema.references]
    return StructField(name, kind, metadata={_METADATA: json.dumps([schema.text, references, kind.json()])})


def schema_of(field: StructField) -> Schema | None:
    """Return the schema in a column's metadata, or None if the column is not typed or its type was changed."""
    from ..schema import Schema, SchemaReference

    found = (field.metadata or {}).get(_METADATA)
    if found is None:
        return None
    text, references, kind = json.loads(found)
    if field.dataType.json() != kind:
        return None
    return Schema(text, "AVRO", tuple(SchemaReference(*each) for each in references))
