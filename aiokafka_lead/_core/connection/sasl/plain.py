"""SASL PLAIN (RFC 4616). It sends the name and the password in clear text, so it is secure only with TLS."""

from __future__ import annotations

from ....errors import SaslAuthenticationFailedError
from . import Credentials


class Plain:
    """One PLAIN authentication, without a separate authorization identity."""

    def __init__(self, credentials: Credentials) -> None:
        self.done = False
        self._credentials = credentials

    def start(self) -> bytes:
        """Return the only message: NUL, name, NUL, password."""
        name, password = self._credentials.username, self._credentials.password
        if "\0" in name or "\0" in password:
            raise SaslAuthenticationFailedError("PLAIN does not allow a NUL character in the user name or password")
        return f"\0{name}\0{password}".encode()

    def respond(self, challenge: bytes) -> bytes:
        """Finish, because the broker has accepted. It would have answered with an error otherwise."""
        self.done = True
        return b""
