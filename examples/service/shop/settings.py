"""Settings from the environment, which differ between a laptop, a test and production."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """Settings, each read from the environment variable of the same name in capitals."""

    bootstrap_servers: str = field(default_factory=lambda: os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"))
    database: str = field(default_factory=lambda: os.environ.get("DATABASE", "sqlite+aiosqlite:///shop.db"))
    """A URL of SQLAlchemy: ``postgresql+asyncpg://user:password@host/shop`` in production."""
    health_port: int = field(default_factory=lambda: int(os.environ.get("HEALTH_PORT", "8080")))
    """Port of the billing service for health probes; 0 disables them."""
