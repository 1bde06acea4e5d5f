"""Rules of Avro for the registry: valid schemas, and schemas that can read the data of other schemas.

The rules are in the section "Schema Resolution" of the specification.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
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
    """A schema whose names are checked. ``named`` has types of other schemas to which it may refer."""

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
        """Return the schema with full names in place of names."""
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
        """Return the type with this name. Other types are returned unchanged."""
        if isinstance(schema, str) and schema not in _PRIMITIVES:
            return self.named[schema]
        if isinstance(schema, dict):
            inner = schema["type"]
            if not isinstance(inner, str) or inner in _PRIMITIVES or inner in self.named:
                return self.at(inner)
        return schema


def unreadable(reader: AvroSchema, writer: AvroSchema) -> list[str]:
    """Return the reasons why the reader cannot read the writer's data, or an empty list if it can."""
    return _Comparison(reader, writer).differences(reader.root, writer.root, "/")


class _Comparison:
    def __init__(self, reader: AvroSchema, writer: AvroSchema) -> None:
        self._reader = reader
        self._writer = writer
        self._under_way: set[tuple[int, int]] = set()

    def differences(self, reads: Any, wrote: Any, where: str) -> list[str]:
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
        for field in reads["fields"]:
            same = next((written[name] for name in (field["name"], *field.get("aliases", ())) if name in written), None)
            place = f"{where}{field['name']}/"
            if same is not None:
                found += self.differences(field["type"], same["type"], place)
            elif "default" not in field:
                found.append(f"{place}: the reader's field has no default, and the writer has no such field")
        return found


def _kind(schema: Any) -> str:
    return schema if isinstance(schema, str) else str(schema["type"]).replace("error", "record")


def _short(name: str) -> str:
    return name.rpartition(".")[2]
