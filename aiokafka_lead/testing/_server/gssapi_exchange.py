"""Server's side of SASL GSSAPI (RFC 4752), with the ``gssapi`` package.

It has the key of the service, so it needs no KDC.
"""

from __future__ import annotations

import math
from typing import Any

import gssapi  # pyright: ignore[reportMissingImports]
from gssapi.raw.misc import GSSError  # pyright: ignore[reportMissingImports]

from ...errors import SaslAuthenticationFailedError

_OFFER = b"\x01\0\0\0"
"""No security layer, as offered by Kafka."""


class GssapiExchange:
    """The server's side of one authentication by GSSAPI."""

    ends_at = math.inf

    def __init__(self, keytab: str) -> None:
        self._keytab = keytab
        self._context: Any = None
        self._offered = False

    def step(self, message: bytes) -> tuple[bytes, str | None]:
        try:
            return self._step(message)
        except GSSError as error:
            reason = " ".join(error.get_all_statuses(error.min_code, False))
            raise SaslAuthenticationFailedError(f"Authentication failed due to invalid credentials: {reason}") from None

    def _step(self, message: bytes) -> tuple[bytes, str | None]:
        if self._context is None:
            store: Any = {"keytab": f"FILE:{self._keytab}"}
            credentials = gssapi.Credentials(usage="accept", store=store)
            self._context = gssapi.SecurityContext(creds=credentials, usage="accept")
        if not self._context.complete:
            return self._context.step(message) or b"", None
        if not self._offered:
            self._offered = True
            return self._context.wrap(_OFFER, False).message, None
        chosen = self._context.unwrap(message).message
        if chosen[:1] != _OFFER[:1]:
            raise SaslAuthenticationFailedError("Authentication failed: a security layer was chosen")
        # Kafka's default rule: the principal without its realm.
        return b"", str(self._context.initiator_name).partition("@")[0].partition("/")[0]
