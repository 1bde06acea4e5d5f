"""Tokens of Azure Event Hubs, Google's Managed Kafka and Amazon MSK with IAM, and the extensions of Confluent Cloud.

A token for MSK is a signed URL that is never called (AWS Signature Version 4).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import inspect
import json
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from .._options.checks import text
from .._options.token import Token
from .._options.version import __version__
from .._values import NamedTuple
from ..errors import ConfigError, SaslAuthenticationFailedError, TokenProviderError

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


MSK_LIFE_S = 900
"""Lifetime of a token in seconds, the same as in AWS's own signers."""

_SERVICE = "kafka-cluster"
_ALGORITHM = "AWS4-HMAC-SHA256"


class AwsCredentials(NamedTuple):
    """Keys of an AWS identity.

    Temporary keys also have a ``session_token``, and ``expires_at`` in seconds since 1970.
    """

    access_key: str
    secret_key: str
    session_token: str | None = None
    expires_at: float | None = None

    def __repr__(self) -> str:
        return f"AwsCredentials({self.access_key!r})"


def msk_iam(region: str, credentials: Callable[[], Any] | None = None) -> MskIam:
    """Return a provider of tokens for MSK's IAM listeners in a region (port 9098, SASL_SSL).

        Producer(servers, security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER",
                 sasl_oauth_token_provider=msk_iam("eu-central-1"))

    ``credentials`` is a function that is called in a thread for each token. It returns `AwsCredentials`, or an object
    with the attributes ``access_key``, ``secret_key`` and ``token``, such as botocore's. By default, botocore finds the
    credentials (profile, role, container, instance). Without botocore, they are read from the environment
    (``AWS_ACCESS_KEY_ID`` and related variables).

    A token expires with its credentials, if their expiry is known and earlier. Raises `ConfigError` for an invalid
    region.
    """
    if re.fullmatch(r"[a-z0-9-]+", text("region", region)) is None:
        raise ConfigError(f"region must be like 'eu-central-1', not {region!r}")
    return MskIam(region, credentials or _DefaultCredentials())


class MskIam:
    """Provider of tokens for Amazon MSK, as returned by `msk_iam`."""

    def __init__(self, region: str, credentials: Callable[[], Any]) -> None:
        self.region = region
        self._credentials = credentials

    def __repr__(self) -> str:
        return f"msk_iam({self.region!r})"

    def token(self) -> Token:
        """Return a token that is valid for at most 15 minutes.

        Signing needs no request to AWS, but getting the credentials may. Raises `TokenProviderError` if the credentials
        have expired.
        """
        keys = _keys_of(self._credentials())
        now = time.time()
        life_s = MSK_LIFE_S if keys.expires_at is None else min(MSK_LIFE_S, int(keys.expires_at - now))
        if life_s < 1:
            ended = datetime.fromtimestamp(keys.expires_at or now, UTC).isoformat(timespec="seconds")
            raise TokenProviderError(
                f"the AWS credentials were valid until {ended}, and the credentials function returned no newer ones"
            )
        return Token(signed(self.region, keys, now, life_s), now + life_s)


def _keys_of(given: Any) -> AwsCredentials:
    freeze = getattr(given, "get_frozen_credentials", None)
    frozen = given if freeze is None else freeze()
    ends = _end_of(given)
    if freeze is not None and (latest := freeze()) != frozen:  # another thread has refreshed them meanwhile
        frozen, ends = latest, _end_of(given)
    session_token = getattr(frozen, "session_token", None) or getattr(frozen, "token", None)
    return AwsCredentials(frozen.access_key, frozen.secret_key, session_token, ends)


def _end_of(given: Any) -> float | None:
    ends = getattr(given, "expires_at", None)
    if ends is None:
        ends = getattr(given, "_expiry_time", None)  # botocore has no public attribute for it
    return ends.timestamp() if isinstance(ends, datetime) else ends


def signed(region: str, keys: AwsCredentials, now: float, life_s: int = MSK_LIFE_S) -> str:
    """Return a token: a presigned URL, in base64 without padding.

    ``now`` is in seconds since 1970. ``life_s`` is the time until the token expires.
    """
    host = f"kafka.{region}.amazonaws.com"
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{stamp[:8]}/{region}/{_SERVICE}/aws4_request"
    query = {
        "Action": "kafka-cluster:Connect",
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{keys.access_key}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(life_s),
        **({"X-Amz-Security-Token": keys.session_token} if keys.session_token else {}),
        "X-Amz-SignedHeaders": "host",
    }
    sent = urlencode(sorted(query.items()), quote_via=quote, safe="-_.~")
    asked = "\n".join(("GET", "/", sent, f"host:{host}", "", "host", hashlib.sha256(b"").hexdigest()))
    to_sign = "\n".join((_ALGORITHM, stamp, scope, hashlib.sha256(asked.encode()).hexdigest()))
    key = f"AWS4{keys.secret_key}".encode()
    for part in (*scope.split("/"), to_sign):
        key = hmac.digest(key, part.encode(), "sha256")
    agent = quote(f"aiokafka-lead/{__version__}", safe="")
    url = f"https://{host}/?{sent}&X-Amz-Signature={key.hex()}&User-Agent={agent}"
    return base64.urlsafe_b64encode(url.encode()).rstrip(b"=").decode()


class _DefaultCredentials:
    """Finds AWS credentials in the places where AWS's tools look for them."""

    def __init__(self) -> None:
        self._found: Any = None

    def __call__(self) -> Any:
        try:
            from botocore.session import get_session  # pyright: ignore[reportMissingImports]
        except ImportError:
            return _from_environment()
        if self._found is None:
            self._found = get_session().get_credentials()
        if self._found is None:
            raise SaslAuthenticationFailedError(
                "botocore: no AWS credentials were found. Configure a profile or a role, or set AWS_ACCESS_KEY_ID"
            )
        return self._found


def _from_environment() -> AwsCredentials:
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    if missing := [name for name in names if not os.environ.get(name)]:
        raise TokenProviderError(f"no AWS credentials: {missing[0]} is not set, and botocore is not installed")
    key, secret = (os.environ[name] for name in names)
    return AwsCredentials(key, secret, os.environ.get("AWS_SESSION_TOKEN"), _end_in_environment())


def _end_in_environment() -> float | None:
    name = "AWS_CREDENTIAL_EXPIRATION"
    given = os.environ.get(name)
    try:
        ends = datetime.fromisoformat(given) if given else None
    except ValueError:
        raise TokenProviderError(f"{name} must be a time in ISO 8601") from None
    return None if ends is None else (ends if ends.tzinfo else ends.replace(tzinfo=UTC)).timestamp()
