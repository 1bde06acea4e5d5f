"""The producers: many concurrent requests, each of which awaits its record, as a FastAPI handler would."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from itertools import islice

from aiokafka_lead import Producer

from .orders import Order, first_of_next_day, orders

AT_ONCE = 200
"""Number of concurrent requests. It limits how late an event can be: 20 seconds of event time."""
TWICE = 0.05
"""Share of orders that are sent twice, as if the customer pressed the button twice."""
GARBLED = 0.001
"""Share of requests with an additional invalid event, as if other programs also wrote to the topic."""


class Shop:
    """Accepts orders, and keeps a list of them."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._chance = random.Random(1)
        self.accepted: list[Order] = []
        """Every order that was acknowledged, once."""
        self.sent = 0
        """Number of events: every order, its duplicates, garbled events, and the event that closes the day."""
        self.twice = 0
        self.garbled = 0

    async def accept(self, order: Order) -> None:
        """Accept one request; return once every in-sync replica has the order."""
        key, value = order.order_id.encode(), order.event()
        times = 2 if self._chance.random() < TWICE else 1
        if self._chance.random() < GARBLED:
            await self._send(key, value[:-1])
            self.garbled += 1
        for _ in range(times):
            await self._send(key, value)
        self.twice += times - 1
        self.accepted.append(order)

    async def _send(self, key: bytes, value: bytes) -> None:
        await self._producer.send_and_wait(self._topic, value, key=key)
        self.sent += 1

    async def serve(self, least: int, rate: float, enough: Callable[[], bool]) -> None:
        """Accept ``rate`` orders a second until there are ``least`` orders, and ``enough`` returns True."""
        customers = orders()
        started, served = time.monotonic(), 0
        while served < least or not enough():
            some = list(islice(customers, AT_ONCE))
            await asyncio.gather(*map(self.accept, some))
            served += len(some)
            await asyncio.sleep(max(0.0, started + served / rate - time.monotonic()))

    async def close_day(self) -> None:
        """Begin the next day, of which there is no report yet."""
        await self._send(b"next-day", first_of_next_day().event())
