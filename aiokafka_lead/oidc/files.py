"""Tokens that another program keeps in a file, for example Kubernetes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .._options.token import MAX_TOKEN_BYTES, Token, expiry_of_jwt
from ..errors import ConfigError, TokenProviderError

__all__ = ["TokenFile", "read_token"]


class TokenFile:
    """The token in a file, read for each refresh and each new set of connections.

    ``jwt`` declares that it is a JWT, whose ``exp`` is its expiry; otherwise the file is read whenever connections are
    made, at most once a second.
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
        """Return the current content of the file; raises `TokenProviderError`."""
        value = read_token(self.path)
        return Token(value, expiry_of_jwt(value) if self._jwt else None, self._extensions)


def read_token(path: Path) -> str:
    """Return the text of a file, bounded, without surrounding white space."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_TOKEN_BYTES + 1)
    except OSError as error:
        raise TokenProviderError(f"the token's file {path} cannot be read: {error.strerror}") from None
    if len(content) > MAX_TOKEN_BYTES:
        raise ConfigError(f"the token's file {path} is larger than brokers accept ({MAX_TOKEN_BYTES} bytes)")
    return content.decode("ascii", "replace").strip()
