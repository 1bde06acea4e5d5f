"""Content of a registry: schemas by id, subjects with versions, and compatibility levels.

It performs no I/O and is not thread-safe.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from .avro_rules import AvroSchema, unreadable

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
    """A schema as it was sent."""

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
        """Normal form of the schema, in which white space and the order of keys in JSON do not matter."""
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
    """Versions of a subject by number. Deleted versions keep their numbers."""

    versions: dict[int, int] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    level: str | None = None

    def live(self) -> list[int]:
        return [number for number in self.versions if number not in self.deleted]


class Store:
    """The content of one registry."""

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
        """Return the version of a schema in an existing subject."""
        found = self.subjects.get(name)
        for number in [] if found is None else reversed(found.live()):
            assert found is not None
            other = self.schemas[found.versions[number]]
            if schema.is_like(other, normalize=normalize):
                return number, found.versions[number]
        return None

    # --- changing ---

    def register(self, name: str, schema: Stored, *, normalize: bool) -> int:
        """Register the schema and return its id."""
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
