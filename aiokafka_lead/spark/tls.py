"""Converts Java's ``ssl.*`` settings to this client's options: stores in PEM (KIP-651) and PKCS #12."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._options.tls.material import TlsMaterial

__all__ = ["tls_options"]

_OPTIONS = {
    "ssl.truststore.location": "ssl_cafile",
    "ssl.truststore.certificates": "ssl_cadata",
    "ssl.truststore.password": "ssl_ca_password",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.keystore.certificate.chain": "ssl_certdata",
    "ssl.keystore.key": "ssl_keydata",
    "ssl.key.password": "ssl_password",
}
_EXCLUSIVE = (
    ("ssl.truststore.location", "ssl.truststore.certificates"),
    ("ssl.keystore.location", "ssl.keystore.key"),
    ("ssl.keystore.location", "ssl.keystore.certificate.chain"),
)
_PAIR = ("ssl.keystore.certificate.chain", "ssl.keystore.key")


def tls_options(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return the ``ssl_*`` options for the settings; without settings the system's authorities are used.

    Raises ValueError, which names the setting, for stores of other kinds and for invalid ones.
    """
    for store in ("truststore", "keystore"):
        kind = settings.get(f"ssl.{store}.type", "PEM").strip().upper()
        if kind not in ("PEM", "PKCS12", "JKS"):  # what a store is its content shows: Java reads PKCS #12 as JKS, too
            raise ValueError(f"option 'kafka.ssl.{store}.type' must be PEM or PKCS12, not {kind}: convert the store")
    for one, other in _EXCLUSIVE:
        if one in settings and other in settings:
            raise ValueError(f"options 'kafka.{one}' and 'kafka.{other}' exclude each other")
    given = [name for name in _PAIR if name in settings]
    if len(given) == 1:
        (missing,) = set(_PAIR) - set(given)
        raise ValueError(f"option 'kafka.{missing}' is missing: 'kafka.{given[0]}' is given")
    found: dict[str, Any] = {own: settings[name] for name, own in _OPTIONS.items() if settings.get(name)}
    called = {own: f"option 'kafka.{name}'" for name, own in _OPTIONS.items()}
    if "ssl.key.password" not in settings and "ssl.keystore.password" in settings:
        found["ssl_password"] = settings["ssl.keystore.password"]  # a PKCS #12 store has only one password
        called["ssl_password"] = "option 'kafka.ssl.keystore.password'"
    if "ssl_certfile" not in found and "ssl_certdata" not in found:
        found.pop("ssl_password", None)  # it has no effect in Java
    if "ssl_cafile" not in found:
        found.pop("ssl_ca_password", None)
    if settings.get("ssl.endpoint.identification.algorithm", "https").strip() == "":
        found["ssl_check_hostname"] = False
    if found:
        TlsMaterial(**found, names=called).context()
    return found
