"""The app that takes orders: ``uvicorn --factory shop.api:create_app``.

An order and its event are written in one transaction of the database, so a request does not need Kafka. The app's
replicas also share the work of publishing the outbox.
"""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Header
from sqlalchemy.ext.asyncio import create_async_engine

from aiokafka_lead.fastapi import Kafka
from aiokafka_lead.outbox import Relay

from .database import add_order, outbox, total_of
from .orders import TOPIC, Order
from .settings import Settings

__all__ = ["create_app"]


def create_app(settings: Settings | None = None) -> FastAPI:
    """Create the app, with its connections to the database and the cluster."""
    settings = settings or Settings()
    engine = create_async_engine(settings.database)
    kafka = Kafka(settings.bootstrap_servers, client_id="shop-api", request_timeout_ms=5_000, close_timeout_ms=10_000)
    relay = kafka.relay(outbox, engine, transactional_id="shop-outbox")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with kafka.lifespan(app):
            yield
        await engine.dispose()

    app = FastAPI(lifespan=lifespan)
    app.include_router(kafka.router())  # /health/live, /health/ready, /metrics

    @app.post("/orders", status_code=202)
    async def accept(
        order: Order,
        published: Annotated[Relay, Depends(relay)],
        idempotency_key: Annotated[str | None, Header()] = None,
    ) -> dict[str, str]:
        """Take an order. Requests with the same ``Idempotency-Key`` are the same order."""
        order_id = idempotency_key or str(uuid.uuid4())
        async with engine.begin() as connection:
            if await add_order(connection, order_id, order.customer, order.cents):
                event, key = order.model_dump_json().encode(), order.customer.encode()
                await outbox.enqueue(connection, TOPIC, event, key, idempotence_key=order_id)
        published.wake()
        return {"order_id": order_id}

    @app.get("/customers/{customer}/total")
    async def total(customer: str) -> dict[str, int]:
        """Return the sum billed so far."""
        async with engine.connect() as connection:
            return {"cents": await total_of(connection, customer)}

    return app
