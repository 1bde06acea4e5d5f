"""The service that bills each order once: ``python -m shop.billing``. Start up to one process per partition."""

from __future__ import annotations

import asyncio
import logging

from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from aiokafka_lead import Consumer

from .database import add_bill
from .orders import TOPIC, Order
from .settings import Settings

__all__ = ["Billing", "main"]

log = logging.getLogger(__name__)


class Billing:
    """The handler. It can be called in tests, without Kafka."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def handle(self, order: Order, headers: dict[str, str]) -> None:
        """Bill one order. After a crash, an order that was already billed may be delivered again.

        A value that is not an order goes to ``orders.failed`` at once, and an order that fails goes there after its
        retries. Both have the error in their headers. The retries take two minutes, so orders outlast a restart of the
        database.
        """
        order_id = headers["order-id"]
        async with self._engine.begin() as connection:
            is_new = await add_bill(connection, order_id, order.customer, order.cents)
        log.info("order %s of %s %s", order_id, order.customer, "billed" if is_new else "was billed before")


async def main(settings: Settings | None = None) -> None:
    """Bill until SIGTERM, which an orchestrator sends, or Ctrl-C."""
    settings = settings or Settings()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    engine = create_async_engine(settings.database)
    async with Consumer(
        TOPIC,
        bootstrap_servers=settings.bootstrap_servers,
        client_id="shop-billing",
        group_id="billing",
        auto_offset_reset="earliest",
        isolation_level="read_committed",  # the outbox publishes exactly once
        close_timeout_ms=20_000,
    ) as consumer:
        log.info("billing has started")
        await consumer.run(
            Billing(engine).handle,
            concurrency=16,
            retries=20,
            dead_letter_topic=f"{TOPIC}.failed",
            stop_on_signals=True,
            health_port=settings.health_port or None,
        )
    await engine.dispose()
    log.info("billing has ended")


if __name__ == "__main__":
    asyncio.run(main())
