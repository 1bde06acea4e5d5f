"""`TlsMaterial`: the files and texts of the ``ssl_*`` options, and the `ssl.SSLContext` created from them."""

from __future__ import annotations

import os
import re
import secrets
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from ..errors import ConfigError
from ..errors.base import without_frames

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates


_JKS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_SEQUENCE, _INTEGER = 0x30, 0x02
_LONG = 0x80

_BEGIN = b"-----BEGIN "
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_LINE = 64


class Kind(Enum):
    """The format of a certificate store."""

    PEM = "PEM"
    DER = "DER"
    PKCS12 = "PKCS #12"
    JKS = "JKS"
    OTHER = "other"


def kind_of(data: bytes) -> Kind:
    """Return the format. PEM is detected by its first line, which may be anywhere in the file."""
    if _BEGIN in data:
        return Kind.PEM
    if data.startswith(_JKS):
        return Kind.JKS
    if len(data) < 2 or data[0] != _SEQUENCE:
        return Kind.OTHER
    # A PKCS #12 store begins with its version, and a certificate with another sequence.
    first = 2 + (data[1] - _LONG if data[1] > _LONG else 0)
    return Kind.PKCS12 if data[first : first + 1] == bytes([_INTEGER]) else Kind.DER


def pem_blocks(name: str, data: bytes) -> bytes:
    """Return the blocks of a PEM text in the form that OpenSSL requires, without the surrounding text.

    The text may have any encoding. As in Java, blanks count as line ends, because such a text may be on a single line.
    Raises `ConfigError`, which names the option, for a block without an end and for line ends written as two
    characters.
    """
    blocks = _BLOCK.findall(data)
    if len(blocks) != data.count(_BEGIN):
        raise ConfigError(f"{name}: a PEM block has no end (-----END ...)")
    if any(b"\\n" in body for _, body in blocks):
        text = f"{name}: the PEM has the two characters \\n instead of line breaks: replace them"
        raise ConfigError(text)
    return b"".join(b"-----BEGIN %b-----\n%b\n-----END %b-----\n" % (kind, _lines(body), kind) for kind, body in blocks)


def certificates_in(pem: bytes) -> str:
    """Return the certificate blocks of a PEM text that also contains a key."""
    found = (block[0] for block in _BLOCK.finditer(pem) if block[1].endswith(b"CERTIFICATE"))
    return b"\n".join(found).decode("ascii", errors="replace")


def _lines(body: bytes) -> bytes:
    if b":" in body:  # a header, for example of a key encrypted in the traditional format
        return body.strip()
    joined = b"".join(body.split())
    return b"\n".join(joined[start : start + _LINE] for start in range(0, len(joined), _LINE))


def pem_of(name: str, data: bytes, password_name: str, password: str | None) -> tuple[bytes, str]:
    """Return the key of a PKCS #12 store with its certificates, and the password that now encrypts the key.

    Raises `ConfigError`, which names the option, if the store cannot be opened or lacks the key or the certificate.
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
    """Return all certificates of a PKCS #12 store, concatenated in DER. Raises `ConfigError` like `pem_of`."""
    store = _opened(name, data, password_name, password)
    from cryptography.hazmat.primitives.serialization import Encoding

    found = [*([store.cert] if store.cert is not None else []), *store.additional_certs]
    if not found:
        raise ConfigError(f"{name}: the PKCS #12 store contains no certificate")
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
            raise ConfigError(f"{name}: this is not a readable PKCS #12 store") from None
        if password is None:
            raise ConfigError(f"{password_name} is missing: {name} is a PKCS #12 store with a password") from None
        text = f"{password_name} is wrong for the PKCS #12 store of {name}, or the store is damaged"
        raise ConfigError(text) from None


