"""Tokens for Amazon MSK with IAM: a URL that is signed and never called (AWS Signature Version 4)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from .._options.checks import text
from .._options.token import Token
from .._options.version import __version__
from ..errors import ConfigError, SaslAuthenticationFailedError, TokenProviderError

__all__ = ["AwsCredentials", "msk_iam"]

LIFE_S = 900
"""What brokers accept, and what AWS's own signers ask for."""

_SERVICE = "kafka-cluster"
_ALGORITHM = "AWS4-HMAC-SHA256"


class AwsCredentials(NamedTuple):
    """Keys of an AWS identity; ``session_token`` for temporary ones."""

    access_key: str
    secret_key: str
    session_token: str | None = None

    def __repr__(self) -> str:
        return f"AwsCredentials({self.access_key!r})"


def msk_iam(region: str, credentials: Callable[[], Any] | None = None) -> MskIam:
    """Tokens for MSK's IAM listeners (port 9098, SASL_SSL) in a region.

    ``credentials`` is called for each token and gives `AwsCredentials`, or what has ``access_key``, ``secret_key`` and
    ``token`` (botocore's). Unless given they are those that botocore finds (profile, role, container, instance) where
    it is installed, else those of ``AWS_ACCESS_KEY_ID`` and its siblings in the environment.
    """
    if re.fullmatch(r"[a-z0-9-]+", text("region", region)) is None:
        raise ConfigError(f"region must be like 'eu-central-1', not {region!r}")
    return MskIam(region, credentials or _DefaultCredentials())


class MskIam:
    """What `msk_iam` makes."""

    def __init__(self, region: str, credentials: Callable[[], Any]) -> None:
        self.region = region
        self._credentials = credentials

    def __repr__(self) -> str:
        return f"msk_iam({self.region!r})"

    def token(self) -> Token:
        """A new token, valid for 15 minutes; it costs no call of AWS, but getting the credentials may."""
        now = time.time()
        given = self._credentials()
        session_token = getattr(given, "session_token", None) or getattr(given, "token", None)
        keys = AwsCredentials(given.access_key, given.secret_key, session_token)
        return Token(signed(self.region, keys, now), now + LIFE_S)


def signed(region: str, keys: AwsCredentials, now: float) -> str:
    """The token: a presigned URL, in base64 without padding."""
    host = f"kafka.{region}.amazonaws.com"
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{stamp[:8]}/{region}/{_SERVICE}/aws4_request"
    query = {
        "Action": "kafka-cluster:Connect",
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{keys.access_key}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(LIFE_S),
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
    """Those of the environment, as AWS's own tools find them."""

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
            raise SaslAuthenticationFailedError("no AWS credentials were found (by botocore)")
        # Fetches those anew that are about to end: MSK's sessions last no longer than they do.
        return self._found.get_frozen_credentials()


def _from_environment() -> AwsCredentials:
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    if missing := [name for name in names if not os.environ.get(name)]:
        raise TokenProviderError(f"{missing[0]} is not set, and botocore is not installed to find other credentials")
    key, secret = (os.environ[name] for name in names)
    return AwsCredentials(key, secret, os.environ.get("AWS_SESSION_TOKEN"))
