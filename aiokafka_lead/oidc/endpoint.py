"""Tokens from an OAuth 2 token endpoint, for client credentials (KIP-768, KIP-1258) or a JWT (KIP-1139).

Also creates providers that are described by options with plain values, for configurations in dicts and for Spark.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from ssl import SSLContext
from typing import Any, Literal, Protocol
from urllib.parse import unquote, urlsplit

from .._options.checks import Secret, discreet, encodable, hidden, text
from .._options.oauth import FLAT_OPTIONS, OAuthConfig
from .._options.token import Token
from ..errors import ConfigError, TokenProviderError
from .assertion import TokenFile
from .http import Basic, Endpoint, Form, checked_url

TIMEOUT_S = 8.0
"""Time limit of a request in seconds. It is less than ``sasl_oauth_token_timeout_ms``, so its error, which names the
URL, is raised first."""

LONGEST_LIFE_S = 366 * 24 * 3600.0
"""Maximum lifetime of a token in seconds. A longer lifetime is reduced to it."""

_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class SignedClaims(Protocol):
    """An object that creates signed JWTs, such as `Assertion` and `AssertionFile`."""

    def jwt(self) -> str:
        """Return a new JWT."""
        ...


class _FromEndpoint:
    """Base class of the two providers that request tokens from an endpoint."""

    url = ""  # for ``repr`` if the arguments are invalid

    def __init__(
        self,
        url: str,
        scope: str | None,
        extensions: Mapping[str, str] | None,
        parameters: Mapping[str, str] | None,
        ssl_context: SSLContext | None,
        timeout_s: float,
        allow_http: bool,
    ) -> None:
        if not 0 < timeout_s < math.inf:
            raise ConfigError(f"timeout_s must be a number of seconds, more than 0, not {timeout_s!r}")
        url = hidden(url)
        self.url = checked_url("url", url, allow_http=allow_http)
        self._endpoint = Endpoint(self.url, ssl_context, timeout_s)
        self._fields = {**(parameters or {}), **({} if scope is None else {"scope": scope})}
        for name, value in self._fields.items():
            encodable(name, Secret(value))
        self._extensions = Token("checked", None, extensions or {}).extensions

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _token(self, fields: Mapping[str, str], basic: Basic | None = None) -> Token:
        answer = self._endpoint.ask(Form({**self._fields, **fields}, basic))
        return _token_of(Hidden(answer), self._extensions)


class ClientCredentials(_FromEndpoint):
    """Token provider for OAuth's client credentials: a secret or an ``assertion`` (KIP-1258).

        ClientCredentials("https://idp.example.org/token", "orders", secret, scope="kafka")

    - ``url``: the token endpoint.
    - ``client_id``, ``client_secret``: the client's name and secret.
    - ``assertion``: an `Assertion` or `AssertionFile`, instead of the secret.
    - ``auth``: "basic" sends the secret in a header, as Java does; "post" sends it as a field of the form.
    - ``header_urlencode``: encode the header as RFC 6749 requires, which Java does not do by default (default: False).
    - ``scope``, ``parameters``: further fields of the form, for example "audience".
    - ``extensions``: SASL extensions that are sent to brokers with the token (KIP-342).
    - ``timeout_s``: time limit of the whole request in seconds (default: 8).
    - ``allow_http``: permit sending secrets unencrypted to other machines (default: False).

    Raises `ConfigError` for invalid arguments.
    """

    @discreet
    def __init__(
        self,
        url: str,
        client_id: str,
        client_secret: str | None = None,
        *,
        assertion: SignedClaims | None = None,
        scope: str | None = None,
        extensions: Mapping[str, str] | None = None,
        parameters: Mapping[str, str] | None = None,
        auth: Literal["basic", "post"] = "basic",
        header_urlencode: bool = False,
        ssl_context: SSLContext | None = None,
        timeout_s: float = TIMEOUT_S,
        allow_http: bool = False,
    ) -> None:
        self.client_id = text("client_id", client_id)
        url, client_secret = hidden(url), Secret(client_secret or "")  # some tracebacks show the arguments of functions
        encodable("client_secret", client_secret)
        super().__init__(url, scope, extensions, parameters, ssl_context, timeout_s, allow_http)
        if auth not in ("basic", "post"):
            raise ConfigError(f'auth must be "basic" or "post", not {auth!r}')
        if assertion is None and not client_secret:
            raise ConfigError("a client_secret or an assertion is required")
        self._secret = client_secret
        self._assertion = assertion
        self._in_header = auth == "basic"
        self._urlencode = header_urlencode

    def __repr__(self) -> str:
        return f"ClientCredentials({self.url!r}, {self.client_id!r})"

    def token(self) -> Token:
        """Request a token and return it. Blocks.

        Raises `SaslAuthenticationFailedError` if the endpoint rejects the request, and `TokenProviderError` if a retry
        may help.
        """
        fields = {"grant_type": "client_credentials"}
        if self._assertion is not None:
            fields |= {"client_id": self.client_id, "client_assertion_type": _CLIENT_ASSERTION}
            return self._token({**fields, "client_assertion": Secret(self._assertion.jwt())})
        if self._in_header:
            return self._token(fields, Basic(self.client_id, self._secret, self._urlencode))
        return self._token({**fields, "client_id": self.client_id, "client_secret": self._secret})


class JwtBearer(_FromEndpoint):
    """Token provider that exchanges the JWT of ``assertion`` for a token (RFC 7523, KIP-1139).

    The other arguments have the same meaning as in `ClientCredentials`. Raises `ConfigError` for invalid arguments.
    """

    @discreet
    def __init__(
        self,
        url: str,
        assertion: SignedClaims,
        *,
        scope: str | None = None,
        extensions: Mapping[str, str] | None = None,
        parameters: Mapping[str, str] | None = None,
        ssl_context: SSLContext | None = None,
        timeout_s: float = TIMEOUT_S,
        allow_http: bool = False,
    ) -> None:
        super().__init__(url, scope, extensions, parameters, ssl_context, timeout_s, allow_http)
        self._assertion = assertion

    def token(self) -> Token:
        """Request a token and return it. Blocks.

        Raises `SaslAuthenticationFailedError` if the endpoint rejects the request, and `TokenProviderError` if a retry
        may help.
        """
        return self._token({"grant_type": _JWT_BEARER, "assertion": Secret(self._assertion.jwt())})


class Hidden:
    """A response whose content does not appear in ``repr``, because it contains the token."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.content = content


