"""Parsing a record's bytes as the type of a handler's annotation."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from ..._values import NamedTuple
from ...errors import ConfigTypeError

Parse = Callable[[Any], Any]


def parser_for(kind: Any, what: str, *, of_key: bool = False) -> Parse:
    """Return a function that parses bytes as this type. Raises `ConfigTypeError` if no parser supports the type.

    - bytes are returned as they are, and str is decoded from UTF-8.
    - All other types are parsed from JSON: plain dict and list, models of pydantic, Structs of msgspec, and further
      types that either library supports, such as dataclasses.
    - A value that a deserializer has already converted to an object is checked in the same way.
    - In a union with None, null in JSON is None, and so is a missing part of the record.
    - With ``of_key``, bytes are parsed as text unless they are an object, an array or a string in JSON. The text can
      be, for example, a UUID or the value of an Enum.

    ``what`` is the name of the parameter in errors.
    """
    if kind in (Any, object):
        return _as_it_is
    rest = without_none(kind)
    if rest is not kind:
        return _or_none(parser_for(rest, what, of_key=of_key), is_text=unwrapped(rest) in (str, bytes))
    plain = unwrapped(kind)
    simple = _SIMPLE.get(plain) if isinstance(plain, type) else None
    if simple is not None and typing.get_origin(kind) is not typing.Annotated:
        return simple
    from_json, from_python, from_text = _library(kind, what)
    if plain in (str, bytes) and simple is not None:
        return lambda content: from_python(simple(content))

    def parse(content: Any) -> Any:
        if not isinstance(content, bytes):
            return from_python(content)
        if of_key and content[:1] not in _JSON:
            return from_text(content.decode())
        try:
            return from_json(content)
        except Exception:
            encoding = json.detect_encoding(content)
            if encoding == "utf-8":
                raise
            # The bytes are UTF-16 or have a byte order mark. json accepts these, but the libraries do not.
            return from_json(content.decode(encoding).encode())

    return parse


def without_none(kind: Any) -> Any:
    """Return a union with None without the None, and Annotated without its metadata.

    Other types are returned unchanged.
    """
    if typing.get_origin(kind) not in (typing.Union, types.UnionType) or type(None) not in typing.get_args(kind):
        return kind
    return typing.Union[tuple(each for each in typing.get_args(kind) if each is not type(None))]  # noqa: UP007


def _or_none(parse: Parse, *, is_text: bool) -> Parse:
    """Return a parser that also accepts None: a missing part of the record, or null in JSON.

    With ``is_text``, the bytes ``null`` are text and not JSON.
    """

    def parse_or_none(content: Any) -> Any:
        if content is None:
            return None
        try:
            return parse(content)
        except Exception:
            if not is_text and isinstance(content, bytes) and content.strip() == b"null":
                return None
            raise

    return parse_or_none


def unwrapped(kind: Any) -> Any:
    """Return the type without the metadata of Annotated.

    NewTypes and aliases are replaced by the type that they name.
    """
    while True:
        if typing.get_origin(kind) is typing.Annotated:
            kind = kind.__origin__
        elif isinstance(kind, typing.NewType):
            kind = kind.__supertype__
        elif type(kind).__name__ == "TypeAliasType":
            kind = kind.__value__
        else:
            return kind


_JSON = (b"{", b"[", b'"')
"""First bytes of JSON other than numbers and words."""


class _Library(NamedTuple):
    """The parsers of one type from pydantic or msgspec."""

    from_json: Parse
    from_python: Parse
    from_text: Parse


def _library(kind: Any, what: str) -> _Library:
    """Return the parsers of a type, from the library that it belongs to. For other types, tries pydantic, then msgspec.

    Raises `ConfigTypeError` if neither library supports the type.
    """
    if hasattr(kind, "__struct_fields__"):
        return _msgspec(kind)
    if hasattr(kind, "__pydantic_validator__"):
        return _validator(kind.__pydantic_validator__)
    tried: list[str] = []
    if find_spec("pydantic") is not None:
        import pydantic

        try:
            return _validator(pydantic.TypeAdapter(kind).validator)
        except (TypeError, ValueError, pydantic.errors.PydanticUserError) as error:
            tried.append(f"pydantic: {str(error).splitlines()[0]}")
    if find_spec("msgspec") is not None:
        try:
            return _msgspec(kind, strict=not tried)  # pydantic, which has refused the type, is not strict
        except TypeError as error:
            tried.append(f"msgspec: {error}")
    reason = "; ".join(tried) or "it needs pydantic or msgspec"
    raise ConfigTypeError(f"{what}: no record can be parsed as {_shown(kind)} ({reason})")


def _validator(validator: Any) -> _Library:
    return _Library(validator.validate_json, validator.validate_python, validator.validate_strings)


def _msgspec(kind: Any, *, strict: bool = True) -> _Library:
    import msgspec

    # msgspec accepts any class here. If it does not support the class, it fails only when it parses a record.
    if isinstance(kind, type) and type(msgspec.inspect.type_info(kind)).__name__ == "CustomType":
        raise TypeError(f"{_shown(kind)} is not supported")
    convert = msgspec.convert
    return _Library(
        msgspec.json.Decoder(kind, strict=strict).decode,
        lambda content: convert(content, kind, strict=strict),
        lambda content: convert(content, kind, strict=False),
    )


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
        if kind is float and type(found) is int:  # JSON does not distinguish them, and many libraries write 5.0 as 5.
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
