"""Brokers' texts that would break a log, and addresses that are not theirs."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
import trustme

from aiokafka_lead import AdminClient, Consumer, Producer
from aiokafka_lead.admin import NewTopic
from aiokafka_lead.errors import InvalidRecordError, InvalidTopicError, KafkaError
from aiokafka_lead.testing import EmbeddedCluster, Hint, RequestRecord
from tests.io.script import Peer, serve

from .answers import changed

pytestmark = pytest.mark.anyio

WORDS = "\x1b[2Jroot: all is well\r\n\u202e" + "x" * 30_000


def answers(cluster: EmbeddedCluster, api: str, change: Callable[[Any], None]) -> None:
    """Change each answer of an API."""
    asked: list[RequestRecord] = []

    def note(record: RequestRecord) -> bool:
        asked[:] = [record]
        return True

    cluster.faults.add(api, when=note, after=True, garbage=lambda answer: changed(asked[0], answer, change))


def fit_for_a_log(text: str) -> bool:
    return text.isprintable() and len(text) < 1000 and "root: all is well" in text


def refuse_topic(message: Any) -> None:
    message.topics[0].error_code = InvalidTopicError.code
    message.topics[0].error_message = WORDS


def refuse_records(message: Any) -> None:
    answer = message.responses[0].partition_responses[0]
    answer.error_code = InvalidRecordError.code
    answer.error_message = WORDS


async def create_topic(cluster: EmbeddedCluster) -> None:
    async with AdminClient(cluster.bootstrap_servers) as admin:
        await admin.create_topics([NewTopic("t", 1)])


async def send(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("t", b"v")


def refuse_member(message: Any) -> None:
    message.error_code = 29  # TOPIC_AUTHORIZATION_FAILED
    message.error_message = WORDS


def refuse_coordinator(message: Any) -> None:
    for entry in message.coordinators:
        entry.error_code = 30  # GROUP_AUTHORIZATION_FAILED
        entry.error_message = WORDS


async def join(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("t")
    async with Consumer("t", bootstrap_servers=cluster.bootstrap_servers, group_id="g", group_protocol="consumer") as c:
        await c.getone()


@pytest.mark.parametrize(
    ("api", "change", "call"),
    [
        ("CreateTopics", refuse_topic, create_topic),
        ("Produce", refuse_records, send),
        ("ConsumerGroupHeartbeat", refuse_member, join),
        ("FindCoordinator", refuse_coordinator, join),
    ],
)
async def test_a_brokers_words_are_bounded_and_escaped(
    api: str, change: Callable[[Any], None], call: Callable[[EmbeddedCluster], Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with EmbeddedCluster(1) as cluster:
        answers(cluster, api, change)
        with anyio.fail_after(20), pytest.raises(KafkaError) as caught:
            await call(cluster)
    assert fit_for_a_log(str(caught.value))
    assert all(line.isprintable() and len(line) < 2000 for line in caplog.messages)


class _Said(logging.Handler):
    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self.event = anyio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self._text in record.getMessage():
            self.event.set()


@pytest.fixture
def said() -> Iterator[Callable[[str], anyio.Event]]:
    """Yield a function that returns an event, which is set once a line of the log contains a text."""
    log, handlers = logging.getLogger("aiokafka_lead"), list[_Said]()

    def line_with(text: str) -> anyio.Event:
        handlers.append(_Said(text))
        log.addHandler(handlers[-1])
        return handlers[-1].event

    yield line_with
    for handler in handlers:
        log.removeHandler(handler)


@pytest.mark.parametrize(
    ("host", "port"),
    [("127.0.0.1", 70_000), ("127.0.0.1", -5), ("127.0.0.1", 0), ("", 9092), (WORDS, 9092), ("a\0b", 9092)],
)
async def test_an_address_that_is_none_is_an_error_of_the_connection(
    host: str, port: int, caplog: pytest.LogCaptureFixture, said: Callable[[str], anyio.Event]
) -> None:
    def move(message: Any) -> None:
        for broker in message.brokers:
            broker.host, broker.port = host, port

    async with EmbeddedCluster(1) as cluster:
        cluster.create_topic("t")
        answers(cluster, "Metadata", move)
        async with Producer(cluster.bootstrap_servers) as producer:
            refused = said("is not a valid address")
            await producer.send("t", b"v")
            with anyio.fail_after(20):
                await refused.wait()
            await producer.stop(timeout_ms=0)
    assert all(line.isprintable() for line in caplog.messages)


@pytest.mark.parametrize("impostor", ["of another authority", "of another name", "without TLS"])
async def test_a_hint_takes_no_credentials_to_a_host_that_does_not_prove_itself(
    impostor: str, said: Callable[[str], anyio.Event]
) -> None:
    """Any host that a broker names as leader has to pass the same checks before the client sends credentials."""
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    foreign: ssl.SSLContext | None = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    if impostor == "of another authority":
        trustme.CA().issue_cert("127.0.0.1").configure_cert(foreign)
    elif impostor == "of another name":
        authority.issue_cert("elsewhere.example.org").configure_cert(foreign)
    else:
        foreign = None
    heard = bytearray()
    tried = said("certificate is not accepted")

    async def listen(peer: Peer) -> None:
        while True:
            heard.extend(await peer.stream.receive())
            tried.set()

    options: dict[str, Any] = {
        "security_protocol": "SASL_SSL",
        "ssl_context": trust,
        "sasl_plain_username": "alice",
        "sasl_plain_password": "MARKED",
    }
    async with (
        EmbeddedCluster(2, ssl_context=server, sasl_users={"alice": "MARKED"}) as cluster,
        serve(listen, foreign) as port,
    ):
        cluster.create_topic("t", replication_factor=2)
        async with Producer(cluster.bootstrap_servers, **options) as producer:
            hint = Hint(leader_id=77, leader_epoch=1000, endpoint=("127.0.0.1", port))
            cluster.faults.add("Produce", error_code=6, topic="t", hint=hint)
            await producer.send("t", b"v")
            with anyio.fail_after(20):
                await tried.wait()
            await producer.stop(timeout_ms=0)
    assert b"MARKED" not in heard
    assert not heard or heard[0] == 0x16  # no more than the first message of TLS
