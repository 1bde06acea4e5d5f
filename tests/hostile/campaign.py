"""One case of the campaign: a client, and brokers with randomly corrupted answers, drawn from a seed.

Whatever the brokers answer, each call of the client returns, or raises `KafkaError`, in bounded time. Once the brokers
answer correctly again, a new client works normally.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any

import anyio

from aiokafka_lead import AcknowledgeType, AdminClient, Consumer, Producer, ShareConsumer, TopicPartition
from aiokafka_lead.admin import ConfigChange, ConfigResource, ConfigResourceType, OffsetSpec, ToShifted
from aiokafka_lead.errors import BackgroundTaskError, IllegalStateError, KafkaError
from aiokafka_lead.oidc import Token
from aiokafka_lead.testing import EmbeddedCluster, RequestRecord

from .answers import bent

TOPIC = "events"
GROUP = "workers"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

LONGEST_TEXT = 6000
"""Longest text of an error or a line of the log, in characters."""

PATIENCE_S = 30.0
"""A call that takes longer is considered hanging. Its options limit it to three seconds, but machines may be slow."""

_BOUNDS: dict[str, Any] = {
    "request_timeout_ms": 400,
    "metadata_max_age_ms": 300,
    "retry_backoff_ms": 10,
    "retry_backoff_max_ms": 40,
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 40,
    "socket_connection_setup_timeout_ms": 300,
    "socket_connection_setup_timeout_max_ms": 400,
    "receive_max_bytes": 4_000_000,
}

_LOGINS: dict[str, dict[str, Any]] = {
    "none": {},
    "PLAIN": {"sasl_plain_username": "alice", "sasl_plain_password": "secret"},
    "SCRAM-SHA-256": {"sasl_plain_username": "alice", "sasl_plain_password": "secret"},
    "OAUTHBEARER": {"sasl_oauth_token_provider": lambda: Token("abc", None)},
}


_IN_THREADS = ("SCRAM-SHA-256", "OAUTHBEARER")


class Failure(AssertionError):
    """The client violated one of the rules."""


class _Lines(logging.Handler):
    """Keeps the lines that would break the log."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if not line.isprintable() or len(line) > LONGEST_TEXT:
            self.broken.append(line[:300])


def options(login: str) -> dict[str, Any]:
    """Return options of a client that gives up soon."""
    if login == "none":
        return dict(_BOUNDS)
    return {**_BOUNDS, **_LOGINS[login], "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": login}


def cluster_for(login: str) -> EmbeddedCluster:
    """Return two brokers that require this security; logins have short sessions."""
    if login == "none":
        return EmbeddedCluster(2)
    if login == "OAUTHBEARER":
        return EmbeddedCluster(2, oauth_validator=lambda token, extensions: "alice", sasl_session_ms=2000)
    return EmbeddedCluster(2, sasl_users={"alice": "secret"}, sasl_session_ms=2000)


async def run_case(seed: int, *, threads: bool = True) -> str:
    """Run a case and return its description; raise `Failure`. Without ``threads``: no login that needs one."""
    rng = Random(seed)
    login = rng.choice([login for login in _LOGINS if threads or login not in _IN_THREADS])
    role = rng.choice(list(_ROLES))
    share = rng.choice((0.02, 0.1, 0.3, 1.0))
    name = f"seed {seed}: {role}, login {login}, {share:.0%} of answers bent"
    log, lines = logging.getLogger("aiokafka_lead"), _Lines()
    log.addHandler(lines)
    try:
        await _run(name, rng, role, login, share)
    finally:
        log.removeHandler(lines)
    if lines.broken:
        raise Failure(f"{name}: lines that are not fit for a log: {lines.broken}")
    return name


