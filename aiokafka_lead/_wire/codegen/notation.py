"""The file of protocol facts, ``protocol.txt``: written from the jar, read to write the modules.

    api 0 Produce versions 3-13 flexible 9+
    struct PartitionProduceData
      index int32 0+
    request ProduceRequest
      topic_data []TopicProduceData 0+

A schema outside the request protocol starts with ``data NAME versions V flexible V``, and holds one ``message NAME``.
Structs come before their users.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..schema import Field, Versions

PROTOCOL_FILE = Path(__file__).with_name("protocol.txt")


@dataclass(slots=True)
class Struct:
    kind: str
    """``struct``, ``request``, ``response`` or ``message`` (the root of a data schema)."""
    name: str
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True)
class Api:
    name: str
    key: int | None
    """The API key, or None for a data schema."""
    versions: Versions
    flexible: Versions
    structs: list[Struct] = field(default_factory=list)


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
    """Return Kafka's release and the APIs in ``text``."""
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
