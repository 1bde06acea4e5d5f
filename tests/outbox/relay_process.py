"""A relay in a separate process, to be killed: ``python -m tests.outbox.relay_process URL SERVERS [ID]``."""

from __future__ import annotations

import asyncio
import logging
import sys

from sqlalchemy.ext.asyncio import create_async_engine

from aiokafka_lead import Client
from aiokafka_lead.outbox import Outbox, Relay, RelayOptions


async def main(url: str, servers: str, transactional_id: str | None = None) -> None:
    """Publish until killed."""
    engine = create_async_engine(url, pool_pre_ping=True)
    options: RelayOptions = {"lease_ms": 3_000, "max_records": 100, "transactional_id": transactional_id}
    async with Client(servers, client_id="relay") as client:
        await Relay(Outbox(), engine, client, **options).run(stop_on_signals=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(main(*sys.argv[1:]))
