"""A certificate authority for one test run, with keys in the PEM form that Kafka reads (KIP-651)."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files of one authority: the broker's credentials and the clients' trust."""

    keystore: Path
    """The broker's private key (PKCS #8) and its certificate chain, in one file."""
    authority: Path
    """The authority's certificate: the broker's trust store, and the clients'."""
    client_certificate: Path
    """A certificate chain for a client that authenticates by TLS, with its key."""
    _issuer: trustme.CA

    @classmethod
    def make(cls, folder: Path) -> Certificates:
        """Create an authority, a certificate for 127.0.0.1 and localhost, and a client's certificate."""
        folder.mkdir(parents=True, exist_ok=True)
        authority = trustme.CA()
        files = cls(folder / "broker.pem", folder / "ca.pem", folder / "client.pem", authority)
        files.keystore.write_bytes(_pkcs8(authority.issue_cert("127.0.0.1", "localhost")))
        files.client_certificate.write_bytes(files.issue_client())
        files.authority.write_bytes(authority.cert_pem.bytes())
        return files

    def issue_client(self) -> bytes:
        """Issue another key and certificate for the client; return the contents of their file."""
        return _pkcs8(self._issuer.issue_cert("alice@example.org"))

    def context(self, *, with_certificate: bool = False) -> ssl.SSLContext:
        """Create a client's context that trusts only this authority."""
        context = ssl.create_default_context(cafile=str(self.authority))
        if with_certificate:
            context.load_cert_chain(str(self.client_certificate))
        return context


def _pkcs8(issued: trustme.LeafCert) -> bytes:
    key = load_pem_private_key(issued.private_key_pem.bytes(), password=None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem + b"".join(blob.bytes() for blob in issued.cert_chain_pems)