async def _run(name: str, rng: Random, role: str, login: str, share: float) -> None:
    async with cluster_for(login) as cluster:
        cluster.create_topic(TOPIC, partitions=2, replication_factor=2)
        await _write(cluster, login, rng.choice(CODECS))
        asked: list[RequestRecord] = []

        def concerns(record: RequestRecord) -> bool:
            asked[:] = [record]
            return rng.random() < share

        fault = cluster.faults.add(when=concerns, after=True, garbage=lambda answer: bent(rng, asked[0], answer))
        try:
            with anyio.fail_after(PATIENCE_S):
                await _ROLES[role](cluster, rng, options(login))
        except KafkaError as error:
            _check(name, error)
        except TimeoutError:
            raise Failure(f"{name}: hangs") from None
        except Exception as error:
            raise Failure(f"{name}: {error!r}") from error
        fault.remove()
        with anyio.fail_after(PATIENCE_S):
            await _write(cluster, login, "none")


def _check(name: str, error: KafkaError) -> None:
    """Check an error that the application receives."""
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, KafkaError):
            text = str(link)
            if not text.isprintable() or len(text) > LONGEST_TEXT:
                raise Failure(f"{name}: an error's text is not fit for a log: {text[:300]!r}")
            if isinstance(link, BackgroundTaskError) or "internal error" in text:
                raise Failure(f"{name}: {text}") from error
        link = link.__cause__


async def _attempt(name: str, call: Callable[[], Awaitable[object]]) -> None:
    try:
        await call()
    except KafkaError as error:
        _check(name, error)


async def _write(cluster: EmbeddedCluster, login: str, codec: str) -> None:
    given = options(login) | {"request_timeout_ms": 10_000, "socket_connection_setup_timeout_ms": 10_000}
    del given["socket_connection_setup_timeout_max_ms"]
    writer: Any = Producer
    async with writer(cluster.bootstrap_servers, compression_type=codec, **given) as producer:
        for partition in (0, 1):
            await producer.send_and_wait(TOPIC, b"value" * 200, key=b"key", headers=[("h", b"x")], partition=partition)


@asynccontextmanager
async def _entered(client: Any) -> AsyncIterator[Any]:
    async with client as entered:
        yield entered


async def _produce(cluster: EmbeddedCluster, rng: Random, given: dict[str, Any]) -> None:
    given |= {"delivery_timeout_ms": 1500, "max_block_ms": 1500, "acks": rng.choice((1, "all"))}
    given["enable_idempotence"] = given["acks"] == "all"
    producer: Any = Producer(cluster.bootstrap_servers, **given)
    async with _entered(producer):
        for number in range(6):
            await _attempt("send", partial(producer.send_and_wait, TOPIC, b"v", partition=number % 2))


async def _consume(cluster: EmbeddedCluster, rng: Random, given: dict[str, Any]) -> None:
    group = {"group_id": "g", "group_protocol": rng.choice(("classic", "consumer"))} if rng.random() < 0.5 else {}
    given |= {
        "auto_offset_reset": "earliest",
        "check_crcs": rng.random() < 0.3,
        "fetch_max_wait_ms": 50,
        "default_api_timeout_ms": 1500,
        "max_decompressed_batch_bytes": 4_000_000,
        "isolation_level": rng.choice(("read_committed", "read_uncommitted")),
        **group,
    }
    consumer: Any = Consumer(TOPIC, bootstrap_servers=cluster.bootstrap_servers, **given)
    async with _entered(consumer):
        until = time.monotonic() + 0.6
        while time.monotonic() < until:
            await _attempt("read", lambda: consumer.getmany(timeout_ms=200))


async def _share(cluster: EmbeddedCluster, rng: Random, given: dict[str, Any]) -> None:
    cluster.shares.configure(GROUP, {"share.auto.offset.reset": "earliest"})
    given |= {
        "group_id": GROUP,
        "check_crcs": rng.random() < 0.3,
        "fetch_max_wait_ms": 50,
        "default_api_timeout_ms": 1500,
        "max_decompressed_batch_bytes": 4_000_000,
        "share_acknowledgement_mode": rng.choice(("implicit", "explicit")),
        "share_acquire_mode": rng.choice(("batch_optimized", "record_limit")),
    }
    consumer: Any = ShareConsumer(TOPIC, bootstrap_servers=cluster.bootstrap_servers, **given)

    async def take() -> None:
        for records in (await consumer.getmany(timeout_ms=200)).values():
            for record in records:
                outcome = consumer.acknowledge(record, rng.choice(list(AcknowledgeType)))
                if rng.random() < 0.3:
                    await _attempt("acknowledge", partial(_outcome, outcome))
        await consumer.commit()

    async with _entered(consumer):
        until = time.monotonic() + 0.6
        while time.monotonic() < until:
            await _attempt("share", take)


