"""Findings of the report. They travel as JSON from the batch job to the program that shows them."""

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
    """The takings beside the sum of the orders sent."""

    events: int
    """Records in the topic of the orders."""
    lost: int
    repeated: int
    wrong: int
    """Sums that differ."""
    rows: int
    """Sums that there must be."""
    published: int
    """Sums in the topic of the takings."""
    windows: list[Window]

    def is_exact(self, sent: int) -> bool:
        """Return True if every order was counted once, and each event sent is in the topic once."""
        return not (self.lost or self.repeated or self.wrong) and self.published == self.rows and self.events == sent

    def to_json(self) -> str:
        """Return it as JSON, for a file."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the form of `to_json`."""
        fields = json.loads(text)
        return cls(**fields | {"windows": [Window(**window) for window in fields["windows"]]})
