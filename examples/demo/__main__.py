"""Send events while all leaders move, and a broker dies and returns at another address. No event is lost.

    make demo                                        # an embedded cluster of three brokers
    python -m examples.demo --bootstrap HOST:PORT    # a real cluster: moves leaders; kill brokers yourself

Two loads run at the same time: this client with its defaults, and with ``leader_hint_policy="off"``. The second load
finds moved leaders with a metadata refresh, like clients without KIP-951. Every event contains its number and the time
at which it was sent. An auditor consumes the events, and measures their latencies. The exit status is 0 only if every
event of both loads was acknowledged and consumed exactly once. Needs the ``demo`` extra.
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import uuid
from contextlib import AsyncExitStack
from typing import Literal

import anyio
from rich.console import Console

from .load import connected_load
from .screen import Screen
from .trouble import embedded, real

HINTS: list[Literal["trust", "off"]] = ["trust", "off"]


async def run(options: argparse.Namespace) -> bool:
    """Run the demo; return True if every event was consumed exactly once."""
    name = f"demo-{uuid.uuid4().hex[:8]}"
    topics = [name, f"{name}-hints-off"]
    cluster = (
        real(options.bootstrap, topics, options.partitions)
        if options.bootstrap
        else embedded(topics, options.partitions)
    )
    async with AsyncExitStack() as stack:
        trouble = await stack.enter_async_context(cluster)
        loads = [
            await stack.enter_async_context(
                connected_load(label, trouble.bootstrap_servers, topic, hints, lambda: trouble.phase)
            )
            for label, topic, hints in zip(("with hints", "hints off"), topics, HINTS, strict=True)
        ]
        screen = Screen(Console(highlight=False), trouble, loads, options.seconds)
        gc.freeze()  # otherwise a full garbage collection of all imported objects causes a noticeable pause
        async with anyio.create_task_group() as shown:
            shown.start_soon(screen.show)
            async with anyio.create_task_group() as tasks:
                for load in loads:
                    tasks.start_soon(load.run, options.rate)
                await trouble.make(options.seconds)
                for load in loads:
                    load.end()
            shown.cancel_scope.cancel()
    screen.close()
    return all(load.is_exact for load in loads)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        "examples.demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap", help="HOST:PORT of a real cluster; default: an embedded one")
    parser.add_argument("--seconds", type=float, default=15, help="duration")
    parser.add_argument("--rate", type=float, default=500, help="events per second of each load")
    parser.add_argument("--partitions", type=int, default=30, help="number of partitions of each load's topic")
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    options = parser.parse_args()
    logging.getLogger("aiokafka_lead").addHandler(logging.NullHandler())  # the screen shows dead brokers
    status = 1
    try:
        if anyio.run(run, options, backend=options.backend):
            status = 0
    except* KeyboardInterrupt:  # trio raises it in an exception group
        status = 130
    sys.exit(status)


if __name__ == "__main__":
    main()
