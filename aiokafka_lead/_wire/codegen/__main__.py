"""Writes the generated files, or compares them with ``--check``.

python -m aiokafka_lead._wire.codegen                            protocol.txt -> messages/*.py, api_key.py

python -m aiokafka_lead._wire.codegen --jar kafka-clients.jar    the jar -> protocol.txt -> modules

python -m aiokafka_lead._wire.codegen --check [--jar JAR]        print stale files; exit status 1 if there are any
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..message import NO_VERSIONS, PRIMITIVES, Field, Versions

INTER_BROKER = {
    "DeleteShareGroupState",
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "ReadShareGroupStateSummary",
    "WriteShareGroupState",
}
"""APIs on the brokers' listener that only brokers call (the share coordinator's persister)."""

DATA_SCHEMAS = ("ConsumerProtocolAssignment", "ConsumerProtocolSubscription", "ControlRecordTypeSchema", "EndTxnMarker")
"""Schemas in the bytes fields of other messages, and in control records."""

_FOLDER = "common/message/"


def read_jar(path: Path) -> tuple[str, list[Api]]:
    """Return Kafka's release, and every API that a client may call (by key) followed by the data schemas (by name)."""
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
    """Return a schema as a dict.

    A ``//`` comment may follow a value on the same line, but no string contains ``//``.
    """
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
    """Return the structs with ``names`` prefixed, because a request and its response share a module."""

    def renamed(name: str) -> str:
        return prefix + name if name in names else name

    def retyped(item: Field) -> Field:
        array = "[]" if item.is_array else ""
        return Field.parse(str(item).replace(f" {item.type} ", f" {array}{renamed(item.element)} ", 1))

    return [Struct(struct.kind, renamed(struct.name), [retyped(f) for f in struct.fields]) for struct in structs]


def _structs(kind: str, schema: dict[str, Any]) -> list[Struct]:
    """Return the structs of a schema. Each struct comes after the structs that it uses, so the root comes last."""
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


# --- protocol.txt -----------------------------------------------------------------------------------------------------
#
# ``protocol.txt`` is written from the jar, and is read to write the modules. For example:
#
#     api 0 Produce versions 3-13 flexible 9+
#     struct PartitionProduceData
#         index int32 0+
#     request ProduceRequest
#         topic_data []TopicProduceData 0+
#
# A schema outside of the request protocol starts with ``data NAME versions V flexible V``, and contains one ``message
# NAME``. Structs come before the structs that use them.


PROTOCOL_FILE = Path(__file__).with_name("protocol.txt")


@dataclass(slots=True)
class Struct:
    kind: str
    """``struct``, ``request``, ``response``, or ``message`` for the root of a data schema."""
    name: str
    fields: list[Field] = dataclasses.field(default_factory=list)


@dataclass(slots=True)
class Api:
    name: str
    key: int | None
    """The API key, or None for a data schema."""
    versions: Versions
    flexible: Versions
    structs: list[Struct] = dataclasses.field(default_factory=list)


def render(release: str, apis: Iterable[Api]) -> str:
    """Return the text of ``protocol.txt``."""
    lines = [f"kafka {release}"]
    for api in apis:
        head = f"api {api.key} {api.name}" if api.key is not None else f"data {api.name}"
        lines += ["", f"{head} versions {api.versions} flexible {api.flexible}"]
        for struct in api.structs:
            lines.append(f"{struct.kind} {struct.name}")
            lines += [f"  {item}" for item in struct.fields]
    return "\n".join(lines) + "\n"


def parse(text: str) -> tuple[str, list[Api]]:
    """Return Kafka's release and the APIs described by ``text``."""
    lines: Iterator[str] = iter(text.splitlines())
    release = next(lines).removeprefix("kafka ")
    apis: list[Api] = []
    for line in lines:
        if line.startswith("  "):
            apis[-1].structs[-1].fields.append(Field.parse(line))
        elif line:
            kind, *words = line.split()
            if kind == "api":
                key, name, _, versions, _, flexible = words
                apis.append(Api(name, int(key), Versions.parse(versions), Versions.parse(flexible)))
            elif kind == "data":
                name, _, versions, _, flexible = words
                apis.append(Api(name, None, Versions.parse(versions), Versions.parse(flexible)))
            else:
                apis[-1].structs.append(Struct(kind, words[0]))
    return release, apis


_BANNER = "Made by `python -m aiokafka_lead._wire.codegen`; do not edit."
_LINE_LENGTH = 120
_TYPES = {"string": "str", "bytes": "bytes", "records": "Records", "bool": "bool", "float64": "float", "uuid": "UUID"}


def module_name(api: Api) -> str:
    return snake_case(api.name)


def render_module(api: Api) -> str:
    """Return the source of the module of one API."""
    ordered = sorted(api.structs, key=lambda struct: struct.kind == "request")
    classes = [line for struct in ordered for line in _class(api, struct)]
    body = "\n".join(classes)
    constants = [name for name in ("DEFAULT", "ZERO_UUID") if name in body]
    names = constants + sorted({struct.kind.capitalize() for struct in api.structs})
    typing = [f"    from ..message import {name}\n" for name in ("Records",) if f": {name} = " in body]
    if "UUID" in body.replace("ZERO_UUID", ""):
        typing.insert(0, "    from uuid import UUID\n" + ("\n" if typing else ""))
    checking = "\nif TYPE_CHECKING:\n" + "".join(typing) if typing else ""
    of = f"{api.name} (API key {api.key})" if api.key is not None else api.name
    lines = [
        f'"""{of}, versions {api.versions}.',
        "",
        _BANNER,
        '"""',
        "",
        *(["# ruff: noqa: RUF023 (slots are in the order of the schema)", ""] if _unsorted(api) else []),
        "from __future__ import annotations",
        "",
        *(["from typing import TYPE_CHECKING", ""] if typing else []),
        f"from ..message import {', '.join(names)}",
    ]
    return "\n".join(lines) + "\n" + checking + body + "\n"


