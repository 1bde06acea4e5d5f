"""The process's event loop, and its clients."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import anyio
import anyio.lowlevel
import pytest

from aiokafka_lead import AdminClient
from aiokafka_lead.errors import KafkaConnectionError, KafkaError, SslAuthenticationError
from aiokafka_lead.spark.client_loop import IDLE_S, ClientLoop, client_loop

from ..ports import PortPool


class Recorder:
    """A client that only records calls."""

    def __init__(self) -> None:
        self.starts = 0
        self.stopped = threading.Event()

    async def start(self) -> None:
        self.starts += 1

    async def stop(self, timeout_ms: float | None = None) -> None:
        assert timeout_ms is not None
        assert timeout_ms <= 2000
        self.stopped.set()


@pytest.fixture
def loop() -> Iterator[ClientLoop]:
    found = client_loop()
    yield found
    found.close_idle()


def test_one_loop_for_a_process(loop: ClientLoop) -> None:
    assert client_loop() is loop


def test_running_returns_and_raises(loop: ClientLoop) -> None:
    async def double(number: int) -> int:
        await anyio.lowlevel.checkpoint()
        return 2 * number

    async def fail() -> None:
        raise KeyError("why")

    assert loop.run(double, 4) == 8
    assert loop.start(double, 5).result(10) == 10
    with pytest.raises(KeyError, match="why"):
        loop.run(fail)


WAITING = """
import anyio
from aiokafka_lead.spark.client_loop import client_loop

async def wait():
    print("waits", flush=True)
    await anyio.sleep(3600)

client_loop().run(wait)
"""
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


def test_a_wait_ends_with_the_process_that_asked() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, WAITING], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"waits\n"
        parent.kill()
        assert parent.stdout.read() == b"", "the pipe is open until the waiting process has ended"


def test_a_client_is_kept_for_the_next_borrower(loop: ClientLoop) -> None:
    with loop.borrow(Recorder, "same", 0) as first:
        pass
    with loop.borrow(Recorder, "same", 0) as second, loop.borrow(Recorder, "same", 0) as beside:
        assert second is first
        assert beside is not first
    with loop.borrow(Recorder, "other", 0) as other:
        assert other is not first
    assert first.starts == 1
    loop.close_idle()
    assert all(client.stopped.is_set() for client in (first, beside, other))


def test_a_client_is_stopped_after_an_error(loop: ClientLoop) -> None:
    kept: list[Recorder] = []

    def fail() -> None:
        with loop.borrow(Recorder, "failed", 0) as client:
            kept.append(client)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert kept[0].stopped.wait(10)
    with loop.borrow(Recorder, "failed", 0) as another:
        assert another is not kept[0]


def test_a_client_that_nobody_borrows_is_stopped(loop: ClientLoop) -> None:
    with loop.borrow(Recorder, "idle", 0) as client:
        pass
    assert client.stopped.wait(IDLE_S + 20)


def test_a_client_that_does_not_start_is_not_lent(loop: ClientLoop) -> None:
    class Broken(Recorder):
        async def start(self) -> None:
            raise ConnectionError("no broker")

    with pytest.raises(ConnectionError, match="no broker"), loop.borrow(Broken, "broken", 60_000):
        pytest.fail("lent")


class Unreachable(Recorder):
    """A client that cannot start before this number of attempts, over all clients of its kind."""

    tries = 0
    error: type[KafkaError] = KafkaConnectionError

    def __init__(self, refusals: int) -> None:
        super().__init__()
        self.refusals = refusals

    async def start(self) -> None:
        await super().start()
        type(self).tries += 1
        if type(self).tries <= self.refusals:
            raise self.error("no broker")


def test_a_client_is_made_anew_while_brokers_are_away(loop: ClientLoop) -> None:
    class Twice(Unreachable): ...

    with loop.borrow(lambda: Twice(2), "away", 60_000) as client:
        assert Twice.tries == 3
        assert client.starts == 1, "a client starts once"


def test_brokers_that_stay_away_are_an_error_in_the_end(loop: ClientLoop) -> None:
    class Never(Unreachable): ...

    with pytest.raises(KafkaConnectionError, match="no broker"), loop.borrow(lambda: Never(100), "away", 250):
        pytest.fail("lent")
    assert 1 < Never.tries < 100


def test_what_time_does_not_mend_is_an_error_at_once(loop: ClientLoop) -> None:
    class Wrong(Unreachable):
        error = SslAuthenticationError

    with pytest.raises(SslAuthenticationError), loop.borrow(lambda: Wrong(100), "wrong", 60_000):
        pytest.fail("lent")
    assert Wrong.tries == 1


def test_an_outage_is_said_once_and_not_with_every_try(loop: ClientLoop, caplog: pytest.LogCaptureFixture) -> None:
    with PortPool() as ports:
        server = f"127.0.0.1:{ports.take()}"
        borrowed = loop.borrow(lambda: AdminClient(server), "nobody", 1500)
        with pytest.raises(KafkaConnectionError), borrowed:
            pass
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len([text for text in told if ": no connection: " in text]) == 1
    assert len([text for text in told if "retrying for up to 1.5 s" in text]) == 1
