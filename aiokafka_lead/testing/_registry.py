"""Content of a registry: schemas by id, subjects with versions, compatibility levels, and the rules of Avro.

The rules are in the section "Schema Resolution" of Avro's specification. The module has no I/O and is not thread-safe.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


class InvalidAvro(ValueError):
    """The schema is not valid Avro."""


class AvroSchema:
    """A schema whose names have been checked. ``named`` contains types of other schemas to which it may refer."""

    def __init__(self, text: str, named: Mapping[str, Any]) -> None:
        self.named = dict(named)
        try:
            self.root = json.loads(text)
        except ValueError as error:
            raise InvalidAvro(str(error)) from None
        self._check(self.root, "")

    def _check(self, schema: Any, space: str) -> None:
        if isinstance(schema, list):
            for each in schema:
                if isinstance(each, list):
                    raise InvalidAvro("a union within a union")
                self._check(each, space)
        elif isinstance(schema, str):
            if schema not in _PRIMITIVES and self._full(schema, space) not in self.named:
                raise InvalidAvro(f'"{schema}" is not a defined name')
        elif isinstance(schema, dict) and "type" in schema:
            self._check_dict(schema, space)
        else:
            raise InvalidAvro(f"no type: {schema!r}")

    def _check_dict(self, schema: dict[str, Any], space: str) -> None:
        """Check a type that is written as an object, and replace the names in it by full names.

        ``space`` is the namespace around the type. Raises `InvalidAvro`.
        """
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            if not isinstance(schema.get("name"), str):
                raise InvalidAvro(f"no name in schema: {schema!r}")
            own = schema.get("namespace", space)
            name = self._full(schema["name"], own)
            if name in self.named:
                raise InvalidAvro(f"can't redefine: {name}")
            self.named[name] = schema
            schema["name"], inner = name, name.rpartition(".")[0]
            if kind == "enum" and not isinstance(schema.get("symbols"), list):
                raise InvalidAvro(f"enum has no symbols: {name}")
            if kind == "fixed" and not isinstance(schema.get("size"), int):
                raise InvalidAvro(f"fixed has no size: {name}")
            if kind in ("record", "error"):
                if not isinstance(schema.get("fields"), list):
                    raise InvalidAvro(f"record has no fields: {name}")
                for field in schema["fields"]:
                    if not isinstance(field, dict) or "name" not in field or "type" not in field:
                        raise InvalidAvro(f"no field name or type in {name}")
                    field["type"] = self._settled(field["type"], inner)
            return
        part = {"array": "items", "map": "values"}.get(kind) if isinstance(kind, str) else None
        if part is None:
            schema["type"] = self._settled(kind, space)
        elif part not in schema:
            raise InvalidAvro(f"{kind} has no {part}")
        else:
            schema[part] = self._settled(schema[part], space)

    def _settled(self, schema: Any, space: str) -> Any:
        """Return the schema with full names instead of names."""
        self._check(schema, space)
        if isinstance(schema, list):
            return [self._settled_name(each, space) for each in schema]
        return self._settled_name(schema, space)

    def _settled_name(self, schema: Any, space: str) -> Any:
        named = isinstance(schema, str) and schema not in _PRIMITIVES
        return self._full(schema, space) if named else schema

    def _full(self, name: str, space: str) -> str:
        return name if "." in name or not space else f"{space}.{name}"

    def at(self, schema: Any) -> Any:
        """Return the definition of a named type. Any other type is returned unchanged."""
        if isinstance(schema, str) and schema not in _PRIMITIVES:
            return self.named[schema]
        if isinstance(schema, dict):
            inner = schema["type"]
            if not isinstance(inner, str) or inner in _PRIMITIVES or inner in self.named:
                return self.at(inner)
        return schema


def unreadable(reader: AvroSchema, writer: AvroSchema) -> list[str]:
    """Return the reasons why the reader's schema cannot read the writer's data, or an empty list if it can."""
    return _Comparison(reader, writer).differences(reader.root, writer.root, "/")


class _Comparison:
    """Compares a reader's schema with a writer's schema, for Avro's rules of schema resolution.

    A pair of recursive types is compared once.
    """

    def __init__(self, reader: AvroSchema, writer: AvroSchema) -> None:
        self._reader = reader
        self._writer = writer
        self._under_way: set[tuple[int, int]] = set()

    def differences(self, reads: Any, wrote: Any, where: str) -> list[str]:
        """Return the reasons why a type of the reader cannot read a type of the writer. ``where`` is a JSON pointer."""
        reads, wrote = self._reader.at(reads), self._writer.at(wrote)
        if isinstance(wrote, list):
            return [found for each in wrote for found in self.differences(reads, each, where)]
        if isinstance(reads, list):
            tries = [self.differences(each, wrote, where) for each in reads]
            return [] if [] in tries else [f"{where}: no type of the reader's union reads {_kind(wrote)}"]
        kind, other = _kind(reads), _kind(wrote)
        if kind != other:
            if kind in _PROMOTIONS.get(other, ()):
                return []
            return [f"{where}: the reader's type {kind} does not read {other}"]
        pair = (id(reads), id(wrote))
        if kind in _PRIMITIVES or pair in self._under_way:
            return []
        self._under_way.add(pair)
        try:
            return self._complex(kind, reads, wrote, where)
        finally:
            self._under_way.discard(pair)

    def _complex(self, kind: str, reads: Any, wrote: Any, where: str) -> list[str]:
        if kind in ("array", "map"):
            part = "items" if kind == "array" else "values"
            return self.differences(reads[part], wrote[part], f"{where}{part}/")
        names = {_short(name) for name in (reads["name"], *reads.get("aliases", ()))}
        if _short(wrote["name"]) not in names:
            return [f"{where}: the reader's name {reads['name']} is not {wrote['name']}"]
        if kind == "fixed":
            return [] if reads["size"] == wrote["size"] else [f"{where}: the sizes differ"]
        if kind == "enum":
            missing = [symbol for symbol in wrote["symbols"] if symbol not in reads["symbols"]]
            return [f"{where}: the reader has no symbols {missing}"] if missing and "default" not in reads else []
        written = {field["name"]: field for field in wrote["fields"]}
        found: list[str] = []
        for each in reads["fields"]:
            same = next((written[name] for name in (each["name"], *each.get("aliases", ())) if name in written), None)
            place = f"{where}{each['name']}/"
            if same is not None:
                found += self.differences(each["type"], same["type"], place)
            elif "default" not in each:
                found.append(f"{place}: the reader's field has no default, and the writer has no such field")
        return found


def _kind(schema: Any) -> str:
    return schema if isinstance(schema, str) else str(schema["type"]).replace("error", "record")


def _short(name: str) -> str:
    return name.rpartition(".")[2]


LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")
TYPES = ("AVRO", "JSON", "PROTOBUF")

NO_SUBJECT, NO_VERSION, NO_SCHEMA = 40401, 40402, 40403
NOT_DELETED, VERSION_NOT_DELETED = 40405, 40407
INVALID_SCHEMA, INVALID_VERSION, INVALID_LEVEL = 42201, 42202, 42203
REFERENCED = 42206
INCOMPATIBLE = 409


class Refusal(Exception):
    """An error response: the HTTP status, the registry's error code, and a text."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Stored:
    """A schema in the form in which a client has sent it."""

    text: str
    kind: str = "AVRO"
    references: tuple[tuple[str, str, int], ...] = ()
    """Name, subject and version of each reference."""
    rule_set: str = ""
    """The rules as JSON, if there are any."""

    @property
    def guid(self) -> str:
        """GUID of the schema, which is the same in every registry."""
        return str(
            uuid.uuid5(
                uuid.NAMESPACE_URL,
                repr((self.text, self.kind, self.references) + (self.rule_set,) * bool(self.rule_set)),
            )
        )

    @property
    def normal(self) -> Stored:
        """The schema in normal form, in which white space and the order of JSON keys do not matter."""
        try:
            text = json.dumps(json.loads(self.text), sort_keys=True)
        except ValueError:
            text = " ".join(self.text.split())
        return Stored(text, self.kind, self.references, self.rule_set)

    def is_like(self, other: Stored, *, normalize: bool) -> bool:
        """Return True if this schema, as it was sent, equals a stored schema.

        If it has no rules, the rules of the stored schema are ignored.
        """
        mine, stored = (self.normal, other.normal) if normalize else (self, other)
        return mine == (stored if self.rule_set else replace(stored, rule_set=""))


