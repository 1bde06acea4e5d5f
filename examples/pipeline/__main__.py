"""``python -m examples.pipeline [--kill [TIMES]] [--bootstrap HOST:PORT]``: the whole pipeline on this machine.

Shops publish orders; a streaming job sums them up into Parquet; a batch job reports. With ``--kill`` the streaming
job's driver is killed (SIGKILL) in the midst of its work, and started again: it goes on from its checkpoint, and
neither loses an order nor counts one twice, which the report verifies against what the shops sent. The embedded cluster
is a process of its own, and does not notice. Needs Java 17+ and the ``spark`` extra.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import sys
import uuid
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from pathlib import Path

from aiokafka_lead import AdminClient, Producer
from aiokafka_lead.admin import NewTopic

from .orders import takings
from .shop import Shop

JOB_TIMEOUT_S = 300
PARTITIONS = 6


@asynccontextmanager
async def embedded_cluster() -> AsyncIterator[str]:
    """The bootstrap servers of a cluster in another process."""
    command = ("-m", "aiokafka_lead.testing", "--brokers", "3", "--port", "0")
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        line = await process.stdout.readline()
        yield line.decode().strip().removeprefix("bootstrap.servers=")
    finally:
        process.terminate()
        await process.wait()


class StreamingJob:
    """The streaming job in processes of its own: the driver's Python, its JVM, and its workers."""

    def __init__(self, bootstrap: str, topic: str, directory: Path) -> None:
        self._command = ("-m", "examples.pipeline.stream", bootstrap, topic, str(directory))
        self._log = directory / "stream.log"
        """What Spark and the job say."""
        self._commits = directory / "checkpoint/commits"
        self._process: Process | None = None
        self._known = 0
        """Micro-batches that were committed before this process."""

    async def start(self) -> None:
        """Start, or start again."""
        self._known = self.committed()
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, *self._command, stderr=log, start_new_session=True
            )

    def committed(self) -> int:
        """How many micro-batches are in the checkpoint's commit log."""
        return len(list(self._commits.glob("[0-9]*")))

    async def has_committed(self, more: int) -> None:
        """Wait until this process has committed some micro-batches; raises if it has ended."""
        while self.committed() < self._known + more:
            assert self._process is not None
            if self._process.returncode is not None:
                raise self._failed()
            await asyncio.sleep(0.01)

    async def kill(self) -> None:
        """SIGKILL to the driver and its JVM: nothing is told, closed or cleaned up."""
        if self._process is not None and self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()

    async def end(self) -> None:
        """Wait until the job has ended by itself."""
        assert self._process is not None
        if await self._process.wait():
            raise self._failed()

    def _failed(self) -> RuntimeError:
        return RuntimeError(f"the streaming job has ended: see {self._log}")


async def kill_now_and_then(job: StreamingJob, times: int) -> None:
    """Kill and restart the job, each time after it has got something done, somewhere within its next micro-batch."""
    for number in range(1, times + 1):
        await job.has_committed(1)
        await asyncio.sleep(0.15 * number)
        await job.kill()
        print(f"SIGKILL to the driver after {job.committed()} micro-batches; it starts again", flush=True)
        await job.start()
    await job.has_committed(1)


async def run(options: argparse.Namespace) -> int:
    """The pipeline, from the first order to the report; returns the report's exit status."""
    directory: Path = options.out
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    async with AsyncExitStack() as stack:
        bootstrap = options.bootstrap or await stack.enter_async_context(embedded_cluster())
        admin = await stack.enter_async_context(AdminClient(bootstrap))
        topics = [topic, f"{topic}-takings"]
        await admin.create_topics([NewTopic(name, PARTITIONS, -1) for name in topics])
        stack.push_async_callback(admin.delete_topics, topics)
        job = StreamingJob(bootstrap, topic, directory)
        await job.start()
        stack.push_async_callback(job.kill)
        producer = await stack.enter_async_context(Producer(bootstrap))
        shop = Shop(producer, topic)
        async with asyncio.timeout(JOB_TIMEOUT_S), asyncio.TaskGroup() as tasks:
            kills = tasks.create_task(kill_now_and_then(job, options.kill))
            await shop.serve(options.orders, options.rate, enough=kills.done)
        print(f"The shops accepted {len(shop.accepted):,} orders and sent {shop.sent:,} events", flush=True)
        await shop.close_day()
        async with asyncio.timeout(JOB_TIMEOUT_S):
            await job.end()
        with (directory / "sent.json").open("w") as file:
            file.writelines(f"{json.dumps(asdict(entry))}\n" for entry in takings(shop.accepted))
        command = ("-m", "examples.pipeline.report", bootstrap, topic, str(directory))
        with (directory / "report.log").open("wb") as log:
            report = await asyncio.create_subprocess_exec(sys.executable, *command, stderr=log)
        async with asyncio.timeout(JOB_TIMEOUT_S):
            status = await report.wait()
        if status:
            print(f"The report is not exact, or has failed: see {directory / 'report.log'}", flush=True)
        return status


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        "examples.pipeline", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap", help="a cluster to use (default: an embedded one)")
    parser.add_argument("--kill", type=int, nargs="?", const=2, default=0, metavar="TIMES", help="2 if not said")
    parser.add_argument("--orders", type=int, default=20_000, help="at least as many")
    parser.add_argument("--rate", type=float, default=1000, help="orders a second")
    parser.add_argument("--out", type=Path, default=Path("build/pipeline"), help="is emptied first")
    options = parser.parse_args()
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        sys.exit("Spark needs Java 17 or newer, and there is none on the PATH")
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    return asyncio.run(run(options))


if __name__ == "__main__":
    sys.exit(main())
