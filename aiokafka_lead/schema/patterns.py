"""Conversion of regular expressions in a JSON Schema from the notation of ECMAScript or Java to Python's."""

from __future__ import annotations

import re
import sys
import unicodedata
import warnings
from array import array
from collections.abc import Iterator
from functools import cache
from typing import Any

_PART = re.compile(
    r"""(?P<category>\\[pP](?:\{(?P<long>\w+)\}|(?P<short>[A-Z])))
    |(?P<escape>\\.)|(?P<group>\(\?<(?=[A-Za-z]))|(?P<open>\[\^?)|(?P<close>\])|(?P<dash>-)|.""",
    re.DOTALL | re.VERBOSE,
)
_SETS = (r"\w", r"\W", r"\d", r"\D", r"\s", r"\S")
_CATEGORY = re.compile("[LMNPSZ][a-z]?")
_LAST = (0x323AF, 0xE01EF)
"""Last assigned characters below and above the unassigned planes of Unicode, which are skipped."""

_ELSEWHERE = ("enum", "const", "default", "examples")
"""Keywords whose content is data, not a schema."""
_BY_NAME = ("properties", "definitions", "$defs", "dependencies", "dependentSchemas")
"""Keywords that contain schemas by name. The names may be the same as keywords."""
_INTERSECTION = re.compile(r"\[(?:\\.|[^\]\\])*&&")


def python_pattern(pattern: str) -> str | None:
    """Return an equivalent pattern for Python, or None if this client cannot convert it.

    Python does not support Unicode categories (``\\p{L}``), groups of the form ``(?<name>...)``, or a literal ``-``
    after ``\\w`` within brackets.
    """
    if _INTERSECTION.search(pattern):  # in Python, the && of Java's intersections are literal characters
        return None
    if _compiles(pattern):
        return pattern
    try:
        found = _translated(pattern)
    except KeyError:
        return None
    return found if _compiles(found) else None


def with_python_patterns(schema: Any) -> tuple[Any, dict[str, str], list[str]]:
    """Convert the patterns in a schema.

    Returns the schema, a dict that maps converted patterns to the original patterns, and the patterns that cannot be
    converted. The latter are removed, and properties whose names may match a removed pattern are not checked.
    """
    changed: dict[str, str] = {}
    lost: list[str] = []

    def known(pattern: str) -> str | None:
        found = python_pattern(pattern)
        if found is None:
            lost.append(pattern)
        elif found != pattern:
            changed[found] = pattern
        return found

    def made(node: Any) -> Any:
        if isinstance(node, list):
            return [made(each) for each in node]
        if not isinstance(node, dict):
            return node
        content: dict[str, Any] = {}
        for name, inner in node.items():
            if name == "pattern" and isinstance(inner, str):
                if (found := known(inner)) is not None:
                    content[name] = found
            elif name == "patternProperties" and isinstance(inner, dict):
                found_ones = {each: known(each) for each in inner}
                content[name] = {found: made(inner[each]) for each, found in found_ones.items() if found is not None}
                if None in found_ones.values():
                    content[name] |= {"^": True}
            elif name in _BY_NAME and isinstance(inner, dict):
                content[name] = {each: made(part) for each, part in inner.items()}
            else:
                content[name] = inner if name in _ELSEWHERE else made(inner)
        return content

    return made(schema), changed, lost


def _compiles(pattern: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # for "--", "||" and "~~", which are literal so far
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _translated(pattern: str) -> str:
    """Convert the notation of a pattern.

    The result may be invalid in Python. Raises KeyError for an unknown category.
    """
    parts: list[str] = []
    within = False
    after_set = False
    for each in _PART.finditer(pattern):
        kind, part = each.lastgroup, each[0]
        if each["category"]:
            characters = _members(each["long"] or each["short"], negated=part[1] == "P")
            kind, part = "set", characters if within else f"[{characters}]"
        elif kind == "group" and not within:
            part = "(?P<"
        elif kind == "dash" and within and after_set:
            part = r"\-"
        elif kind == "open" and not within:
            within = True
        elif kind == "close":
            within = False
        elif kind == "open":
            part = f"\\{part}"
        after_set = kind == "set" or part in _SETS
        parts.append(part)
    return "".join(parts)


@cache
def _members(category: str, *, negated: bool) -> str:
    """Return ranges of the characters in a Unicode category, for use within brackets."""
    if not _CATEGORY.fullmatch(category):
        raise KeyError(category)
    ranges = list(_ranges(category))
    if not ranges:
        raise KeyError(category)
    if negated:
        starts = [0, *(last + 1 for _, last in ranges)]
        ends = [*(first - 1 for first, _ in ranges), 0x10FFFF]
        ranges = [(first, last) for first, last in zip(starts, ends, strict=True) if first <= last]
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


def _ranges(category: str) -> Iterator[tuple[int, int]]:
    pattern = re.compile(f"(?:{category if len(category) == 2 else f'{category}[a-z]'})+")
    for first, categories in _categories():
        for found in pattern.finditer(categories):
            yield first + found.start() // 2, first + found.end() // 2 - 1


@cache
def _categories() -> tuple[tuple[int, str], ...]:
    """Return the first character of each plane, and a text with the category of each character in two letters.

    Searching a text is many times faster than testing each character, which would block the event loop.
    """
    planes = (range(_LAST[0] + 1), range(0xE0000, _LAST[1] + 1))
    texts = (array("I", numbers).tobytes().decode("utf-32" + _ENDIAN, "surrogatepass") for numbers in planes)
    every = ("".join(map(unicodedata.category, text)) for text in texts)
    return tuple((numbers[0], categories) for numbers, categories in zip(planes, every, strict=True))


_ENDIAN = "-le" if sys.byteorder == "little" else "-be"
