"""JSON parsing that keeps all digits of numbers and accepts very large numbers."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any

_SPACE = re.compile(r"[ \t\n\r]*")


def _whole(digits: str) -> int | Decimal:
    try:
        return int(digits)
    except ValueError:  # int refuses more than 4,300 digits (sys.get_int_max_str_digits)
        return Decimal(digits)


def _fraction(digits: str) -> Decimal | float:
    try:
        return Decimal(digits)
    except ArithmeticError:  # an exponent beyond 10**18, which float rounds to infinity or zero
        return float(digits)


def _finite(digits: str) -> Decimal | float:
    found = float(digits)
    return _fraction(digits) if math.isinf(found) else found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


_LENIENT = json.JSONDecoder(parse_int=_whole, parse_float=_finite)
_STRICT = json.JSONDecoder(parse_int=_whole, parse_constant=_refuse)
_EXACT = json.JSONDecoder(parse_int=_whole, parse_float=_fraction)


def read_json(text: str, decoder: json.JSONDecoder = _LENIENT) -> Any:
    """Return the value of a JSON text. Raises ValueError if it is invalid or nested too deeply."""
    try:
        return decoder.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def strict_json(text: str) -> Any:
    """Return the value of a JSON text like `read_json`, but reject ``NaN`` and ``Infinity``, which are not JSON."""
    return read_json(text, _STRICT)


def exact_json(text: str) -> Any:
    """Return the value of a JSON text like `read_json`, with numbers as int and Decimal, which compare exactly."""
    return read_json(text, _EXACT)


def member_of(text: str, name: str) -> str:
    """Return the original JSON text of a member's value, or ``""`` if the object has no such member.

    Unlike encoding the parsed value again, this keeps all digits. If several members have the name, the last counts, as
    in parsing. ``text`` must be a valid JSON object.
    """
    at = _after_space(text, text.index("{") + 1)
    found = ""
    while text[at] != "}":
        this, at = _LENIENT.raw_decode(text, at)
        begin = _after_space(text, text.index(":", at) + 1)
        _, end = _LENIENT.raw_decode(text, begin)
        if this == name:
            found = text[begin:end]
        at = _after_space(text, end)
        if text[at] == ",":
            at = _after_space(text, at + 1)
    return found


def _after_space(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]
