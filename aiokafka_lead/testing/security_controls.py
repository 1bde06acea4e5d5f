"""Controls of logins to an embedded cluster: delegation tokens, and the certificates of the brokers."""

from __future__ import annotations

import secrets
import ssl
from base64 import b64encode

from .._options.checks import instance, text
from ..errors import ConfigError
from ._caller import Caller
from ._server.engine import Engine
from ._server.sasl import DelegationToken


class SecurityControls:
    """Controls of logins to a running `EmbeddedCluster`."""

    def __init__(self, engine: Engine, call: Caller) -> None:
        self._engine = engine
        self._call = call

    def called_by(self, call: Caller) -> SecurityControls:
        """Return the same controls for another thread; ``call`` runs a function in the thread of the cluster."""
        return SecurityControls(self._engine, call)

    def create_delegation_token(self, owner: str) -> DelegationToken:
        """Create a token with which clients can log in as this user, by SCRAM (KIP-48).

        Raises `ConfigError` unless ``owner`` is one of ``sasl_users``.
        """
        if text("owner", owner) not in (self._engine.options.sasl.users or {}):
            raise ConfigError(f"owner must be one of sasl_users, not {owner!r}")
        token = DelegationToken(owner, secrets.token_urlsafe(16), b64encode(secrets.token_bytes(64)).decode())
        self._call(lambda: self._engine.options.sasl.tokens.setdefault(token.token_id, token))
        return token

    def expire_delegation_token(self, token_id: str) -> None:
        """Make a token invalid for new logins. Open connections stay, as with Kafka."""
        if self._call(lambda: self._engine.options.sasl.tokens.pop(text("token_id", token_id), None)) is None:
            raise ConfigError(f"token_id must be the id of a token, not {token_id!r}")

    def replace_ssl_context(self, context: ssl.SSLContext) -> None:
        """Use this context for later connections. The cluster must have been created with ``ssl_context``."""
        instance(ssl.SSLContext, "an ssl.SSLContext")("context", context)
        if self._engine.options.ssl_context is None:
            raise ConfigError("the cluster does not use TLS: create it with ssl_context")
        self._call(lambda: setattr(self._engine.options, "ssl_context", context))
