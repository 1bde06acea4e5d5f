"""A FastAPI app that publishes an event for every order it accepts.

Run it, with a Kafka cluster at BOOTSTRAP_SERVERS (default: localhost:9092; ``python -m aiokafka_lead.testing --port
9092`` serves one):

    pip install aiokafka-lead[fastapi]
    uvicorn examples.fastapi_orders:app
    curl -X POST localhost:8000/orders -H 'content-type: application/json' -d '{"customer": "ann", "cents": 1250}'

The producer lives as long as the app: the lifespan starts it before the first request and stops it, flushed, after the
last one. Requests share it; each awaits only its own record.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel, Field

from aiokafka_lead import Producer
from aiokafka_lead.errors import KafkaError

TOPIC = os.environ.get("ORDERS_TOPIC", "orders")


class Order(BaseModel):
    """What a customer orders."""

    customer: str = Field(min_length=1)
    cents: int = Field(gt=0)


class Accepted(BaseModel):
    """Where the order's event is in the topic."""

    order_id: str
    partition: int
    offset: int


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start the producer with the app and stop it with the app."""
    servers = os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
    async with Producer(
        servers, client_id="orders-api", delivery_timeout_ms=10_000, request_timeout_ms=5_000
    ) as producer:
        app.state.producer = producer
        yield


app = FastAPI(lifespan=lifespan)


def the_producer(request: Request) -> Producer[bytes, bytes]:
    """The app's producer."""
    producer: Producer[bytes, bytes] = request.app.state.producer
    return producer


@app.post("/orders", status_code=202)
async def accept(order: Order, producer: Annotated[Producer[bytes, bytes], Depends(the_producer)]) -> Accepted:
    """Publish the order; answer once every in-sync replica has it."""
    order_id = str(uuid.uuid4())
    try:
        meta = await producer.send_and_wait(
            TOPIC,
            order.model_dump_json().encode(),
            key=order.customer.encode(),
            headers=[("order-id", order_id.encode())],
        )
    except KafkaError as error:
        raise HTTPException(503, f"the order was not stored: {error}") from error
    return Accepted(order_id=order_id, partition=meta.partition, offset=meta.offset)
