"""The whole pipeline on this machine: ``python -m examples.pipeline [--kill [TIMES]] [--bootstrap HOST:PORT]``.

Shops publish orders, a streaming job writes their sums to Parquet, and a batch job reports. With ``--kill`` the driver
of the streaming job is killed (SIGKILL) in the middle of its work, and restarted. It continues from its checkpoint, and
neither loses an order nor counts one twice. The report verifies this against the orders that the shops accepted. The
embedded cluster runs in a separate process. Needs Java 17+ and the extras ``spark`` and ``demo``.
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

from rich.console import Console
from rich.table import Table
from rich.text import Text

from aiokafka_lead import AdminClient, Producer
from aiokafka_lead.admin import NewTopic

from .orders import takings
from .result import Report
from .screen import Stage, Stages
from .shop import Shop

JOB_TIMEOUT_S = 300
PARTITIONS = 6
SHOWN = 12
"""Number of the report's windows that are shown."""


@asynccontextmanager
async def embedded_cluster() -> AsyncIterator[str]:
    """Yield the bootstrap servers of a cluster in another process."""
    command = ("-m", "aiokafka_lead.testing", "--brokers", "3", "--port", "0")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C must not end it before its clients
    )
    assert process.stdout is not None
    try:
        line = await process.stdout.readline()
        yield line.decode().strip().removeprefix("bootstrap.servers=")
    finally:
        process.terminate()
        await process.wait()


class StreamingJob:
    """The streaming job in separate processes: the driver's Python, its JVM, and its workers."""

    def __init__(self, bootstrap: str, topic: str, directory: Path) -> None:
        self._command = ("-m", "examples.pipeline.stream", bootstrap, topic, str(directory))
        self._log = directory / "stream.log"
        """Output of Spark and the job."""
        self._commits = directory / "checkpoint/commits"
        self._process: Process | None = None
        self._known = 0
        """Number of micro-batches committed before this process."""

    async def start(self) -> None:
        """Start, or start again."""
        self._known = self.committed()
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, *self._command, stderr=log, start_new_session=True
            )

    def committed(self) -> int:
        """Return the number of micro-batches in the checkpoint's commit log."""
        return len(list(self._commits.glob("[0-9]*")))

    async def has_committed(self, more: int) -> None:
        """Wait until this process has committed ``more`` micro-batches; raise RuntimeError if it has ended."""
        while self.committed() < self._known + more:
            assert self._process is not None
            if self._process.returncode is not None:
                raise self._failed()
            await asyncio.sleep(0.01)

    async def kill(self) -> None:
        """Send SIGKILL to the driver and its JVM, so that neither can clean up."""
        if self._process is not None and self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()

    async def end(self) -> None:
        """Wait until the job ends by itself; raise RuntimeError if it fails."""
        assert self._process is not None
        if await self._process.wait():
            raise self._failed()

    def _failed(self) -> RuntimeError:
        return RuntimeError(f"the streaming job has ended: see {self._log}")


async def kill_now_and_then(job: StreamingJob, times: int, stage: Stage) -> None:
    """Kill and restart the job repeatedly, each time within the micro-batch after its first."""
    for number in range(1, times + 1):
        await job.has_committed(1)
        await asyncio.sleep(0.15 * number)
        await job.kill()
        stage.note(f"driver killed after {job.committed()} micro-batches, restarting")
        await job.start()
    await job.has_committed(1)


async def sell(shop: Shop, job: StreamingJob, stages: Stages, options: argparse.Namespace) -> None:
    """Accept orders while the job sums them up, and kill it if requested; then close the day."""
    with stages.stage("Shops take orders", options.orders) as selling, stages.stage("Spark sums them up") as summing:

        async def watch() -> None:
            while True:
                # The shops continue beyond the number of orders until the job has made progress.
                selling.show(f"{len(shop.accepted):,} orders", min(len(shop.accepted), options.orders - 1))
                if not options.kill:
                    summing.show(f"{job.committed()} micro-batches")
                await asyncio.sleep(0.25)

        async with asyncio.timeout(JOB_TIMEOUT_S), asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(watch())
            kills = tasks.create_task(kill_now_and_then(job, options.kill, summing))
            await shop.serve(options.orders, options.rate, enough=kills.done)
            await shop.close_day()
            watching.cancel()
        selling.show(f"{len(shop.accepted):,} orders, {shop.sent:,} events")
        selling.end()
        async with asyncio.timeout(JOB_TIMEOUT_S):
            await job.end()
        summing.show(f"{job.committed()} micro-batches{killed(options.kill)}")


