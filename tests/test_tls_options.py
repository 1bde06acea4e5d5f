"""The ``ssl_*`` options: accepted values and forms, and errors that name the wrong option."""

from __future__ import annotations

import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from aiokafka_lead import Producer
from aiokafka_lead.config import ClientConfig
from aiokafka_lead.errors import ConfigError

from .leaks import everything

PASSWORD = "pass-word"


class Files:
    """An authority, and a client certificate issued by it, in every form."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        issued, other = authority.issue_cert("alice@example.org"), authority.issue_cert("bob@example.org")
        self.folder = folder
        self.ca_text = authority.cert_pem.bytes().decode()
        self.chain_text = "".join(pem.bytes().decode() for pem in issued.cert_chain_pems)
        self.key_text = issued.private_key_pem.bytes().decode()
        key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
        encryption = serialization.BestAvailableEncryption(PASSWORD.encode())
        form = serialization.PrivateFormat
        self.encrypted_text = key.private_bytes(serialization.Encoding.PEM, form.PKCS8, encryption).decode()
        certificate = x509.load_pem_x509_certificate(issued.cert_chain_pems[0].bytes())
        root = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
        self.ca = self.write("ca.pem", self.ca_text)
        self.chain = self.write("chain.pem", self.chain_text)
        self.key = self.write("key.pem", self.key_text)
        self.both = self.write("both.pem", self.chain_text + self.key_text)
        self.encrypted = self.write("encrypted.pem", self.encrypted_text)
        self.traditional = self.write(
            "traditional.pem",
            key.private_bytes(serialization.Encoding.PEM, form.TraditionalOpenSSL, encryption).decode(),
        )
        self.other_key = self.write("other-key.pem", other.private_key_pem.bytes().decode())
        self.ca_der = self.write("ca.der", root.public_bytes(serialization.Encoding.DER))
        self.store = self.write(
            "store.p12",
            pkcs12.serialize_key_and_certificates(b"alice", key, certificate, [root], encryption),  # type: ignore[arg-type]
        )
        self.open_store = self.write(
            "open.p12",
            pkcs12.serialize_key_and_certificates(None, key, certificate, None, serialization.NoEncryption()),  # type: ignore[arg-type]
        )
        self.trust_store = self.write(
            "trust.p12", pkcs12.serialize_key_and_certificates(None, None, None, [root], encryption)
        )
        self.jks = self.write("store.jks", b"\xfe\xed\xfe\xed\0\0\0\2")
        self.junk = self.write("junk", b"\0\1\2 nothing of use")

    def write(self, name: str, content: str | bytes) -> str:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


def config(**options: Any) -> ClientConfig:
    return ClientConfig.from_options("a", {"security_protocol": "SSL", **options})


def test_tls_verifies_by_default() -> None:
    context = config().tls_material.context()
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname


def test_authorities_in_every_form(files: Files) -> None:
    for options in (
        {"ssl_cafile": files.ca},
        {"ssl_cafile": Path(files.ca)},
        {"ssl_cafile": files.ca_der},
        {"ssl_cadata": files.ca_text},
        {"ssl_cadata": Path(files.ca_der).read_bytes()},
        {"ssl_cafile": files.trust_store, "ssl_ca_password": PASSWORD},
        {"ssl_cafile": files.ca, "ssl_cadata": files.ca_text},
    ):
        context = config(**options).tls_material.context()
        assert [each["subject"] for each in context.get_ca_certs()] == [
            each["issuer"] for each in context.get_ca_certs()
        ]
        assert len(context.get_ca_certs()) == 1
        assert context.check_hostname
    assert not config(ssl_cafile=files.ca, ssl_check_hostname=False).tls_material.context().check_hostname


def test_a_certificate_in_every_form(files: Files) -> None:
    for options in (
        {"ssl_certfile": files.both},
        {"ssl_certfile": Path(files.chain), "ssl_keyfile": Path(files.key)},
        {"ssl_certfile": files.both, "ssl_keyfile": files.key},
        {"ssl_certfile": files.chain, "ssl_keyfile": files.encrypted, "ssl_password": PASSWORD},
        {"ssl_certfile": files.chain, "ssl_keyfile": files.traditional, "ssl_password": PASSWORD},
        {"ssl_certdata": files.chain_text, "ssl_keydata": files.key_text},
        {"ssl_certdata": files.chain_text + files.key_text},
        {"ssl_certdata": files.chain_text, "ssl_keydata": files.encrypted_text, "ssl_password": PASSWORD},
        {"ssl_certfile": files.chain, "ssl_keydata": files.key_text},
        {"ssl_certfile": files.store, "ssl_password": PASSWORD},
        {"ssl_certfile": files.open_store},
    ):
        assert handshake_presents(config(ssl_cafile=files.ca, **options).tls_material.context()) == "alice"


def handshake_presents(client: ssl.SSLContext) -> str:
    """Return the name in the certificate that a client presents in a handshake in memory."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)
    server.verify_mode = ssl.CERT_REQUIRED
    for der in client.get_ca_certs(binary_form=True):
        server.load_verify_locations(cadata=der)
    authority.configure_trust(client)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
    der_bytes = ends[1].getpeercert(binary_form=True)
    assert der_bytes is not None
    names = x509.load_der_x509_certificate(der_bytes).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return str(names.value.get_values_for_type(x509.RFC822Name)[0]).partition("@")[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ssl_cafile": "/no/such"}, r"ssl_cafile \(/no/such\): No such file or directory"),
        ({"ssl_cafile": "/"}, r"ssl_cafile \(/\): Is a directory"),
        ({"ssl_cafile": "{junk}"}, r"ssl_cafile \(.*/junk\): this is neither PEM nor PKCS #12"),
        ({"ssl_cafile": "{key}"}, r"ssl_cafile \(.*/key.pem\): it contains no valid certificate"),
        ({"ssl_cafile": "{jks}"}, r"ssl_cafile \(.*\): this is a Java key store \(JKS\), convert it: keytool"),
        ({"ssl_cafile": "{trust_store}"}, r"ssl_ca_password is missing: ssl_cafile \(.*\) is a PKCS #12 store with a"),
        (
            {"ssl_cafile": "{trust_store}", "ssl_ca_password": "no"},
            "ssl_ca_password is wrong for the PKCS #12 store of",
        ),
        ({"ssl_cadata": "junk"}, "ssl_cadata: it contains no valid certificate"),
        ({"ssl_cadata": b"junk"}, "ssl_cadata: it contains no valid certificate"),
        ({"ssl_ca_password": "x"}, "ssl_cafile is missing: ssl_ca_password is given"),
        ({"ssl_certfile": "/no/such"}, r"ssl_certfile \(/no/such\): No such file"),
        ({"ssl_certfile": "{chain}"}, r"ssl_keyfile is missing: ssl_certfile \(.*/chain.pem\) contains no private key"),
        ({"ssl_certfile": "{chain}", "ssl_keyfile": "/no/such"}, r"ssl_keyfile \(/no/such\): No such file"),
        (
            {"ssl_certfile": "{chain}", "ssl_keyfile": "{chain}"},
            r"ssl_keyfile \(.*\): this is not a private key in PEM",
        ),
        ({"ssl_certfile": "{key}"}, r"ssl_certfile \(.*\): it contains no certificate"),
        (
            {"ssl_certfile": "{chain}", "ssl_keyfile": "{other_key}"},
            r"ssl_keyfile \(.*\): the key does not belong to the c",
        ),
        ({"ssl_certfile": "{chain}", "ssl_keyfile": "{encrypted}"}, "ssl_password is missing: the key of ssl_keyfile"),
        (
            {"ssl_certfile": "{chain}", "ssl_keyfile": "{traditional}"},
            "ssl_password is missing: the key of ssl_keyfile",
        ),
        (
            {"ssl_certfile": "{chain}", "ssl_keyfile": "{encrypted}", "ssl_password": "no"},
            "ssl_password is wrong: the key of ssl_keyfile",
        ),
        (
            {"ssl_certfile": "{both}", "ssl_password": "x" * 5000, "ssl_keyfile": "{encrypted}"},
            "ssl_password is longer",
        ),
        ({"ssl_certfile": "{store}"}, r"ssl_password is missing: ssl_certfile \(.*/store.p12\) is a PKCS #12 store"),
        (
            {"ssl_certfile": "{store}", "ssl_password": "no"},
            "ssl_password is wrong for the PKCS #12 store of ssl_certf",
        ),
        ({"ssl_certfile": "{trust_store}", "ssl_password": PASSWORD}, "ssl_certfile .* has no private key with its c"),
        ({"ssl_certfile": "{store}", "ssl_keyfile": "{key}"}, "ssl_keyfile: ssl_certfile .* contains the key"),
        ({"ssl_certfile": "{jks}"}, r"ssl_certfile \(.*\): this is a Java key store"),
        ({"ssl_keyfile": "{key}"}, "ssl_certfile is missing: ssl_keyfile is given"),
        ({"ssl_keydata": "x"}, "ssl_certfile is missing: ssl_keydata is given"),
        ({"ssl_password": "x"}, "ssl_certfile is missing: ssl_password is given"),
        ({"ssl_certfile": "{both}", "ssl_certdata": "x"}, "ssl_certdata and ssl_certfile cannot be combined"),
        ({"ssl_certfile": "{both}", "ssl_keyfile": "x", "ssl_keydata": "x"}, "ssl_keydata and ssl_keyfile cannot"),
        ({"ssl_cafile": ""}, "ssl_cafile must not be empty"),
        ({"ssl_cafile": "a\0b"}, "ssl_cafile"),
        ({"ssl_cafile": 5}, "ssl_cafile must be a str"),
        ({"ssl_password": b"x"}, "ssl_password must be a str"),
        ({"ssl_check_hostname": 1}, "ssl_check_hostname must be True or False"),
        ({"ssl_context": "x"}, "ssl_context must be an ssl.SSLContext or a callable"),
        ({"ssl_context": ssl.SSLContext}, "ssl_context must be an ssl.SSLContext or a callable"),
        ({"ssl_context": lambda: None, "ssl_cafile": "x"}, "ssl_context and ssl_cafile cannot be combined"),
        ({"ssl_context": lambda: None, "ssl_check_hostname": False}, "ssl_context and ssl_check_hostname cannot"),
        ({"security_protocol": "PLAINTEXT", "ssl_cafile": "x"}, "security_protocol PLAINTEXT does not use ssl_caf"),
    ],
)
def test_a_mistake_names_its_option(files: Files, options: dict[str, Any], words: str) -> None:
    def filled(value: Any) -> Any:
        return value.format_map(vars(files)) if isinstance(value, str) and "{" in value else value

    with pytest.raises((ValueError, TypeError), match=f"^{words}") as caught:
        config(**{name: filled(value) for name, value in options.items()})
    shown = [str(caught.value)]
    for entry in caught.traceback:
        if "aiokafka_lead" in str(entry.path) and "tests" not in Path(entry.path).parts:
            shown += [repr(variable) for variable in entry.frame.f_locals.values()]
    assert not [text for text in shown if PASSWORD in text or "PRIVATE" in text]


