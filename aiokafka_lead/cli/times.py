"""Times and durations in human notation."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta

from ..errors import ConfigError

NO_TIME = -1
"""The timestamp of a record without one."""

_LAST_MS = 2**63 - 1
_EPOCH = datetime(1970, 1, 1)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")


def duration(text: str) -> timedelta:
    """Parse ``"2h"``, ``"1d12h"``, ``"90s"``, ``"250ms"``."""
    if not _DURATION.fullmatch(text):
        raise ConfigError(f"{text!r} is no duration like 90s, 2h or 1d12h")
    try:
        return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)))
    except OverflowError:
        raise ConfigError(f"{text!r} is too long") from None


def seconds(option: str, text: str | None) -> float | None:
    """Return the seconds of an option that takes a duration; a plain number means seconds."""
    if text is None:
        return None
    try:
        found = duration(f"{text}s" if text.replace(".", "", 1).isdigit() else text).total_seconds()
    except ConfigError as error:
        raise ConfigError(f"{option}: {error}") from None
    if not found:
        raise ConfigError(f"{option} must be longer than {text}")
    return found


def pause(interval: str) -> float:
    """Return the seconds between two samples of a live display."""
    return seconds("--interval", interval) or 0.0


def moment_ms(text: str) -> int:
    """Return a time in milliseconds since 1970: from a duration before now, an ISO 8601 time, or the milliseconds."""
    if _DURATION.fullmatch(text):
        return max(0, int((time.time() - duration(text).total_seconds()) * 1000))
    try:
        # Without a zone, it is local time.
        found = int(text) if text.isdecimal() else int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ConfigError(f"{text!r} is no time: write 2h (ago), 2026-11-23T10:00 or milliseconds since 1970") from None
    if found > _LAST_MS:
        raise ConfigError(f"{text!r} is too late: times are milliseconds since 1970, of 64 bits")
    return max(0, found)


def shown_time(timestamp_ms: int) -> str:
    """Return a time for people, in UTC: ``-`` for none, and milliseconds since 1970 beyond the year 9999."""
    if timestamp_ms == NO_TIME:
        return "-"
    try:
        shown = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms}ms"
    return shown.isoformat(timespec="milliseconds") + "Z"