async def _outcome(awaited: Awaitable[None]) -> None:
    await awaited


async def _belong(cluster: EmbeddedCluster, rng: Random, given: dict[str, Any]) -> None:
    given |= {
        "group_id": "g",
        "group_protocol": rng.choice(("classic", "consumer", "auto")),
        "group_instance_id": rng.choice((None, "one")),
        "auto_offset_reset": "earliest",
        "enable_auto_commit": rng.random() < 0.5,
        "auto_commit_interval_ms": 50,
        "fetch_max_wait_ms": 50,
        "default_api_timeout_ms": 1500,
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 50,
    }
    topics = [TOPIC] if rng.random() < 0.5 else [TOPIC, "none"]
    consumer: Any = Consumer(*topics, bootstrap_servers=cluster.bootstrap_servers, **given)
    async with _entered(consumer):
        until = time.monotonic() + 0.8
        while time.monotonic() < until:
            await _attempt("read", lambda: consumer.getmany(timeout_ms=50))
            await _attempt("commit", consumer.commit)
            await _attempt("committed", partial(consumer.committed, {TopicPartition(TOPIC, 0)}))
            if rng.random() < 0.1:
                consumer.subscribe([TOPIC] if rng.random() < 0.5 else [TOPIC, "none"])


async def _transact(cluster: EmbeddedCluster, rng: Random, given: dict[str, Any]) -> None:
    given |= {"delivery_timeout_ms": 1000, "max_block_ms": 600, "transactional_id": "t"}
    producer: Any = Producer(cluster.bootstrap_servers, **given)
    async with _entered(producer):
        until = time.monotonic() + 0.8
        while time.monotonic() < until:
            await _attempt("transaction", partial(_transaction, producer, rng))


async def _transaction(producer: Any, rng: Random) -> None:
    async with producer.transaction() as txn:
        for partition in (0, 1):
            await txn.send(TOPIC, b"v", partition=partition)
        if rng.random() < 0.5:
            await txn.send_offsets({TopicPartition(TOPIC, 0): rng.randrange(5)}, "others")
        if rng.random() < 0.3:
            raise IllegalStateError("an error of the application")


async def _handle(cluster: EmbeddedCluster, rng: Random, given: dict[str, Any]) -> None:
    cluster.create_topic("letters", partitions=2)
    once = rng.random() < 0.5
    reading: dict[str, Any] = {
        "group_id": "g",
        "group_protocol": rng.choice(("classic", "consumer")),
        "auto_offset_reset": "earliest",
        "fetch_max_wait_ms": 50,
        "default_api_timeout_ms": 1500,
        "auto_commit_interval_ms": 50,
        "enable_auto_commit": not once,
    }
    writing: dict[str, Any] = {"delivery_timeout_ms": 1000, "max_block_ms": 600, "transactional_id": "t"}
    how: dict[str, Any] = {"retries": 1, "retry_backoff_ms": 5, "dead_letter_topic": "letters"}

    async def handle(record: Any, *txn: Any) -> None:
        for each in txn:
            await each.send("letters", record.value)
        if rng.random() < 0.2:
            raise ValueError

    async def stop_later() -> None:
        await anyio.sleep(0.8)
        await consumer.stop(2000)

    consumer: Any = Consumer(TOPIC, bootstrap_servers=cluster.bootstrap_servers, **given, **reading)
    producer: Any = Producer(cluster.bootstrap_servers, **given, **writing)
    async with _entered(consumer), _entered(producer), anyio.create_task_group() as tasks:
        if once:
            how |= {"exactly_once": producer, "max_transaction_records": 2}
        tasks.start_soon(stop_later)
        await _attempt("run", partial(consumer.run, handle, **how))
        tasks.cancel_scope.cancel()


