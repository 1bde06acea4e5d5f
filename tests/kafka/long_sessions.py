"""Records awaited one by one for minutes while sessions end every ten seconds (KIP-368), beside a run without.

    python -m tests.kafka.long_sessions                                  # two minutes each, 500 records a second
    python -m tests.kafka.long_sessions --seconds 30 --backend trio

The exit status is 0 only if no record failed, and none took more than three times the 99th percentile of the run
without sessions that end.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from aiokafka_lead import Producer
from aiokafka_lead.oidc import Token
from tests.oidc import identity_provider
from tests.oidc.identity_provider import IdentityProvider

from .harness import NEWEST, KafkaCluster, Listener, TokenIssuer

_TOPIC = "sessions"
_PARTITIONS = 3


class Provider:
    """Signs tokens itself, after a while, as one over a network would; counts them."""

    def __init__(self, life_s: float) -> None:
        self.calls = 0
        self._life_s = life_s
        self._signer = IdentityProvider({})

    def __call__(self) -> Token:
        self.calls += 1
        time.sleep(0.2)
        ends_at = int(time.time() + self._life_s)  # brokers take whole seconds
        return Token(self._signer.jwt("orders", exp=ends_at), ends_at)


async def send(kafka: KafkaCluster, provider: Provider, options: argparse.Namespace) -> list[float]:
    """How long each record took, in milliseconds."""
    took_ms: list[float] = []
    async with Producer(
        kafka.bootstrap(Listener.SASL_SSL),
        security_protocol="SASL_SSL",
        ssl_cafile=kafka.certificates.authority if kafka.certificates is not None else None,
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=provider,
        linger_ms=0,
        retries=0,
        enable_idempotence=False,
    ) as producer:
        begun = time.monotonic()
        for number in range(int(options.seconds * options.per_second)):
            await anyio.sleep(max(0.0, begun + number / options.per_second - time.monotonic()))
            started = time.perf_counter()
            await producer.send_and_wait(_TOPIC, b"v" * 100, partition=number % _PARTITIONS)
            if number >= options.per_second:  # the first second is the JVM's to wake up
                took_ms.append((time.perf_counter() - started) * 1000)
    return took_ms


def run(life_s: float, options: argparse.Namespace) -> tuple[float, float]:
    """The 99th percentile and the slowest record, in milliseconds, with tokens that live for so long."""
    with TemporaryDirectory() as folder:
        keys = Path(folder) / "jwks.json"
        keys.write_text(identity_provider.jwks())
        issuer = TokenIssuer(keys, identity_provider.ISSUER, identity_provider.AUDIENCE)
        kafka = KafkaCluster(NEWEST, brokers=3, secure=True, issuer=issuer, optimise=True)
        provider = Provider(life_s)
        try:
            kafka.start()
            kafka.create_topic(_TOPIC, partitions=_PARTITIONS)
            task: Callable[..., Any] = send
            begun = time.monotonic()
            took_ms = sorted(anyio.run(task, kafka, provider, options, backend=options.backend))
        finally:
            kafka.stop()
    took_s = time.monotonic() - begun
    p50, p99, worst = (took_ms[min(len(took_ms) - 1, int(len(took_ms) * part))] for part in (0.5, 0.99, 1))
    print(
        f"tokens of {life_s:6.0f} s: {len(took_ms):,} records in {took_s:.0f} s, p50 {p50:.2f} ms, p99 {p99:.2f} ms, "
        f"slowest {worst:.2f} ms; the provider was called {provider.calls} times",
        flush=True,
    )
    return p99, worst


def main() -> int:
    """Both runs, one after the other."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.kafka.long_sessions", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--per-second", type=float, default=500)
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    options = parser.parse_args()
    without, _ = run(3600, options)
    _, worst = run(10, options)
    return 0 if worst <= 3 * without else 1


if __name__ == "__main__":
    sys.exit(main())
