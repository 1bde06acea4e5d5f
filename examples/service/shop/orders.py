"""The events of the topic "orders": one class for requests, records and handlers."""

from __future__ import annotations

from pydantic import BaseModel, Field

__all__ = ["TOPIC", "Order"]

TOPIC = "orders"


class Order(BaseModel):
    """An order of a customer. PostgreSQL can store every valid order."""

    customer: str = Field(min_length=1, pattern=r"^[^\x00]*$")
    cents: int = Field(gt=0, lt=2**31)
