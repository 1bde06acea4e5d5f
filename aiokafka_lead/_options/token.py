"""A token in the form that brokers accept (RFC 7628, KIP-255, KIP-342)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from .._cpython import naming
from ..errors import ConfigError, ConfigTypeError
from .checks import discreet

MAX_TOKEN_BYTES = 500_000
"""Maximum size of a token in bytes.

Brokers close connections that send more than ``sasl.server.max.receive.size`` (524288) before authentication.
"""

_VALUE = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")
_MILLISECONDS = 100_000_000_000
"""Numbers larger than this count milliseconds. As seconds since 1970, it would be in the year 5138."""


@dataclass(frozen=True, slots=True)
class Token:
    """A client's token: its ``value``, and its expiry in seconds since 1970 (``time.time()``).

    If ``expires_at`` is None, the expiry is unknown. Such a token is used only for connections opened within a second,
    and is then dropped. ``extensions`` are sent to the broker with the token (KIP-342). Neither the value nor the
    extensions are part of ``repr`` or of errors. Raises `ConfigError` for a token that no broker accepts.
    """

    value: str = field(repr=False)
    expires_at: float | None = None
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        _check_value(self.value)
        _check_end(self.expires_at)
        object.__setattr__(self, "extensions", MappingProxyType(_checked_extensions(self.extensions)))


naming.show_in("aiokafka_lead.oidc", Token)


Token.__init__ = discreet(Token.__init__)  # type: ignore[method-assign]


def _check_value(value: Any) -> None:
    if not isinstance(value, str):
        raise ConfigTypeError(f"a token must be a str, not {type(value).__name__}")
    if not value:
        raise ConfigError("a token must not be empty")
    if len(value) > MAX_TOKEN_BYTES:
        raise ConfigError(f"a token of {len(value)} bytes is larger than brokers accept ({MAX_TOKEN_BYTES})")
    if _VALUE.fullmatch(value) is None:
        raise ConfigError("a token may contain only letters, digits and -._~+/, with = at its end (RFC 6750)")


def _check_end(expires_at: Any) -> None:
    if expires_at is None:
        return
    if isinstance(expires_at, bool) or not isinstance(expires_at, (int, float)):
        raise ConfigTypeError(f"a token's expires_at must be a number of seconds, not {type(expires_at).__name__}")
    if not -_MILLISECONDS < expires_at < _MILLISECONDS:
        raise ConfigError(f"a token's expires_at must be in seconds since 1970, not {expires_at} (milliseconds?)")


def _checked_extensions(extensions: Any) -> dict[str, str]:
    if not isinstance(extensions, Mapping):
        raise ConfigTypeError(f"a token's extensions must be a mapping, not {type(extensions).__name__}")
    for name, value in extensions.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ConfigTypeError("a token's extensions must map str to str")
        if _EXTENSION_NAME.fullmatch(name) is None or name == "auth":
            raise ConfigError(
                f'the name of a token\'s extension must consist of letters, and differ from "auth", not {name!r:.50}'
            )
        if _EXTENSION_VALUE.fullmatch(value) is None:
            raise ConfigError(f"the value of a token's extension {name:.50} must be printable ASCII, and not empty")
    return dict(extensions)


def expiry_of_jwt(value: str) -> float:
    """Return the expiry of a JWT from its ``exp`` claim, which is not verified.

    Raises `ConfigError` if it is not a JWT.
    """
    parts = value.split(".")
    expires_at = None
    if len(parts) == 3:
        try:
            claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
            expires_at = claims.get("exp") if isinstance(claims, dict) else None
        except (ValueError, RecursionError):
            expires_at = None
    if isinstance(expires_at, bool) or not isinstance(expires_at, (int, float)):
        raise ConfigError("the token is not a JWT with an expiry time (exp)")
    return expires_at
