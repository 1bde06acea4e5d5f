"""The URL of a proxy."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from ..errors import ConfigError, ConfigTypeError
from .checks import Secret

__all__ = ["proxy_url"]

SCHEMES = ("http", "socks4", "socks5")


def proxy_url(name: str, value: Any) -> Secret:
    """Check the URL of a proxy, of which errors show nothing: a password may be in it."""
    if not isinstance(value, str):
        raise ConfigTypeError(f"{name} must be a str, not {type(value).__name__}")
    if not _names_a_proxy(value):
        kinds = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise ConfigError(f"{name} must be one of {kinds} with host and port, as in socks5://user:password@host:1080")
    if find_spec("python_socks") is None:
        raise ConfigError(f"{name} needs python-socks: pip install 'aiokafka-lead[proxy]'")
    return Secret(value)


def _names_a_proxy(url: str) -> bool:
    try:
        split = urlsplit(url)
        named = bool(split.hostname and split.port)
    except ValueError:
        return False
    return named and split.scheme in SCHEMES and not (split.path.strip("/") or split.query or split.fragment)
