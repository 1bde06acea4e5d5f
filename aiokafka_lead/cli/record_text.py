"""Formatting of records as text with a template, or as JSON that `produce --input-json` accepts."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any

from .._records.record import ConsumerRecord
from ..errors import ConfigError
from .json_text import strict_json
from .places import shown_time
from .streams import Stdout, visible

ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.|$)", re.DOTALL)
_SINGLE = {"n": 10, "t": 9, "r": 13, "0": 0, "a": 7, "b": 8, "e": 27, "f": 12, "v": 11, "\\": 92}


def unescaped(option: str, escape: str) -> bytes:
    r"""Return the bytes for an escape, given without its backslash.

    ``\xff`` is a byte, and ``\u00ff`` a character in UTF-8. Raises `ConfigError`, which names ``option``, for an
    invalid escape.
    """
    if escape in _SINGLE:
        return bytes((_SINGLE[escape],))
    if escape[:1] == "x" and len(escape) == 3:
        return bytes.fromhex(escape[1:])
    if escape[:1] in ("u", "U") and len(escape) > 1:
        try:
            return chr(int(escape[1:], 16)).encode()
        except (ValueError, OverflowError):  # half of a surrogate pair, or beyond Unicode
            raise ConfigError(f"{option}: \\{escape} is not a character") from None
    known = ", ".join(f"\\{name}" for name in _SINGLE)
    raise ConfigError(f"{option}: unknown escape \\{escape}; use {known}, \\xHH, \\uHHHH or \\UHHHHHHHH")


def without_escapes(option: str, text: str) -> bytes:
    """Return the bytes of a command-line argument with its escapes replaced.

    Raises `ConfigError` for an invalid escape.
    """
    made, end = b"", 0
    for found in ESCAPE.finditer(text):
        made += text[end : found.start()].encode("utf-8", "surrogateescape") + unescaped(option, found[1])
        end = found.end()
    return made + text[end:].encode("utf-8", "surrogateescape")


Record = ConsumerRecord[Any, Any]

FORMS = ("text", "json", "hex", "base64")
"""Values of ``--key-as`` and ``--value-as`` that need no schema registry."""

SCHEMA_FORM = "schema"
"""Value of ``--key-as`` and ``--value-as`` that needs a schema registry."""

_PART = re.compile(rf"%(?P<directive>.|$)|{ESCAPE.pattern}", re.DOTALL)
_LINE_ENDS = re.compile("[\r\n]")


class SchemaJson(bytes):
    """The JSON of a key or value that was decoded with a schema. `as_json` inserts it as it is."""


def as_json(record: Record, key_as: str, value_as: str) -> str:
    """Return a record as one line of JSON; see docs/cli.md, "Records as JSON"."""
    fields = [
        f'"topic": {json.dumps(record.topic)}',
        f'"partition": {record.partition}',
        f'"offset": {record.offset}',
        f'"timestamp_ms": {record.timestamp_ms}',
        *_field("key", record.key, key_as),
        *_field("value", record.value, value_as),
        f'"headers": [{", ".join(_header(name, content) for name, content in record.headers)}]',
    ]
    return f"{{{', '.join(fields)}}}"


def _field(name: str, content: bytes | None, form: str) -> list[str]:
    """Return the members of the JSON object for a key or value. `produce` restores the same bytes from them."""
    if content is None:
        return [f'"{name}": null']
    if form == "hex":
        return [f'"{name}": "{content.hex()}"', f'"{name}_as": "hex"']
    text = _decoded(content)
    if form == "base64" or text is None:
        return [f'"{name}_base64": "{base64.b64encode(content).decode()}"']
    if form == "text" or (form == SCHEMA_FORM and not isinstance(content, SchemaJson)):
        return [f'"{name}": {_quoted(text)}']
    try:
        value = strict_json(text)
    except ValueError:
        return [f'"{name}": {_quoted(text)}']
    # The original text, because encoding the value again could change digits of numbers and halves of surrogate pairs.
    shown = f'"{name}": {_LINE_ENDS.sub(" ", text.strip())}'
    return [shown, f'"{name}_as": "json"'] if value is None or isinstance(value, str) else [shown]


def _header(name: str, content: bytes | None) -> str:
    if content is None:
        return f"[{_quoted(name)}, null]"
    text = _decoded(content)
    encoded = f'{{"base64": "{base64.b64encode(content).decode()}"}}'
    return f"[{_quoted(name)}, {encoded if text is None else _quoted(text)}]"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _decoded(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def template(text: str, key_as: str, value_as: str, out: Stdout) -> Callable[[Record], bytes]:
    """Return a function that formats a record with a template. Raises `ConfigError` for an unknown directive.

    The directives are ``%t`` topic, ``%p`` partition, ``%o`` offset, ``%k`` key, ``%v`` or ``%s`` value, ``%h``
    headers, ``%T`` timestamp in milliseconds, ``%D`` timestamp as a date, and ``%%``. For escapes see
    `unescaped`. Keys, values and headers are written as raw bytes; on a terminal, control characters are escaped.
    """

    def seen(content: bytes) -> bytes:
        return out.encoded(visible(content.decode("utf-8", "backslashreplace"))) if out.isatty() else content

    def content(found: bytes | None, form: str) -> bytes:
        return b"null" if found is None else seen(_shown(found, form))

    def headers(record: Record) -> bytes:
        return b",".join(seen(name.encode()) + b"=" + content(found, "text") for name, found in record.headers)

    directives: dict[str, Callable[[Record], bytes]] = {
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "k": lambda record: content(record.key, key_as),
        "v": lambda record: content(record.value, value_as),
        "s": lambda record: content(record.value, value_as),
        "h": headers,
        "T": lambda record: b"%d" % record.timestamp_ms,
        "D": lambda record: shown_time(record.timestamp_ms).encode(),
        "%": lambda record: b"%",
    }
    parts: list[bytes | Callable[[Record], bytes]] = []
    end = 0
    for found in _PART.finditer(text):
        parts.append(text[end : found.start()].encode("utf-8", "surrogateescape"))
        end = found.end()
        directive = found["directive"]
        if directive is None:
            parts.append(unescaped("--format", found[2]))
        elif directive in directives:
            parts.append(directives[directive])
        else:
            raise ConfigError(
                f"--format: unknown field %{directive}; use {', '.join('%' + name for name in directives)}"
            )
    parts.append(text[end:].encode("utf-8", "surrogateescape"))
    return lambda record: b"".join([part if isinstance(part, bytes) else part(record) for part in parts])


def _shown(content: bytes, form: str) -> bytes:
    """Return a key or value in the form selected by ``--key-as`` or ``--value-as``."""
    if form == "hex":
        return content.hex().encode()
    if form == "base64":
        return base64.b64encode(content)
    if form in ("json", SCHEMA_FORM) and content[:1] == b'"':
        try:
            value = strict_json(content.decode())
        except ValueError:
            return content
        if isinstance(value, str):
            return value.encode("utf-8", "backslashreplace")
    return content
