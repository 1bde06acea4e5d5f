"""Tokens for Amazon MSK with IAM.

A token is a signed URL that is never called (AWS Signature Version 4).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from .._options.checks import text
from .._options.token import Token
from .._options.version import __version__
from .._values import NamedTuple
from ..errors import ConfigError, SaslAuthenticationFailedError, TokenProviderError

LIFE_S = 900
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
        life_s = LIFE_S if keys.expires_at is None else min(LIFE_S, int(keys.expires_at - now))
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


def signed(region: str, keys: AwsCredentials, now: float, life_s: int = LIFE_S) -> str:
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