async def report(shop: Shop, bootstrap: str, topic: str, directory: Path, stages: Stages) -> Report:
    """Run the batch job that compares the takings with the orders that the shops accepted."""
    with (directory / "sent.json").open("w") as file:
        file.writelines(f"{json.dumps(asdict(entry))}\n" for entry in takings(shop.accepted))
    command = ("-m", "examples.pipeline.report", bootstrap, topic, str(directory))
    with stages.stage("Spark writes the report") as stage, (directory / "report.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=log, stderr=log)
        async with asyncio.timeout(JOB_TIMEOUT_S):
            if await process.wait():
                raise RuntimeError(f"the report failed: see {directory / 'report.log'}")
        made = Report.from_json((directory / "report.json").read_text())
        stage.show(f"{made.published} rows published")
    return made


async def run(options: argparse.Namespace) -> int:
    """Run the pipeline, from the first order to the report; return the exit status, 0 if the report is exact."""
    directory: Path = options.out
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    async with AsyncExitStack() as stack:
        stages = stack.enter_context(Stages())
        with stages.stage("Kafka starts") as stage:
            bootstrap = options.bootstrap or await stack.enter_async_context(embedded_cluster())
            stage.show(bootstrap if options.bootstrap else "3 brokers in a separate process")
        admin = await stack.enter_async_context(AdminClient(bootstrap))
        topics = [topic, f"{topic}-takings"]
        await admin.create_topics([NewTopic(name, PARTITIONS, -1) for name in topics])
        stack.push_async_callback(admin.delete_topics, topics)
        job = StreamingJob(bootstrap, topic, directory)
        await job.start()
        stack.push_async_callback(job.kill)
        shop = Shop(await stack.enter_async_context(Producer(bootstrap)), topic)
        await sell(shop, job, stages, options)
        made = await report(shop, bootstrap, topic, directory, stages)
    show(stages.console, made, shop, options)
    return 0 if made.is_exact(shop.sent) else 1


def killed(times: int) -> str:
    """Return the number of kills as the end of a phrase, or an empty string if there were none."""
    return f", killed {'once' if times == 1 else f'{times} times'}" if times else ""


def show(console: Console, report: Report, shop: Shop, options: argparse.Namespace) -> None:
    """Print the takings, and a sentence about the result."""
    table = Table("15 minutes from", box=None, padding=(0, 3, 0, 0), header_style="dim")
    for title in ("orders", "counted", "cents", "summed up"):
        table.add_column(title, justify="right")
    for window in report.windows[:SHOWN]:
        counted = Text(f"{window.counted:,}", style="green" if window.counted == window.sent else "bold red")
        table.add_row(window.start, f"{window.sent:,}", counted, f"{window.cents_sent:,}", f"{window.cents_counted:,}")
    console.print()
    console.print(table)
    if len(report.windows) > SHOWN:
        console.print(f"and {len(report.windows) - SHOWN} more windows", style="dim")
    orders = len(shop.accepted)
    console.print(
        f"\n{report.events:,} events are in the topic, {shop.sent:,} were sent: {orders:,} orders, {shop.twice:,} of "
        f"them twice, {shop.garbled:,} invalid events, and the event that closes the day."
    )
    if report.is_exact(shop.sent):
        verdict = f"Each of {orders:,} orders was counted exactly once, and every sum is right"
    else:
        verdict = f"{report.lost} orders were lost, {report.repeated} counted twice, {report.wrong} sums are wrong"
    verdict += f"; the streaming job was{killed(options.kill)[1:]}." if options.kill else "."
    console.print(f"\n{verdict}", style="bold" if report.is_exact(shop.sent) else "bold red")


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        "examples.pipeline", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap", help="HOST:PORT of a cluster; default: an embedded one")
    parser.add_argument(
        "--kill",
        type=int,
        nargs="?",
        const=2,
        default=0,
        metavar="TIMES",
        help="kill and restart the streaming job; twice if no number is given",
    )
    parser.add_argument("--orders", type=int, default=20_000, help="minimum number of orders")
    parser.add_argument("--rate", type=float, default=1000, help="orders per second")
    parser.add_argument("--out", type=Path, default=Path("build/pipeline"), help="output folder; is emptied first")
    options = parser.parse_args()
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        sys.exit("Spark needs Java 17 or newer, but there is no java on the PATH")
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    try:
        return asyncio.run(run(options))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
