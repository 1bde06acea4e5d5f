"""TLS and SASL logins, as values and as flat options.

    Producer("kafka.example.org:9093", security=Scram("orders", password))
    Producer("kafka.example.org:9093", security=Plain("key", secret, tls=Tls(cafile="ca.pem")))
    Producer("kafka.example.org:9093", security=Tls(certfile="me.pem", keyfile="me.key"))

A login uses TLS by default; ``tls=None`` turns TLS off. Each value sets some of the flat options in `SecurityOptions`.
Pass either the value or these flat options, but not both. An error about an attribute names the flat option. Secrets do
not appear in ``repr``.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from ._options.checks import Checked, boolean, hidden, one_of, option, optional, path, text
from ._options.oauth import PROVIDER_OPTIONS, OAuthConfig, TokenProvider
from ._values import Frozen
from .errors import ConfigError, ConfigTypeError

if TYPE_CHECKING:
    from ._options.tls import TlsMaterial

__all__ = ["ContextFactory", "Kerberos", "OAuth", "Plain", "Scram", "Security", "Tls"]

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
ScramMechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
PasswordMechanism = Literal["PLAIN", ScramMechanism]
SaslMechanism = Literal[PasswordMechanism, "OAUTHBEARER", "GSSAPI"]
"""Kafka's names of the SASL mechanisms, which `_io.connection.login` implements."""

PASSWORD_MECHANISMS: tuple[str, ...] = get_args(PasswordMechanism)

SASL_PREFIXES = {
    **dict.fromkeys(PASSWORD_MECHANISMS, "sasl_plain_"),
    "OAUTHBEARER": "sasl_oauth",
    "GSSAPI": "sasl_kerberos_",
}
"""Prefix of the options of each mechanism. The names of Java's settings have it too, with dots."""

ContextFactory = Callable[[], ssl.SSLContext | Awaitable[ssl.SSLContext]]
"""Callable that returns the TLS context for the next connection. A coroutine function is awaited."""

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
"""Names of the options of `TlsMaterial`."""


class _Values(Frozen):
    """Base class of values whose secrets do not appear in ``repr``, in ``vars`` or in error collectors."""

    def __init__(self, *values: Any, **given: Any) -> None:
        super().__init__(*values, **given)
        own: Any = self
        vars(self).update({each.name: hidden(getattr(self, each.name)) for each in fields(own) if not each.repr})


class Tls(_Values):
    """TLS, with or without a client certificate.

        Consumer("events", bootstrap_servers="broker:9093", security=Tls(cafile="ca.pem"))

    Each attribute is the option with the prefix ``ssl_`` in `SecurityOptions`. Pass a `Tls` as ``security``, or as
    ``tls`` of another class of this module to log in over TLS.
    """

    cafile: str | os.PathLike[str] | None = None
    """File with the authorities to trust. Without this and ``cadata``, the authorities of the system are trusted."""
    cadata: str | bytes | None = None
    ca_password: str | None = field(default=None, repr=False)
    certfile: str | os.PathLike[str] | None = None
    """File with the certificate of this client and its chain."""
    certdata: str | None = None
    keyfile: str | os.PathLike[str] | None = None
    keydata: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    """Password of an encrypted private key."""
    check_hostname: bool = True
    context: ssl.SSLContext | ContextFactory | None = None
    """Replaces all other attributes."""

    def _options(self) -> dict[str, Any]:
        return {"security_protocol": "SSL", **self._ssl_options()}

    def _ssl_options(self) -> dict[str, Any]:
        return {f"ssl_{each.name}": getattr(self, each.name) for each in fields(self)}


class Plain(_Values):
    """User name and password, which the broker receives unchanged (``sasl_mechanism="PLAIN"``)."""

    username: str
    password: str = field(repr=False)
    _: KW_ONLY
    tls: Tls | None = field(default_factory=Tls)

    def _options(self) -> dict[str, Any]:
        return _login("PLAIN", self.tls, sasl_plain_username=self.username, sasl_plain_password=self.password)


class Scram(_Values):
    """User name and password; the broker receives only a proof of the password (KIP-84)."""

    username: str
    password: str = field(repr=False)
    _: KW_ONLY
    mechanism: ScramMechanism = "SCRAM-SHA-512"
    delegation_token: bool = False
    """True if user name and password are the id and HMAC (in base64) of a delegation token (KIP-48)."""
    tls: Tls | None = field(default_factory=Tls)

    def _options(self) -> dict[str, Any]:
        return _login(
            one_of(*get_args(ScramMechanism))("security.mechanism", self.mechanism),
            self.tls,
            sasl_plain_username=self.username,
            sasl_plain_password=self.password,
            sasl_delegation_token=self.delegation_token,
        )


