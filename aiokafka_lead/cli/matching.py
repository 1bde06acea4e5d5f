"""Filters for records: regular expressions, and conditions on JSON fields."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from operator import eq, ge, gt, le, lt, ne
from typing import Annotated, Any

import typer

from .._records.record import ConsumerRecord
from ..errors import ConfigError
from .json_text import exact_json

KeyMatch = Annotated[
    str | None, typer.Option("--key", metavar="REGEX", help="Only records whose key contains a match.")
]
ValueMatch = Annotated[
    str | None, typer.Option("--value", metavar="REGEX", help="Only records whose value contains a match.")
]
HeaderMatch = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        metavar="NAME[=REGEX]",
        help="Only records with this header, and a match in its value; may be repeated.",
    ),
]
MatchBytes = Annotated[
    bool, typer.Option("--match-bytes", help="Regular expressions search bytes instead of UTF-8 text.")
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Only records for which this is true, such as 'value.amount > 10'; may be repeated (all must be true).",
    ),
]

Record = ConsumerRecord[Any, Any]
Wanted = Callable[[Record], bool]

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {"==": eq, "!=": ne, "<=": le, ">=": ge, "<": lt, ">": gt}
_CONDITION = re.compile(
    r"\s*(?P<root>\w+)(?P<path>(?:\.[^\s.\[\]=!<>~\"]+|\[\d+\]|\[\"(?:[^\"\\]|\\.)*\"\])*)"
    r"\s*(?P<operator>==|!=|<=|>=|=~|<|>)\s*(?P<value>(?![=<>~]).*?)\s*",
    re.DOTALL,
)
_WORD = re.compile(r"[^\s'\"`=<>!~&|()\[\]{},;]+")
_PYTHON = {"True": "true", "False": "false", "None": "null"}
_NUMBERS = ("partition", "offset", "timestamp_ms")
_STEP = re.compile(r"\.([^\s.\[\]]+)|\[(\d+)\]|\[(\"(?:[^\"\\]|\\.)*\")\]")


def matching(
    key: str | None, value: str | None, headers: Iterable[str], conditions: Iterable[str], *, in_bytes: bool
) -> Wanted:
    """Return a predicate for records that match all regular expressions and all conditions.

    Regular expressions search the text, in which U+FFFD replaces invalid UTF-8. With ``in_bytes``, they search the
    bytes. Raises `ConfigError` if an expression or a condition is invalid.
    """
    search = _in_bytes if in_bytes else _in_text
    checks: list[Wanted] = []
    if key is not None:
        of_key = search("--key", key)
        checks.append(lambda record: record.key is not None and of_key(record.key))
    if value is not None:
        of_value = search("--value", value)
        checks.append(lambda record: record.value is not None and of_value(record.value))
    for text in headers:
        name, _, expression = text.partition("=")
        checks.append(_header(name, search("--header", expression)))
    checks += map(condition, conditions)
    return lambda record: all(check(record) for check in checks)


def _header(name: str, agrees: Callable[[bytes], bool]) -> Wanted:
    return lambda record: any(found == name and agrees(content or b"") for found, content in record.headers)


def _in_text(option: str, expression: str) -> Callable[[bytes], bool]:
    try:
        search = re.compile(expression).search
    except re.error as error:
        raise ConfigError(f"{option}: {expression!r} is not a valid regular expression: {error}") from None
    return lambda content: search(content.decode("utf-8", "replace")) is not None


def _in_bytes(option: str, expression: str) -> Callable[[bytes], bool]:
    try:
        search = re.compile(expression.encode("utf-8", "surrogateescape")).search
    except re.error as error:
        raise ConfigError(f"{option}: {expression!r} is not a valid regular expression: {error}") from None
    return lambda content: search(content) is not None


def condition(text: str) -> Wanted:
    """Return a predicate for a ``--where`` condition, such as ``value.amount > 10``.

    Raises `ConfigError` if the condition is invalid.
    """
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ConfigError(
            f"--where: {text!r} is not a condition; write PATH OPERATOR VALUE, such as value.amount > 10, with one of"
            f" the operators {_known()}"
        )
    read = _root(found["root"])
    steps: list[str | int] = [_step(*groups) for groups in _STEP.findall(found["path"])]
    operator, value = found["operator"], found["value"]
    if found["root"] in (*_NUMBERS, "topic") and steps:
        raise ConfigError(f"--where: {found['root']} has no fields")
    if found["root"] in _NUMBERS and operator != "=~" and not _is_number(_wanted(value)):
        raise ConfigError(f"--where: {found['root']} must be compared with a number, not {value!r}")
    compare = _matches(value) if operator == "=~" else _comparison(operator, value)

    def agrees(record: Record) -> bool:
        return compare(_at(read(record), steps))

    return agrees


def _known() -> str:
    return " ".join([*_OPERATORS, "=~"])


def _step(name: str, number: str, quoted: str) -> str | int:
    return int(number) if number else json.loads(quoted) if quoted else name


def _root(name: str) -> Callable[[Record], Any]:
    """Return a getter for the first name of a path. Keys, values and headers are JSON if possible, otherwise text."""
    if name in ("key", "value"):
        return lambda record: _content(record.key if name == "key" else record.value)
    if name == "headers":
        return lambda record: {header: _content(content) for header, content in record.headers}
    if name in ("topic", *_NUMBERS):
        return lambda record: getattr(record, name)
    raise ConfigError(f"--where: {name!r} is not one of key, value, headers, topic, partition, offset, timestamp_ms")


def _content(content: bytes | None) -> Any:
    if content is None:
        return None
    text = content.decode("utf-8", "replace")
    return _json(text, text)


def _json(text: str, otherwise: Any) -> Any:
    try:
        return exact_json(text)
    except ValueError:
        return otherwise


def _at(found: Any, steps: Sequence[str | int]) -> Any:
    """Return the value at a path, or None if it does not exist."""
    for step in steps:
        if isinstance(found, dict):
            found = found.get(str(step))
        elif isinstance(found, list) and isinstance(step, int):
            found = found[step] if step < len(found) else None
        else:
            return None
    return found


def _matches(text: str) -> Callable[[Any], bool]:
    """Return a predicate that searches for a regular expression, which may be in double quotes. Raises `ConfigError`.

    A quoted expression is decoded as JSON if it is valid JSON.
    """
    quoted = len(text) > 1 and text[0] == text[-1]
    if quoted and text[0] == "'":
        raise ConfigError(f"--where: write the regular expression {text} without quotes, or in double quotes")
    expression = text
    if quoted and text[0] == '"':
        found = _json(text, None)
        expression = found if isinstance(found, str) else text[1:-1]
    try:
        search = re.compile(expression).search
    except re.error as error:
        raise ConfigError(f"--where: {text!r} is not a valid regular expression: {error}") from None
    return lambda found: found is not None and search(_text(found)) is not None


def _wanted(text: str) -> Any:
    """Return the value of a condition: JSON, or a word without quotes. Raises `ConfigError` for any other text."""
    try:
        return exact_json(text)
    except ValueError:
        pass
    if text in _PYTHON:
        raise ConfigError(f'--where: {text} is not JSON; write {_PYTHON[text]}, or "{text}" for a string')
    if _WORD.fullmatch(text):
        return text
    as_json = json.dumps(text[1:-1] if text[:1] == text[-1:] == "'" else text, ensure_ascii=False)
    raise ConfigError(
        f"--where: {text!r} is neither JSON nor a word; write {as_json} for a string, and a --where for each condition"
    )


def _comparison(operator: str, text: str) -> Callable[[Any], bool]:
    """Return a predicate that compares a field with the given text, as a number if both are numbers."""
    compare = _OPERATORS[operator]
    wanted = _wanted(text)
    word = wanted if isinstance(wanted, str) else text
    if operator not in ("==", "!=") and not isinstance(wanted, str) and not _is_number(wanted):
        raise ConfigError(f"--where: {operator} takes a number or a string, not {text}")

    def agrees(found: Any) -> bool:
        if _is_number(wanted) and _is_number(number := _json(found, found) if isinstance(found, str) else found):
            try:
                return compare(number, wanted)  # Avro's decimals and Protobuf's long integers are strings in JSON
            except InvalidOperation:  # NaN is neither less nor greater than a Decimal
                return False
        if operator in ("==", "!="):
            # A value that looks like a number may be meant as a string, for example an id that is a key.
            comparable = found is None or wanted is None or type(found) is type(wanted)
            return compare(found, wanted) if comparable else compare(_text(found), word)
        return isinstance(found, str) and isinstance(wanted, str) and compare(found, wanted)

    return agrees


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _text(value: Any) -> str:
    if isinstance(value, Decimal):
        return str(value)
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
