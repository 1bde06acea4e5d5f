"""Parsers from a record's bytes to the type of a handler's annotation."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from ...errors import ConfigTypeError

Parse = Callable[[Any], Any]


def parser_for(kind: Any, what: str) -> Parse:
    """Return the function that parses bytes as this type; raise `ConfigTypeError` for a type that no parser supports.

    bytes and str are the bytes themselves and their UTF-8 text. Every other type is parsed from JSON: plain dict and
    list, models of pydantic, Structs of msgspec, and other types that either library supports, such as dataclasses. A
    value that a deserializer has already turned into an object is checked in the same way. ``what`` names the parameter
    in errors.
    """
    if kind in (Any, object):
        return _as_it_is
    if None in (found := typing.get_args(kind)) or type(None) in found:
        return _or_none(kind, found, what)
    parse = _SIMPLE.get(kind) if isinstance(kind, type) else None
    if parse is not None:
        return parse
    if hasattr(kind, "__struct_fields__"):
        return _by_msgspec(kind)
    if hasattr(kind, "__pydantic_validator__"):
        return _by_validator(kind.__pydantic_validator__)
    return _by_library(kind, what)


def _or_none(kind: Any, members: tuple[Any, ...], what: str) -> Parse:
    rest = tuple(each for each in members if each is not None and each is not type(None))
    if typing.get_origin(kind) not in (typing.Union, types.UnionType) or not rest:
        return _by_library(kind, what)
    parse = parser_for(rest[0] if len(rest) == 1 else typing.Union[rest], what)  # noqa: UP007
    return lambda content: None if content is None else parse(content)


def _by_library(kind: Any, what: str) -> Parse:
    tried: list[str] = []
    if find_spec("pydantic") is not None:
        import pydantic

        try:
            return _by_validator(pydantic.TypeAdapter(kind).validator)
        except (TypeError, ValueError, pydantic.errors.PydanticUserError) as error:
            tried.append(f"pydantic: {str(error).splitlines()[0]}")
    if find_spec("msgspec") is not None:
        try:
            return _by_msgspec(kind)
        except TypeError as error:
            tried.append(f"msgspec: {error}")
    reason = "; ".join(tried) or "it needs pydantic or msgspec"
    raise ConfigTypeError(f"{what}: no record can be parsed as {_shown(kind)} ({reason})")


def _by_validator(validator: Any) -> Parse:
    from_json, from_python = validator.validate_json, validator.validate_python

    def parse(content: Any) -> Any:
        return from_json(content) if isinstance(content, bytes) else from_python(content)

    return parse


def _by_msgspec(kind: Any) -> Parse:
    import msgspec

    # msgspec accepts any class here, and only fails later, for each record, if it does not support the class.
    if isinstance(kind, type) and type(msgspec.inspect.type_info(kind)).__name__ == "CustomType":
        raise TypeError(f"{_shown(kind)} is not supported")
    decode, convert = msgspec.json.Decoder(kind).decode, msgspec.convert

    def parse(content: Any) -> Any:
        return decode(content) if isinstance(content, bytes) else convert(content, kind)

    return parse


def _as_it_is(content: Any) -> Any:
    return content


def _bytes(content: Any) -> bytes:
    if not isinstance(content, bytes):
        raise TypeError(f"expected bytes, not {_type_of(content)}")
    return content


def _str(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, bytes):
        raise TypeError(f"expected text, not {_type_of(content)}")
    return content.decode()


def _json(kind: type) -> Parse:
    def parse(content: Any) -> Any:
        found = json.loads(content) if isinstance(content, bytes) else content
        if kind is float and type(found) is int:  # JSON does not tell them apart: many libraries write 5.0 as 5
            return float(found)
        if type(found) is not kind:
            raise TypeError(f"expected {kind.__name__}, not {_type_of(found)}")
        return found

    return parse


_SIMPLE: dict[Any, Parse] = {bytes: _bytes, str: _str, **{kind: _json(kind) for kind in (dict, list, int, float, bool)}}


def _type_of(content: Any) -> str:
    return "None" if content is None else type(content).__name__


def _shown(kind: Any) -> str:
    return getattr(kind, "__qualname__", None) or str(kind)