class OAuth(_Values):
    """Tokens of a provider (``sasl_mechanism="OAUTHBEARER"``, KIP-255).

    ``token_provider`` is called before the first connection, and again before a token expires. `aiokafka_lead.oidc` has
    providers for common identity services. ``tls=None`` connects without TLS, so anybody on the network could read the
    token.
    """

    token_provider: TokenProvider = field(repr=False)
    _: KW_ONLY
    token_timeout_ms: float = 10_000
    """Time limit for one call of the provider, in milliseconds."""
    refresh_window_factor: float = 0.8
    """Fraction of its lifetime after which a token is renewed."""
    refresh_window_jitter: float = 0.05
    """Maximum random addition to ``refresh_window_factor``."""
    refresh_min_period_seconds: float = 60
    refresh_buffer_seconds: float = 300
    retry_backoff_ms: float = 100
    retry_backoff_max_ms: float = 10_000
    tls: Tls | None = field(default_factory=Tls)

    def _options(self) -> dict[str, Any]:
        login = {
            f"sasl_login_{each.name}": getattr(self, each.name)
            for each in fields(self)
            if each.name.startswith(("refresh_", "retry_"))
        }
        return _login(
            "OAUTHBEARER",
            self.tls,
            sasl_oauth_token_provider=self.token_provider,
            sasl_oauth_token_timeout_ms=self.token_timeout_ms,
            **login,
        )


class Kerberos(_Values):
    """A Kerberos ticket (``sasl_mechanism="GSSAPI"``), which needs the extra "gssapi".

    Each attribute is the option with the prefix ``sasl_kerberos_`` in `SecurityOptions`. ``tls=None`` connects without
    TLS.
    """

    service_name: str = "kafka"
    _: KW_ONLY
    domain_name: str | None = None
    principal: str | None = None
    keytab: str | os.PathLike[str] | None = None
    tls: Tls | None = field(default_factory=Tls)

    def _options(self) -> dict[str, Any]:
        names = ("service_name", "domain_name", "principal", "keytab")
        return _login("GSSAPI", self.tls, **{f"sasl_kerberos_{name}": getattr(self, name) for name in names})


Security = Plain | Scram | OAuth | Kerberos | Tls


def _login(mechanism: str, tls: Tls | None, **options: Any) -> dict[str, Any]:
    """Return the flat options of a login with or without TLS."""
    if not isinstance(tls, Tls | None):
        raise ConfigTypeError(f"security.tls must be a Tls or None, not {type(tls).__name__}")
    encryption = {} if tls is None else tls._ssl_options()
    protocol = "SASL_PLAINTEXT" if tls is None else "SASL_SSL"
    return {"security_protocol": protocol, "sasl_mechanism": mechanism, **options, **encryption}


