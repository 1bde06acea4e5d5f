"""Run an embedded cluster in a separate process, so that its CPU time does not count as the client's.

``python -m benchmarks.embedded [--brokers 3] [--metadata-delay-ms 0]`` prints the bootstrap servers, and runs until
SIGTERM. With ``--metadata-delay-ms``, each Metadata response is delayed after the start. KIP-951 reports "order of few
100 milliseconds" for brokers under load.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec

import anyio

from aiokafka_lead.testing import EmbeddedCluster


@asynccontextmanager
async def embedded_cluster(*, metadata_delay_ms: float = 0) -> AsyncIterator[str]:
    """Run a cluster in another process; yield its bootstrap servers."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.embedded", "--metadata-delay-ms", str(metadata_delay_ms),
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        await process.wait()


async def serve(options: argparse.Namespace) -> None:
    """Serve until SIGTERM."""
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async with EmbeddedCluster(options.brokers) as cluster:
            if options.metadata_delay_ms:
                cluster.faults.add("Metadata", delay_ms=options.metadata_delay_ms)
            # Garbage collection would visit every stored record, and cause pauses that real brokers do not have.
            gc.disable()
            print(cluster.bootstrap_servers, flush=True)
            async for _ in signals:
                break


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--metadata-delay-ms", type=float, default=0)
    anyio.run(serve, parser.parse_args(), backend_options={"use_uvloop": find_spec("uvloop") is not None})


if __name__ == "__main__":
    main()
