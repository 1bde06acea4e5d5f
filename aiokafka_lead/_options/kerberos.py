"""Options of GSSAPI: which Kerberos tickets are used, and for which service."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TypedDict

from ..errors import ConfigError
from .checks import Checked, option, optional, path, text

__all__ = ["KerberosConfig", "KerberosOptions"]


class KerberosOptions(TypedDict, total=False):
    """Options for ``sasl_mechanism="GSSAPI"``, which needs the extra "gssapi".

    Tickets come from the user's cache (``kinit``, the variable KRB5CCNAME), unless a keytab is given.
    """

    sasl_kerberos_service_name: str
    """The first part of the brokers' principals (``"kafka"``)."""
    sasl_kerberos_domain_name: str | None
    """The second part; None is the host of the connection, as brokers advertise it."""
    sasl_kerberos_principal: str | None
    """Principal of this client; None is the first principal of the keytab, or the principal of the cache."""
    sasl_kerberos_keytab: str | os.PathLike[str] | None
    """The file with the principal's key: tickets are fetched with it, and renewed, without ``kinit``."""


@dataclass(init=False, repr=False, eq=False)
class KerberosConfig(Checked):
    """The options of `KerberosOptions`, checked."""

    sasl_kerberos_service_name: str = option("kafka", text)
    sasl_kerberos_domain_name: str | None = option(None, optional(text))
    sasl_kerberos_principal: str | None = option(None, optional(text))
    sasl_kerberos_keytab: str | None = option(None, optional(path))

    def _check_kerberos(self, used: bool) -> None:
        given = [
            name for name, field in KerberosConfig.__dataclass_fields__.items() if getattr(self, name) != field.default
        ]
        if given and not used:
            raise ConfigError(f"{given[0]} is for sasl_mechanism GSSAPI")
        if not used:
            return
        try:
            import gssapi  # noqa: F401 # pyright: ignore[reportMissingImports]
        except (ImportError, OSError) as error:  # OSError: the package is there, but not the system library
            raise ConfigError(
                'sasl_mechanism GSSAPI needs the extra "gssapi", and the system\'s Kerberos library: '
                f'pip install "aiokafka-lead[gssapi]" ({error})'
            ) from None
        if self.sasl_kerberos_keytab is not None:
            try:
                with open(self.sasl_kerberos_keytab, "rb"):
                    pass
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise ConfigError(f"sasl_kerberos_keytab ({self.sasl_kerberos_keytab}): {reason}") from None
