"""An app with slow handlers, which receives SIGTERM from the test meanwhile."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import anyio
from fastapi import Depends, FastAPI, Request

from aiokafka_lead import Producer
from aiokafka_lead.fastapi import Kafka

kafka = Kafka(os.environ["BOOTSTRAP_SERVERS"], client_id="app", close_timeout_ms=60_000)
orders = kafka.producer(linger_ms=0)
app = FastAPI(lifespan=kafka.lifespan)
app.include_router(kafka.router())


@app.post("/orders")
async def accept(request: Request, producer: Annotated[Producer[Any, Any], Depends(orders)]) -> int:
    """Publish it, and return the process that did."""
    await producer.send_and_wait("orders", await request.body())
    return os.getpid()


@kafka.consumer("jobs", group_id="g", auto_offset_reset="earliest")
async def work(record: Any) -> None:
    """Wait for a while."""
    sys.stdout.write("begun\n")
    await anyio.sleep(1)
    sys.stdout.write("done\n")
