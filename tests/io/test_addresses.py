"""A name with several addresses, of which some refuse, are silent, or lead to servers that are no Kafka brokers."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient
from aiokafka_lead._core.metadata.types import Broker
from aiokafka_lead._io.connection.brokers import Brokers
from aiokafka_lead._io.connection.settings import Lane
from aiokafka_lead._wire.messages.api_versions import ApiVersionsResponse
from aiokafka_lead._wire.messages.sasl_authenticate import SaslAuthenticateResponse
from aiokafka_lead._wire.messages.sasl_handshake import SaslHandshakeResponse
from aiokafka_lead.errors import (
    KafkaConnectionError,
    NotKafkaError,
    SaslAuthenticationFailedError,
    SslAuthenticationError,
)
from aiokafka_lead.testing import EmbeddedCluster

from ..names import Names, needs_loopbacks
from ..patience import again_if_late
from .handshakes import PASSWORD, SASL
from .script import Certificates, Changes, Handler, Peer, answer_all, answer_nothing, client, serve

pytestmark = [pytest.mark.anyio, needs_loopbacks]

NAME = "kafka.test"
BAD, GOOD = "127.0.0.2", "127.0.0.1"
EAGER: dict[str, Any] = {"reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 1}


def within(setup_ms: int) -> dict[str, Any]:
    """Return options for this time. A silent address takes half of it; the rest is for the other address."""
    return {"socket_connection_setup_timeout_ms": setup_ms}


async def silent(peer: Peer) -> None:
    await peer.drain()


async def resetting(peer: Peer) -> None:
    await peer.read_frame()


async def http(peer: Peer) -> None:
    await peer.read_frame()
    await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def refusing_versions(peer: Peer) -> None:
    await peer.answer(await peer.read(), ApiVersionsResponse(error_code=29))


async def silent_in_sasl(peer: Peer) -> None:
    await peer.shake_hands()
    await peer.drain()


async def log_in(peer: Peer, error_code: int = 0) -> None:
    await peer.shake_hands()
    await peer.answer(await peer.read(), SaslHandshakeResponse(mechanisms=["PLAIN"]))
    await peer.answer(await peer.read(), SaslAuthenticateResponse(error_code=error_code))


async def refusing_login(peer: Peer) -> None:
    await log_in(peer, SaslAuthenticationFailedError.code)


async def taking_login(peer: Peer) -> None:
    await log_in(peer)
    await peer.serve_heartbeats()


class Visits:
    """Counts the connections that a handler has received."""

    def __init__(self, handler: Handler) -> None:
        self.count = 0
        self._handler = handler

    async def handle(self, peer: Peer) -> None:
        self.count += 1
        await self._handler(peer)


@asynccontextmanager
async def named(port: int, **options: Any) -> AsyncIterator[Brokers]:
    """Return brokers that know node 1 at this port of the name."""
    async with client(port, **options) as brokers:
        brokers.add_node(Broker(1, NAME, port))
        yield brokers


@asynccontextmanager
async def both(
    good: Handler, bad: Handler, tls: ssl.SSLContext | None = None, bad_tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Run a server at each address, on the same port."""
    async with serve(good, tls) as port, serve(bad, bad_tls, host=BAD, port=port):
        yield port


@pytest.mark.parametrize("bad", [silent, resetting, http, refusing_versions], ids=lambda bad: bad.__name__)
@again_if_late(4_000, 16_000)
async def test_the_next_address_is_gone_to_and_stayed_at(setup_ms: int, names: Names, bad: Handler) -> None:
    names[NAME] = [BAD, GOOD]
    visits = Visits(bad)
    async with both(answer_all, visits.handle) as port, named(port, **within(setup_ms)) as brokers:
        await brokers.get(1, Lane.CONTROL)
        assert brokers.last_error(1) is None
        for lane in (Lane.DATA, Lane.COORDINATOR):
            await brokers.get(1, lane)
        assert visits.count == (2 if bad is resetting else 1)  # it may lack the newest version of ApiVersions


async def test_an_address_that_refuses_connections_is_passed_over(names: Names) -> None:
    names[NAME] = ["127.0.0.3", BAD, GOOD]
    async with serve(answer_all) as port, named(port) as brokers:
        await brokers.get(1)


@pytest.mark.parametrize("bad", ["other certificate", "no TLS", "silent"])
@again_if_late(4_000, 16_000)
async def test_tls_at_the_next_address(setup_ms: int, names: Names, bad: str) -> None:
    names[NAME] = [BAD, GOOD]
    certificates, strange = Certificates(), Certificates()
    visits = Visits(silent if bad == "silent" else http)
    bad_tls = strange.server(NAME) if bad == "other certificate" else None
    options = {"security_protocol": "SSL", "ssl_context": certificates.client(), **within(setup_ms)}
    async with (
        both(answer_all, visits.handle, certificates.server(NAME), bad_tls) as port,
        named(port, **options) as brokers,
    ):
        await brokers.get(1, Lane.CONTROL)
        await brokers.get(1, Lane.DATA)
        assert visits.count <= 1  # a failed handshake never reaches the handler


async def test_a_certificate_has_the_name_without_a_dot_at_its_end(names: Names) -> None:
    """The dot keeps a resolver from its search domains."""
    names[f"{NAME}."] = [GOOD]
    certificates = Certificates()
    async with (
        serve(answer_all, certificates.server(NAME)) as port,
        client(port, security_protocol="SSL", ssl_context=certificates.client()) as brokers,
    ):
        brokers.add_node(Broker(1, f"{NAME}.", port))
        await brokers.get(1)


