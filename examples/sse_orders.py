"""Server-sent events: one consumer for the process, and every browser that listens gets what it reads.

    pip install aiokafka-lead[fastapi]
    uvicorn examples.sse_orders:app --timeout-graceful-shutdown 2
    curl -N localhost:8000/orders

Each instance reads all of the topic, without a group, from when it starts. The server's own signals end it: uvicorn
ends the streams that are open after its bound, then the lifespan stops the consumer. A browser that does not keep up is
dropped, and comes again by itself; it costs neither memory nor anybody else's time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

from aiokafka_lead import Consumer, ConsumerRecord

TOPIC = os.environ.get("ORDERS_TOPIC", "orders")
QUEUED = 100
"""Events that may wait for one browser."""


class Hub:
    """Gives every listener what is published while it listens."""

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
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._listeners.discard(queue)

    def _end(self, queue: asyncio.Queue[str | None]) -> None:
        self._listeners.discard(queue)
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)


def event_of(record: ConsumerRecord[bytes | None, bytes | None]) -> str:
    """The record as an event. A line break would end a field of it."""
    text = (record.value or b"").decode(errors="replace").replace("\r", " ").replace("\n", "\ndata: ")
    return f"id: {record.partition}-{record.offset}\ndata: {text}\n\n"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Read as long as the app runs."""
    servers = os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
    hub = app.state.hub = Hub()

    async def read() -> None:
        async for record in consumer:
            hub.publish(event_of(record))

    async with Consumer(TOPIC, bootstrap_servers=servers, client_id="orders-sse") as consumer:
        app.state.consumer = consumer
        reading = asyncio.create_task(read())
        try:
            yield
        finally:
            hub.close()
            reading.cancel()
            await asyncio.wait([reading])


app = FastAPI(lifespan=lifespan)


@app.get("/orders")
async def orders(request: Request) -> StreamingResponse:
    """The orders from now on."""
    return StreamingResponse(request.app.state.hub.listen(), media_type="text/event-stream")


@app.get("/live")
async def live(request: Request) -> JSONResponse:
    """For an orchestrator: whether it reads."""
    health = request.app.state.consumer.health()
    return JSONResponse({"problems": health.problems}, 200 if health.healthy else 503)
