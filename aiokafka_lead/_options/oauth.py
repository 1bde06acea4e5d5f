"""Options of OAUTHBEARER: the source of tokens, and the time of their renewal."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict

from ..errors import ConfigError, ConfigTypeError
from .checks import Checked, boolean, milliseconds, number, option, optional, seconds, text

__all__ = ["FLAT_OPTIONS", "PROVIDER_OPTIONS", "OAuthConfig", "OAuthOptions", "TokenObject", "TokenProvider"]


class TokenObject(Protocol):
    """A token provider that is an object. ``extensions``, if present, returns the extensions of tokens without any."""

    def token(self) -> Any:
        """Return a ``str`` or an `oidc.Token`; may be a coroutine function."""
        ...


TokenProvider = TokenObject | Callable[[], Any]
"""Returns a ``str`` or an `oidc.Token`, or a coroutine of it."""


class OAuthOptions(TypedDict, total=False):
    """Options for ``sasl_mechanism="OAUTHBEARER"`` (KIP-255, KIP-768)."""

    sasl_oauth_token_provider: TokenProvider | None
    """Source of tokens (`aiokafka_lead.oidc`): a function, or an object with ``token()`` and optionally
    ``extensions()``. One that is not a coroutine function is called in a thread. All clients with the same object share
    its token."""
    sasl_oauth_token_timeout_ms: float
    """Time that one call of the provider may take (10000)."""
    sasl_oauthbearer_token_endpoint_url: str | None
    """Instead of a provider: URL of a token endpoint for client credentials, or ``file:///...`` with a token."""
    sasl_oauthbearer_client_credentials_client_id: str | None
    """The client's name at that endpoint."""
    sasl_oauthbearer_client_credentials_client_secret: str | None
    """The client's secret at that endpoint."""
    sasl_oauthbearer_scope: str | None
    """The scope to request; None requests none."""
    sasl_oauthbearer_header_urlencode: bool
    """URL-encode name and secret before they are sent, as RFC 6749 requires (False, as in Java)."""
    sasl_oauthbearer_extensions: str | Mapping[str, str] | None
    """Extensions sent to brokers with these tokens (KIP-342): a mapping or
    ``"logicalCluster=lkc-1,identityPoolId=p-2"``."""
    sasl_login_refresh_window_factor: float
    """Fraction of its lifetime after which a token is renewed (0.8)."""
    sasl_login_refresh_window_jitter: float
    """Largest fraction that is added to it at random (0.05)."""
    sasl_login_refresh_min_period_seconds: float
    """Minimum time that a token is used; ignored for a token with a shorter lifetime (60)."""
    sasl_login_refresh_buffer_seconds: float
    """Minimum remaining lifetime at renewal; ignored for a token with a shorter lifetime (300)."""
    sasl_login_retry_backoff_ms: float
    """First delay before a failed provider is called again (100)."""
    sasl_login_retry_backoff_max_ms: float
    """Longest such delay (10000)."""


FLAT_OPTIONS = tuple(name for name in OAuthOptions.__annotations__ if name.startswith("sasl_oauthbearer_"))
"""Names of the options from which a provider is built."""

PROVIDER_OPTIONS = ("sasl_oauth_token_provider", *FLAT_OPTIONS)


def _provider(name: str, value: Any) -> Any:
    """Return an object with a method ``token``, or a callable."""
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


@dataclass(init=False, repr=False, eq=False, kw_only=True)
class OAuthConfig(Checked):
    """The options of `OAuthOptions`, checked."""

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
