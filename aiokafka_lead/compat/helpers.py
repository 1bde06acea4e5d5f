"""`create_ssl_context`, in a module of the same name as in aiokafka."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable

__all__ = ["create_ssl_context"]

_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
_Secret = str | bytes | bytearray


def create_ssl_context(
    *,
    cafile: _Path | None = None,
    capath: _Path | None = None,
    cadata: str | bytes | None = None,
    certfile: _Path | None = None,
    keyfile: _Path | None = None,
    password: Callable[[], _Secret] | _Secret | None = None,
) -> ssl.SSLContext:
    """Create a TLS context that verifies brokers' certificates and host names.

    ``certfile``, ``keyfile`` and ``password`` are for the client's certificate and key. Without ``cafile``, ``capath``
    and ``cadata``, the certificate authorities of the system are trusted.
    """
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=cafile, capath=capath, cadata=cadata)
    if certfile is not None:
        context.load_cert_chain(certfile, keyfile, password)
    return context
