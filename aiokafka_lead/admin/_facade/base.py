"""What the calls of every area need."""

from __future__ import annotations

from .._calls import Calls

__all__ = ["AdminArea"]


class AdminArea:
    """The calls of one area; `AdminClient` inherits all of them."""

    _calls: Calls
