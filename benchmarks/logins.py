"""Cost of a failing login: ``python -m benchmarks logins``.

For each fault of an identity provider, and of a KDC if Kerberos is installed, a table shows:

- the error that the client's start raises, and the time until then;
- the longest time for which the event loop was blocked meanwhile;
- the time from the end of the fault until a waiting client has logged in.

The time in which threads of this process waited for a processor is excluded if the system reports it (Linux). Figures
are the minimum of several runs, because the delays by other programs vary, but the client's work is the same in each
run. The broker runs on the same event loop.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import anyio

from aiokafka_lead import Producer
from aiokafka_lead.errors import KafkaError
from aiokafka_lead.oidc import ClientCredentials
from aiokafka_lead.testing import EmbeddedCluster
from tests import kerberos
from tests.oidc.identity_provider import Answer, IdentityProvider, json_answer

from .stats import table

SECRET = "orders-secret"
TIMEOUT_S = 1.0
"""Time limit in seconds for a provider's answer, and for setting up a connection."""

LARGE: Answer = (200, {}, bytes(100_000_000))
PARTS: Answer = (200, {}, b'{"parts":[' + b"{}," * 340_000 + b"{}]}")

Trouble = Callable[[], Any]


def held(provider: IdentityProvider, seconds: float) -> Answer:
    """Return the provider's answer after a delay."""
    provider.released.wait(seconds)
    return provider.answer_now({"grant_type": "client_credentials", "client": "orders", "secret": SECRET})


def troubles(provider: IdentityProvider) -> dict[str, Callable[[], Answer] | None]:
    """Return an identity provider's answers by fault; None for a working provider."""
    return {
        "none": None,
        "slow, 500 ms": partial(held, provider, 0.5),
        "silent": partial(held, provider, 3.0),
        "down (503)": lambda: json_answer(503, error="temporarily_unavailable"),
        "garbage": lambda: (200, {}, b"<html>" * 1000),
        "1 MB of JSON": lambda: PARTS,
        "an answer of 100 MB": lambda: LARGE,
        "a token that is too large": lambda: json_answer(200, access_token="x" * 600_000),
        "an expired token": lambda: json_answer(200, access_token="x", expires_in=-5),
    }


def waits_ms() -> dict[str, float]:
    """Return the milliseconds for which each thread has waited for a processor. Empty if the system does not report it.

    A waiting thread may hold the interpreter's lock, and thus block the event loop's thread.
    """
    found: dict[str, float] = {}
    for place in Path("/proc/self/task").glob("*/schedstat"):
        try:
            found[place.parent.name] = int(place.read_text().split()[1]) / 1e6
        except OSError:  # the thread has ended
            continue
    return found


class Gaps:
    """Measures the longest time between two steps of a task that wakes every millisecond.

    Waits for a processor are subtracted, but the work of the event loop's thread always counts.
    """

    def __init__(self) -> None:
        self.longest_ms = 0.0

    async def watch(self) -> None:
        """Measure until cancelled."""
        before, waits, work = time.perf_counter(), waits_ms(), time.thread_time()
        while True:
            await anyio.sleep(0.001)
            now, waits_now, work_now = time.perf_counter(), waits_ms(), time.thread_time()
            waited = sum(ms - waits.get(thread, 0.0) for thread, ms in waits_now.items())
            self.longest_ms = max(self.longest_ms, (now - before) * 1000 - 1 - waited, (work_now - work) * 1000)
            before, waits, work = now, waits_now, work_now


@asynccontextmanager
async def watched() -> AsyncIterator[Gaps]:
    """Measure gaps during the block."""
    gaps = Gaps()
    async with anyio.create_task_group() as group:
        group.start_soon(gaps.watch)
        yield gaps
        group.cancel_scope.cancel()


async def log_in(cluster: EmbeddedCluster, options: dict[str, Any], request_timeout_s: float) -> None:
    """Start a client, and stop it. Raises the errors of the start."""
    async with Producer(
        cluster.bootstrap_servers,
        security_protocol="SASL_PLAINTEXT",
        request_timeout_ms=request_timeout_s * 1000,
        delivery_timeout_ms=request_timeout_s * 1000 + 1000,
        socket_connection_setup_timeout_ms=TIMEOUT_S * 1000,
        socket_connection_setup_timeout_max_ms=TIMEOUT_S * 1000,
        **options,
    ):
        pass


