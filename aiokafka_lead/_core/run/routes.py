"""Routes from topics to handlers, and from handlers' results to outgoing records."""

from __future__ import annotations

import dataclasses
import decimal
import enum
import inspect
import json
import pathlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..._options.checks import boolean, function_of, integer, milliseconds
from ..._values import NamedTuple
from ...errors import ConfigError, ConfigTypeError


class Route(NamedTuple):
    """A handler with the options of `Handlers.on`."""

    handler: Callable[..., Any]
    model: Any = None
    to: str | None = None
    key: Callable[[Any], str | bytes | None] | None = None
    in_thread: bool = False
    max_records: int | None = None
    """Maximum number of records in a batch, or None if the handler takes single records."""
    max_wait_ms: float = 100


_RECORDS = integer(1)
_WAIT = milliseconds()


def checked_route(route: Route) -> Route:
    """Check a route and return it. Raises `ConfigError` or `ConfigTypeError`."""
    boolean("in_thread", route.in_thread)
    if not callable(route.handler):
        raise ConfigTypeError(f"a handler must be a function, not {type(route.handler).__name__}")
    if route.in_thread and not _is_done_when_called(function_of(route.handler)):
        raise ConfigTypeError("in_thread needs a plain function, not an async function or a generator")
    if route.key is not None and route.to is None:
        raise ConfigError("key needs the option to, the topic of the results")
    if route.key is not None and not callable(route.key):
        raise ConfigTypeError(f"key must be a function of the handler's result, not {type(route.key).__name__}")
    if route.max_records is not None:
        _RECORDS("max_records", route.max_records)
    _WAIT("max_wait_ms", route.max_wait_ms)
    return route


def _is_done_when_called(function: Any) -> bool:
    """Return True if a call of the function does its work.

    Returns False for coroutine functions and generators, whose call only creates an object that runs later.
    """
    return not (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    )


def check_topics(routes: Mapping[str | None, Route], read: Iterable[str]) -> None:
    """Raise `ConfigError` unless each topic that is read has a handler, and each handler has a topic."""
    read = frozenset(read)
    unread = [topic for topic in routes if topic is not None and topic not in read]
    if unread:
        raise ConfigError(f"handlers are registered for topics that the consumer does not read: {', '.join(unread)}")
    without = sorted(read - routes.keys())
    if without and None not in routes:
        raise ConfigError(f"no handler for {', '.join(without)}: name them with on(), or all others with on() alone")


def outgoing(route: Route, result: Any, key: Any, *, as_bytes: bool) -> Iterator[tuple[Any, Any]]:
    """Yield the value and the key of each record to send for a handler's result.

    ``key`` is the key of the handled record.
    """
    if result is None:
        return
    for each in result if isinstance(result, list) else (result,):
        chosen = key if route.key is None else route.key(each)
        if as_bytes and isinstance(chosen, (uuid.UUID, enum.Enum)):
            chosen = _plain(chosen)  # as plain text, without the quotes of JSON
        yield (encoded(each), encoded(chosen)) if as_bytes else (each, chosen)


def encoded(content: Any) -> bytes | None:
    """Return bytes unchanged, text as UTF-8, and everything else as JSON, including models, Structs and dataclasses."""
    if content is None or isinstance(content, bytes):
        return content
    if isinstance(content, str):
        return content.encode()
    if hasattr(content, "model_dump_json"):
        text: str = content.model_dump_json(by_alias=True)
        return text.encode()
    if hasattr(content, "__struct_fields__"):
        import msgspec

        found: bytes = msgspec.json.encode(content, enc_hook=_plain)
        return found
    return json.dumps(content, default=_plain, separators=(",", ":"), allow_nan=False).encode()


def _plain(content: Any) -> Any:
    """Return content that the json module accepts, and from which handlers can parse the same type."""
    if hasattr(content, "model_dump"):
        return content.model_dump(mode="json", by_alias=True)
    if hasattr(content, "__pydantic_serializer__"):
        return content.__pydantic_serializer__.to_python(content, mode="json", by_alias=True)
    if hasattr(content, "__struct_fields__"):
        import msgspec

        return msgspec.to_builtins(content, enc_hook=_plain)
    if hasattr(type(content), "__dataclass_fields__"):
        return {field.name: getattr(content, field.name) for field in dataclasses.fields(content)}
    if isinstance(content, enum.Enum):
        return content.value
    if isinstance(content, (set, frozenset)):
        return list(content)
    if isinstance(content, (uuid.UUID, decimal.Decimal, pathlib.PurePath)):
        return str(content)
    if isinstance(content, bytes):
        return content.decode()
    if hasattr(content, "isoformat"):
        return content.isoformat()
    raise TypeError(f"{type(content).__name__} cannot be sent: return bytes, str, a model, or a JSON value")
