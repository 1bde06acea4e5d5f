"""``aiokafka-lead produce``: records from standard input."""

from __future__ import annotations

import base64
import json
import sys
from typing import Annotated, Any

import typer

from ..errors import ConfigError, SchemaContentError
from ..schema import SchemaSerializer
from .failures import Failed
from .registering import add
from .schemas import registry_of, serializer_of
from .session import Session
from .stdin import lines

__all__ = ["register"]

_FIELDS = ("key", "value", "headers", "partition", "timestamp_ms")
_KNOWN = {*_FIELDS, "key_base64", "value_base64", "topic", "offset"}
"""All that ``consume --json`` prints can be written again; where a record was is left out."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "produce", produce)


async def produce(
    session: Session,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to write to.")],
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", help="A line is a key, this, and a value.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of all records.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="Of all records; may be repeated.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", help="Write to this partition.")] = None,
    input_json: Annotated[
        bool,
        typer.Option("--input-json", help="A line is a JSON object of key, value, headers, partition, timestamp_ms."),
    ] = False,
    null_value: Annotated[
        bool, typer.Option("--null-value", "-Z", help="An empty value is a null one: a tombstone.")
    ] = False,
    value_schema: Annotated[
        str | None,
        typer.Option(
            "--value-schema", metavar="FILE", help="Values are JSON, written by this .avsc or .json, or by the latest."
        ),
    ] = None,
    key_schema: Annotated[str | None, typer.Option("--key-schema", metavar="FILE", help="The same of keys.")] = None,
    register: Annotated[
        bool,
        typer.Option("--register", help="Register these schemas where they are missing."),
    ] = False,
    compression: Annotated[str, typer.Option("--compression", "-z", help="none, gzip, snappy, lz4 or zstd.")] = "none",
) -> None:
    """Write a record for each line of standard input.

    Ends with it, when all are acknowledged.
    """
    headers = [_header(text) for text in header or ()]
    if input_json and (key_separator is not None or key is not None):
        raise ConfigError("--input-json excludes --key and --key-separator: a line says its own key")
    separator = None if key_separator is None else key_separator.encode()
    constant = None if key is None else key.encode()
    serializers: dict[str, SchemaSerializer[Any]] = {}
    for part, given in (("key", key_schema), ("value", value_schema)):
        if given is not None:
            registry = registry_of(session.options)
            serializers[part] = await serializer_of(registry, given, topic, is_key=part == "key", register=register)
    written = 0
    number = 0
    compressing = {} if compression == "none" else {"compression_type": compression}
    is_typed = sys.stdin.isatty()
    async with session.producer(**compressing) as producer:
        if is_typed:
            session.out.hint("each line is a record (Ctrl-D ends)")
        with session.out.progress(wanted=not is_typed) as progress:
            task = None if progress is None else progress.add_task(f"to {topic}", total=None)
            pending: list[Any] = []
            async for some in lines():
                for line in some:
                    number += 1
                    if input_json:
                        record = _from_json(line, number)
                        record["headers"] = [*headers, *record.get("headers", ())]
                    else:
                        record = _from_line(line, separator, constant, number)
                        record["headers"] = headers
                    if null_value and not record.get("value"):
                        record["value"] = None
                    for part, serializer in serializers.items():
                        record[part] = await _by_schema(serializer, record.get(part), topic, part, number)
                    record.setdefault("partition", partition)
                    pending.append(await producer.send(topic, **record))
                written += await _settled(pending, all_of_them=False)
                if progress is not None and task is not None:
                    progress.update(task, completed=written)
            written += await _settled(pending, all_of_them=True)
    session.out.done(f"{topic}: {written} records", topic=topic, records=written)


async def _by_schema(
    serializer: SchemaSerializer[Any], content: bytes | None, topic: str, part: str, number: int
) -> bytes | None:
    if content is None:
        return None
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Failed(f"line {number}: the {part} is not JSON: {error}") from None
    try:
        return await serializer.encode(value, topic, is_key=part == "key")
    except SchemaContentError as error:
        raise Failed(f"line {number}: the {part} does not fit its schema: {error}") from None


async def _settled(pending: list[Any], *, all_of_them: bool) -> int:
    """Await what was sent, oldest first, and raise what failed; some are left on their way unless the input has ended.

    That bounds what is held here, while the producer's own memory bounds the records.
    """
    keep = 0 if all_of_them else 10_000
    count = max(0, len(pending) - keep)
    for delivery in pending[:count]:
        await delivery
    del pending[:count]
    return count


def _header(text: str) -> tuple[str, bytes]:
    name, separator, value = text.partition("=")
    if not separator:
        raise ConfigError(f"--header takes NAME=VALUE, not {text!r}")
    return name, value.encode()


def _from_line(line: bytes, separator: bytes | None, key: bytes | None, number: int) -> dict[str, Any]:
    if separator is None:
        return {"key": key, "value": line}
    own, found, value = line.partition(separator)
    if not found:
        raise Failed(f"line {number} has no key: there is no {separator.decode()!r} in it")
    return {"key": own, "value": value}


def _from_json(line: bytes, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Failed(f"line {number} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Failed(f"line {number} is no JSON object")
    unknown = [name for name in found if name not in _KNOWN]
    if unknown:
        raise Failed(f"line {number}: {unknown[0]!r} is none of {', '.join(_FIELDS)}")
    record: dict[str, Any] = {name: found[name] for name in _FIELDS if found.get(name) is not None}
    for name in ("key", "value"):
        encoded = found.get(f"{name}_base64")
        if encoded is not None:
            record[name] = _decoded(encoded, number)
        elif name in record:
            record[name] = _bytes(record[name])
    record["headers"] = _headers(record.get("headers", []), number)
    return record


def _headers(found: Any, number: int) -> list[tuple[str, bytes | None]]:
    pairs = [[*pair] for pair in found.items()] if isinstance(found, dict) else found
    fine = isinstance(pairs, list) and all(isinstance(each, list) and len(each) == 2 for each in pairs)
    if not fine:
        raise Failed(f"line {number}: headers are an object, or a list of pairs of a name and a value")
    return [(str(name), None if value is None else _bytes(value)) for name, value in pairs]


def _decoded(text: Any, number: int) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError):
        raise Failed(f"line {number}: {text!r} is not base64") from None


def _bytes(value: Any) -> bytes:
    """Text as it is, anything else as JSON."""
    return value.encode() if isinstance(value, str) else json.dumps(value, separators=(",", ":")).encode()
