"""Awaits records one by one for minutes, while sessions end every ten seconds (KIP-368), and in a run without ends.

    python -m tests.kafka.long_sessions # two minutes each, 500 records a second python -m tests.kafka.long_sessions
    --seconds 30 --backend trio python -m tests.kafka.long_sessions --embedded # brokers are otherwise idle, so the
    client causes all delays python -m tests.kafka.long_sessions --runs 3 # of each kind, in turn

A slow record takes more than three times the 99th percentile of the runs in which sessions do not end. Times for which
this event loop, or the embedded brokers' loop, waited for a processor do not count, if the system reports them (Linux).
Since brokers have slow moments in both kinds of run, the exit status is 0 only if

- no record failed;
- records within 100 ms of a login are not slow significantly more often than other records;
- the token provider was called once for each refresh, whatever the number of connections.
"""

from __future__ import annotations

import argparse
import base64
import gc
import json
import logging
import math
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import anyio

from aiokafka_lead import Producer
from aiokafka_lead.oidc import Token
from aiokafka_lead.testing import EmbeddedCluster
from tests.oidc import identity_provider
from tests.oidc.identity_provider import IdentityProvider

from .harness import NEWEST, Certificates, KafkaCluster, Listener, TokenIssuer

_TOPIC = "sessions"
_PARTITIONS = 3
_ENDLESS_S, _SHORT_S = 3600.0, 10.0
_NEAR_S = 0.1
"""A record that begins within this time of a login may have met it, in seconds."""


class Sent(NamedTuple):
    """A record."""

    at: float
    """Time of the send (``time.time()``)."""
    took_ms: float
    waited_ms: float
    """Part of it spent waiting for a processor."""


class Run(NamedTuple):
    """Results of one run."""

    records: list[Sent]
    logins: list[float]
    """End of each login, except those at the start."""
    connections: int
    calls: int
    """Number of calls of the token's provider."""


class Logins(logging.Handler):
    """Records the time when each connection of the client becomes ready."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.at: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "connected to %s for" in str(record.msg):
            self.at.append(record.created)


class Waits:
    """Time that threads have been ready to run without a processor; 0 unless the system reports it (Linux does)."""

    def __init__(self, processes: tuple[int, ...], files: ExitStack) -> None:
        """Open the statistics of this thread, and of the first one of each process."""
        places = ["/proc/thread-self/schedstat", *(f"/proc/{process}/schedstat" for process in processes)]
        found = [Path(place) for place in places if Path(place).exists()]
        self._files = [files.enter_context(place.open("rb", buffering=0)) for place in found]

    def total_ms(self) -> float:
        """Return the total of all threads so far."""
        total = 0
        for file in self._files:
            file.seek(0)
            total += int(file.read().split()[1])
        return total / 1e6


@contextmanager
def logins_noted() -> Iterator[Logins]:
    """Collect the logins during the block."""
    noted, logger = Logins(), logging.getLogger("aiokafka_lead.connection")
    before, logger.propagate = logger.propagate, False
    logger.addHandler(noted)
    logger.setLevel(logging.DEBUG)
    try:
        yield noted
    finally:
        logger.removeHandler(noted)
        logger.setLevel(logging.NOTSET)
        logger.propagate = before


class Provider:
    """Signs tokens itself, after a delay like a network's, and counts them."""

    def __init__(self, life_s: float) -> None:
        self.calls = 0
        self._life_s = life_s
        self._signer = IdentityProvider({})

    def __call__(self) -> Token:
        self.calls += 1
        time.sleep(0.2)
        ends_at = int(time.time() + self._life_s)  # brokers take whole seconds
        return Token(self._signer.jwt("orders", exp=ends_at), ends_at)


class Brokers(NamedTuple):
    """Brokers that receive the records."""

    bootstrap: str
    authority: Path
    """Certificate authority of the brokers."""
    processes: tuple[int, ...]
    """Processes whose first threads do all of their work."""


@contextmanager
def real_brokers() -> Iterator[Brokers]:
    """Run three brokers of Apache Kafka."""
    with TemporaryDirectory() as folder:
        keys = Path(folder) / "jwks.json"
        keys.write_text(identity_provider.jwks())
        issuer = TokenIssuer(keys, identity_provider.ISSUER, identity_provider.AUDIENCE)
        kafka = KafkaCluster(NEWEST, brokers=3, secure=True, issuer=issuer, optimise=True)
        try:
            kafka.start()
            kafka.create_topic(_TOPIC, partitions=_PARTITIONS)
            assert kafka.certificates is not None
            yield Brokers(kafka.bootstrap(Listener.SASL_SSL), kafka.certificates.authority, ())
        finally:
            kafka.stop()


@contextmanager
def embedded_brokers() -> Iterator[Brokers]:
    """Run the same of an embedded cluster in a separate process."""
    spawn = get_context("spawn")
    with TemporaryDirectory() as folder:
        certificates = Certificates.make(Path(folder))
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=serve, args=(theirs, certificates.keystore))
        process.start()
        try:
            assert process.pid is not None
            yield Brokers(ours.recv(), certificates.authority, (process.pid,))
        finally:
            ours.send(None)
            process.join()


