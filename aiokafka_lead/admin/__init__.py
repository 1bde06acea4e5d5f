"""Administration of a Kafka cluster."""

from __future__ import annotations

from .client import AdminClient
from .types import *  # noqa: F403 - what the admin client takes and returns
from .types import __all__ as _types

__all__ = ["AdminClient", *_types]
