"""Tokens from a token endpoint, and endpoints that fail: every error has a known type, and every wait a limit."""

from __future__ import annotations

import base64
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from aiokafka_lead.errors import ConfigError, KafkaError, SaslAuthenticationFailedError, TokenProviderError
from aiokafka_lead.oidc import Assertion, AssertionFile, ClientCredentials, JwtBearer, TokenFile

from ..leaks import everything
from ..names import STRANGE, Names, Stranger, needs_loopbacks
from .identity_provider import Answer, IdentityProvider, json_answer

SECRET = "MARKED/+ secret"


@pytest.fixture
def idp() -> Iterator[IdentityProvider]:
    with IdentityProvider({"orders": SECRET, "a%2Bb": "x%2Fy"}).running() as provider:
        yield provider


@pytest.mark.parametrize("auth", ["basic", "post"])
def test_client_credentials(idp: IdentityProvider, auth: Any) -> None:
    provider = ClientCredentials(
        idp.url, "orders", SECRET, scope="kafka", auth=auth, extensions={"a": "b"}, parameters={"audience": "x"}
    )
    before = time.time()
    token = provider.token()
    assert token.value.count(".") == 2
    assert token.expires_at is not None
    assert before + 299 < token.expires_at <= time.time() + 300
    assert dict(token.extensions) == {"a": "b"}
    form = idp.forms[0]
    assert form["grant_type"] == "client_credentials"
    assert (form["scope"], form["audience"], form["client"], form["secret"]) == ("kafka", "x", "orders", SECRET)
    assert ("client_secret" in form) == (auth == "post")


def test_name_and_secret_are_encoded_as_rfc_6749_has_it_where_wanted(idp: IdentityProvider) -> None:
    ClientCredentials(idp.url, "a+b", "x/y", header_urlencode=True).token()
    with pytest.raises(SaslAuthenticationFailedError):
        ClientCredentials(idp.url, "a+b", "x/y").token()


def test_a_refused_client_is_an_error_with_the_endpoints_reason(idp: IdentityProvider) -> None:
    with pytest.raises(SaslAuthenticationFailedError) as caught:
        ClientCredentials(idp.url, "orders", "MARKED-too").token()
    assert "401: invalid_client: client authentication failed" in caught.value.message
    assert not caught.value.retriable
    assert "MARKED" not in everything(caught.value)