_ENCRYPTED = (b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"Proc-Type: 4,ENCRYPTED")
_JKS_CURE = "keytool -importkeystore -srckeystore OLD.jks -destkeystore NEW.p12 -deststoretype PKCS12"


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """Trusted certificate authorities and the client certificate, from the options of the same names.

    ``names`` maps options to the names that errors use instead.
    """

    ssl_cafile: str | None = None
    ssl_cadata: str | bytes | None = None
    ssl_ca_password: str | None = field(default=None, repr=False)
    ssl_certfile: str | None = None
    ssl_certdata: str | None = None
    ssl_keyfile: str | None = None
    ssl_keydata: str | None = field(default=None, repr=False)
    ssl_password: str | None = field(default=None, repr=False)
    ssl_check_hostname: bool = True
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of the files that `context` reads."""
        return tuple(path for path in (self.ssl_cafile, self.ssl_certfile, self.ssl_keyfile) if path is not None)

    def check(self) -> None:
        """Raise `ConfigError` if options exclude each other, or if an option is missing that another requires."""
        for data, file in (("ssl_certdata", "ssl_certfile"), ("ssl_keydata", "ssl_keyfile")):
            if getattr(self, data) is not None and getattr(self, file) is not None:
                raise ConfigError(f"{self._name(data)} and {self._name(file)} cannot be combined")
        if self._source("ssl_cert") is None:
            for name in ("ssl_keyfile", "ssl_keydata", "ssl_password"):
                if getattr(self, name) is not None:
                    text = f"{self._name('ssl_certfile')} is missing: {self._name(name)} is given"
                    raise ConfigError(text)
        if self.ssl_ca_password is not None and self.ssl_cafile is None:
            raise ConfigError(f"{self._name('ssl_cafile')} is missing: {self._name('ssl_ca_password')} is given")

    def context(self) -> ssl.SSLContext:
        """Return a client context. If no certificate authorities are given, it has the system's.

        This reads the files. Raises `ConfigError`, which names the option and the file, if there is one.
        """
        try:
            return self._made()
        except ConfigError as error:
            raise without_frames(error) from None  # the variables of these frames contain keys

    def _made(self) -> ssl.SSLContext:
        self.check()
        context = self._trusting()
        # From Python 3.13 on, default contexts reject certificates without some extensions of RFC 5280. Many private
        # authorities, such as Strimzi's, issue certificates without them, and other Kafka clients accept these.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        certificate = self._source("ssl_cert")
        if certificate is not None:
            self._present(context, *certificate)
        context.check_hostname = self.ssl_check_hostname
        return context

    # --- authorities ---

    def _trusting(self) -> ssl.SSLContext:
        """Return a context that trusts the authorities in the options, or by default the system's authorities."""
        cadata = self._cadata()
        if self.ssl_cafile is None:
            with self._usable(self._name("ssl_cadata")):
                return ssl.create_default_context(cadata=cadata)
        where = self._where("ssl_cafile")
        data = self._read("ssl_cafile")
        kind = self._kind(where, data)
        if kind is Kind.PKCS12:
            data = authorities_of(where, data, self._name("ssl_ca_password"), self.ssl_ca_password)
        with self._usable(where):
            if kind is Kind.PEM:
                with _one_time_file(data) as path:
                    context = ssl.create_default_context(cafile=path)
            else:
                context = ssl.create_default_context(cadata=data)
        if cadata is not None:
            with self._usable(self._name("ssl_cadata")):
                context.load_verify_locations(cadata=cadata)
        return context

    def _cadata(self) -> str | bytes | None:
        """Return the authorities as ``cadata`` for `ssl`, which requires a str for PEM and bytes for DER."""
        given = self.ssl_cadata
        if given is None:
            return None
        data = given.encode(errors="replace") if isinstance(given, str) else given
        if kind_of(data) is Kind.PEM:
            data = pem_blocks(self._name("ssl_cadata"), data)
        elif isinstance(given, bytes):
            return data
        return data.decode("ascii", errors="replace")

    # --- the client's own certificate ---

    def _present(self, context: ssl.SSLContext, name: str, chain: bytes) -> None:
        """Let the context present this certificate, with its key from the same option or from the option for keys."""
        where = self._where(name)
        separate = self._source("ssl_key")
        if self._kind(where, chain) is Kind.PKCS12:
            if separate is not None:
                raise ConfigError(f"{self._name(separate[0])}: {where} is a PKCS #12 store, which contains the key")
            pem, password = pem_of(where, chain, self._name("ssl_password"), self.ssl_password)
            key_name = name
        else:
            key_name, key = (name, b"") if separate is None else separate
            if b"PRIVATE KEY-----" not in (key or chain):
                if separate is None:
                    raise ConfigError(f"{self._name('ssl_keyfile')} is missing: {where} contains no private key")
                raise ConfigError(f"{self._where(key_name)}: this is not a private key in PEM")
            if b"-----BEGIN CERTIFICATE-----" not in chain:
                raise ConfigError(f"{where}: it contains no certificate")
            pem, password = (key + b"\n" + chain if key else chain), self.ssl_password or ""
            if password == "" and any(mark in (key or chain) for mark in _ENCRYPTED):
                text = f"{self._name('ssl_password')} is missing: the key of {self._where(key_name)} is encrypted"
                raise ConfigError(text)
        self._load(context, pem, password, where, key_name)

    def _load(self, context: ssl.SSLContext, pem: bytes, password: str, where: str, key_name: str) -> None:
        """Load a certificate and its key from PEM. Raises `ConfigError`, which names the option at fault."""
        asked = False

        def answer() -> str:
            nonlocal asked
            asked = True
            return password

        with _one_time_file(pem) as path:
            try:
                # Without a callback, OpenSSL would ask for a password at the terminal.
                context.load_cert_chain(path, password=answer)
            except ssl.SSLError as error:
                if error.reason == "KEY_VALUES_MISMATCH":
                    text = f"{self._where(key_name)}: the key does not belong to the certificate of {where}"
                elif asked:
                    text = f"{self._name('ssl_password')} is wrong: the key of {self._where(key_name)} is encrypted"
                else:
                    at_fault = where if _is_broken(certificates_in(pem)) else self._where(key_name)
                    text = f"{at_fault}: this is not valid PEM ({error.reason or error})"
                raise ConfigError(text) from None
            except ValueError:
                raise ConfigError(f"{self._name('ssl_password')} is longer than OpenSSL accepts") from None

    # --- names and bytes ---

    def _name(self, option: str) -> str:
        return self.names.get(option, option)

    def _where(self, option: str) -> str:
        """Return the name of the option and, if it has one, the file."""
        value = getattr(self, option)
        return f"{self._name(option)} ({value})" if option.endswith("file") else self._name(option)

    def _source(self, what: str) -> tuple[str, bytes] | None:
        """Return the option of a certificate or key (file or text) and its content, or None if neither is given."""
        if getattr(self, f"{what}file") is not None:
            return f"{what}file", self._read(f"{what}file")
        text = getattr(self, f"{what}data")
        return None if text is None else (f"{what}data", self._clean(f"{what}data", text.encode(errors="replace")))

    def _read(self, option: str) -> bytes:
        try:
            with open(getattr(self, option), "rb") as file:
                data = file.read()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"{self._where(option)}: {reason}") from None
        return self._clean(option, data)

    def _clean(self, option: str, data: bytes) -> bytes:
        return pem_blocks(self._where(option), data) if kind_of(data) is Kind.PEM else data

    def _kind(self, where: str, data: bytes) -> Kind:
        kind = kind_of(data)
        if kind is Kind.JKS:
            raise ConfigError(f"{where}: this is a Java key store (JKS), convert it: {_JKS_CURE}")
        if kind is Kind.OTHER:
            raise ConfigError(f"{where}: this is neither PEM nor PKCS #12")
        return kind

    @contextmanager
    def _usable(self, where: str) -> Iterator[None]:
        try:
            yield
        except (ssl.SSLError, TypeError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise ConfigError(f"{where}: it contains no valid certificate ({reason})") from None


def _is_broken(certificates: str) -> bool:
    try:
        ssl.create_default_context(cadata=certificates)
    except (ssl.SSLError, TypeError):
        return True
    return False


@contextmanager
def _one_time_file(content: bytes) -> Iterator[str]:
    """In the block, provide the path of a file with this content, because Python can load keys only from files.

    The file is in memory if possible. Otherwise, its mode is 0600.
    """
    handle, path, on_disk = _create_file()
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            yield path
    finally:
        if on_disk:
            os.unlink(path)


def _create_file() -> tuple[int, str, bool]:
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("tls")
        path = f"/proc/self/fd/{handle}"
        if os.path.exists(path):
            return handle, path, False
        os.close(handle)
    handle, path = tempfile.mkstemp()
    return handle, path, True