def flat_security(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with ``security`` replaced by the flat options that it sets.

    Raises `ConfigError`, which names both, if a flat security option is also given.
    """
    flat = dict(given)
    value = flat.pop("security", None)
    if value is None:
        return flat
    if not isinstance(value, Security):
        kind = "str" if isinstance(value, str) else type(value).__name__  # by now, a str has become a `Secret`
        raise ConfigTypeError(f"security must be a Plain, Scram, OAuth, Kerberos or Tls, not {kind}")
    for name in SecurityConfig.__dataclass_fields__:
        if flat.pop(name, None) is not None:
            kind = type(value).__name__
            raise ConfigError(f"security={kind}(...) and {name} cannot be combined")
    return flat | value._options()


def _context(name: str, value: Any) -> Any:
    if not isinstance(value, ssl.SSLContext) and (isinstance(value, type) or not callable(value)):
        raise ConfigTypeError(f"{name} must be an ssl.SSLContext or a callable that returns one, not {value!r}")
    return value


def _authorities(name: str, value: Any) -> str | bytes:
    return value if isinstance(value, bytes) and value else _pem(name, value)


def _pem(name: str, value: Any) -> str:
    """Return a PEM text whose comments may contain characters that the environment could not decode."""
    return text(name, type(value)(value.encode(errors="replace").decode()) if isinstance(value, str) else value)


class KerberosConfig(Checked):
    """Checked values of the options that `KerberosOptions` describes."""

    sasl_kerberos_service_name: str = option("kafka", text)
    sasl_kerberos_domain_name: str | None = option(None, optional(text))
    sasl_kerberos_principal: str | None = option(None, optional(text))
    sasl_kerberos_keytab: str | None = option(None, optional(path))

    def _check_kerberos(self, used: bool) -> None:
        given = [
            name for name, field in KerberosConfig.__dataclass_fields__.items() if getattr(self, name) != field.default
        ]
        if given and not used:
            raise ConfigError(f"{given[0]} needs sasl_mechanism GSSAPI")
        if not used:
            return
        try:
            import gssapi  # noqa: F401 # pyright: ignore[reportMissingImports]
        except (ImportError, OSError) as error:  # OSError: the package is installed, but the system library is missing
            raise ConfigError(
                'sasl_mechanism GSSAPI needs the extra "gssapi", and the system\'s Kerberos library: '
                f'pip install "aiokafka-lead[gssapi]" ({error})'
            ) from None

    def _check_keytab(self) -> None:
        if self.sasl_kerberos_keytab is not None:
            try:
                with open(self.sasl_kerberos_keytab, "rb"):
                    pass
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise ConfigError(f"sasl_kerberos_keytab ({self.sasl_kerberos_keytab}): {reason}") from None


class SecurityConfig(KerberosConfig, OAuthConfig):
    """Checked values of the options that `SecurityOptions` describes."""

    security_protocol: SecurityProtocol = option("PLAINTEXT", one_of(*get_args(SecurityProtocol)))
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
    sasl_mechanism: SaslMechanism | None = option(None, optional(one_of(*get_args(SaslMechanism))))
    sasl_plain_username: str | None = option(None, optional(text))
    sasl_plain_password: str | None = option(None, optional(text), secret=True)
    sasl_delegation_token: bool = option(False, boolean)

    @staticmethod
    def _settle_security(given: dict[str, Any]) -> dict[str, Any]:
        """Add options that follow from the security protocol, before each option is checked."""
        given = flat_security(given)
        if str(given.get("security_protocol", "")).startswith("SASL_") and given.get("sasl_mechanism") is None:
            given["sasl_mechanism"] = "PLAIN"
        return given

    def _check_security(self) -> None:
        self._check_kerberos(used=self.sasl_mechanism == "GSSAPI")
        given = [name for name in PROVIDER_OPTIONS if getattr(self, name)]
        if given and self.sasl_mechanism != "OAUTHBEARER":
            raise ConfigError(f"{given[0]} needs sasl_mechanism OAUTHBEARER, not {self.sasl_mechanism}")
        if self.security_protocol.startswith("SASL_"):
            for name in ("sasl_plain_username", "sasl_plain_password"):
                if getattr(self, name) is None and self.sasl_mechanism in PASSWORD_MECHANISMS:
                    raise ConfigError(f"{name} is required for sasl_mechanism {self.sasl_mechanism}")
        elif self.sasl_mechanism is not None or self.sasl_plain_password is not None:
            raise ConfigError(
                f"security_protocol must be SASL_SSL or SASL_PLAINTEXT for sasl_* options, not {self.security_protocol}"
            )
        if self.sasl_delegation_token and not str(self.sasl_mechanism).startswith("SCRAM-"):
            raise ConfigError(f"sasl_delegation_token needs SCRAM, not sasl_mechanism {self.sasl_mechanism}")
        self._check_tls()

    def _check_files(self) -> None:
        """Read the certificate files and the keytab. Raises `ConfigError`, which names the option and the file."""
        self._check_keytab()
        if self._tls_options():
            self.tls_material.context()

    @property
    def tls_material(self) -> TlsMaterial:
        """Authorities and certificate from the ``ssl_*`` options other than ``ssl_context``."""
        from ._options.tls import TlsMaterial  # imported here, because it takes a tenth of a producer's import time

        return TlsMaterial(**{name: getattr(self, name) for name in _MATERIAL})

    def _tls_options(self) -> list[str]:
        """Return the names of the given options of `TlsMaterial`."""
        return [name for name in _MATERIAL if getattr(self, name) != self.__dataclass_fields__[name].default]

    def _check_tls(self) -> None:
        given = self._tls_options()
        if self.ssl_context is not None:
            given.append("ssl_context")
        if given and not self.security_protocol.endswith("SSL"):
            raise ConfigError(
                f"security_protocol {self.security_protocol} does not use {given[0]}: set SSL or SASL_SSL"
            )
        if self.ssl_context is not None and len(given) > 1:
            raise ConfigError(f"ssl_context and {given[0]} cannot be combined: configure the context instead")
