"""Metrics page for all worker processes of an app. The worker that receives a scrape asks the other workers.

Each worker listens on a socket in the directory named by ``PROMETHEUS_MULTIPROC_DIR``. Its series have its ``pid`` as a
label. The series are not summed, because a sum would decrease when a worker ends, and Prometheus takes a decrease for a
restart. ``sum(rate(...))`` over the counters of the workers is correct.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import ByteStream, SocketListener
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from ._io.run.service import serve

__all__ = ["Scrapes"]

ANSWER_WITHIN_S = 2.0
"""Seconds after which a worker is omitted from the page. Its series continue at the next scrape."""

_END = b"# EOF\n"
"""Last line of a worker's page. If it is missing, the page is truncated, and its last number may lack digits."""

_log = logging.getLogger("aiokafka_lead.fastapi")


class Scrapes:
    """Publishes this worker's series for the other workers, and combines the series of all workers in one page."""

    def __init__(self, directory: str, app: str, page: Callable[[], str]) -> None:
        """Publish the series of this worker in ``directory``. ``page`` returns them as text.

        ``app`` distinguishes the workers of one app from other processes.
        """
        self._directory = Path(directory)
        self._stem = f"aiokafka-lead-{hashlib.sha256(app.encode()).hexdigest()[:12]}-"
        self._page = page
        self._path = self._directory / f"{self._stem}{os.getpid()}.sock"
        self._listener: SocketListener | None = None
        self._scope = anyio.CancelScope()

    async def listen(self) -> None:
        """Listen for the other workers. If that is not possible, log the reason."""
        try:
            self._path.unlink(missing_ok=True)  # left behind by a killed process with the same id
            self._listener = await anyio.create_unix_listener(self._path, mode=0o600)
        except OSError as error:
            _log.warning(
                "other workers cannot show the metrics of this worker: cannot listen at %s: %s", self._path, error
            )

    async def serve(self) -> None:
        """Answer the other workers until `end`."""
        if self._listener is None:
            return
        try:
            with self._scope:
                async with self._listener:
                    await serve(self._listener, self._answer, _log.warning)
        finally:
            self._path.unlink(missing_ok=True)

    def end(self) -> None:
        """End `serve`. Other workers get no more answers."""
        self._scope.cancel()

    async def _answer(self, stream: ByteStream) -> None:
        async with stream:
            with anyio.move_on_after(ANSWER_WITHIN_S), suppress(anyio.BrokenResourceError, OSError):
                await stream.send(self._page().encode() + _END)

    async def workers(self) -> Workers:
        """Return the series of every worker that answers in time."""
        pages = {str(os.getpid()): self._page()}

        async def ask(path: Path) -> None:
            with anyio.move_on_after(ANSWER_WITHIN_S):
                try:
                    async with await anyio.connect_unix(path) as stream:
                        page = b"".join([part async for part in stream])
                    if page.endswith(_END):
                        pages[path.stem.removeprefix(self._stem)] = page.decode()
                except ConnectionRefusedError:
                    _forget(path)
                except (anyio.BrokenResourceError, OSError):
                    return

        async with anyio.create_task_group() as tasks:
            for path in self._directory.glob(f"{self._stem}*.sock"):
                if path.stem.removeprefix(self._stem) not in pages:
                    tasks.start_soon(ask, path)
        return Workers(pages)


def _forget(path: Path) -> None:
    """Remove the socket of a killed process, on which no process is listening."""
    path.unlink(missing_ok=True)


class Workers(Collector):
    """Combines the pages of several workers."""

    def __init__(self, pages: dict[str, str]) -> None:
        self._pages = pages

    def describe(self) -> Iterable[Metric]:
        """Yield no metrics, because the object exists only for a single scrape."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield each metric once, with the series of all workers."""
        found: dict[str, Metric] = {}
        for pid, page in sorted(self._pages.items()):
            for family in text_string_to_metric_families(page):
                merged = found.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                for sample in family.samples:
                    merged.samples.append(sample._replace(labels={**sample.labels, "pid": pid}))
        yield from found.values()
