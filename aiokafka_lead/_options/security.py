"""How a client reaches its brokers and proves who it is: the options of TLS and SASL, and what they say together."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from ..errors import ConfigError
from .checks import Checked, instance, one_of, option, optional, text

__all__ = ["SecurityConfig", "SecurityOptions"]

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class SecurityOptions(TypedDict, total=False):
    """Options of TLS and SASL, which every client takes."""

    security_protocol: SecurityProtocol
    """How to talk to the brokers (``"PLAINTEXT"``)."""
    ssl_context: ssl.SSLContext | None
    """For SSL and SASL_SSL; ``ssl.create_default_context()`` where none is given."""
    sasl_mechanism: SaslMechanism | None
    """For SASL_PLAINTEXT and SASL_SSL (``"PLAIN"``)."""
    sasl_plain_username: str | None
    """The user name for PLAIN and SCRAM."""
    sasl_plain_password: str | None
    """The password for PLAIN and SCRAM."""


@dataclass(init=False, repr=False, eq=False)
class SecurityConfig(Checked):
    """The options of `SecurityOptions`, checked; see there for each one's meaning."""

    security_protocol: SecurityProtocol = option("PLAINTEXT", one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))
    ssl_context: ssl.SSLContext | None = option(None, optional(instance(ssl.SSLContext, "an ssl.SSLContext")))
    sasl_mechanism: SaslMechanism | None = option(None, optional(one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")))
    sasl_plain_username: str | None = option(None, optional(text))
    sasl_plain_password: str | None = option(None, optional(text), secret=True)

    @staticmethod
    def _settle_security(given: dict[str, Any]) -> dict[str, Any]:
        """Fill in what follows from the security protocol, before each option is checked on its own."""
        if str(given.get("security_protocol", "")).startswith("SASL_") and given.get("sasl_mechanism") is None:
            given["sasl_mechanism"] = "PLAIN"
        return given

    def _check_security(self) -> None:
        if self.security_protocol.startswith("SASL_"):
            for name in ("sasl_plain_username", "sasl_plain_password"):
                if getattr(self, name) is None:
                    raise ConfigError(f"{name} is required for sasl_mechanism {self.sasl_mechanism}")
        elif self.sasl_mechanism is not None or self.sasl_plain_password is not None:
            raise ConfigError(f"security_protocol {self.security_protocol} does not use the sasl_* options given")
        if self.security_protocol.endswith("SSL"):
            if self.ssl_context is None:
                object.__setattr__(self, "ssl_context", ssl.create_default_context())
        elif self.ssl_context is not None:
            raise ConfigError(f"security_protocol {self.security_protocol} does not use the ssl_context given")
