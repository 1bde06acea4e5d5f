"""GSSAPI with a real KDC: tickets, brokers that fail to prove their identity, and a KDC that is silent or away."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from aiokafka_lead._io.connection.brokers import Brokers
from aiokafka_lead._io.connection.settings import Lane
from aiokafka_lead._wire import RequestFrame
from aiokafka_lead._wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aiokafka_lead._wire.messages.sasl_handshake import SaslHandshakeResponse
from aiokafka_lead.config import ClientConfig
from aiokafka_lead.errors import ConfigError, KafkaConnectionError, KafkaError, SaslAuthenticationFailedError

from ..kerberos import CLIENT, Realm
from ..ports import PortPool
from .script import LONG_BACKOFF, Peer, client, heartbeat, serve

pytestmark = pytest.mark.anyio

SASL = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}
OFFER = b"\x01\x00\x00\x00"


@pytest.fixture(autouse=True)
def at_home(realm: Realm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This process is in the realm, and has no tickets."""
    monkeypatch.setenv("KRB5_CONFIG", str(realm.config))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/none")


class Broker:
    """A broker with the service's keytab; ``offer`` is its offer of security layers, ``last`` its last message."""

    def __init__(self, realm: Realm, offer: bytes = OFFER, last: bytes = b"") -> None:
        self.users: list[str] = []
        self.answers: list[bytes] = []
        self._keytab = realm.service_keytab
        self._offer = offer
        self._last = last

    async def __call__(self, peer: Peer) -> None:
        import gssapi  # pyright: ignore[reportMissingImports]

        credentials = gssapi.Credentials(usage="accept", store={"keytab": f"FILE:{self._keytab}"})
        context = gssapi.SecurityContext(creds=credentials, usage="accept")
        frame, token = await begin(peer)
        reply = context.step(token)
        await peer.answer(frame, SaslAuthenticateResponse(auth_bytes=reply or b""))
        frame, empty = await read_bytes(peer)
        assert (context.complete, empty) == (True, b"")
        wrapped = context.wrap(self._offer, False).message
        await peer.answer(frame, SaslAuthenticateResponse(auth_bytes=wrapped))
        frame, answer = await read_bytes(peer)
        self.answers.append(context.unwrap(answer).message)
        self.users.append(str(context.initiator_name))
        await peer.answer(frame, SaslAuthenticateResponse(auth_bytes=self._last))
        await peer.serve_heartbeats()


async def begin(peer: Peer) -> tuple[RequestFrame, bytes]:
    await peer.shake_hands()
    await peer.answer(await peer.read(), SaslHandshakeResponse(mechanisms=["GSSAPI"]))
    return await read_bytes(peer)


async def read_bytes(peer: Peer) -> tuple[RequestFrame, bytes]:
    frame = await peer.read()
    assert isinstance(frame.request, SaslAuthenticateRequest)
    return frame, frame.request.auth_bytes


async def failure(handler: Callable[[Peer], Awaitable[None]], **options: Any) -> KafkaError:
    async with serve(handler) as port, client(port, **LONG_BACKOFF, **SASL, **options) as brokers:
        with pytest.raises(KafkaError) as caught:
            await brokers.get(1)
        return caught.value


@pytest.mark.parametrize("principal", [None, "alice", CLIENT])
async def test_a_keytab_is_enough(realm: Realm, principal: str | None) -> None:
    broker = Broker(realm)
    options = SASL | {"sasl_kerberos_keytab": realm.client_keytab, "sasl_kerberos_principal": principal}
    async with serve(broker) as port, client(port, **options) as brokers:
        async with anyio.create_task_group() as group:
            for lane in Lane:
                group.start_soon(brokers.get, 1, lane)
        await (await brokers.get(1)).request(heartbeat())
    assert broker.users == [CLIENT] * len(Lane)
    assert broker.answers == [b"\x01\0\0\0" + CLIENT.encode()] * len(Lane)


async def test_a_cache_that_another_program_fills(
    realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gssapi  # pyright: ignore[reportMissingImports]

    cache = f"FILE:{tmp_path}/tickets"
    monkeypatch.setenv("KRB5CCNAME", cache)
    broker = Broker(realm)
    short = {"reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 1}
    async with serve(broker) as port, client(port, **SASL, **short) as brokers:
        with pytest.raises(SaslAuthenticationFailedError, match="run kinit, or set sasl_kerberos_keytab") as caught:
            await brokers.get(1)
        assert not caught.value.retriable
        # As kinit does.
        store: Any = {"client_keytab": f"FILE:{realm.client_keytab}", "ccache": cache}
        assert gssapi.Credentials(usage="initiate", store=store).lifetime > 0
        await brokers.get(1)
    assert broker.users == [CLIENT]


async def test_tickets_are_renewed_without_kinit(realm: Realm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(realm.write_config("short.conf", ticket_lifetime="2s")))
    keytab = tmp_path / "own.keytab"  # the cache of tickets is keyed by keytab and principal
    keytab.write_bytes(realm.client_keytab.read_bytes())
    before = realm.tickets_given()
    broker = Broker(realm)
    while realm.tickets_given() < before + 2:
        async with serve(broker) as port, client(port, **SASL, sasl_kerberos_keytab=keytab) as brokers:
            await brokers.get(1)
    assert set(broker.users) == {CLIENT}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"sasl_kerberos_principal": "bob"}, "No principal in keytab matches desired name"),
        (
            {"sasl_kerberos_service_name": "mail"},
            "does not know the broker's principal: check sasl_kerberos_service_name",
        ),
        ({"sasl_kerberos_domain_name": "elsewhere"}, "does not know the broker's principal"),
    ],
)
async def test_what_kerberos_lacks_is_named(realm: Realm, options: dict[str, str], says: str) -> None:
    error = await failure(Broker(realm), sasl_kerberos_keytab=realm.client_keytab, **options)
    assert isinstance(error, SaslAuthenticationFailedError)
    assert says in str(error)
    assert "Kerberos, " in str(error)


