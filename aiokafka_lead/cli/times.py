"""Times and durations as people write them."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

from ..errors import ConfigError

__all__ = ["duration", "moment_ms", "pause", "shown_time"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")


def duration(text: str) -> timedelta:
    """``"2h"``, ``"1d12h"``, ``"90s"``, ``"250ms"``."""
    if not _DURATION.fullmatch(text):
        raise ConfigError(f"{text!r} is no duration like 90s, 2h or 1d12h")
    try:
        return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)))
    except OverflowError:
        raise ConfigError(f"{text!r} is too long") from None


def pause(interval: str) -> float:
    """The seconds between two looks of a live display."""
    seconds = duration(interval).total_seconds()
    if not seconds:
        raise ConfigError(f"--interval must be longer than {interval}")
    return seconds


def moment_ms(text: str) -> int:
    """A time in milliseconds since 1970: a duration before now, an ISO 8601 time, or the milliseconds themselves."""
    if _DURATION.fullmatch(text):
        return max(0, int((time.time() - duration(text).total_seconds()) * 1000))
    if text.isdigit():
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{text!r} is no time: write 2h (ago), 2026-11-23T10:00 or milliseconds since 1970") from None
    # Without a zone it is the time where it was written.
    return max(0, int(when.timestamp() * 1000))


def shown_time(timestamp_ms: int) -> str:
    """A time for people, in UTC."""
    if timestamp_ms < 0:
        return "-"
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
