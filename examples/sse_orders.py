"""Server-sent events: one consumer per process, whose records go to every connected browser.

    pip install 'aiokafka-lead[fastapi]' uvicorn
    uvicorn examples.sse_orders:app --timeout-graceful-shutdown 2
    curl -N localhost:8000/orders

Each instance waits for Kafka when it starts. From then on it reads all partitions of the topic, without a group, and
the probes report whether it is reading. At a signal, uvicorn ends open streams after its timeout, and the lifespan
stops the consumer. A browser that does not keep up is disconnected, and reconnects by itself. It neither delays other
browsers nor uses unbounded memory.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from aiokafka_lead import ConsumerRecord
from aiokafka_lead.fastapi import Kafka

TOPIC = os.environ.get("ORDERS_TOPIC", "orders")
QUEUED = 100
"""Maximum number of queued events for a browser."""
STILL_HERE_S = 15.0
"""Seconds without an event after which a comment is sent, since proxies close idle connections."""


class Hub:
    """Passes published events to every listener."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Queue[str | None]] = set()

    def publish(self, event: str) -> None:
        for queue in list(self._listeners):
            if queue.full():
                self._end(queue)
            else:
                queue.put_nowait(event)

    def close(self) -> None:
        for queue in list(self._listeners):
            self._end(queue)

    async def listen(self) -> AsyncIterator[str]:
        queue: asyncio.Queue[str | None] = asyncio.Queue(QUEUED)
        self._listeners.add(queue)
        try:
            yield ": welcome\n\n"
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), STILL_HERE_S)
                except TimeoutError:
                    event = ": still here\n\n"
                if event is None:
                    return
                yield event
        finally:
            self._listeners.discard(queue)

    def _end(self, queue: asyncio.Queue[str | None]) -> None:
        self._listeners.discard(queue)
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)


def event_of(record: ConsumerRecord[bytes | None, bytes | None]) -> str:
    """Format a record as an event. A line break would end a field, so each line of the text is a data field."""
    text = (record.value or b"").decode(errors="replace").replace("\r", " ").replace("\n", "\ndata: ")
    return f"id: {record.partition}-{record.offset}\ndata: {text}\n\n"


SERVERS = os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")

kafka = Kafka(SERVERS, wait=True, client_id="orders-sse", close_timeout_ms=5_000)
hub = Hub()


@kafka.consumer(TOPIC, auto_offset_reset="latest", run={"order": "partition"})
async def publish(record: ConsumerRecord[bytes | None, bytes | None]) -> None:
    """Pass a record to all current listeners."""
    hub.publish(event_of(record))


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Consume orders while the app runs."""
    async with kafka.lifespan(app):
        try:
            yield
        finally:
            hub.close()


app = FastAPI(lifespan=lifespan)
app.include_router(kafka.router())


@app.get("/orders")
async def orders() -> StreamingResponse:
    """Stream new orders."""
    return StreamingResponse(hub.listen(), media_type="text/event-stream", headers={"cache-control": "no-store"})
