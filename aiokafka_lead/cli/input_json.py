"""Records as JSON, one per line: read by `produce --input-json`, and printed by `consume --json`."""

from __future__ import annotations

import base64
import json
from collections.abc import Container
from typing import Any

from .failures import Failed
from .json_text import member_of, read_json
from .names import close_to
from .times import NO_TIME

__all__ = ["record_of"]

_FIELDS = ("key", "value", "headers", "partition", "timestamp_ms")
_KNOWN = {*_FIELDS, "key_as", "value_as", "key_base64", "value_base64", "topic", "offset"}
"""Everything that ``consume --json`` prints can be written again; the origin of a record is ignored."""

_FORMS = ("text", "json", "hex", "base64")


def record_of(line: bytes, number: int, by_schema: Container[str] = ()) -> dict[str, Any]:
    """Return the arguments of `Producer.send` from a line; raise `Failed`, which names the line.

    ``by_schema``: "key", "value", or both, if a schema writes them: their bytes are JSON, even of a plain string.
    """
    try:
        text = line.decode("utf-8-sig")
        found = read_json(text)
    except ValueError as error:
        raise Failed(f"line {number} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Failed(f"line {number} is no JSON object")
    for name in found:
        if name not in _KNOWN:
            near = close_to(name, _FIELDS)
            raise Failed(f"line {number}: {name!r} is none of {', '.join(_FIELDS)}{near}")
    record: dict[str, Any] = {name: found[name] for name in _FIELDS if found.get(name) is not None}
    try:
        for name in ("key", "value"):
            content = _content(found, name, text)
            if name in by_schema and isinstance(found.get(name), str) and not _is_json(content):
                content = member_of(text, name).encode()
            if content is not None:
                record[name] = content
        record["headers"] = _headers(record.get("headers", []))
    except UnicodeEncodeError:
        raise Failed(f"line {number}: half of a surrogate pair is no text") from None
    except (TypeError, ValueError) as error:  # TypeError: a header with a number of thousands of digits
        raise Failed(f"line {number}: {error}") from None
    if record.get("timestamp_ms") == NO_TIME:
        del record["timestamp_ms"]
    return record


def _content(found: dict[str, Any], name: str, text: str) -> bytes | None:
    """Return a key's or value's bytes: text as it is, and any other value as JSON."""
    encoded = found.get(f"{name}_base64")
    value = found.get(name)
    if encoded is not None:
        if value is not None:
            raise ValueError(f"{name} and {name}_base64 exclude each other")
        return _from_base64(encoded)
    form = found.get(f"{name}_as")
    if form not in (None, *_FORMS):
        raise ValueError(f"{name}_as is one of {', '.join(_FORMS)}, not {form!r}")
    if form in ("hex", "base64"):
        if not isinstance(value, str):
            raise ValueError(f"{name} is no text, though {name}_as says {form}")
        return _from_hex(value) if form == "hex" else _from_base64(value)
    if form == "json" and name in found:
        return member_of(text, name).encode()
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else member_of(text, name).encode()


def _is_json(content: bytes | None) -> bool:
    try:
        read_json((content or b"").decode())
    except ValueError:
        return False
    return True


def _headers(found: Any) -> list[tuple[str, bytes | None]]:
    pairs = [[*pair] for pair in found.items()] if isinstance(found, dict) else found
    fine = isinstance(pairs, list) and all(isinstance(each, list) and len(each) == 2 for each in pairs)
    if not fine:
        raise ValueError("headers are an object, or a list of pairs of a name and a value")
    made = []
    for name, value in pairs:
        if not isinstance(name, str):
            raise ValueError(f"a header's name is text, not {json.dumps(name, default=str)}")
        name.encode()  # half of a surrogate pair: the error names the line
        made.append((name, _header(value)))
    return made


def _header(value: Any) -> bytes | None:
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
        raise ValueError(f"{text!r} is not hex") from None
