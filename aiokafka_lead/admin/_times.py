"""Times as brokers count them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ["milliseconds_of"]

_EPOCH = datetime.fromtimestamp(0, UTC)


def milliseconds_of(moment: datetime) -> int:
    """The first whole millisecond since 1970 that is not before a moment (which has a time zone); exact."""
    return -((_EPOCH - moment) // timedelta(milliseconds=1))