async def test_the_domain_name_stands_in_for_the_host(realm: Realm) -> None:
    broker = Broker(realm)
    options = SASL | {"sasl_kerberos_keytab": realm.client_keytab, "sasl_kerberos_domain_name": "localhost"}
    async with serve(broker) as port, client(port, **options) as brokers:
        await brokers.get(1)
    assert broker.users == [CLIENT]


@pytest.mark.parametrize(
    ("offer", "last", "says"),
    [
        (b"\x02\x01\x00\x00", b"", "requires a security layer"),
        (b"\x01\x00", b"", "2 bytes long, not 4"),
        (OFFER, b"more", "continued after the end"),
    ],
)
async def test_brokers_that_want_something_else(realm: Realm, offer: bytes, last: bytes, says: str) -> None:
    error = await failure(Broker(realm, offer, last), sasl_kerberos_keytab=realm.client_keytab)
    assert isinstance(error, SaslAuthenticationFailedError)
    assert says in str(error)


@pytest.mark.parametrize("answer", [b"", b"nonsense", b"\x60" + bytes(100)])
async def test_a_broker_that_does_not_prove_who_it_is(realm: Realm, answer: bytes) -> None:
    async def handler(peer: Peer) -> None:
        frame, _ = await begin(peer)
        await peer.answer(frame, SaslAuthenticateResponse(auth_bytes=answer))
        await peer.drain()

    error = await failure(handler, sasl_kerberos_keytab=realm.client_keytab)
    assert isinstance(error, SaslAuthenticationFailedError)
    assert "Kerberos, with kafka@127.0.0.1" in str(error)


async def test_an_offer_that_is_not_wrapped(realm: Realm) -> None:
    async def handler(peer: Peer) -> None:
        import gssapi  # pyright: ignore[reportMissingImports]

        store: Any = {"keytab": f"FILE:{realm.service_keytab}"}
        context = gssapi.SecurityContext(creds=gssapi.Credentials(usage="accept", store=store), usage="accept")
        frame, token = await begin(peer)
        await peer.answer(frame, SaslAuthenticateResponse(auth_bytes=context.step(token) or b""))
        frame, _ = await read_bytes(peer)
        await peer.answer(frame, SaslAuthenticateResponse(auth_bytes=OFFER))
        await peer.drain()

    error = await failure(handler, sasl_kerberos_keytab=realm.client_keytab)
    assert isinstance(error, SaslAuthenticationFailedError)
    assert "Kerberos, agreeing on no layer" in str(error)


async def test_no_kdc_is_retriable(
    ports: PortPool, realm: Realm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(realm.write_config("nowhere.conf", port=ports.take())))
    keytab = tmp_path / "own.keytab"
    keytab.write_bytes(realm.client_keytab.read_bytes())
    broker = Broker(realm)
    short = {"reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 1}
    async with serve(broker) as port, client(port, **SASL, **short, sasl_kerberos_keytab=keytab) as brokers:
        with pytest.raises(KafkaConnectionError, match="no KDC can be reached") as caught:
            await brokers.get(1)
        assert caught.value.retriable
        monkeypatch.setenv("KRB5_CONFIG", str(realm.config))
        await brokers.get(1)  # available again
    assert broker.users == [CLIENT]


async def test_a_silent_kdc_holds_up_nothing_else(realm: Realm, tmp_path: Path) -> None:
    keytab = tmp_path / "own.keytab"
    keytab.write_bytes(realm.client_keytab.read_bytes())
    broker = Broker(realm)
    short = {"reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 1, "socket_connection_setup_timeout_ms": 300}
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.sleep(0.001)

    async def time_is_out(brokers: Brokers) -> KafkaError:
        while True:  # a busy machine may not reach this stage in time
            with pytest.raises(KafkaConnectionError) as caught:
                await brokers.get(1)
            if re.search(r"no answer within \d+ ms during SASL GSSAPI", str(caught.value)):
                return caught.value

    async with serve(broker) as port, client(port, **SASL, **short, sasl_kerberos_keytab=keytab) as brokers:
        async with anyio.create_task_group() as group:
            group.start_soon(take_turns)
            with realm.silent(), anyio.fail_after(30):
                assert (await time_is_out(brokers)).retriable
                while turns < 10:
                    await time_is_out(brokers)
            group.cancel_scope.cancel()
        while True:  # available again; pending requests are answered, too
            try:
                await brokers.get(1)
            except KafkaConnectionError:
                continue
            break
    assert broker.users == [CLIENT]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"sasl_kerberos_keytab": "/no/such"}, r"^sasl_kerberos_keytab \(/no/such\): No such file or directory"),
        ({"sasl_mechanism": "PLAIN", "sasl_kerberos_principal": "a"}, "^sasl_kerberos_principal needs sasl_mechanism"),
    ],
)
def test_options_that_cannot_be_used(options: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ClientConfig.from_options("a", SASL | options)
