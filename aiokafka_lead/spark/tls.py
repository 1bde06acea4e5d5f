"""Java's ``ssl.*`` settings as an `ssl.SSLContext`: certificates and keys in PEM (KIP-651)."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Mapping

__all__ = ["ssl_context"]


def ssl_context(settings: Mapping[str, str]) -> ssl.SSLContext:
    """What the settings describe; the system's certificate authorities where they name none.

    Raises ValueError for stores that are not PEM and for files that cannot be used.
    """
    for store in ("truststore", "keystore"):
        kind = settings.get(f"ssl.{store}.type", "PEM").upper()
        if kind != "PEM":
            raise ValueError(f"option 'kafka.ssl.{store}.type' must be PEM, not {kind}: convert the store")
    try:
        context = ssl.create_default_context(
            cafile=settings.get("ssl.truststore.location"), cadata=settings.get("ssl.truststore.certificates")
        )
        _add_key(context, settings)
    except (OSError, ssl.SSLError) as error:
        raise ValueError(f"the certificates of the kafka.ssl.* options cannot be used: {error}") from None
    if settings.get("ssl.endpoint.identification.algorithm", "https").strip() == "":
        context.check_hostname = False
    return context


def _add_key(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    """The client's own certificate: from a file that holds it and its key, or from two settings."""
    password = settings.get("ssl.key.password")
    location = settings.get("ssl.keystore.location")
    chain, key = settings.get("ssl.keystore.certificate.chain"), settings.get("ssl.keystore.key")
    if location is not None:
        context.load_cert_chain(location, password=password)
    elif chain is not None and key is not None:
        # OpenSSL takes files alone. This one is readable by its owner only, and gone at once.
        handle, path = tempfile.mkstemp(suffix=".pem")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(f"{key}\n{chain}\n")
            context.load_cert_chain(path, password=password)
        finally:
            os.unlink(path)