FORMS = {
    "Windows' line ends": lambda pem: pem.replace("\n", "\r\n"),
    "one line": lambda pem: pem.replace("\n", " "),
    "a comment": lambda pem: f"# Autorit\u00e9\n{pem}\n# \u2026",
    "a comment that the environment could not decode": lambda pem: "# Autorit\udce9\n" + pem,
    "quoted": lambda pem: f"'{pem.strip()}'",
    "a mark of UTF-8 before it": lambda pem: "\ufeff" + pem,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_pem_as_it_comes_out_of_an_environment(files: Files, form: Callable[[str], str]) -> None:
    texts = {"ssl_cadata": files.ca_text, "ssl_certdata": files.chain_text, "ssl_keydata": files.key_text}
    made = config(**{name: form(text) for name, text in texts.items()}).tls_material.context()
    assert len(made.get_ca_certs()) == 1
    assert handshake_presents(made) == "alice"
    paths = {name: files.write(name, form(text).encode(errors="surrogateescape")) for name, text in texts.items()}
    same = {name.replace("data", "file"): path for name, path in paths.items()}
    assert handshake_presents(config(**same).tls_material.context()) == "alice"
    assert len(config(ssl_cadata=form(files.ca_text + files.chain_text)).tls_material.context().get_ca_certs()) == 1
    traditional = Path(files.traditional).read_text()
    if form is not FORMS["one line"]:  # a key with a header needs line breaks
        texts["ssl_keydata"] = traditional
        config(**{name: form(text) for name, text in texts.items()}, ssl_password=PASSWORD)


@pytest.mark.parametrize("at_fault", ["ssl_cadata", "ssl_certdata", "ssl_keydata"])
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda pem: pem.replace("\n", "\n!!", 1), "not valid PEM|no valid certificate"),
        (lambda pem: pem.replace("\n", "\n\u00e9\u00e9", 1), "not valid PEM|no valid certificate"),
        (lambda pem: pem.replace("\n", "\\n"), r"the two characters \\n instead of line breaks"),
        (lambda pem: pem[:200], "has no end"),
    ],
)
def test_pem_that_is_damaged_names_its_option(
    files: Files, at_fault: str, damage: Callable[[str], str], words: str
) -> None:
    texts: dict[str, Any] = {
        "ssl_cadata": files.ca_text,
        "ssl_certdata": files.chain_text,
        "ssl_keydata": files.key_text,
    }
    texts[at_fault] = damage(texts[at_fault])
    with pytest.raises(ConfigError, match=f"^{at_fault}: .*{words}") as caught:
        Producer("a", security_protocol="SSL", **texts)
    assert files.key_text[40:60] not in everything(caught.value)


