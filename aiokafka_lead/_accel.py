"""Whether the hot modules are compiled."""

from __future__ import annotations

from ._records import decoder, encoder

__all__ = ["ACCELERATED"]

ACCELERATED = not any((module.__file__ or "").endswith(".py") for module in (decoder, encoder))
"""True when the record codec runs as compiled code, False when it runs as plain Python."""
