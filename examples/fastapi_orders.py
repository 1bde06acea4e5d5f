"""A FastAPI app that publishes an event for every order it accepts.

Run it, with a Kafka cluster at BOOTSTRAP_SERVERS (default: localhost:9092; ``python -m aiokafka_lead.testing --port
9092`` serves one):

    pip install aiokafka-lead[fastapi]
    uvicorn examples.fastapi_orders:app --timeout-graceful-shutdown 10
    curl -X POST localhost:8000/orders -H 'content-type: application/json' -d '{"customer": "ann", "cents": 1250}'

The producer lives as long as the app: the lifespan starts it before the first request and stops it, flushed, after the
last one, within a bound. Requests share it; each awaits only its own record. What a broker says names hosts and
principals: it goes to the log, and never into an answer.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from aiokafka_lead import Producer
from aiokafka_lead.errors import KafkaError, MessageTooLargeError

TOPIC = os.environ.get("ORDERS_TOPIC", "orders")
RETRY_AFTER_SECONDS = "5"
STOP_MS = 5_000
"""Less than an orchestrator grants (Kubernetes: 30 s, from which the last requests take their part)."""

log = logging.getLogger(__name__)


class Order(BaseModel):
    """What a customer orders."""

    customer: str = Field(min_length=1)
    cents: int = Field(gt=0)
    note: str = ""


class Accepted(BaseModel):
    """Where the order's event is in the topic."""

    order_id: str
    partition: int
    offset: int


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start the producer with the app and stop it with the app."""
    servers = os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
    # Every request waits for its own record, so that none may linger; and for less time than a proxy waits for it.
    producer = Producer(
        servers,
        client_id="orders-api",
        linger_ms=0,
        max_block_ms=5_000,
        request_timeout_ms=5_000,
        delivery_timeout_ms=10_000,
    )
    await producer.start()
    app.state.producer = producer
    try:
        yield
    finally:
        del app.state.producer
        await producer.stop(STOP_MS)


app = FastAPI(lifespan=lifespan)


@app.exception_handler(MessageTooLargeError)
async def too_large(request: Request, error: Exception) -> JSONResponse:
    """What cannot ever be stored."""
    return JSONResponse({"detail": "the order is too large"}, 413)


@app.exception_handler(KafkaError)
async def unavailable(request: Request, error: Exception) -> JSONResponse:
    """What may go better later. The order may have been stored all the same: the client's next try has its id."""
    log.warning("%s %s: %r", request.method, request.url.path, error)
    return JSONResponse({"detail": "try again later"}, 503, headers={"Retry-After": RETRY_AFTER_SECONDS})


@app.get("/ready")
async def ready(request: Request) -> JSONResponse:
    """For a load balancer: the producer runs. A cluster that is away is no reason to take the app out."""
    running = hasattr(request.app.state, "producer")
    return JSONResponse({"ready": running}, 200 if running else 503)


def the_producer(request: Request) -> Producer[bytes, bytes]:
    """The app's producer."""
    producer: Producer[bytes, bytes] = request.app.state.producer
    return producer


@app.post("/orders", status_code=202)
async def accept(
    order: Order, request: Request, producer: Annotated[Producer[bytes, bytes], Depends(the_producer)]
) -> Accepted:
    """Publish the order; answer once every in-sync replica has it."""
    order_id = request.headers.get("idempotency-key") or str(uuid.uuid4())
    meta = await producer.send_and_wait(
        TOPIC,
        order.model_dump_json().encode(),
        key=order.customer.encode(),
        headers=[("order-id", order_id.encode())],
    )
    return Accepted(order_id=order_id, partition=meta.partition, offset=meta.offset)