def serve(parent: Connection, keystore: Path) -> None:
    """Run an embedded cluster, until the parent writes a line."""

    def user(token: str, _: Mapping[str, str]) -> tuple[str, float]:
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        return claims["sub"], claims["exp"]

    async def serving() -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(keystore)
        async with EmbeddedCluster(3, oauth_validator=user, ssl_context=context) as cluster:
            cluster.create_topic(_TOPIC, partitions=_PARTITIONS)
            gc.disable()  # a collection walks over every kept record
            parent.send(cluster.bootstrap_servers)
            await anyio.to_thread.run_sync(parent.recv)

    anyio.run(serving)


async def send(
    brokers: Brokers, provider: Provider, options: argparse.Namespace, noted: Logins, files: ExitStack
) -> tuple[list[Sent], int]:
    """Send all records; return the number of connections meanwhile."""
    given: dict[str, Any] = {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": brokers.authority,
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": provider,
        "linger_ms": 0,
        "retries": 0,
        "enable_idempotence": False,
    }
    sent: list[Sent] = []
    servers = brokers.bootstrap
    async with Producer(servers, **given) as producer, Producer(servers, **given) as beside:
        for partition in range(_PARTITIONS):
            await producer.send_and_wait(_TOPIC, b"", partition=partition)
            await beside.send_and_wait(_TOPIC, b"", partition=partition)  # its connections are kept, too
        connections = len(noted.at)
        noted.at.clear()
        # A collection walks over all imports of this run: tens of milliseconds that no client causes.
        gc.freeze()
        waits = Waits(brokers.processes, files)
        begun = time.monotonic()
        for number in range(int(options.seconds * options.per_second)):
            await anyio.sleep(max(0.0, begun + number / options.per_second - time.monotonic()))
            at, waited_ms, started = time.time(), waits.total_ms(), time.perf_counter()
            await producer.send_and_wait(_TOPIC, b"v" * 100, partition=number % _PARTITIONS)
            if number >= options.per_second:  # the first second warms up the JVM
                took_ms = (time.perf_counter() - started) * 1000
                sent.append(Sent(at, took_ms, waits.total_ms() - waited_ms))
        gc.unfreeze()
    return sent, connections


def run(life_s: float, options: argparse.Namespace) -> Run:
    """Run with tokens of this lifetime; return the results."""
    provider = Provider(life_s)
    with ExitStack() as opened:
        brokers = opened.enter_context(embedded_brokers() if options.embedded else real_brokers())
        noted = opened.enter_context(logins_noted())
        task: Callable[..., Any] = send
        records, connections = anyio.run(task, brokers, provider, options, noted, opened, backend=options.backend)
    p50, p99, worst = (part_of([record.took_ms for record in records], part) for part in (0.5, 0.99, 1))
    own_p99, own_worst = (part_of([own_ms(record) for record in records], part) for part in (0.99, 1))
    print(
        f"tokens of {life_s:6.0f} s: {len(records):,} records, p50 {p50:.2f} ms, p99 {p99:.2f} ms, slowest {worst:.2f} "
        f"ms (without waits for a processor {own_p99:.2f} and {own_worst:.2f} ms); "
        f"{connections} connections, {len(noted.at)} logins after the start, {provider.calls} calls for tokens",
        flush=True,
    )
    return Run(records, list(noted.at), connections, provider.calls)


def part_of(found: list[float], part: float) -> float:
    return sorted(found)[min(len(found) - 1, int(len(found) * part))]


def own_ms(record: Sent) -> float:
    """Return a record's time, without the waits of two threads for a processor, which may coincide."""
    return max(0.0, record.took_ms - record.waited_ms)


def slow(records: list[Sent], limit_ms: float) -> int:
    return sum(own_ms(record) > limit_ms for record in records)


def judge(without: list[Run], ended: list[Run]) -> bool:
    """Return True if ending sessions cost no time; print the reasons."""
    plain = [record for each in without for record in each.records]
    limit_ms = 3 * part_of([record.took_ms for record in plain], 0.99)
    near: list[Sent] = []
    others: list[Sent] = []
    for each in ended:
        for record in each.records:
            met = any(abs(record.at - at) <= _NEAR_S for at in each.logins)
            (near if met else others).append(record)
    expected = len(near) * max(slow(each, limit_ms) / len(each) for each in (others, plain))
    found = slow(near, limit_ms)
    slowest = max((own_ms(record) for record in near), default=0.0)
    print(
        f"slower than {limit_ms:.2f} ms: {found} of {len(near):,} records near a login (slowest {slowest:.2f} ms), and "
        f"{slow(others, limit_ms)} of {len(others):,} others; without sessions that end {slow(plain, limit_ms)} of "
        f"{len(plain):,}"
    )
    refreshes = [(each.records[-1].at - each.records[0].at) / (_SHORT_S * 0.6) + 3 for each in ended]
    shared = all(each.calls <= most for each, most in zip(ended, refreshes, strict=True))
    return found <= expected + 3 * math.sqrt(expected + 1) and shared


def main() -> int:
    """Make runs of both kinds, in turn."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.kafka.long_sessions", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--per-second", type=float, default=500)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    parser.add_argument("--embedded", action="store_true", help="an embedded cluster in a process of its own")
    options = parser.parse_args()
    without: list[Run] = []
    ended: list[Run] = []
    for _ in range(options.runs):
        without.append(run(_ENDLESS_S, options))
        ended.append(run(_SHORT_S, options))
    return 0 if judge(without, ended) else 1


if __name__ == "__main__":
    sys.exit(main())
