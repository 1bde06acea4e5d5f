"""Writes the message modules and the table of APIs from the facts."""

from __future__ import annotations

from collections.abc import Iterator

from ..schema import NO_VERSIONS, Field
from .jar import snake_case
from .notation import Api, Struct

_BANNER = "Made by `python -m aiokafka_lead._wire.codegen`; do not edit."
_LINE_LENGTH = 120
_TYPES = {"string": "str", "bytes": "bytes", "records": "Records", "bool": "bool", "float64": "float", "uuid": "UUID"}


def module_name(api: Api) -> str:
    return snake_case(api.name)


def render_module(api: Api) -> str:
    """Return the source of one API's module."""
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
            "from __future__ import annotations",
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