async def measure(cluster: EmbeddedCluster, new_options: Callable[[], dict[str, Any]], over: Trouble) -> list[object]:
    """Measure a fault. Return the error, the seconds until then, the longest gap, and the milliseconds to recover."""
    async with watched() as gaps:
        begun = time.monotonic()
        error = "none"
        try:
            await log_in(cluster, new_options(), 3.0)
        except KafkaError as failure:
            error = type(failure).__name__
        took_s = time.monotonic() - begun
        options = new_options()
        ended = time.monotonic()
        async with anyio.create_task_group() as group:

            async def wait() -> None:
                while True:
                    try:
                        await log_in(cluster, options, 30.0)
                    except KafkaError:
                        await anyio.sleep(0.01)
                        continue
                    break

            group.start_soon(wait)
            await anyio.sleep(0.2)
            over()
            ended = time.monotonic()
        back_ms = (time.monotonic() - ended) * 1000
    return [error, took_s, gaps.longest_ms, back_ms]


async def oauth(rows: list[list[object]]) -> None:
    """Measure the faults of an identity provider."""
    with IdentityProvider({"orders": SECRET}).running() as provider:

        def options() -> dict[str, Any]:
            credentials = ClientCredentials(provider.url, "orders", SECRET, timeout_s=TIMEOUT_S)
            quick = {"sasl_login_retry_backoff_ms": 20, "sasl_login_retry_backoff_max_ms": 100}
            return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": credentials, **quick}

        def over() -> None:
            provider.instead = None

        async with EmbeddedCluster(1, oauth_validator=lambda token, extensions: "orders") as cluster:
            for name, trouble in troubles(provider).items():
                provider.instead = trouble
                rows.append([f"OpenID provider: {name}", *await measure(cluster, options, over)])


@contextmanager
def realm_and_folder() -> Iterator[tuple[kerberos.Realm, Path]]:
    """Yield a running KDC, and a folder for keytabs. Each keytab's tickets are stored separately."""
    realm = kerberos.Realm()
    realm.start()
    try:
        with TemporaryDirectory() as folder:
            yield realm, Path(folder)
    finally:
        realm.stop()


async def gssapi(rows: list[list[object]], realm: kerberos.Realm, folder: Path) -> None:
    """Measure the faults of a KDC."""
    nowhere = realm.write_config("nowhere.conf", port=9)  # port 9 is reserved for "discard", so no KDC listens on it
    made = 0

    def options() -> dict[str, Any]:
        nonlocal made
        made += 1
        keytab = shutil.copy(realm.client_keytab, folder / f"{made}.keytab")
        return {"sasl_mechanism": "GSSAPI", "sasl_kerberos_keytab": keytab}

    async with EmbeddedCluster(1, gssapi_keytab=realm.service_keytab) as cluster:
        os.environ["KRB5_CONFIG"] = str(realm.config)
        rows.append(["KDC: none", *await measure(cluster, options, lambda: None)])
        os.environ["KRB5_CONFIG"] = str(nowhere)
        back = partial(os.environ.__setitem__, "KRB5_CONFIG", str(realm.config))
        rows.append(["KDC: down", *await measure(cluster, options, back)])
        silent = realm.silent()
        silent.__enter__()
        rows.append(["KDC: silent", *await measure(cluster, options, lambda: silent.__exit__(None, None, None))])


def main(arguments: list[str]) -> None:
    """Measure all faults in turn."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks logins", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args(arguments)
    gc.freeze()  # otherwise garbage collection of all imported objects would block the loop for 20 ms
    wanting = kerberos.missing()
    runs: list[list[list[object]]] = []
    for _ in range(options.runs):
        rows: list[list[object]] = []
        anyio.run(oauth, rows, backend=options.backend)
        if wanting is None:
            with realm_and_folder() as (realm, folder):
                anyio.run(gssapi, rows, realm, folder, backend=options.backend)
        runs.append(rows)
    rows = [min(same, key=lambda row: cast(float, row[3])) for same in zip(*runs, strict=True)]
    print(table(["trouble", "error", "after, s", "loop blocked, ms", "back after, ms"], rows))
    if wanting is not None:
        print(f"Kerberos was not measured: {wanting}")
