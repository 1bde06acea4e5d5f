"""Trials of one client with one fault: their programs, brokers and outcomes."""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import IO, Any, NamedTuple, TypeVar

from aiokafka_lead import Producer
from aiokafka_lead.testing import EmbeddedCluster, RequestRecord

from .clients import CLIENT_ID, EVERY_S, value_of_now

T = TypeVar("T")

PATIENCE_S = 60.0
"""Time limit in seconds for each step before the fault."""
REFUSAL_MS = 10.0
"""Delay of each refusal in milliseconds, because some clients retry immediately and without a limit."""
USERS = {"u": "p"}
SASL: Mapping[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "u",
    "sasl_plain_password": "p",
}
REFUSED_LOGIN = 58
_ERRORS_WITHIN = ("OffsetCommit", "OffsetFetch", "AddPartitionsToTxn")
"""APIs whose responses in some versions have an error for each item, but no common error."""
_WITHIN = {"after": True, "whole": False}


class Outcome(NamedTuple):
    """Outcome of a client."""

    seconds: float | None
    """Seconds from the fault to the first progress after it, or None without progress."""
    instead: str = ""
    """Text for the table if there was no progress."""

    def __str__(self) -> str:
        return self.instead if self.seconds is None else f"{self.seconds:.2f}"


ABSENT = Outcome(None, "-")
"""Outcome of a client without the feature."""


class Program:
    """Running process of `benchmarks.doubts.clients`."""

    def __init__(self, process: Process, role: str, log: IO[bytes]) -> None:
        self.process = process
        self._log = log
        self.progress = "acknowledged" if role in ("write", "transact") else "read"
        """Event that shows progress."""
        self._events: list[dict[str, Any]] = []
        self._more = asyncio.Event()

    async def listen(self) -> None:
        """Collect the client's output until it ends."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self._take(json.loads(line))
        self._take({"what": "gone"})

    def _take(self, event: dict[str, Any]) -> None:
        self._events.append(event)
        more, self._more = self._more, asyncio.Event()
        more.set()

    def say(self, word: str) -> None:
        """Send the command ``pause`` or ``resume``."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n".encode())

    def found(self, what: str, written_since: float = 0.0) -> list[dict[str, Any]]:
        """Return the events of a kind, without events of records that were written before ``written_since``."""
        return [
            each for each in self._events if each["what"] == what and each.get("written", math.inf) >= written_since
        ]

    async def event(self, what: str, written_since: float = 0.0, number: int = 1) -> dict[str, Any]:
        """Wait for the ``number``-th event in `found`, and return it."""
        while len(found := self.found(what, written_since)) < number:
            if self.found("gone"):
                self._log.seek(0)
                raise RuntimeError(f"the client's process ended:\n{self._log.read().decode()[-2000:]}")
            await self._more.wait()
        return found[number - 1]

    async def progressed(self, written_since: float = 0.0, number: int = 1) -> float:
        """Wait until this many records written since then are read or acknowledged. Return the time."""
        second: float = (await self.event(self.progress, written_since, number))["at"]
        return second


class Trial:
    """Trial of one client, which releases its resources at the end."""

    def __init__(self, client: str, bound_s: float) -> None:
        self.client = client
        self.environment: dict[str, str] = {}
        """Additional environment variables for programs."""
        self.bound_s = bound_s
        self._stack = AsyncExitStack()
        self._listening: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Trial:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()
        await asyncio.gather(*self._listening)

    async def cluster(self, brokers: int = 3, **options: Any) -> EmbeddedCluster:
        """Start a cluster whose brokers do not create topics automatically."""
        return await self._stack.enter_async_context(EmbeddedCluster(brokers, auto_create_topics=False, **options))

    async def program(self, role: str, bootstrap: str, **options: Any) -> Program:
        """Start the client's program."""
        log = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.doubts.clients", self.client, role,
            json.dumps({"bootstrap": bootstrap, **options}),
            stdin=PIPE, stdout=PIPE, stderr=log, env={**os.environ, **self.environment},
        )  # fmt: skip
        self._stack.push_async_callback(_kill, process)
        program = Program(process, role, log)
        self._listening.append(asyncio.create_task(program.listen()))
        return program

    async def progress(self, program: Program, since: float, number: int = 1) -> Outcome:
        """Wait until records written since the fault are read, or acknowledged."""
        return await self.until(program.progressed(since, number), program, since)

    async def until(self, reached: Coroutine[Any, Any, float], program: Program, since: float) -> Outcome:
        """Wait until ``reached`` returns a time, the client's loop ends, or the time limit has passed."""
        waiting = asyncio.create_task(reached)
        ended = asyncio.create_task(program.event("ended"))
        left = max(0.0, since + self.bound_s - time.time())
        try:
            await asyncio.wait((waiting, ended), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return Outcome(max(0.0, waiting.result() - since))
            return Outcome(None, f"ended: {ended.result()['error']}" if ended.done() else f"> {self.bound_s:g}")
        finally:
            waiting.cancel()
            ended.cancel()
            await asyncio.wait((waiting, ended))


async def _kill(process: Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


class Row(NamedTuple):
    """Row of a table."""

    what: str
    scenario: Callable[[Trial], Awaitable[Outcome]]
    not_in: frozenset[str] = frozenset()
    """Clients without the feature."""


@asynccontextmanager
async def feeding(
    cluster: EmbeddedCluster, partitions: Sequence[int] = (0,), topic: str = "t", **config: Any
) -> AsyncIterator[None]:
    """Write a record to each of these partitions at each interval, during a block."""

    async def write(producer: Producer[Any, Any]) -> None:
        while True:
            for partition in partitions:
                await producer.send(topic, value_of_now(), partition=partition)
            await asyncio.sleep(EVERY_S)

    async with Producer(cluster.bootstrap_servers, linger_ms=0, close_timeout_ms=1000, **config) as producer:
        writing = asyncio.create_task(write(producer))
        try:
            yield
        finally:
            writing.cancel()
            await asyncio.wait([writing])


def first_strike(
    cluster: EmbeddedCluster, apis: Sequence[str], then: Callable[[int], object] | None = None, **rule: Any
) -> asyncio.Future[float]:
    """Add a fault for the tested client only. Return a future of the time of the first refusal.

    Without a broker, the fault applies to the first broker that receives a request, unless ``count`` is given (None for
    all requests to all brokers). ``then`` is called with the id of this broker after the first refusal.
    """
    loop = asyncio.get_running_loop()
    struck: asyncio.Future[float] = loop.create_future()
    refusing: list[int] = []

    def answered(broker: int) -> None:
        if then is not None:
            then(broker)
        if not struck.done():
            struck.set_result(time.time())

    def when(record: RequestRecord) -> bool:
        if not refusing:
            refusing.append(record.broker)
            loop.call_later(1.5 * REFUSAL_MS / 1000, answered, record.broker)
        return "count" in rule or record.broker == refusing[0]

    for api in apis:
        options: dict[str, Any] = rule | (_WITHIN if api in _ERRORS_WITHIN else {})
        cluster.faults.add(api, client_id=CLIENT_ID, when=when, **options)
        cluster.faults.add(
            api,
            client_id=CLIENT_ID,
            when=when,
            broker=rule.get("broker"),
            count=rule.get("count"),
            delay_ms=REFUSAL_MS,
        )
    return struck


async def before(waited: Awaitable[T]) -> T:
    """Wait for a step before the fault."""
    return await asyncio.wait_for(waited, PATIENCE_S)
