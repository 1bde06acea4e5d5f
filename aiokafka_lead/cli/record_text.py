"""How a record is shown: as text, by a template, or as JSON."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any

from .._records.record import ConsumerRecord
from ..errors import ConfigError
from .times import shown_time

__all__ = ["DECODERS", "Decoder", "as_json", "template"]

Record = ConsumerRecord[Any, Any]
Decoder = Callable[[bytes], Any]


def _text(content: bytes) -> str:
    return content.decode("utf-8", "backslashreplace")


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):  # the latter for what is too deep
        return _text(content)


DECODERS: dict[str, Decoder] = {
    "text": _text,
    "json": _json,
    "hex": bytes.hex,
    "base64": lambda content: base64.b64encode(content).decode(),
}
"""By the name that an option gives: what a key or value is shown as."""

_DIRECTIVE = re.compile(r"%(.)|\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}


def as_json(record: Record, key: Decoder, value: Decoder) -> dict[str, Any]:
    """All that a record has; a key or value that is not UTF-8 text is given in base64 beside it."""
    shown: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
    }
    for name, content, decode in (("key", record.key, key), ("value", record.value, value)):
        if content is not None and decode in (_text, _json) and not _is_text(content):
            shown[f"{name}_base64"] = base64.b64encode(content).decode()
        else:
            shown[name] = None if content is None else decode(content)
    shown["headers"] = [[name, None if content is None else _text(content)] for name, content in record.headers]
    return shown


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def template(text: str, key: Decoder, value: Decoder) -> Callable[[Record], str]:
    """A function that writes a record by a template; raises `ConfigError` for a directive that is not known.

    ``%t`` topic, ``%p`` partition, ``%o`` offset, ``%k`` key, ``%v`` (or ``%s``) value, ``%h`` headers, ``%T`` time in
    milliseconds, ``%D`` time as a date, ``%%``; ``\\n`` and ``\\t``.
    """

    def content(found: bytes | None, decode: Decoder) -> str:
        if found is None:
            return "null"
        shown = decode(found)
        return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)

    def headers(record: Record) -> str:
        return ",".join(f"{name}={content(found, _text)}" for name, found in record.headers)

    directives: dict[str, Callable[[Record], str]] = {
        "t": lambda record: record.topic,
        "p": lambda record: str(record.partition),
        "o": lambda record: str(record.offset),
        "k": lambda record: content(record.key, key),
        "v": lambda record: content(record.value, value),
        "s": lambda record: content(record.value, value),
        "h": headers,
        "T": lambda record: str(record.timestamp_ms),
        "D": lambda record: shown_time(record.timestamp_ms),
        "%": lambda record: "%",
    }
    parts: list[str | Callable[[Record], str]] = []
    end = 0
    for found in _DIRECTIVE.finditer(text):
        parts.append(text[end : found.start()])
        end = found.end()
        directive, escape = found.groups()
        if escape is not None:
            parts.append(_ESCAPES.get(escape, escape))
        elif directive in directives:
            parts.append(directives[directive])
        else:
            raise ConfigError(f"--format: there is no %{directive}, but {', '.join('%' + name for name in directives)}")
    parts.append(text[end:])
    return lambda record: "".join(part if isinstance(part, str) else part(record) for part in parts)
