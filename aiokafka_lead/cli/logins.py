"""Reasons why an address that answers cannot be used: TLS, SASL, or another protocol than Kafka."""

from __future__ import annotations

from ..config import ClientConfig
from ..errors import (
    KafkaError,
    SaslAuthenticationFailedError,
    SslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from .findings import Finding
from .probes import speaks_tls

__all__ = ["login_failure"]


async def login_failure(error: KafkaError, config: ClientConfig, where: str, host: str, port: int) -> Finding:
    """Return the finding, with a cure, for an error while a connection was set up."""
    protocol = config.security_protocol
    with_tls = protocol.endswith("SSL")
    if isinstance(error, UnsupportedSaslMechanismError):
        return Finding(
            "error",
            f"{where}: SASL mechanism {config.sasl_mechanism} is not offered: {error}",
            "set sasl_mechanism to one that the broker offers (sasl.enabled.mechanisms)",
        )
    if isinstance(error, SaslAuthenticationFailedError):
        return Finding(
            "error",
            f"{where}: the login failed: {error}",
            "check user, password and mechanism; the broker's log says more than it tells clients",
        )
    tls_there = with_tls if config.proxy_url else await speaks_tls(host, port)
    if tls_there != with_tls:
        there, here = ("TLS", "SSL") if tls_there else ("no TLS", "PLAINTEXT")
        wanted = protocol.replace("PLAINTEXT", "SSL") if tls_there else protocol.replace("SSL", "PLAINTEXT")
        return Finding(
            "error",
            f"{where}: TLS mismatch: the listener speaks {there}, and security_protocol is {protocol}",
            f"set security_protocol to {wanted if wanted != protocol else here}, or use the port of another listener",
        )
    if isinstance(error, SslAuthenticationError):
        return _certificate(error, where)
    return Finding(
        "error", f"{where}: {error}", "is it a Kafka broker, and its listener of the protocol that is set here?"
    )


def _certificate(error: SslAuthenticationError, where: str) -> Finding:
    text = str(error)
    said = text.lower()
    if "expired" in said:
        cure = "renew the certificate that has expired; if it has not, this machine's clock is wrong"
    elif "hostname" in said or "ip address mismatch" in said:
        cure = "the certificate must name the host that is connected to (subjectAltName)"
    elif "self-signed" in said or "self signed" in said or "unable to get" in said:
        cure = "trust the authority that signed the broker's certificate: ssl_cafile"
    elif "alert" in said or "certificate required" in said:
        cure = "the broker refuses the client's certificate, or wants one: ssl_certfile, ssl_keyfile"
    else:
        cure = "compare what the broker presents (openssl s_client -connect) with ssl_cafile"
    return Finding("error", f"{where}: TLS failed: {text}", cure)
