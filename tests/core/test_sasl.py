"""SASL mechanisms: the test vectors of their RFCs, and dishonest servers."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._core.connection.sasl import Credentials
from aiokafka_lead._core.connection.sasl.plain import Plain
from aiokafka_lead._core.connection.sasl.scram import Scram, keep_key
from aiokafka_lead.errors import SaslAuthenticationFailedError

PENCIL = Credentials("user", "pencil")
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()


def server_signature(
    scram: Scram, credentials: Credentials, hash_name: str, first: bytes, client_final: bytes
) -> bytes:
    """Return the answer of a server that knows the password, computed from RFC 5802 section 3."""
    fields = dict(part.split("=", 1) for part in first.decode().split(","))
    salted = hashlib.pbkdf2_hmac(hash_name, credentials.password.encode(), b64decode(fields["s"]), int(fields["i"]))
    bare = scram.start()[3:].decode()
    message = f"{bare},{first.decode()},{client_final.decode().rpartition(',p=')[0]}".encode()
    server_key = hmac.digest(salted, b"Server Key", hash_name)
    return b"v=" + b64encode(hmac.digest(server_key, message, hash_name))


def test_plain_is_nul_name_nul_password() -> None:
    plain = Plain(Credentials("alice", "sécret"))
    assert plain.start() == "\0alice\0sécret".encode()
    assert not plain.done
    assert plain.respond(b"") == b""
    assert plain.done


def test_plain_cannot_carry_nul() -> None:
    with pytest.raises(SaslAuthenticationFailedError, match="NUL"):
        Plain(Credentials("a\0b", "c")).start()


def test_scram_sha_256_as_in_rfc_7677() -> None:
    scram = Scram(PENCIL, "sha256", NONCE)
    assert scram.start() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert scram.respond(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert not scram.done
    assert scram.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") == b""
    assert scram.done


def test_scram_as_in_rfc_5802() -> None:
    scram = Scram(PENCIL, "sha1", "fyko+d2lbbFgONRv9qkxdawL")
    assert scram.start() == b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"
    assert scram.respond(b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096") == (
        b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    )
    scram.respond(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=")
    assert scram.done


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20), st.sampled_from(["sha256", "sha512"]))
def test_any_name_and_password_are_proved_both_ways(name: str, password: str, hash_name: str) -> None:
    credentials = Credentials(name, password)
    scram = Scram(credentials, hash_name)
    start = scram.start().decode()
    assert start.startswith("n,,n=")
    sent_name = start[5:].rpartition(",r=")[0]
    assert "," not in sent_name
    assert sent_name.replace("=2C", ",").replace("=3D", "=") == name
    first = f"r={start.rpartition('r=')[2]}srv,s=c2FsdA==,i=4096".encode()
    final = scram.respond(first)
    scram.respond(server_signature(scram, credentials, hash_name, first, final))
    assert scram.done


def test_each_authentication_has_its_own_nonce() -> None:
    assert Scram(PENCIL, "sha256").start() != Scram(PENCIL, "sha256").start()


@pytest.mark.parametrize(
    ("challenge", "says"),
    [
        (b"r=other,s=c2FsdA==,i=4096", "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=c2FsdA==,i=4096", "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=c2FsdA==,i=4095", "4095"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=c2FsdA==,i=999999999", "999999999"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=c2FsdA==,i=9999999999999", "not a number"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=c2FsdA==,i=-1", "not a number"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=,i=4096", "salt"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=*,i=4096", "base64"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=c2FsdA==", "lacks"),
        (b"m=ext,r=rOprNGfwEbeRWgbNEkqOx,s=c2FsdA==,i=4096", "extension"),
        (b"", "malformed"),
        (b"\xff\xfe", "UTF-8"),
        (b"nonsense", "malformed"),
    ],
)
def test_a_bad_first_message_is_refused(challenge: bytes, says: str) -> None:
    scram = Scram(PENCIL, "sha256", NONCE)
    scram.start()
    with pytest.raises(SaslAuthenticationFailedError, match=says) as caught:
        scram.respond(challenge)
    assert "pencil" not in str(caught.value)
    assert not scram.done


@pytest.mark.parametrize(
    ("challenge", "says"),
    [
        (b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95F4=", "signature is wrong"),
        (b"v=AAAA", "signature is wrong"),
        (b"v=", "signature is wrong"),
        (b"e=invalid-proof", "invalid-proof"),
        (b"e=<script>", "unknown error"),
        (b"r=again", "signature is wrong"),
        (b"", "malformed"),
    ],
)
def test_a_server_that_proves_nothing_is_refused(challenge: bytes, says: str) -> None:
    scram = Scram(PENCIL, "sha256", NONCE)
    scram.start()
    scram.respond(SERVER_FIRST)
    with pytest.raises(SaslAuthenticationFailedError, match=says):
        scram.respond(challenge)
    assert not scram.done


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_hostile_bytes_never_get_through(first: bytes, second: bytes) -> None:
    scram = Scram(PENCIL, "sha256", NONCE)
    scram.start()
    for message in (first, second):
        with pytest.raises(SaslAuthenticationFailedError):
            scram.respond(message)
    assert not scram.done


def test_the_derived_key_is_kept_for_the_next_connection() -> None:
    credentials = Credentials("user", "pencil")
    proofs = []
    for _ in range(2):
        scram = Scram(credentials, "sha256", NONCE)
        scram.start()
        proofs.append(scram.respond(SERVER_FIRST))
    assert proofs[0] == proofs[1]
    assert len(credentials.derived_keys) == 1
    other = Scram(credentials, "sha256", NONCE)
    other.start()
    assert other.respond(SERVER_FIRST.replace(b"4096", b"4097")) != proofs[0]
    assert len(credentials.derived_keys) == 1


def test_passwords_stay_out_of_repr() -> None:
    assert "pencil" not in repr(PENCIL)


def test_a_delegation_token_says_so_as_java_does() -> None:
    scram = Scram(Credentials("token-id", "aG1hYw==", is_delegation_token=True), "sha256", NONCE)
    assert scram.start() == f"n,,n=token-id,r={NONCE},tokenauth=true".encode()
    assert scram.missing_key(SERVER_FIRST) is not None
    final = scram.respond(SERVER_FIRST)
    credentials = Credentials("token-id", "aG1hYw==")
    scram.respond(server_signature(scram, credentials, "sha256", SERVER_FIRST, final))
    assert scram.done


def test_the_key_to_derive_is_known_before_it_is_needed() -> None:
    credentials = Credentials("user", "pencil")
    scram = Scram(credentials, "sha256", NONCE)
    scram.start()
    wanted = scram.missing_key(SERVER_FIRST)
    assert wanted is not None
    assert (wanted.hash_name, wanted.iterations) == ("sha256", 4096)
    keep_key(credentials, wanted, wanted.derive("pencil"))
    assert scram.missing_key(SERVER_FIRST) is None
    assert scram.respond(SERVER_FIRST).endswith(b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert scram.missing_key(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None
    with pytest.raises(SaslAuthenticationFailedError, match="malformed"):
        Scram(credentials, "sha256", NONCE).missing_key(b"nonsense")
