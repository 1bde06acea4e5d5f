"""Tokens of Azure Event Hubs and Google's Managed Kafka, and the extensions of Confluent Cloud."""

from __future__ import annotations

import base64
import inspect
import json
import time
from collections.abc import Awaitable, Mapping
from datetime import UTC
from typing import Any

from .._options.checks import text
from .._options.token import Token
from ..errors import ConfigError, TokenProviderError

_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def confluent_cloud(logical_cluster: str, identity_pool: str | None = None) -> Mapping[str, str]:
    """Return the SASL extensions that Confluent Cloud requires.

        ClientCredentials(url, client_id, secret, extensions=confluent_cloud("lkc-1", "pool-2"))

    ``logical_cluster`` is the id of the cluster.
    """
    pool = {} if identity_pool is None else {"identityPoolId": identity_pool}
    return Token("checked", None, {"logicalCluster": logical_cluster, **pool}).extensions


def azure(namespace: str, credential: Any = None) -> Azure:
    """Return a provider of tokens for an Azure Event Hubs namespace.

    ``namespace`` is ``"name"`` or ``"name.servicebus.windows.net"``. ``credential`` is a credential of
    ``azure.identity`` or ``azure.identity.aio`` (default: ``DefaultAzureCredential()``). Raises `ConfigError` for an
    invalid namespace, and if there is neither a credential nor the ``azure-identity`` package.
    """
    if any(char in text("namespace", namespace) for char in "/:@ "):
        raise ConfigError(f"namespace must be like 'name' or 'name.servicebus.windows.net', not {namespace!r}")
    if credential is None:
        try:
            from azure.identity import DefaultAzureCredential  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise ConfigError("azure() needs a credential, or the azure-identity package") from None
        credential = DefaultAzureCredential()
    return Azure(namespace if "." in namespace else f"{namespace}.servicebus.windows.net", credential)


class Azure:
    """Provider of tokens for an Azure Event Hubs namespace, as returned by `azure`."""

    def __init__(self, host: str, credential: Any) -> None:
        self.scope = f"https://{host}/.default"
        self._credential = credential

    def __repr__(self) -> str:
        return f"azure({self.scope!r})"

    def token(self) -> Token | Awaitable[Token]:
        """Return a new token, or an awaitable of it if the credential is asynchronous."""
        given = self._credential.get_token(self.scope)
        return self._later(given) if inspect.isawaitable(given) else Token(given.token, given.expires_on)

    async def _later(self, awaitable: Awaitable[Any]) -> Token:
        given = await awaitable
        return Token(given.token, given.expires_on)


def google(credentials: Any = None) -> Google:
    """Return a provider of tokens for Google Cloud's Managed Service for Apache Kafka.

    ``credentials`` are credentials of the ``google-auth`` package (default: ``google.auth.default()``). Raises
    `ConfigError` if there are neither credentials nor the package.
    """
    if credentials is None:
        try:
            import google.auth  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise ConfigError("google() needs credentials, or the google-auth package") from None
        credentials, _ = google.auth.default(scopes=[_GOOGLE_SCOPE])
    return Google(credentials)


class Google:
    """Provider of tokens for Google Cloud's Managed Kafka, as returned by `google`."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials

    def __repr__(self) -> str:
        return f"google({type(self._credentials).__name__})"

    def token(self) -> Token:
        """Return a new token: an access token in an unsigned JWT, which is the form that Google's brokers expect."""
        credentials = self._credentials
        if not credentials.valid:
            try:
                from google.auth.transport.requests import Request  # pyright: ignore[reportMissingImports]
            except ImportError:
                raise ConfigError("google() needs google-auth[requests] to refresh its credentials") from None
            credentials.refresh(Request())
        if credentials.expiry is None:
            raise TokenProviderError("Google's credentials have no expiry time")
        expires_at = credentials.expiry.replace(tzinfo=UTC).timestamp()  # google-auth has a naive datetime in UTC
        claims = {
            "exp": expires_at,
            "iat": time.time(),
            "iss": "Google",
            "scope": "kafka",
            "sub": getattr(credentials, "service_account_email", ""),
        }
        header = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
        parts = (json.dumps(header), json.dumps(claims), credentials.token)
        return Token(".".join(_base64url(part) for part in parts), expires_at)


def _base64url(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()