@pytest.mark.parametrize("bad", [refusing_login, silent_in_sasl, answer_all], ids=lambda bad: bad.__name__)
@again_if_late(4_000, 16_000)
async def test_sasl_at_the_next_address(setup_ms: int, names: Names, bad: Handler) -> None:
    names[NAME] = [BAD, GOOD]
    visits = Visits(bad)
    async with both(taking_login, visits.handle) as port, named(port, **SASL, **within(setup_ms)) as brokers:
        await brokers.get(1, Lane.CONTROL)
        await brokers.get(1, Lane.DATA)
        assert visits.count == 1


@again_if_late(4000, 8000)
async def test_an_error_says_what_each_address_did(setup_ms: int, names: Names) -> None:
    names[NAME] = ["127.0.0.3", BAD, GOOD]
    async with both(resetting, silent) as port, named(port, **within(setup_ms)) as brokers:
        with pytest.raises(KafkaConnectionError) as caught:
            await brokers.get(1)
        text = str(caught.value)
        assert "127.0.0.3: cannot connect: connection refused; " in text
        assert "127.0.0.2: no answer during ApiVersions" in text
        assert "127.0.0.1: ApiVersions was in flight: the broker closed the connection" in text
        assert f"[broker 1 ({NAME}:{port})]" in text


@pytest.mark.parametrize(
    ("good", "bad", "kind"),
    [
        (resetting, http, NotKafkaError),
        (refusing_login, resetting, SaslAuthenticationFailedError),
        (silent, refusing_login, SaslAuthenticationFailedError),
    ],
)
@again_if_late(4_000, 16_000)
async def test_an_error_is_of_the_kind_that_waiting_helps_least_against(
    setup_ms: int, names: Names, good: Handler, bad: Handler, kind: type[Exception]
) -> None:
    names[NAME] = [BAD, GOOD]
    async with both(good, bad) as port, named(port, **SASL, **within(setup_ms)) as brokers:
        with pytest.raises(kind) as caught:
            await brokers.get(1)
        assert type(caught.value) is kind
        assert PASSWORD not in str(caught.value)


async def test_certificates_that_are_not_accepted_anywhere(names: Names) -> None:
    names[NAME] = [BAD, GOOD]
    strange = Certificates()
    options = {"security_protocol": "SSL", "ssl_context": Certificates().client()}
    async with (
        both(answer_all, answer_all, strange.server(NAME), strange.server(NAME)) as port,
        named(port, **options) as brokers,
    ):
        with pytest.raises(SslAuthenticationError, match=f"^{BAD}, {GOOD}: the broker's certificate is not accepted"):
            await brokers.get(1)


@again_if_late(10_000, 20_000)
async def test_each_backoff_has_one_address_once_every_address_has_failed(setup_ms: int, names: Names) -> None:
    """An address that hangs up is asked twice, in different versions of ApiVersions.

    An address that takes half a second to accept, because the machine stalls, would be passed over.
    """
    names[NAME] = [BAD, GOOD]
    good, bad = Visits(resetting), Visits(resetting)
    options = {"socket_connection_setup_timeout_ms": setup_ms, **EAGER}
    async with both(good.handle, bad.handle) as port, named(port, **options) as brokers:
        counts = []
        for _ in range(5):
            with pytest.raises(KafkaConnectionError, match="closed the connection"):
                await brokers.get(1)
            counts.append((bad.count, good.count))
        assert counts == [(2, 2), (4, 2), (4, 4), (6, 4), (6, 6)]


async def test_all_lanes_find_the_way_at_once(names: Names) -> None:
    names[NAME] = [BAD, GOOD]
    visits = Visits(silent)
    async with both(answer_all, visits.handle) as port, named(port, **within(4_000)) as brokers:
        async with anyio.create_task_group() as group:
            for lane in Lane:
                group.start_soon(brokers.get, 1, lane)
        assert visits.count <= len(Lane)


async def test_an_address_that_has_served_and_fails_gives_way_to_one_that_had_failed(names: Names) -> None:
    """No address is given up permanently."""
    names[NAME] = [BAD, GOOD]
    first_bad: list[Callable[[Peer], Any]] = [resetting, answer_all]
    served = anyio.Event()

    async def good(peer: Peer) -> None:
        if served.is_set():
            await resetting(peer)
        else:
            await peer.shake_hands()
            await served.wait()

    async def bad(peer: Peer) -> None:
        await first_bad[served.is_set()](peer)

    async with both(good, bad) as port, named(port, **EAGER) as brokers:
        connection = await brokers.get(1)
        changes = Changes(brokers)
        served.set()
        await changes.until(lambda: connection.closed_by is not None)
        again = await brokers.get(1)
        assert again.ready


async def test_the_name_is_resolved_for_each_try(names: Names) -> None:
    names[NAME] = [BAD]
    async with both(answer_all, resetting) as port, named(port, **EAGER) as brokers:
        with pytest.raises(KafkaConnectionError, match=r"^ApiVersions was in flight"):
            await brokers.get(1)
        names[NAME] = [GOOD]
        await brokers.get(1)


async def test_a_bootstrap_address_that_freezes_after_the_handshake_is_left(names: Names) -> None:
    names[NAME] = [BAD, GOOD]
    async with EmbeddedCluster(brokers=1) as cluster:
        port = int(cluster.address(1).rpartition(":")[2])
        async with serve(answer_nothing, host=BAD, port=port):
            with anyio.fail_after(15):  # half of request_timeout_ms
                async with AdminClient(f"{NAME}:{port}") as admin:
                    assert await admin.list_topics() is not None
