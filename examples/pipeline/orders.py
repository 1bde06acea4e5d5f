"""Orders, their generator, and the sums that an exact report must show.

Event time advances with the orders, not with the clock, so that no order is late on a slow machine. A day has 864,000
orders.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

DAY = datetime(2026, 3, 2, tzinfo=UTC)
NEXT_DAY = DAY + timedelta(days=1)
BETWEEN_ORDERS = timedelta(milliseconds=100)
WINDOW = timedelta(minutes=15)
PRODUCTS = ("bread", "butter", "coffee", "jam", "tea")


@dataclass(frozen=True)
class Order:
    """An order, with the fields of its event."""

    order_id: str
    product: str
    cents: int
    at: str
    """Time of the order: ISO 8601, UTC."""

    def event(self) -> bytes:
        """Return the record's value."""
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True)
class Takings:
    """Sales of a product in a window of time."""

    start: str
    product: str
    orders: int
    cents: int


def orders(seed: int = 0) -> Iterator[Order]:
    """Yield the day's orders, which depend on the seed only."""
    chance = random.Random(seed)
    at = DAY
    while at < NEXT_DAY:
        identity = f"{chance.getrandbits(64):016x}"
        yield Order(identity, chance.choice(PRODUCTS), chance.randrange(100, 10_000), at.isoformat())
        at += BETWEEN_ORDERS


def first_of_next_day() -> Order:
    """Return the order that closes the day, because only events advance event time."""
    return Order("next-day", PRODUCTS[0], 1, (NEXT_DAY + timedelta(hours=1)).isoformat())


def takings(accepted: Iterable[Order]) -> list[Takings]:
    """Return the expected report, with every order counted once."""
    number: Counter[tuple[str, str]] = Counter()
    cents: Counter[tuple[str, str]] = Counter()
    for order in accepted:
        at = datetime.fromisoformat(order.at)
        window = ((at - (at - DAY) % WINDOW).isoformat(), order.product)
        number[window] += 1
        cents[window] += order.cents
    return [Takings(*window, number[window], cents[window]) for window in sorted(number)]