async def _administer(cluster: EmbeddedCluster, rng: Random, given: dict[str, Any]) -> None:
    async with _entered(AdminClient(cluster.bootstrap_servers, default_api_timeout_ms=1000, **given)) as admin:
        for call in (
            lambda: admin.list_topics(),
            lambda: admin.describe_topics([TOPIC, "none"]),
            lambda: admin.describe_cluster(),
            lambda: admin.list_transactions(),
            lambda: admin.describe_producers([TopicPartition(TOPIC, 0)]),
            lambda: admin.list_offsets({TopicPartition(TOPIC, 0): 0}),
            lambda: admin.delete_topics(["none"]),
        ):
            await _attempt("admin", call)


async def _administer_groups(cluster: EmbeddedCluster, rng: Random, given: dict[str, Any]) -> None:
    where = TopicPartition(TOPIC, 0)
    topic = ConfigResource(ConfigResourceType.TOPIC, TOPIC)
    async with _entered(AdminClient(cluster.bootstrap_servers, default_api_timeout_ms=600, **given)) as admin:

        async def listed(found: AsyncIterator[object]) -> None:
            async for _ in found:
                pass

        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: admin.alter_consumer_group_offsets("g", {where: 1}),
            lambda: admin.list_consumer_group_offsets("g", [where]),
            lambda: admin.list_consumer_group_offsets("g"),
            lambda: admin.reset_consumer_group_offsets("g", ToShifted(1)),
            lambda: admin.reset_consumer_group_offsets("g", OffsetSpec.LATEST, topics=[TOPIC]),
            lambda: admin.delete_consumer_group_offsets("g", [where]),
            lambda: listed(admin.list_groups()),
            lambda: admin.describe_consumer_groups(["g", "none"]),
            lambda: admin.describe_classic_groups(["g"]),
            lambda: admin.remove_members_from_consumer_group("g"),
            lambda: admin.describe_share_groups(["s"]),
            lambda: admin.alter_share_group_offsets("s", {where: 1}),
            lambda: admin.list_share_group_offsets("s"),
            lambda: admin.reset_share_group_offsets("s", ToShifted(-1)),
            lambda: admin.delete_consumer_groups(["g", "none"]),
            lambda: admin.describe_transactions(["t"]),
            lambda: admin.fence_producers(["t"]),
            lambda: admin.find_hanging_transactions([TOPIC]),
            lambda: admin.describe_configs([topic]),
            lambda: admin.incremental_alter_configs({topic: [ConfigChange("retention.ms", "1")]}),
            lambda: listed(admin.describe_topic_partitions([TOPIC], page_size=1)),
            lambda: admin.create_partitions({TOPIC: 3}),
            lambda: admin.elect_leaders(),
            lambda: admin.list_partition_reassignments(),
            lambda: admin.delete_records({where: 0}),
            lambda: admin.describe_acls(),
            lambda: admin.describe_client_quotas(),
            lambda: admin.describe_features(),
            lambda: admin.describe_log_dirs([0, 1]),
            lambda: admin.describe_metadata_quorum(),
            lambda: admin.describe_user_scram_credentials(),
            lambda: admin.describe_delegation_token(),
            lambda: admin.list_config_resources(),
        ]
        for call in rng.sample(calls, 12):
            await _attempt("admin", call)


_ROLES: dict[str, Callable[[EmbeddedCluster, Random, dict[str, Any]], Awaitable[None]]] = {
    "producer": _produce,
    "consumer": _consume,
    "share consumer": _share,
    "admin": _administer,
    "admin of groups": _administer_groups,
    "member": _belong,
    "transactions": _transact,
    "run": _handle,
}
