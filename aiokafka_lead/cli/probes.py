"""Checks of an address without Kafka: its name, its port, and TLS."""

from __future__ import annotations

import os
import socket
import ssl
import time

import anyio

_PATIENCE_S = 5.0


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a name; raises OSError."""
    with anyio.fail_after(_PATIENCE_S):
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def connect_ms(host: str, port: int) -> float:
    """Return the time that a TCP connection takes; raises OSError, including TimeoutError."""
    began = time.perf_counter()
    with anyio.fail_after(_PATIENCE_S):
        stream = await anyio.connect_tcp(host, port)
    elapsed = (time.perf_counter() - began) * 1000
    await stream.aclose()
    return elapsed


def why(error: OSError) -> str:
    """Describe why a connection failed: each reason once, if a name has several addresses."""
    if isinstance(error, TimeoutError):
        return "no answer"
    cause = error.__cause__ or error
    causes = cause.exceptions if isinstance(cause, BaseExceptionGroup) else (cause,)
    reasons = [
        os.strerror(each.errno).lower() if isinstance(each, OSError) and each.errno else str(each) for each in causes
    ]
    return ", ".join(dict.fromkeys(reasons))


async def speaks_tls(host: str, port: int) -> bool:
    """Return True if a TLS handshake makes progress, whatever the certificate is worth."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # no data is sent here: the only question is if it is TLS
    try:
        with anyio.fail_after(_PATIENCE_S):
            stream = await anyio.connect_tcp(host, port, tls=True, ssl_context=context, tls_standard_compatible=False)
            await anyio.aclose_forcefully(stream)
    except ssl.SSLError as error:
        # An alert comes from a peer that speaks TLS, which for example requires a client certificate.
        return "ALERT" in str(error).upper()
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError, TimeoutError):
        return False
    return True
