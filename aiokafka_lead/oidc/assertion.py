"""JWTs that authenticate a client at a token endpoint (RFC 7523), and tokens from files."""

from __future__ import annotations

import base64
import json
import os
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from .._options.checks import Secret
from .._options.token import MAX_TOKEN_BYTES, Token, expiry_of_jwt
from ..errors import ConfigError, TokenProviderError


class TokenFile:
    """Token provider that reads a file, for example of a Kubernetes service account.

    The file is read again for new connections, at most once per second. With ``jwt=True``, the token must be a JWT, and
    is kept until shortly before it expires (claim ``exp``). ``extensions`` are SASL extensions that are sent to brokers
    with the token (KIP-342).
    """

    def __init__(
        self, path: str | os.PathLike[str], *, jwt: bool = False, extensions: Mapping[str, str] | None = None
    ) -> None:
        self.path = Path(path)
        self._jwt = jwt
        self._extensions = Token("checked", None, extensions or {}).extensions

    def __repr__(self) -> str:
        return f"TokenFile({str(self.path)!r})"

    def token(self) -> Token:
        """Return the current token. Raises `TokenProviderError` if the file cannot be read."""
        value = read_token(self.path)
        return Token(value, expiry_of_jwt(value) if self._jwt else None, self._extensions)


def read_token(path: Path) -> str:
    """Return the text of a file without surrounding white space.

    Raises an error if the text is larger than the maximum size of a token.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_TOKEN_BYTES + 1)
    except OSError as error:
        raise TokenProviderError(f"the token file {path} cannot be read: {error.strerror}") from None
    if len(content) > MAX_TOKEN_BYTES:
        raise ConfigError(f"the token file {path} is larger than brokers accept ({MAX_TOKEN_BYTES} bytes)")
    return content.decode("ascii", "replace").strip()


_CLOCK_SKEW_S = 30


class AssertionFile:
    """A JWT in a file. Another program signs the JWT and renews the file.

    The file is read for each request for an access token.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"AssertionFile({str(self.path)!r})"

    def jwt(self) -> str:
        """Return the current JWT. Raises `TokenProviderError` if the file cannot be read."""
        return read_token(self.path)


class Assertion:
    """Source of JWTs, signed with a private key in a PEM file. Needs the package ``cryptography``.

    - ``issuer``, ``subject``, ``audience``: the claims ``iss``, ``sub`` and ``aud``.
    - ``claims``: further claims. The claims ``iat``, ``nbf``, ``exp`` and ``jti`` are generated.
    - ``lifetime_s``: time in seconds until the JWT expires (default: 300).
    - ``algorithm``: "RS256" or "ES256".
    - ``key_id``: the ``kid`` in the header of the JWT.
    - ``passphrase``: decrypts the private key.

    Each token gets a new JWT. The file is read for each JWT, so the key can be replaced. Raises `ConfigError` for
    invalid arguments.
    """

    def __init__(
        self,
        private_key_file: str | os.PathLike[str],
        *,
        issuer: str | None = None,
        subject: str | None = None,
        audience: str | None = None,
        algorithm: Literal["RS256", "ES256"] = "RS256",
        key_id: str | None = None,
        passphrase: str | None = None,
        claims: Mapping[str, Any] | None = None,
        lifetime_s: float = 300,
    ) -> None:
        if algorithm not in ("RS256", "ES256"):
            raise ConfigError(f'algorithm must be "RS256" or "ES256", not {algorithm!r}')
        if not lifetime_s > 0:
            raise ConfigError(f"lifetime_s must be more than 0, not {lifetime_s!r}")
        named = {"iss": issuer, "sub": subject, "aud": audience}
        self.path = Path(private_key_file)
        self._claims = {**{name: claim for name, claim in named.items() if claim is not None}, **(claims or {})}
        self._header = {"alg": algorithm, "typ": "JWT", **({} if key_id is None else {"kid": key_id})}
        self._passphrase = None if passphrase is None else Secret(passphrase)
        self._lifetime_s = lifetime_s

    def __repr__(self) -> str:
        return f"Assertion({str(self.path)!r})"

    def jwt(self) -> str:
        """Return a new JWT. Raises `TokenProviderError` if the key cannot be read or used."""
        now = int(time.time())
        claims = {
            **self._claims,
            "iat": now,
            "nbf": now - _CLOCK_SKEW_S,
            "exp": now + int(self._lifetime_s),
            "jti": str(uuid.uuid4()),
        }
        signed = f"{_part(json.dumps(self._header).encode())}.{_part(json.dumps(claims).encode())}"
        return f"{signed}.{_part(self._sign(signed.encode()))}"

    def _sign(self, content: bytes) -> bytes:
        """Return the signature of the content, with the private key that the file contains now."""
        try:
            from cryptography.hazmat.primitives import hashes
            from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
            from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ImportError:
            raise ConfigError("an Assertion needs the cryptography package: pip install cryptography") from None
        try:
            password = None if self._passphrase is None else self._passphrase.encode()
            key = load_pem_private_key(self.path.read_bytes(), password)
        except OSError as error:
            reason: str = f"cannot be read: {error.strerror}"
        except (TypeError, ValueError) as error:
            reason = f"cannot be used: {error}"
        else:
            if self._header["alg"] == "RS256" and isinstance(key, rsa.RSAPrivateKey):
                return key.sign(content, padding.PKCS1v15(), hashes.SHA256())
            if self._header["alg"] == "ES256" and isinstance(key, ec.EllipticCurvePrivateKey):
                r, s = decode_dss_signature(key.sign(content, ec.ECDSA(hashes.SHA256())))
                return r.to_bytes(32, "big") + s.to_bytes(32, "big")
            reason = f"does not fit the algorithm {self._header['alg']}"
        finally:
            password = None
        raise TokenProviderError(f"the private key {self.path} {reason}")


def _part(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