def _unsorted(api: Api) -> bool:
    slots = [[field.name for field in struct.fields] for struct in api.structs]
    return any(names != sorted(names) for names in slots)


def _class(api: Api, struct: Struct) -> Iterator[str]:
    base = struct.kind.capitalize()
    if struct.kind == "request":
        base = f"Request[{api.name}Response]"
    yield f"\n\nclass {struct.name}({base}):"
    slots = [f'"{field.name}"' for field in struct.fields]
    if sum(len(slot) + 2 for slot in slots) <= 100:
        yield f"    __slots__ = ({', '.join(slots)}{',' if len(slots) == 1 else ''})"
    else:
        yield from _tuple("__slots__", slots)
    yield from _tuple("FIELDS", [f'"{field}"' for field in struct.fields])
    if struct.kind != "struct":
        yield f'    NAME = "{api.name}"'
        if api.key is not None:
            yield f"    API_KEY = {api.key}"
        yield f"    MIN_VERSION = {api.versions.low}"
        yield f"    MAX_VERSION = {api.versions.high}"
        if api.flexible != NO_VERSIONS:
            yield f"    FLEXIBLE_FROM = {api.flexible.low}"
    if struct.kind == "request":
        yield f"    RESPONSE = {api.name}Response"
    if not struct.fields:
        return
    yield ""
    yield "    def __init__("
    yield "        self,"
    yield "        *,"
    for field in struct.fields:
        default = field.python_default()
        yield f"        {field.name}: {_annotation(field)} = {'DEFAULT' if default in (None, '[]') else default},"
    yield "    ) -> None:"
    for field in struct.fields:
        default = field.python_default()
        value = field.name
        if default in (None, "[]"):
            value = f"{default or field.type + '()'} if {field.name} is DEFAULT else {field.name}"
        if field.type == "records":
            yield f"        self.{field.name}: memoryview | None = {value}  # type: ignore[assignment]"
        else:
            yield from _assignment(f"        self.{field.name}: {_annotation(field)}", value)


def _assignment(target: str, value: str) -> Iterator[str]:
    if len(target) + len(value) + 3 <= _LINE_LENGTH:
        yield f"{target} = {value}"
    else:
        yield f"{target} = ("
        yield f"            {value}"
        yield "        )"


def _tuple(name: str, items: list[str]) -> Iterator[str]:
    if len(items) < 2:
        yield f"    {name} = ({''.join(f'{item},' for item in items)})"
    else:
        yield f"    {name} = ("
        yield from (f"        {item}," for item in items)
        yield "    )"


def _annotation(field: Field) -> str:
    element = _TYPES.get(field.element) or (field.element if field.is_struct else "int")
    kind = f"list[{element}]" if field.is_array else element
    optional = field.nullable != NO_VERSIONS and field.type != "records"
    return f"{kind} | None" if optional else kind


def render_table(release: str, apis: list[Api]) -> str:
    """Return the source of ``api_key.py``."""
    keyed = [api for api in apis if api.key is not None]
    return "\n".join(
        [
            f'"""The APIs of Kafka {release} that a client may call. {_BANNER}"""',
            "",
            "from enum import IntEnum",
            "",
            "",
            "class ApiKey(IntEnum):",
            '    """The number of an API on the wire."""',
            "",
            *(f"    {snake_case(api.name).upper()} = {api.key}" for api in keyed),
            "",
            "",
            "NAMES = {",
            *(f'    {api.key}: "{api.name}",' for api in keyed),
            "}",
            '"""Kafka\'s name of each API; its module is the name in snake case."""',
            "",
        ]
    )


WIRE = Path(__file__).parent.parent
_MESSAGES_INIT = '"""One module per API, each imported at its first use."""\n'


def generated_files(protocol: str) -> dict[Path, str]:
    """Return every file that follows from the text of ``protocol.txt``, with its content."""
    release, apis = parse(protocol)
    files = {WIRE / "messages" / f"{module_name(api)}.py": render_module(api) for api in apis}
    files[WIRE / "messages" / "__init__.py"] = _MESSAGES_INIT
    files[WIRE / "api_key.py"] = render_table(release, apis)
    return files


def stale_files() -> list[Path]:
    """Return the generated files that differ from ``protocol.txt``, are missing, or should not exist."""
    files = generated_files(PROTOCOL_FILE.read_text())
    wrong = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    return sorted(wrong + [path for path in (WIRE / "messages").glob("*.py") if path not in files])


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m aiokafka_lead._wire.codegen", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a generated file is stale")
    parser.add_argument("--jar", type=Path, help="kafka-clients' jar: read the facts again")
    arguments = parser.parse_args()
    facts = None if arguments.jar is None else render(*read_jar(arguments.jar))
    if arguments.check:
        stale = stale_files()
        if facts is not None and facts != PROTOCOL_FILE.read_text():
            stale.append(PROTOCOL_FILE)
        for path in stale:
            print(f"stale: {path.relative_to(WIRE)}")
        return 1 if stale else 0
    if facts is not None:
        PROTOCOL_FILE.write_text(facts)
    files = generated_files(PROTOCOL_FILE.read_text())
    stale = stale_files()
    for path in stale:
        if path in files:
            path.write_text(files[path])
        else:
            path.unlink()
    print(f"{len(files)} files, {len(stale)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
