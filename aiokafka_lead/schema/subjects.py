"""Subjects under which schemas are registered (Confluent's ``SubjectNameStrategy``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

from ..errors import ConfigError, InvalidSchemaError

__all__ = ["Subject", "SubjectOf", "subject_strategy"]

SubjectOf = Callable[[str, bool, str | None], str]
"""Takes the topic, True for the key's schema, and the record's full name if there is one; returns the subject."""

Subject = Literal["topic", "record", "topic-record"] | SubjectOf
"""A strategy by name, or a custom one."""


def subject_strategy(given: Any) -> SubjectOf:
    """Return the function for an option's value; raise `ConfigError`."""
    if callable(given):
        return cast(SubjectOf, given)
    found = _STRATEGIES.get(given) if isinstance(given, str) else None
    if found is None:
        names = ", ".join(map(repr, _STRATEGIES))
        raise ConfigError(f"subject must be one of {names}, or a function, not {given!r}")
    return found


def _topic(topic: str, is_key: bool, _record: str | None) -> str:
    return f"{topic}-key" if is_key else f"{topic}-value"


def _record(_topic: str, _is_key: bool, record: str | None) -> str:
    if record is None:
        raise InvalidSchemaError("the schema has no name (a record's, a title), which its subject is to be made of")
    return record


def _topic_record(topic: str, is_key: bool, record: str | None) -> str:
    return f"{topic}-{_record(topic, is_key, record)}"


_STRATEGIES: dict[str, SubjectOf] = {"topic": _topic, "record": _record, "topic-record": _topic_record}