def test_secrets_stay_out_of_reprs(files: Files) -> None:
    made = config(ssl_certdata=files.chain_text, ssl_keydata=files.encrypted_text, ssl_password=PASSWORD)
    for shown in (repr(made), repr(made.tls_material)):
        assert PASSWORD not in shown
        assert "PRIVATE" not in shown


def test_another_client_of_the_same_cluster_gets_the_same(files: Files) -> None:
    made = config(ssl_cafile=files.ca, ssl_certfile=files.store, ssl_password=PASSWORD, ssl_check_hostname=False)
    servers, options = made.shared()
    assert ClientConfig.from_options(servers, options) == made


def test_pkcs12_needs_its_extra(files: Files) -> None:
    program = f"""
import sys
sys.modules["cryptography"] = None
from aiokafka_lead import Producer
from aiokafka_lead.config import ClientConfig
ClientConfig.from_options("a", {{"security_protocol": "SSL", "ssl_certfile": {files.both!r}}})
try:
    ClientConfig.from_options("a", {{"security_protocol": "SSL", "ssl_certfile": {files.open_store!r}}})
except ValueError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert 'needs the extra "pkcs12": pip install "aiokafka-lead[pkcs12]"' in said


def test_texts_where_the_system_has_no_files_in_memory(files: Files, tmp_path: Path) -> None:
    program = f"""
import os, tempfile
vars(os).pop("memfd_create", None)
tempfile.tempdir = {str(tmp_path)!r}
from aiokafka_lead import Producer
from aiokafka_lead.config import ClientConfig
options = {{"ssl_certdata": {files.chain_text!r}, "ssl_keydata": {files.key_text!r}}}
ClientConfig.from_options("a", {{"security_protocol": "SSL", **options}})
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert list(tmp_path.iterdir()) == []
