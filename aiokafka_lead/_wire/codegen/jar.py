"""Reads the message schemas inside kafka-clients' jar and keeps only their facts: no comments, no prose."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

from ..schema import NO_VERSIONS, PRIMITIVES, Field, Versions
from .notation import Api, Struct

INTER_BROKER = {
    "DeleteShareGroupState",
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "ReadShareGroupStateSummary",
    "WriteShareGroupState",
}
"""Served on the brokers' listener, but only ever called by brokers (the share coordinator's persister)."""

DATA_SCHEMAS = ("ConsumerProtocolAssignment", "ConsumerProtocolSubscription", "ControlRecordTypeSchema", "EndTxnMarker")
"""Schemas inside other messages' bytes fields, and inside control records."""

_FOLDER = "common/message/"


def read_jar(path: Path) -> tuple[str, list[Api]]:
    """Return Kafka's release, and every API that a client may call, by key, then the data schemas by name."""
    with zipfile.ZipFile(path) as jar:
        schemas = {
            Path(name).stem: _load(jar.read(name).decode())
            for name in jar.namelist()
            if name.startswith(_FOLDER) and name.endswith(".json")
        }
        manifest = jar.read("kafka/kafka-version.properties").decode()
    release = re.search(r"^version=(\S+)", manifest, re.MULTILINE)
    if release is None:
        raise ValueError(f"{path} names no version of Kafka")
    apis = [
        _api(schema, schemas[name.removesuffix("Request") + "Response"])
        for name, schema in schemas.items()
        if {"broker", "zkBroker"} & set(schema.get("listeners", ()))
        and name.removesuffix("Request") not in INTER_BROKER
    ]
    apis.sort(key=lambda api: api.key or 0)
    return release[1], [*apis, *(_data(schemas[name]) for name in DATA_SCHEMAS)]


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _load(text: str) -> dict[str, Any]:
    """Return the schema as a dict. Its ``//`` comments may follow a value on the same line; no string holds ``//``."""
    loaded = json.loads(re.sub(r"//.*", "", text))
    assert isinstance(loaded, dict)
    return loaded


def _api(request: dict[str, Any], response: dict[str, Any]) -> Api:
    versions, flexible = request["validVersions"], request["flexibleVersions"]
    if (versions, flexible) != (response["validVersions"], response["flexibleVersions"]):
        raise ValueError(f"{request['name']} and its response disagree about versions")
    stable = Versions.parse(versions)
    if request.get("latestVersionUnstable"):
        stable = Versions(stable.low, stable.high - 1)
    api = Api(request["name"].removesuffix("Request"), request["apiKey"], stable, Versions.parse(flexible))
    ours, theirs = _structs("request", request), _structs("response", response)
    shared = {struct.name for struct in ours} & {struct.name for struct in theirs}
    api.structs = _prefix(ours, shared, "Request") + _prefix(theirs, shared, "Response")
    return api


def _data(schema: dict[str, Any]) -> Api:
    versions, flexible = Versions.parse(schema["validVersions"]), Versions.parse(schema["flexibleVersions"])
    return Api(schema["name"], None, versions, flexible, _structs("message", schema))


def _prefix(structs: list[Struct], names: set[str], prefix: str) -> list[Struct]:
    """Return the same structs, with ``names`` prefixed: request and response share one module."""

    def renamed(name: str) -> str:
        return prefix + name if name in names else name

    def retyped(item: Field) -> Field:
        array = "[]" if item.is_array else ""
        return Field.parse(str(item).replace(f" {item.type} ", f" {array}{renamed(item.element)} ", 1))

    return [Struct(struct.kind, renamed(struct.name), [retyped(f) for f in struct.fields]) for struct in structs]


def _structs(kind: str, schema: dict[str, Any]) -> list[Struct]:
    """Return the schema's structs, each after the ones that it uses, the root last."""
    common = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", ())}
    done: dict[str, Struct] = {}

    def visit(kind: str, name: str, fields: list[dict[str, Any]]) -> None:
        struct = Struct(kind, name)
        for raw in fields:
            item = _field(raw)
            if item.element not in PRIMITIVES and item.element not in done:
                visit("struct", item.element, raw.get("fields") or common[item.element])
            struct.fields.append(item)
        if name in done:
            raise ValueError(f"{schema['name']} defines {name} twice")
        done[name] = struct

    visit(kind, schema["name"], schema["fields"])
    return list(done.values())


def _field(raw: dict[str, Any]) -> Field:
    versions = Versions.parse(raw["versions"])
    tagged = Versions.parse(raw.get("taggedVersions", "none"))
    if tagged not in (NO_VERSIONS, versions):
        raise ValueError(f"{raw['name']} is tagged in some of its versions only")
    default = raw.get("default")
    text = None if default is None or default == "" else str(default).lower()
    if text is not None and text not in ("null", "true", "false"):
        text = str(float(text)) if raw["type"] == "float64" else str(int(text, 0))
    ignorable = str(raw.get("ignorable", False)).lower() == "true"
    nullable = Versions.parse(raw.get("nullableVersions", "none"))
    return Field(snake_case(raw["name"]), raw["type"], versions, nullable, raw.get("tag"), text, ignorable)
