"""Findings of the report, passed as JSON from the batch job to the program that shows them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self


@dataclass(frozen=True)
class Window:
    """The orders of a window of time, as sent by the shops and as counted by Spark."""

    start: str
    sent: int
    counted: int
    cents_sent: int
    cents_counted: int


@dataclass(frozen=True)
class Report:
    """The takings, and the comparison with the orders sent."""

    events: int
    """Number of records in the topic of orders."""
    lost: int
    repeated: int
    wrong: int
    """Number of sums that differ."""
    rows: int
    """Expected number of sums."""
    published: int
    """Number of sums in the topic of takings."""
    windows: list[Window]

    def is_exact(self, sent: int) -> bool:
        """Return True if every order was counted once, and the topic has each sent event once."""
        return not (self.lost or self.repeated or self.wrong) and self.published == self.rows and self.events == sent

    def to_json(self) -> str:
        """Return the report as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the output of `to_json`."""
        fields = json.loads(text)
        return cls(**fields | {"windows": [Window(**window) for window in fields["windows"]]})
