"""Options of TLS and SASL, and checks of their combinations."""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..errors import ConfigError, ConfigTypeError
from .checks import boolean, one_of, option, optional, path, text
from .kerberos import KerberosConfig, KerberosOptions
from .oauth import PROVIDER_OPTIONS, OAuthConfig, OAuthOptions

if TYPE_CHECKING:
    from .tls.material import TlsMaterial

__all__ = ["ContextFactory", "SecurityConfig", "SecurityOptions"]

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]


ContextFactory = Callable[[], ssl.SSLContext | Awaitable[ssl.SSLContext]]
"""Returns the context for the next connection."""

_WITH_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_MATERIAL = (
    "ssl_cafile",
    "ssl_cadata",
    "ssl_ca_password",
    "ssl_certfile",
    "ssl_certdata",
    "ssl_keyfile",
    "ssl_keydata",
    "ssl_password",
    "ssl_check_hostname",
)
"""The options of `TlsMaterial`."""


class SecurityOptions(KerberosOptions, OAuthOptions, total=False):
    """Options of TLS and SASL, common to all clients."""

    security_protocol: SecurityProtocol
    """Protocol for connections to brokers (``"PLAINTEXT"``)."""
    ssl_context: ssl.SSLContext | ContextFactory | None
    """For SSL and SASL_SSL, in place of the other ``ssl_*`` options: a context, or a callable that returns the context
    for the next connection and may be awaited (a plain one is called in a thread)."""
    ssl_cafile: str | os.PathLike[str] | None
    """The authorities to trust, in PEM, DER or PKCS #12; the system's if neither this nor ``ssl_cadata`` is given.
    Changed files are read again."""
    ssl_cadata: str | bytes | None
    """Authorities to trust, in addition to ``ssl_cafile``: PEM as a str, DER as bytes."""
    ssl_ca_password: str | None
    """Password of an ``ssl_cafile`` in PKCS #12."""
    ssl_certfile: str | os.PathLike[str] | None
    """The certificate to present with its chain, in PEM (the key may be in the same file) or PKCS #12."""
    ssl_certdata: str | None
    """The certificate with its chain, as PEM text (KIP-651)."""
    ssl_keyfile: str | os.PathLike[str] | None
    """The private key of the certificate, in PEM."""
    ssl_keydata: str | None
    """The private key as PEM text (KIP-651)."""
    ssl_password: str | None
    """Password of an encrypted private key, or of an ``ssl_certfile`` in PKCS #12."""
    ssl_check_hostname: bool
    """Require that the broker's certificate names the host of the connection (True)."""
    sasl_mechanism: SaslMechanism | None
    """Mechanism for SASL_PLAINTEXT and SASL_SSL (``"PLAIN"``)."""
    sasl_plain_username: str | None
    """The user name for PLAIN and SCRAM."""
    sasl_plain_password: str | None
    """The password for PLAIN and SCRAM."""
    sasl_delegation_token: bool
    """Name and password are the id and the HMAC (in base64) of a delegation token, for SCRAM (False, KIP-48)."""


def _context(name: str, value: Any) -> Any:
    if not isinstance(value, ssl.SSLContext) and (isinstance(value, type) or not callable(value)):
        raise ConfigTypeError(f"{name} must be an ssl.SSLContext or a callable that gives one, not {value!r}")
    return value


def _authorities(name: str, value: Any) -> str | bytes:
    return value if isinstance(value, bytes) and value else _pem(name, value)


def _pem(name: str, value: Any) -> str:
    """Return a PEM text, whose comments may be in an encoding that the environment could not decode."""
    return text(name, type(value)(value.encode(errors="replace").decode()) if isinstance(value, str) else value)


@dataclass(init=False, repr=False, eq=False)
class SecurityConfig(KerberosConfig, OAuthConfig):
    """The options of `SecurityOptions`, checked; see there for each one's meaning."""

    security_protocol: SecurityProtocol = option("PLAINTEXT", one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))
    ssl_context: ssl.SSLContext | ContextFactory | None = option(None, optional(_context))
    ssl_cafile: str | None = option(None, optional(path))
    ssl_cadata: str | bytes | None = option(None, optional(_authorities))
    ssl_ca_password: str | None = option(None, optional(text), secret=True)
    ssl_certfile: str | None = option(None, optional(path))
    ssl_certdata: str | None = option(None, optional(_pem))
    ssl_keyfile: str | None = option(None, optional(path))
    ssl_keydata: str | None = option(None, optional(_pem), secret=True)
    ssl_password: str | None = option(None, optional(text), secret=True)
    ssl_check_hostname: bool = option(True, boolean)
    sasl_mechanism: SaslMechanism | None = option(
        None, optional(one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"))
    )
    sasl_plain_username: str | None = option(None, optional(text))
    sasl_plain_password: str | None = option(None, optional(text), secret=True)
    sasl_delegation_token: bool = option(False, boolean)

    @staticmethod
    def _settle_security(given: dict[str, Any]) -> dict[str, Any]:
        """Fill in what follows from the security protocol, before each option is checked on its own."""
        if str(given.get("security_protocol", "")).startswith("SASL_") and given.get("sasl_mechanism") is None:
            given["sasl_mechanism"] = "PLAIN"
        return given

    def _check_security(self) -> None:
        self._check_kerberos(used=self.sasl_mechanism == "GSSAPI")
        given = [name for name in PROVIDER_OPTIONS if getattr(self, name)]
        if given and self.sasl_mechanism != "OAUTHBEARER":
            raise ConfigError(f"{given[0]} is for sasl_mechanism OAUTHBEARER, not {self.sasl_mechanism}")
        if self.security_protocol.startswith("SASL_"):
            for name in ("sasl_plain_username", "sasl_plain_password"):
                if getattr(self, name) is None and self.sasl_mechanism in _WITH_PASSWORD:
                    raise ConfigError(f"{name} is required for sasl_mechanism {self.sasl_mechanism}")
        elif self.sasl_mechanism is not None or self.sasl_plain_password is not None:
            raise ConfigError(f"security_protocol {self.security_protocol} does not use the sasl_* options given")
        if self.sasl_delegation_token and not str(self.sasl_mechanism).startswith("SCRAM-"):
            raise ConfigError(f"sasl_delegation_token is for SCRAM, not for sasl_mechanism {self.sasl_mechanism}")
        self._check_tls()

    @property
    def tls_material(self) -> TlsMaterial:
        """The material named by the ``ssl_*`` options other than ``ssl_context``."""
        from .tls.material import TlsMaterial  # with its imports, a tenth of the time that importing a producer takes

        return TlsMaterial(**{name: getattr(self, name) for name in _MATERIAL})

    def _check_tls(self) -> None:
        given = [name for name in _MATERIAL if getattr(self, name) != self.__dataclass_fields__[name].default]
        if self.ssl_context is not None:
            given.append("ssl_context")
        if given and not self.security_protocol.endswith("SSL"):
            raise ConfigError(f"security_protocol {self.security_protocol} does not use the {given[0]} given")
        if self.ssl_context is not None and len(given) > 1:
            raise ConfigError(f"ssl_context excludes {given[0]}: load it into the context instead")
        if given and self.ssl_context is None:
            self.tls_material.context()
