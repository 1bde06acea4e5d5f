"""The start position of a partition without a committed offset: ``auto_offset_reset`` (KIP-1106)."""

from __future__ import annotations

import re

from ..._values import NamedTuple
from ...errors import ConfigError

LATEST_TIMESTAMP = -1
"""Timestamp that stands for the end of the log in ListOffsets. With read_committed, it is the last stable offset."""

EARLIEST_TIMESTAMP = -2
"""Timestamp that stands for the first offset of the log in ListOffsets."""

_DURATION = (
    r"(?i)P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:[.,]\d{1,9})?)S)?)?"
)
_UNIT_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


class ResetPolicy(NamedTuple):
    """The timestamp to send in ListOffsets: a special timestamp, or the current time minus a duration."""

    name: str
    timestamp: int = LATEST_TIMESTAMP
    duration_ms: int | None = None

    def timestamp_at(self, wall_clock_ms: int) -> int:
        """Return the timestamp for ListOffsets if the reset happens at this time, in milliseconds since 1970."""
        return self.timestamp if self.duration_ms is None else max(0, wall_clock_ms - self.duration_ms)


EARLIEST = ResetPolicy("earliest", EARLIEST_TIMESTAMP)
LATEST = ResetPolicy("latest", LATEST_TIMESTAMP)


def parse_reset_policy(text: str) -> ResetPolicy | None:
    """Return the policy that ``auto_offset_reset`` names, or None for "none".

    A duration is in ISO 8601 with days, hours, minutes and seconds, as in Java's ``Duration.parse``. It must not be
    negative. Raises `ConfigError`.
    """
    match text:
        case "earliest":
            return EARLIEST
        case "latest":
            return LATEST
        case "none":
            return None
    kind, separator, duration = text.partition(":")
    if kind != "by_duration" or not separator:
        raise ConfigError(
            f'auto_offset_reset must be "earliest", "latest", "none" or like "by_duration:PT1H", not {text!r}'
        )
    found = re.fullmatch(_DURATION, duration)  # compiled here because few consumers need it
    parts = {} if found is None else {unit: value for unit, value in found.groupdict().items() if value is not None}
    if not parts or duration[-1] in "Tt":
        raise ConfigError(
            f"the duration of auto_offset_reset must be ISO 8601, such as PT1H or P1DT12H, not {duration!r}"
        )
    total_ms = sum(float(value.replace(",", ".")) * _UNIT_MS[unit] for unit, value in parts.items())
    if total_ms >= 2**63:
        raise ConfigError(f"the duration of auto_offset_reset is too long: {duration!r}")
    return ResetPolicy(text, duration_ms=int(total_ms))
