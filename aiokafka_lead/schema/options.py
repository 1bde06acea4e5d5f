"""Options of `SchemaRegistry`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ssl import SSLContext
from typing import Any, TypedDict

from .._options.checks import Checked, Secret, boolean, encodable, instance, milliseconds, option, optional, path, text
from .._options.tls import TlsMaterial
from ..errors import ConfigError, ConfigTypeError
from ..oidc.http import checked_url

_SSL = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_password")


def _basic(name: str, value: Any) -> tuple[str, str]:
    if not isinstance(value, tuple) or len(value) != 2 or not all(isinstance(part, str) for part in value):
        raise ConfigTypeError(f"{name} must be a tuple of a user name and a password")
    if ":" in value[0]:
        raise ConfigError(f"{name}: the user name must not contain a colon")
    return encodable(name, value[0]), encodable(name, Secret(value[1]))


def _provider(name: str, value: Any) -> Any:
    if not callable(value) and not callable(getattr(value, "token", None)):
        raise ConfigTypeError(f"{name} must be a token provider or a function, not {type(value).__name__}")
    return value


def _headers(name: str, value: Any) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(part, str) for pair in value.items() for part in pair):
        raise ConfigTypeError(f"{name} must map str to str")
    for key, content in value.items():
        if not _HEADER.fullmatch(key):
            raise ConfigError(f"{name} contains a name that is not valid for an HTTP header; use letters and '-'")
        if not content.isprintable() or not _is_latin(content):
            raise ConfigError(f"{name}: the value of {key} has a line break, or another character that cannot be sent")
    return {key: Secret(content) for key, content in value.items()}


_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _is_latin(content: str) -> bool:
    return max(content, default="") <= "\xff"


def _url(name: str, value: Any) -> str:
    url = checked_url(name, value, allow_http=True)
    if "?" in url or "#" in url:
        raise ConfigError(f"{name} must not contain '?' or '#'")
    return url.rstrip("/")


def _urls(name: str, value: Any) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, Iterable) or isinstance(items, (bytes, bytearray, Mapping)):
        raise ConfigTypeError(f"{name} must be a str or a list of str, not {type(value).__name__}")
    found = tuple(_url(name, item.strip() if isinstance(item, str) else item) for item in items if item != "")
    if not found:
        raise ConfigError(f"{name} must not be empty")
    return found


class RegistryOptions(TypedDict, total=False):
    """Options of `SchemaRegistry`, whose docstring describes them."""

    basic_auth: tuple[str, str] | None
    token_provider: Any
    headers: Mapping[str, str] | None
    ssl_context: SSLContext | None
    ssl_cafile: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_password: str | None
    allow_http: bool
    request_timeout_ms: float
    timeout_ms: float
    retry_backoff_ms: float
    retry_backoff_max_ms: float
    latest_max_age_ms: float
    absent_max_age_ms: float
    ignore_rules: bool


class RegistryConfig(Checked):
    """Validated options of `SchemaRegistry`."""

    urls: tuple[str, ...] = option((), _urls)
    basic_auth: tuple[str, str] | None = option(None, optional(_basic), secret=True)
    token_provider: Any = option(None, optional(_provider))
    headers: Mapping[str, str] | None = option(None, optional(_headers), secret=True)
    ssl_context: SSLContext | None = option(None, optional(instance(SSLContext, "an ssl.SSLContext")))
    ssl_cafile: str | None = option(None, optional(path))
    ssl_certfile: str | None = option(None, optional(path))
    ssl_keyfile: str | None = option(None, optional(path))
    ssl_password: str | None = option(None, optional(text), secret=True)
    allow_http: bool = option(False, boolean)
    request_timeout_ms: float = option(5_000, milliseconds(1))
    timeout_ms: float = option(30_000, milliseconds(1))
    retry_backoff_ms: float = option(100, milliseconds(1))
    retry_backoff_max_ms: float = option(2_000, milliseconds(1))
    latest_max_age_ms: float = option(300_000, milliseconds(0))
    absent_max_age_ms: float = option(30_000, milliseconds(0))
    ignore_rules: bool = option(False, boolean)

    def _check(self) -> None:
        secret = next((name for name in ("basic_auth", "token_provider", "headers") if getattr(self, name)), None)
        if self.basic_auth is not None and self.token_provider is not None:
            raise ConfigError("basic_auth and token_provider cannot be combined")
        if secret is not None:
            for url in self.urls:
                checked_url(f"urls (with {secret})", url, allow_http=self.allow_http)
        given = [name for name in _SSL if getattr(self, name) is not None]
        if self.ssl_context is not None and given:
            raise ConfigError(f"{given[0]} and ssl_context cannot be combined")

    def tls_material(self) -> TlsMaterial | None:
        """Return the TLS files, or None if no ``ssl_*`` option names a file."""
        given = {name: getattr(self, name) for name in _SSL if getattr(self, name) is not None}
        return TlsMaterial(**given) if given else None
