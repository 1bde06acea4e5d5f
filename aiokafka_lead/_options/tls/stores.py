"""Stores of certificates in files, recognised by their first bytes; PKCS #12 is read by ``cryptography``."""

from __future__ import annotations

import re
import secrets
from enum import Enum
from typing import TYPE_CHECKING

from ...errors import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

_JKS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_SEQUENCE, _INTEGER = 0x30, 0x02
_LONG = 0x80

_BEGIN = b"-----BEGIN "
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_LINE = 64


class Kind(Enum):
    """Format of a certificate store."""

    PEM = "PEM"
    DER = "DER"
    PKCS12 = "PKCS #12"
    JKS = "JKS"
    OTHER = "other"


def kind_of(data: bytes) -> Kind:
    """Return the format by the first bytes; PEM by its first line, anywhere in the file."""
    if _BEGIN in data:
        return Kind.PEM
    if data.startswith(_JKS):
        return Kind.JKS
    if len(data) < 2 or data[0] != _SEQUENCE:
        return Kind.OTHER
    # A PKCS #12 store begins with its version, a certificate with another sequence.
    first = 2 + (data[1] - _LONG if data[1] > _LONG else 0)
    return Kind.PKCS12 if data[first : first + 1] == bytes([_INTEGER]) else Kind.DER


def pem_blocks(name: str, data: bytes) -> bytes:
    """Return the blocks of a PEM text as OpenSSL requires, without the text around them, in any encoding.

    Blanks count as line ends, as in Java, because such a text may be on one line. Raises `ConfigError`, which names the
    option, for a block without an end and for line ends that are written out as two characters.
    """
    blocks = _BLOCK.findall(data)
    if len(blocks) != data.count(_BEGIN):
        raise ConfigError(f"{name}: a block of its PEM has no end (-----END ...)")
    if any(b"\\n" in body for _, body in blocks):
        text = f"{name}: the line ends of its PEM are the two characters \\n: replace each by a line end"
        raise ConfigError(text)
    return b"".join(b"-----BEGIN %b-----\n%b\n-----END %b-----\n" % (kind, _lines(body), kind) for kind, body in blocks)


def certificates_in(pem: bytes) -> str:
    """Return the certificate blocks of a PEM text that also holds a key."""
    found = (block[0] for block in _BLOCK.finditer(pem) if block[1].endswith(b"CERTIFICATE"))
    return b"\n".join(found).decode("ascii", errors="replace")


def _lines(body: bytes) -> bytes:
    if b":" in body:  # the header of a key that is encrypted in the traditional way
        return body.strip()
    joined = b"".join(body.split())
    return b"\n".join(joined[start : start + _LINE] for start in range(0, len(joined), _LINE))


def pem_of(name: str, data: bytes, password_name: str, password: str | None) -> tuple[bytes, str]:
    """Return the key of a PKCS #12 store with its certificates, and the password that now encrypts the key.

    Raises `ConfigError`, which names the option, for a store that cannot be opened or lacks key or certificate.
    """
    store = _opened(name, data, password_name, password)
    from cryptography.hazmat.primitives import serialization

    if store.key is None or store.cert is None:
        raise ConfigError(f"{name}: the PKCS #12 store has no private key with its certificate")
    once = secrets.token_urlsafe()
    encryption = serialization.BestAvailableEncryption(once.encode())
    key = store.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    chain = [store.cert, *store.additional_certs]
    return key + b"".join(each.certificate.public_bytes(serialization.Encoding.PEM) for each in chain), once


def authorities_of(name: str, data: bytes, password_name: str, password: str | None) -> bytes:
    """Return all certificates of a PKCS #12 store, concatenated in DER; raises `ConfigError` like `pem_of`."""
    store = _opened(name, data, password_name, password)
    from cryptography.hazmat.primitives.serialization import Encoding

    found = [*([store.cert] if store.cert is not None else []), *store.additional_certs]
    if not found:
        raise ConfigError(f"{name}: the PKCS #12 store holds no certificate")
    return b"".join(each.certificate.public_bytes(Encoding.DER) for each in found)


def _opened(name: str, data: bytes, password_name: str, password: str | None) -> PKCS12KeyAndCertificates:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        text = f'{name}: a PKCS #12 store needs the extra "pkcs12": pip install "aiokafka-lead[pkcs12]"'
        raise ConfigError(text) from None
    try:
        return load_pkcs12(data, None if password is None else password.encode())
    except UnsupportedAlgorithm as error:
        raise ConfigError(f"{name}: the PKCS #12 store is encrypted in a way that is not supported ({error})") from None
    except ValueError as error:
        if "password" not in str(error).lower():
            raise ConfigError(f"{name}: this is no PKCS #12 store that can be read") from None
        if password is None:
            raise ConfigError(f"{password_name} is missing: {name} is a PKCS #12 store with a password") from None
        text = f"{password_name} is wrong for the PKCS #12 store of {name}, or the store is damaged"
        raise ConfigError(text) from None
