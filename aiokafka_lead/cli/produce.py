"""``aiokafka-lead produce``: sends records that it reads from standard input."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Container
from contextlib import suppress
from typing import Annotated, Any

import typer

from ..errors import ConfigError, SchemaContentError, SchemaNotFoundError
from .failures import Failed
from .json_text import member_of, read_json
from .names import close_to
from .places import NO_TIME
from .record_text import without_escapes
from .registering import Compression, add
from .schemas import FromJson, registry_of, writer_of
from .session import Session
from .stdin import lines
from .writing import topic_to_write, writing

_FIELDS = ("key", "value", "headers", "partition", "timestamp_ms")
_KNOWN = {*_FIELDS, "key_as", "value_as", "key_base64", "value_base64", "topic", "offset"}
"""Accepted members: everything that ``consume --json`` prints. ``topic`` and ``offset`` are ignored."""

_FORMS = ("text", "json", "hex", "base64")


def record_of(line: bytes, number: int, by_schema: Container[str] = ()) -> dict[str, Any]:
    """Return the keyword arguments of `Producer.send` for a line of JSON.

    ``by_schema`` contains ``"key"`` or ``"value"`` if that part is encoded with a schema. Its bytes are then always
    JSON: a string keeps its quotes, unless it contains JSON, which becomes a `_JsonOrText`. Raises `Failed`, which
    names the line, if the line is invalid.
    """
    try:
        text = line.decode("utf-8-sig")
        found = read_json(text)
    except ValueError as error:
        raise Failed(f"line {number} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Failed(f"line {number} is not a JSON object")
    for name in found:
        if name not in _KNOWN:
            near = close_to(name, _FIELDS)
            raise Failed(f"line {number}: {name!r} is not one of {', '.join(_FIELDS)}{near}")
    record: dict[str, Any] = {name: found[name] for name in _FIELDS if found.get(name) is not None}
    try:
        for name in ("key", "value"):
            content = _content(found, name, text)
            is_text = isinstance(found.get(name), str) and found.get(f"{name}_as") not in ("hex", "base64")
            if name in by_schema and is_text:
                quoted = member_of(text, name).encode()
                content = _JsonOrText(content, quoted) if content is not None and _is_json(content) else quoted
            if content is not None:
                record[name] = content
        record["headers"] = _headers(record.get("headers", []))
    except UnicodeEncodeError:
        raise Failed(f"line {number}: a string contains half of a surrogate pair") from None
    except (TypeError, ValueError) as error:  # TypeError if a header is a number with thousands of digits
        raise Failed(f"line {number}: {error}") from None
    if record.get("timestamp_ms") == NO_TIME:
        del record["timestamp_ms"]
    return record


def _content(found: dict[str, Any], name: str, text: str) -> bytes | None:
    """Return the bytes of a key or value: a string in UTF-8, or the JSON text of any other value."""
    encoded = found.get(f"{name}_base64")
    value = found.get(name)
    if encoded is not None:
        if value is not None:
            raise ValueError(f"{name} and {name}_base64 cannot be combined")
        return _from_base64(encoded)
    form = found.get(f"{name}_as")
    if form not in (None, *_FORMS):
        raise ValueError(f"{name}_as must be one of {', '.join(_FORMS)}, not {form!r}")
    if form in ("hex", "base64"):
        if not isinstance(value, str):
            raise ValueError(f"{name} must be a string, because {name}_as is {form}")
        return _from_hex(value) if form == "hex" else _from_base64(value)
    if form == "json" and name in found:
        return member_of(text, name).encode()
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else member_of(text, name).encode()


class _JsonOrText(bytes):
    """JSON from a string that may also be the value itself, such as ``"42"`` for a schema of text."""

    quoted: bytes
    """The string in JSON."""

    def __new__(cls, content: bytes, quoted: bytes) -> _JsonOrText:
        made = super().__new__(cls, content)
        made.quoted = quoted
        return made


def _is_json(content: bytes) -> bool:
    try:
        read_json(content.decode())
    except ValueError:
        return False
    return True


def _headers(found: Any) -> list[tuple[str, bytes | None]]:
    pairs = [[*pair] for pair in found.items()] if isinstance(found, dict) else found
    fine = isinstance(pairs, list) and all(isinstance(each, list) and len(each) == 2 for each in pairs)
    if not fine:
        raise ValueError("headers must be an object, or a list of [name, value] pairs")
    made = []
    for name, value in pairs:
        if not isinstance(name, str):
            raise ValueError(f"the name of a header must be a string, not {json.dumps(name, default=str)}")
        name.encode()  # raises UnicodeEncodeError for half of a surrogate pair
        made.append((name, _given_header(value)))
    return made


def _given_header(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return _from_base64(value["base64"])
    return value.encode() if isinstance(value, str) else json.dumps(value, separators=(",", ":")).encode()


def _from_base64(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError):
        raise ValueError(f"{text!r} is not base64") from None


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ValueError(f"{text!r} is not hexadecimal") from None


_LONGEST_LINE = 64_000_000
_LINE_PER_RECORD = 4
"""Maximum ratio of the length of a line to the size of its record, because of base64 and escapes."""


def register(app: typer.Typer) -> None:
    """Add the command ``produce`` to ``app``."""
    add(app, "produce", produce)


async def produce(
    session: Session,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to write to.")],
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", help="Split each line into a key and a value at this text."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of all records.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="Add this header to all records; may be repeated."),
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", help="Write all records to this partition.")] = None,
    input_json: Annotated[
        bool,
        typer.Option(
            "--input-json",
            help="Each line is a JSON object with key, value, headers, partition, timestamp_ms, as consume --json "
            "prints it.",
        ),
    ] = False,
    null_value: Annotated[
        bool, typer.Option("--null-value", "-Z", help="Send an empty value as null (a tombstone).")
    ] = False,
    value_schema: Annotated[
        str | None,
        typer.Option(
            "--value-schema",
            metavar="FILE",
            help="Encode values, which are JSON, with the schema in this .avsc, .json or .proto file, or with 'latest' "
            "of the schema registry.",
        ),
    ] = None,
    key_schema: Annotated[
        str | None, typer.Option("--key-schema", metavar="FILE", help="Encode keys with a schema, like --value-schema.")
    ] = None,
    register: Annotated[
        bool,
        typer.Option("--register", help="Register the schemas of the files if they are not registered yet."),
    ] = False,
    compression: Compression = "none",
) -> None:
    """Send each line of standard input as a record.

    Ends when the input ends and all records are acknowledged.
    """
    headers = [_header(text) for text in header or ()]
    if input_json and (key_separator is not None or key is not None):
        raise ConfigError("--input-json cannot be combined with --key or --key-separator: each line contains its key")
    if key is not None and key_separator is not None:
        raise ConfigError("--key cannot be combined with --key-separator: give only one of them")
    if key_schema is not None and key is None and key_separator is None and not input_json:
        raise ConfigError("--key-schema needs keys: --key, --key-separator or --input-json")
    if register and key_schema is None and value_schema is None:
        raise ConfigError("--register needs --value-schema or --key-schema")
    if key_separator == "":
        raise ConfigError("--key-separator must not be empty")
    separator = None if key_separator is None else without_escapes("--key-separator", key_separator)
    constant = None if key is None else key.encode("utf-8", "surrogateescape")
    schemas: dict[str, FromJson] = {}
    for part, given in (("key", key_schema), ("value", value_schema)):
        if given is not None:
            registry = registry_of(session.options)
            schemas[part] = await writer_of(registry, given, topic, is_key=part == "key", register=register)

    def parsed(line: bytes, number: int) -> dict[str, Any]:
        if input_json:
            record = record_of(line, number, schemas)
            record["headers"] = [*headers, *record["headers"]]
        else:
            record = {**_from_line(line, separator, constant, number), "headers": headers}
        if null_value and not record.get("value"):
            record["value"] = None
        if partition is not None:
            record["partition"] = partition
        return record

    is_typed = sys.stdin.isatty()
    async with session.producer(compression) as producer:
        await topic_to_write(session, producer, topic)
        if is_typed:
            session.out.hint("type one record per line (Ctrl-D to finish)")
        longest = max(_LONGEST_LINE, _LINE_PER_RECORD * session.options.get("max_request_size", 0))
        number = 0
        with session.out.progress(wanted=not is_typed) as progress:
            task = None if progress is None else progress.add_task(f"to {topic}", total=None)

            def show(written: int) -> None:
                if progress is not None and task is not None:
                    progress.update(task, completed=written)

            async with writing(session, producer, _line, progress=show) as here:
                async for some in lines(longest):
                    for line in some:
                        number += 1
                        if input_json and not line.strip():
                            continue
                        record = parsed(line, number)
                        for part, schema in schemas.items():
                            record[part] = await _by_schema(schema, record.get(part), topic, part, number)
                        await here.send(topic, record, number)
                    await here.keep_up()
    session.out.done(f"{topic}: {here.written} records", topic=topic, records=here.written)


def _line(number: int) -> str:
    return f"line {number}"


async def _by_schema(schema: FromJson, content: bytes | None, topic: str, part: str, number: int) -> bytes | None:
    if content is None:
        return None
    try:
        return await schema.encode(content, topic, is_key=part == "key")
    except SchemaContentError as error:
        if isinstance(content, _JsonOrText):
            with suppress(SchemaContentError):
                return await schema.encode(content.quoted, topic, is_key=part == "key")
        raise Failed(f"line {number}: the {part} does not match its schema: {error}") from None
    except SchemaNotFoundError as error:
        error.add_note("pass --register to register the schema of the file")
        raise


def _header(text: str) -> tuple[str, bytes]:
    name, separator, value = text.partition("=")
    if not separator:
        raise ConfigError(f"--header takes NAME=VALUE, not {text!r}")
    name.encode()  # raises UnicodeEncodeError if the name is not UTF-8; the value may be any bytes
    return name, value.encode("utf-8", "surrogateescape")


def _from_line(line: bytes, separator: bytes | None, key: bytes | None, number: int) -> dict[str, Any]:
    if separator is None:
        return {"key": key, "value": line}
    own, found, value = line.partition(separator)
    if not found:
        raise Failed(f"line {number} has no key: it does not contain {separator.decode(errors='backslashreplace')!r}")
    return {"key": own, "value": value}
