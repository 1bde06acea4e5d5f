"""Keys and values in Avro as typed columns: the options for a schema registry, and the requests to it.

``schema.registry.url``, ``.user``, ``.password`` and ``.ssl.cafile`` give its address and the credentials; Spark hides
the password when it shows options, and it may be a variable of Java's config providers. ``valueSchema`` and
``keySchema`` make a column typed: ``latest``, the subject's latest version, or a schema's text. ``valueSubject`` and
``keySubject`` name a subject other than ``TOPIC-value``.
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
    """The definition of typed columns; sent to tasks."""

    settings: dict[str, str]
    """Options of the registry, and of config providers, whose variables tasks replace."""
    schemas: dict[str, str]
    """``latest`` or a schema's text, by column: "key" or "value"."""
    subjects: dict[str, str]

    def __repr__(self) -> str:
        return f"Typed({self.settings[_URL]!r}, {self.schemas!r})"

    def subject(self, column: str, topic: str) -> str:
        """Return the subject of a column's schemas."""
        return self.subjects.get(column, f"{topic}-{column}")


def typed_columns(options: Mapping[str, str]) -> Typed | None:
    """Return the definition from the options, or None if no column is typed. Raises ValueError."""
    given = {name.lower(): value for name, value in options.items()}
    schemas = {name: given[f"{name}schema"] for name in ("key", "value") if given.get(f"{name}schema")}
    if not schemas:
        return None
    if not given.get(_URL):
        raise ValueError(f"option '{_URL}' must be specified for '{next(iter(schemas))}Schema'")
    if (_USER in given) != (_PASSWORD in given):
        raise ValueError(f"options '{_USER}' and '{_PASSWORD}' go together")
    subjects = {name: given[f"{name}subject"] for name in schemas if given.get(f"{name}subject")}
    settings = {name: given[name] for name in (_URL, _USER, _PASSWORD, _CAFILE) if name in given}
    providers = f"{PREFIX}config.providers"
    settings |= {name: value for name, value in given.items() if name.startswith(providers)}
    return Typed(settings, schemas, subjects)


def registry_of(typed: Typed) -> SchemaRegistry:
    """Return a registry that has requested nothing yet. Raises ValueError."""
    return _registry(with_variables(typed.settings))


def registry_of_tasks(typed: Typed) -> SchemaRegistry:
    """Return the registry with which this process's tasks read: the schema of an id is requested once for all tasks.

    An id that was missing is requested again. Raises ValueError.
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
    """Return the schema for reading a column; ``topic`` is the only topic read, or None. Raises ValueError."""
    from ..schema import Schema

    given = typed.schemas[column]
    if given != LATEST:
        return Schema(given)
    if topic is None and column not in typed.subjects:
        raise ValueError(f"option '{column}Subject' must be specified, since more than one topic may be read")
    return (await registry_of(typed).latest(typed.subject(column, topic or ""))).schema


def typed_field(name: str, kind: DataType, schema: Schema) -> StructField:
    """Return a column whose metadata carries the schema from the planner to tasks."""
    references = [[each.name, each.subject, each.version] for each in schema.references]
    return StructField(name, kind, metadata={_METADATA: json.dumps([schema.text, references, kind.json()])})


def schema_of(field: StructField) -> Schema | None:
    """Return the schema of a column made by `typed_field`; None for other columns, or if its type was changed."""
    from ..schema import Schema, SchemaReference

    found = (field.metadata or {}).get(_METADATA)
    if found is None:
        return None
    text, references, kind = json.loads(found)
    if field.dataType.json() != kind:
        return None
    return Schema(text, "AVRO", tuple(SchemaReference(*each) for each in references))