GARBAGE: dict[str, Answer] = {
    "no JSON": (200, {}, b"<html>MARKED login</html>"),
    "no object": (200, {}, b"[1, 2]"),
    "deep": (200, {}, b"[" * 100_000),
    "many parts": (200, {}, b'{"access_token":"abc","more":[' + b"{}," * 300_000 + b"{}]}"),
    "nothing": (200, {}, b""),
    "no token": json_answer(200, expires_in=5),
    "a token that is none": json_answer(200, access_token=5),
    "another kind of token": json_answer(200, access_token="abc", token_type="mac"),
    "over before it began": json_answer(200, access_token="abc", expires_in=0),
    "before that": json_answer(200, access_token="abc", expires_in=-1),
    "an end that is no number": json_answer(200, access_token="abc", expires_in="x"),
    "an end that is a truth": json_answer(200, access_token="abc", expires_in=True),
    "an end that is none": (200, {}, b'{"access_token":"abc","expires_in":NaN}'),
    "too large": (200, {}, b" " * (2 * 1024 * 1024)),
    "failed": (503, {}, b"MARKED"),
    "too many": (429, {}, b"{}"),
    "later": json_answer(400, error="temporarily_unavailable"),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_what_is_no_token_may_be_asked_for_again(idp: IdentityProvider, kind: str) -> None:
    idp.instead = lambda: GARBAGE[kind]
    with pytest.raises(TokenProviderError) as caught:
        ClientCredentials(idp.url, "orders", SECRET).token()
    assert caught.value.retriable
    assert "MARKED" not in everything(caught.value)
    assert len(str(caught.value)) < 1000


STRANGERS = {
    "silent": None,
    "resets": b"",
    "no HTTP": b"220 mail.example.org ESMTP\r\n",
    "failing": b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
}


def by_name(idp: IdentityProvider, **options: Any) -> tuple[ClientCredentials, int]:
    """Yield a provider that connects to the endpoint by the name "idp.test", and its port."""
    port = int(idp.url.partition("localhost:")[2].partition("/")[0])
    url = idp.url.replace("localhost", "idp.test")
    return ClientCredentials(url, "orders", SECRET, allow_http=True, **options), port


@needs_loopbacks
@pytest.mark.parametrize("kind", STRANGERS)
def test_the_next_address_of_a_name_is_gone_to_and_stayed_at(idp: IdentityProvider, names: Names, kind: str) -> None:
    names["idp.test"] = ["127.0.0.3", STRANGE, "127.0.0.1"]
    provider, port = by_name(idp, timeout_s=3)
    with Stranger(port, STRANGERS[kind]) as stranger:
        if kind == "failing":  # a failure is an answer; the next address is for later requests
            with pytest.raises(TokenProviderError, match="answered 503"):
                provider.token()
        for _ in range(3):
            assert provider.token().value
        assert stranger.visits == 1
    assert len(idp.forms) == 3


@needs_loopbacks
def test_what_each_address_has_done_is_told(idp: IdentityProvider, names: Names) -> None:
    names["idp.test"] = ["127.0.0.3", STRANGE]
    provider, port = by_name(idp, timeout_s=0.5)
    with Stranger(port, b""), pytest.raises(TokenProviderError) as caught:
        provider.token()
    text = caught.value.message
    assert f"idp.test:{port}/token at 127.0.0.3 cannot be reached: " in text
    # The kernel may reset the connection before its end is read.
    assert re.search(rf"; at {re.escape(STRANGE)} cannot be used: (RemoteDisconnected|ConnectionResetError)", text)
    with Stranger(port, None), pytest.raises(TokenProviderError, match=f"; at {STRANGE} has not answered"):
        provider.token()
    assert "MARKED" not in everything(caught.value)


REFUSED: dict[str, Answer] = {
    "wrong scope": json_answer(400, error="invalid_scope"),
    "no such page": (404, {}, b"<html>"),
    "elsewhere": (302, {"Location": "http://192.0.2.1/token"}, b""),
    "elsewhere, with what was posted": (307, {"Location": "http://192.0.2.1/token"}, b""),
    "a reason that fills a terminal": json_answer(400, error="\x1b[2J" + "x" * 100_000),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_get_better_is_refused(idp: IdentityProvider, kind: str) -> None:
    idp.instead = lambda: REFUSED[kind]
    with pytest.raises(SaslAuthenticationFailedError) as caught:
        ClientCredentials(idp.url, "orders", SECRET).token()
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 1000
    assert "MARKED" not in everything(caught.value)


def test_a_token_with_characters_that_would_end_the_message_is_not_sent(idp: IdentityProvider) -> None:
    idp.instead = lambda: json_answer(200, access_token="abc\x01\x01auth=Bearer MARKED")
    with pytest.raises(ConfigError, match="letters") as caught:
        ClientCredentials(idp.url, "orders", SECRET).token()
    assert "MARKED" not in str(caught.value)


@pytest.mark.parametrize(("expires_in", "at_most"), [("3600", 3600), (1e18, 366 * 86400), (3.5, 3.5), (10**400, None)])
def test_ends_are_clamped(idp: IdentityProvider, expires_in: Any, at_most: float | None) -> None:
    idp.instead = lambda: json_answer(200, access_token="abc", expires_in=expires_in)
    if at_most is None:
        with pytest.raises(TokenProviderError, match="expires_in"):
            ClientCredentials(idp.url, "orders", SECRET).token()
        return
    token = ClientCredentials(idp.url, "orders", SECRET).token()
    assert token.expires_at is not None
    assert token.expires_at <= time.time() + at_most


def test_an_end_that_is_not_said_is_not_known(idp: IdentityProvider) -> None:
    idp.instead = lambda: json_answer(200, access_token="abc")
    assert ClientCredentials(idp.url, "orders", SECRET).token().expires_at is None


def test_an_endpoint_that_is_silent_or_down_is_named(idp: IdentityProvider) -> None:
    def wait() -> Answer:
        idp.released.wait(20)
        return json_answer(200)

    idp.instead = wait
    with pytest.raises(TokenProviderError, match=r"localhost.* has not answered within 500 ms"):
        ClientCredentials(idp.url, "orders", SECRET, timeout_s=0.5).token()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/token"
        with pytest.raises(TokenProviderError, match="cannot be reached"):
            ClientCredentials(url, "orders", SECRET).token()


@pytest.mark.parametrize(
    ("beginning", "drop"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nX-Long: ", b"x"),
        (b"HTTP/1.1 200 O", b"K"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["content", "header", "status", "interim responses"],
)
def test_an_answer_that_drips_is_given_up(beginning: bytes, drop: bytes) -> None:
    done = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(beginning)
            while not done.wait(0.02):
                try:
                    connection.sendall(drop)
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/token"
            with pytest.raises(TokenProviderError, match="within 200 ms"):
                ClientCredentials(url, "orders", SECRET, timeout_s=0.2).token()
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize(
    "url",
    [
        "http://identity.example.org/token",
        "ftp://identity.example.org",
        "identity.example.org/token",
        "https://orders:HIDDEN@identity.example.org",
        "https://",
        "https://host:port",
        "file:///etc/passwd",
    ],
)
def test_secrets_go_nowhere_unencrypted(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ClientCredentials(url, "orders", SECRET)
    assert "MARKED" not in everything(caught.value)
    assert "HIDDEN" not in str(caught.value)


def test_plain_http_is_there_for_those_who_ask() -> None:
    ClientCredentials("http://identity.example.org/token", "orders", SECRET, allow_http=True)


@pytest.mark.parametrize(
    "wrong",
    [{"client_id": ""}, {"client_secret": None}, {"auth": "header"}, {"timeout_s": 0}, {"extensions": {"auth": "x"}}],
)
def test_mistakes_show_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(KafkaError):
        ClientCredentials(**{"url": "https://a/token", "client_id": "a", "client_secret": "b", **wrong})


@pytest.mark.parametrize("host", ["localhost", "localhost."])
def test_the_endpoints_certificate_is_verified(names: Names, host: str) -> None:
    names[host] = ["127.0.0.1"]
    # This server presents no certificate; it is enough that the given context is used.
    authority = trustme.CA()
    import ssl

    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)

    def serve(listener: socket.socket) -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            try:
                with server.wrap_socket(connection, server_side=True) as stream:
                    received = b""
                    while b"client_credentials" not in received:
                        received += stream.recv(65536)
                    body = b'{"access_token":"abc"}'
                    stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            except OSError:
                connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        url = f"https://{host}:{listener.getsockname()[1]}/token"
        with pytest.raises(TokenProviderError, match="CERTIFICATE_VERIFY_FAILED"):
            ClientCredentials(url, "orders", SECRET).token()
        assert ClientCredentials(url, "orders", SECRET, ssl_context=client).token().value == "abc"
        thread.join()


# --- assertions ---


def pem(key: Any, passphrase: bytes | None = None) -> bytes:
    encryption = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
    content: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    return content


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_an_assertion_is_signed_with_rsa(tmp_path: Path, idp: IdentityProvider) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path = tmp_path / "key.pem"
    path.write_bytes(pem(key, b"MARKED"))
    assertion = Assertion(
        path, issuer="orders", subject="orders", audience="idp", passphrase="MARKED", key_id="k1", claims={"x": 1}
    )
    assert ClientCredentials(idp.url, "orders", assertion=assertion).token().value
    assert JwtBearer(idp.url, assertion, scope="kafka").token().value
    first, second = idp.forms
    assert first["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    assert "client_secret" not in first
    assert second["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    for jwt in (first["client_assertion"], second["assertion"]):
        header, claims, signature = jwt.split(".")
        key.public_key().verify(decoded(signature), f"{header}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
        assert json.loads(decoded(header)) == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
        content = json.loads(decoded(claims))
        assert (content["iss"], content["sub"], content["aud"], content["x"]) == ("orders", "orders", "idp", 1)
        assert content["exp"] == content["iat"] + 300
    assert "MARKED" not in repr(assertion) + repr(vars(assertion))


def test_an_assertion_is_signed_with_an_elliptic_curve(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    path = tmp_path / "key.pem"
    path.write_bytes(pem(key))
    header, claims, signature = Assertion(path, algorithm="ES256").jwt().split(".")
    r, s = (int.from_bytes(half, "big") for half in (decoded(signature)[:32], decoded(signature)[32:]))
    key.public_key().verify(encode_dss_signature(r, s), f"{header}.{claims}".encode(), ec.ECDSA(hashes.SHA256()))
    with pytest.raises(TokenProviderError, match="does not fit the algorithm RS256"):
        Assertion(path).jwt()


def test_a_key_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenProviderError, match="cannot be read: No such file"):
        Assertion(tmp_path / "none.pem").jwt()
    path = tmp_path / "key.pem"
    path.write_bytes(pem(ec.generate_private_key(ec.SECP256R1()), b"right"))
    load_pem_private_key(path.read_bytes(), b"right")
    with pytest.raises(TokenProviderError, match="cannot be used") as caught:
        Assertion(path, passphrase="MARKED").jwt()
    assert "MARKED" not in everything(caught.value)


def test_files_are_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("abc\n")
    provider = TokenFile(path)
    assert provider.token().value == "abc"
    path.write_text("def\n")
    assert (provider.token().value, provider.token().expires_at) == ("def", None)
    assert AssertionFile(path).jwt() == "def"
    path.write_bytes(b"x" * 600_000)
    with pytest.raises(ConfigError, match="larger than brokers accept"):
        provider.token()
    path.unlink()
    with pytest.raises(TokenProviderError, match="cannot be read"):
        provider.token()


def test_the_end_of_a_token_in_a_file_is_read_only_where_it_is_said_to_be_a_jwt(tmp_path: Path) -> None:
    path = tmp_path / "token"
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 2_000_000_000}).encode()).rstrip(b"=").decode()
    path.write_text(f"e30.{claims}.c2ln")
    assert TokenFile(path, jwt=True).token().expires_at == 2_000_000_000
    assert TokenFile(path).token().expires_at is None
    path.write_text("opaque")
    with pytest.raises(ConfigError, match="not a JWT"):
        TokenFile(path, jwt=True).token()