def _token_of(answer: Hidden, extensions: Mapping[str, str]) -> Token:
    """Return the token in an endpoint's response (RFC 6749, 5.1).

    Raises `TokenProviderError` if the response is invalid.
    """
    kind = answer.content.get("token_type")
    if kind is not None and str(kind).lower() != "bearer":
        raise TokenProviderError(f"the token endpoint returned a token of type {str(kind)!r:.50} instead of Bearer")
    if not isinstance(answer.content.get("access_token"), str):
        raise TokenProviderError("the token endpoint's response has no access_token")
    life_s = _life_s(answer.content.get("expires_in"))
    expires_at = None if life_s is None else time.time() + min(life_s, LONGEST_LIFE_S)
    return Token(answer.content["access_token"], expires_at, extensions)


def _life_s(expires_in: Any) -> float | None:
    """Return the lifetime of a token in seconds. Some endpoints return it as a string."""
    if expires_in is None:
        return None
    try:
        life_s = math.nan if isinstance(expires_in, bool) else float(expires_in)
    except (TypeError, ValueError, OverflowError):
        life_s = math.nan
    if not life_s > 0:
        raise TokenProviderError(
            f"the token endpoint returned a token with an invalid expires_in: {str(expires_in)!r:.50}"
        )
    return life_s


def settle_provider(config: OAuthConfig) -> None:
    """Create the provider from the ``sasl_oauthbearer_*`` options, and reset these options.

    Other clients that are created with the resulting options then share the provider.
    """
    given = [name for name in FLAT_OPTIONS if getattr(config, name)]
    if config.sasl_oauth_token_provider is not None:
        if given:
            raise ConfigError(f"{given[0]} and sasl_oauth_token_provider cannot be combined")
        return
    object.__setattr__(config, "sasl_oauth_token_provider", _provider_of(config))
    for name in given:
        object.__setattr__(config, name, type(config).__dataclass_fields__[name].default)


def _provider_of(config: OAuthConfig) -> ClientCredentials | TokenFile:
    """Return the provider that the ``sasl_oauthbearer_*`` options describe. Raises `ConfigError`."""
    url = config.sasl_oauthbearer_token_endpoint_url
    if url is None:
        raise ConfigError("sasl_mechanism OAUTHBEARER needs a sasl_oauth_token_provider")
    if url.startswith("file:"):
        return TokenFile(Path(unquote(urlsplit(url).path)), extensions=config.sasl_oauthbearer_extensions)
    for name in ("client_id", "client_secret"):
        option = f"sasl_oauthbearer_client_credentials_{name}"
        if getattr(config, option) is None:
            raise ConfigError(f"{option} is required with sasl_oauthbearer_token_endpoint_url")
    try:
        return ClientCredentials(
            url,
            config.sasl_oauthbearer_client_credentials_client_id or "",
            config.sasl_oauthbearer_client_credentials_client_secret,
            scope=config.sasl_oauthbearer_scope,
            extensions=config.sasl_oauthbearer_extensions,
            header_urlencode=config.sasl_oauthbearer_header_urlencode,
        )
    except ConfigError as error:
        raise ConfigError(f"sasl_oauthbearer_token_endpoint_url: {error.message}") from None
