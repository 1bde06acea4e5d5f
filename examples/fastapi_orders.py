"""A FastAPI app that publishes an event for every order it accepts.

Run it, with a Kafka cluster at BOOTSTRAP_SERVERS (default: localhost:9092; ``python -m aiokafka_lead.testing --port
9092`` serves one):

    pip install 'aiokafka-lead[fastapi]' uvicorn
    uvicorn examples.fastapi_orders:app --workers 2 --timeout-graceful-shutdown 20
    curl -X POST localhost:8000/orders -H 'content-type: application/json' -d '{"customer": "ann", "cents": 1250}'

It starts even while Kafka is down; ``/health/ready`` reports when Kafka is available. Every request is answered within
20 s.

The app has no database. If it also wrote orders to a database, a crash could leave an order without its event.
``examples/service`` writes both in one transaction, and an outbox publishes the event.
"""

from __future__ import annotations

import os
import uuid
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from pydantic import BaseModel, Field

from aiokafka_lead import Producer
from aiokafka_lead.fastapi import Kafka

TOPIC = os.environ.get("ORDERS_TOPIC", "orders")

kafka = Kafka(os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"), client_id="orders-api", request_timeout_ms=5_000)
# Every request waits for its record, so records must not linger.
orders = kafka.producer(linger_ms=0, max_block_ms=5_000, delivery_timeout_ms=15_000)

app = FastAPI(lifespan=kafka.lifespan)
app.include_router(kafka.router())
kafka.handle_errors(app)  # 413 and 503


class Order(BaseModel):
    """A customer's order."""

    customer: str = Field(min_length=1)
    cents: int = Field(gt=0)
    note: str = ""


@app.post("/orders", status_code=202)
async def accept(
    order: Order, request: Request, producer: Annotated[Producer[Any, Any], Depends(orders)]
) -> dict[str, str | int]:
    """Publish the order; answer once every in-sync replica has it."""
    order_id = request.headers.get("idempotency-key") or str(uuid.uuid4())
    meta = await producer.send_and_wait(
        TOPIC,
        order.model_dump_json().encode(),
        key=order.customer.encode(),
        headers=[("order-id", order_id.encode())],
    )
    return {"order_id": order_id, "partition": meta.partition, "offset": meta.offset}
