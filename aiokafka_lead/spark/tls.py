"""Java's ``ssl.*`` settings as an `ssl.SSLContext`: certificates and keys in PEM (KIP-651)."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

__all__ = ["ssl_context"]

_OTHER_KEY = "KEY_VALUES_MISMATCH"
_PAIR = ("ssl.keystore.certificate.chain", "ssl.keystore.key")


def ssl_context(settings: Mapping[str, str]) -> ssl.SSLContext:
    """What the settings describe; the system's certificate authorities where they name none.

    Raises ValueError, which names the option, for stores that are not PEM and for what cannot be used.
    """
    for store in ("truststore", "keystore"):
        kind = settings.get(f"ssl.{store}.type", "PEM").upper()
        if kind != "PEM":
            raise ValueError(f"option 'kafka.ssl.{store}.type' must be PEM, not {kind}: convert the store")
    context = _trusting(settings)
    _add_key(context, settings)
    if settings.get("ssl.endpoint.identification.algorithm", "https").strip() == "":
        context.check_hostname = False
    return context


def _trusting(settings: Mapping[str, str]) -> ssl.SSLContext:
    location, inline = settings.get("ssl.truststore.location"), settings.get("ssl.truststore.certificates")
    if location is None and inline is None:
        return ssl.create_default_context()
    if location is not None and inline is not None:
        raise ValueError("options 'kafka.ssl.truststore.location' and '...certificates' exclude each other")
    with _named("ssl.truststore.certificates" if location is None else "ssl.truststore.location", location):
        return ssl.create_default_context(cafile=location, cadata=inline)


def _add_key(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    """The client's own certificate: from a file that holds it and its key, or from two settings."""
    location = settings.get("ssl.keystore.location")
    given = [name for name in _PAIR if name in settings]
    if location is not None:
        if given:
            raise ValueError(f"options 'kafka.ssl.keystore.location' and 'kafka.{given[0]}' exclude each other")
        _load(context, settings, "ssl.keystore.location", location, location)
    elif len(given) == 1:
        (missing,) = set(_PAIR) - set(given)
        raise ValueError(f"option 'kafka.{missing}' is missing: 'kafka.{given[0]}' is given")
    elif given:
        chain, key = (settings[name] for name in _PAIR)
        # OpenSSL takes files alone. This one is readable by its owner only, and gone at once.
        handle, path = tempfile.mkstemp(suffix=".pem")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(f"{key}\n{chain}\n")
            _load(context, settings, "ssl.keystore.key", None, path)
        finally:
            os.unlink(path)


def _load(context: ssl.SSLContext, settings: Mapping[str, str], option: str, location: str | None, path: str) -> None:
    password = settings.get("ssl.key.password")
    asked = False

    def answer() -> str:
        nonlocal asked
        asked = True
        return password or ""

    with _named(option, location):
        try:
            # Without a callback, OpenSSL asks for a password at the terminal.
            context.load_cert_chain(path, password=answer)
        except ssl.SSLError as error:
            if not asked or error.reason == _OTHER_KEY:
                raise
            what = "is missing" if password is None else "is wrong"
            text = f"option 'kafka.ssl.key.password' {what}: the key of 'kafka.{option}' is encrypted"
            raise ValueError(text) from None


@contextmanager
def _named(option: str, location: str | None) -> Iterator[None]:
    """Errors become a ValueError that names the option, and the file where there is one."""
    where = f"option 'kafka.{option}'" + ("" if location is None else f", file '{location}'")
    try:
        yield
    except ssl.SSLError as error:
        if error.reason == _OTHER_KEY:
            raise ValueError(f"{where}: the key is not that of the certificate") from None
        raise ValueError(f"{where}: this is not PEM that can be used ({error.reason or error})") from None
    except OSError as error:
        raise ValueError(f"{where}: {error.strerror or error}") from None