@dataclass
class Subject:
    """The versions of a subject by number, and its compatibility level. Deleted versions keep their numbers."""

    versions: dict[int, int] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    level: str | None = None

    def live(self) -> list[int]:
        return [number for number in self.versions if number not in self.deleted]


class Store:
    """Holds the schemas, subjects and compatibility levels of one registry."""

    def __init__(self, compatibility: str) -> None:
        self.level = compatibility
        self.schemas: dict[int, Stored] = {}
        self.subjects: dict[str, Subject] = {}

    # --- reading ---

    def by_id(self, schema_id: int) -> Stored:
        if schema_id not in self.schemas:
            raise Refusal(404, NO_SCHEMA, f"Schema {schema_id} not found.")
        return self.schemas[schema_id]

    def by_guid(self, guid: str) -> Stored:
        for stored in self.schemas.values():
            if stored.guid == guid:
                return stored
        raise Refusal(404, NO_SCHEMA, f"Schema {guid} not found.")

    def names(self, prefix: str, *, deleted: bool = False) -> list[str]:
        """Return the live subjects with this prefix, or the deleted ones, except permanently deleted subjects."""
        found = [(name, each) for name, each in self.subjects.items() if name.startswith(prefix)]
        return [name for name, each in found if (bool(each.versions) and not each.live() if deleted else each.live())]

    def subject(self, name: str) -> Subject:
        found = self.subjects.get(name)
        if found is None or not found.live():
            raise Refusal(404, NO_SUBJECT, f"Subject '{name}' not found.")
        return found

    def _known(self, name: str) -> Subject:
        found = self.subjects.get(name)
        if found is None or not found.versions:
            raise Refusal(404, NO_SUBJECT, f"Subject '{name}' not found.")
        return found

    def version(self, name: str, version: str, *, deleted: bool = False) -> tuple[int, int]:
        """Return the number of a version and the id of its schema.

        With ``deleted``, deleted versions are included, except permanently deleted versions.
        """
        live = list(self._known(name).versions) if deleted else self.subject(name).live()
        if version in ("latest", "-1"):
            number = live[-1]
        elif version.isdecimal() and int(version) > 0:
            number = int(version)
        else:
            raise Refusal(422, INVALID_VERSION, f"The specified version '{version}' is not a valid version id.")
        if number not in live:
            raise Refusal(404, NO_VERSION, f"Version {number} not found.")
        return number, self.subjects[name].versions[number]

    def lookup(self, name: str, schema: Stored, *, normalize: bool) -> tuple[int, int] | None:
        """Return the version and the id of a schema in an existing subject, or None if the subject lacks it."""
        found = self.subjects.get(name)
        for number in [] if found is None else reversed(found.live()):
            assert found is not None
            other = self.schemas[found.versions[number]]
            if schema.is_like(other, normalize=normalize):
                return number, found.versions[number]
        return None

    # --- changing ---

    def register(self, name: str, schema: Stored, *, normalize: bool) -> int:
        """Register the schema under this subject and return its id. Raises `Refusal` if it is incompatible."""
        self._check(schema)
        known = self.lookup(name, schema, normalize=normalize)
        if known is not None:
            return known[1]
        reasons = self.incompatibilities(name, schema, "latest", transitive=True)
        if reasons:
            text = f"Schema being registered is incompatible with an earlier schema for subject {name}: {reasons}"
            raise Refusal(409, INCOMPATIBLE, text)
        schema_id = next((known for known, other in self.schemas.items() if other == schema), len(self.schemas) + 1)
        self.schemas[schema_id] = schema
        subject = self.subjects.setdefault(name, Subject())
        subject.versions[max(subject.versions, default=0) + 1] = schema_id
        return schema_id

    def delete(self, name: str, *, permanent: bool) -> list[int]:
        if permanent:
            found = self._known(name)
            if found.live():
                text = f"Subject '{name}' was not deleted first before being permanently deleted"
                raise Refusal(404, NOT_DELETED, text)
            del self.subjects[name]
            return list(found.versions)
        subject = self.subject(name)
        numbers = subject.live()
        for number in numbers:
            self._check_unreferenced(name, number)
        subject.deleted.update(numbers)
        return numbers

    def delete_version(self, name: str, version: str, *, permanent: bool) -> int:
        number, _ = self.version(name, version, deleted=permanent)
        subject = self.subjects[name]
        if not permanent:
            self._check_unreferenced(name, number)
            subject.deleted.add(number)
        elif number in subject.deleted:
            subject.deleted.remove(number)
            del subject.versions[number]
        else:
            text = f"Subject '{name}' Version {number} was not deleted first before being permanently deleted"
            raise Refusal(404, VERSION_NOT_DELETED, text)
        return number

    def _check_unreferenced(self, name: str, number: int) -> None:
        for subject in self.subjects.values():
            for live in subject.live():
                references = self.schemas[subject.versions[live]].references
                if any((to, version) == (name, number) for _, to, version in references):
                    text = f"One or more references exist to the schema {{subject={name},version={number}}}."
                    raise Refusal(422, REFERENCED, text)

    def set_level(self, name: str | None, level: Any) -> None:
        if level not in LEVELS:
            raise Refusal(422, INVALID_LEVEL, "Invalid compatibility level. Valid values are " + ", ".join(LEVELS))
        if name is None:
            self.level = level
        else:
            self.subjects.setdefault(name, Subject()).level = level

    # --- compatibility of Avro only: all other schemas are compatible

    def incompatibilities(self, name: str, schema: Stored, version: str, *, transitive: bool = False) -> list[str]:
        """Return the reasons why a schema is incompatible with a version, or with any version if ``transitive``."""
        subject = self.subjects.get(name)
        live = [] if subject is None else subject.live()
        if subject is None or not live:
            return []
        level = subject.level or self.level
        chosen = live if transitive and level.endswith("_TRANSITIVE") else [self.version(name, version)[0]]
        found: list[str] = []
        for number in chosen:
            other = self.schemas[subject.versions[number]]
            if other.kind != schema.kind:
                found.append(f"version {number} is of type {other.kind}")
            elif schema.kind == "AVRO":
                new, old = self._avro(schema), self._avro(other)
                if level.startswith(("BACKWARD", "FULL")):
                    found += unreadable(new, old)
                if level.startswith(("FORWARD", "FULL")):
                    found += unreadable(old, new)
        return [] if level == "NONE" else found

    def _check(self, schema: Stored) -> None:
        try:
            if schema.kind == "AVRO":
                self._avro(schema)
            elif schema.kind == "JSON":
                json.loads(schema.text)
            elif schema.kind not in TYPES:
                raise ValueError(f"unknown type {schema.kind}")
            for _, subject, version in schema.references:
                self.version(subject, str(version))
        except (ValueError, Refusal) as error:
            raise Refusal(422, INVALID_SCHEMA, f"Invalid schema: {error}") from None

    def _avro(self, schema: Stored) -> AvroSchema:
        named: dict[str, Any] = {}
        for _, subject, version in schema.references:
            _, schema_id = self.version(subject, str(version))
            named |= self._avro(self.schemas[schema_id]).named
        return AvroSchema(schema.text, named)
