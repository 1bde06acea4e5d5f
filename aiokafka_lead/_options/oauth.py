"""The options of OAUTHBEARER: the provider of tokens, and the times at which they are refreshed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ..errors import ConfigError, ConfigTypeError
from .checks import Checked, boolean, milliseconds, number, option, optional, seconds, text


class TokenObject(Protocol):
    """A token provider that is an object. ``extensions`` is optional, and is used for tokens without extensions."""

    def token(self) -> Any:
        """Return a ``str`` or an `oidc.Token`. May be a coroutine function."""
        ...


TokenProvider = TokenObject | Callable[[], Any]
"""A function that returns a ``str`` or an `oidc.Token`, or a coroutine that returns one.

Or an object with ``token``.
"""


def _provider(name: str, value: Any) -> Any:
    """Return an object with a method ``token``, or a function."""
    method = getattr(value, "token", None)
    if inspect.isclass(value) or not (callable(method) or callable(value)):
        what = f"the class {value.__name__}" if inspect.isclass(value) else type(value).__name__
        raise ConfigTypeError(f"{name} must be callable or an object with a method token(), not {what}")
    return value


def _extensions(name: str, value: Any) -> Mapping[str, str]:
    if isinstance(value, Mapping):
        return value
    pairs = [part.partition("=") for part in text(name, value).split(",")]
    if not all(key.strip() and equals for key, equals, _ in pairs):
        raise ConfigError(f"{name} must be like 'name=value,other=value'")
    return {key.strip(): content.strip() for key, _, content in pairs}


class OAuthConfig(Checked):
    """The options of `OAuthOptions` after they were checked."""

    sasl_oauth_token_provider: TokenProvider | None = option(None, optional(_provider), secret=True)
    sasl_oauth_token_timeout_ms: float = option(10_000, milliseconds(1))
    sasl_oauthbearer_token_endpoint_url: str | None = option(None, optional(text))
    sasl_oauthbearer_client_credentials_client_id: str | None = option(None, optional(text))
    sasl_oauthbearer_client_credentials_client_secret: str | None = option(None, optional(text), secret=True)
    sasl_oauthbearer_scope: str | None = option(None, optional(text))
    sasl_oauthbearer_header_urlencode: bool = option(False, boolean)
    sasl_oauthbearer_extensions: Mapping[str, str] | None = option(None, optional(_extensions))
    sasl_login_refresh_window_factor: float = option(0.8, number(0.5, 1))
    sasl_login_refresh_window_jitter: float = option(0.05, number(0, 0.25))
    sasl_login_refresh_min_period_seconds: float = option(60, seconds)
    sasl_login_refresh_buffer_seconds: float = option(300, seconds)
    sasl_login_retry_backoff_ms: float = option(100, milliseconds(1))
    sasl_login_retry_backoff_max_ms: float = option(10_000, milliseconds(1))


FLAT_OPTIONS = tuple(name for name in OAuthConfig.__dataclass_fields__ if name.startswith("sasl_oauthbearer_"))
"""Names of the options from which a provider can be created."""

PROVIDER_OPTIONS = ("sasl_oauth_token_provider", *FLAT_OPTIONS)
