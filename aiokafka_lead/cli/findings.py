"""The findings of `doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    level: Level
    what: str
    cure: str = ""

    def row(self) -> dict[str, Any]:
        return {"level": self.level, "what": self.what, "cure": self.cure or None}


class Findings(list[Finding]):
    """All findings, in the order in which they were made."""

    def ok(self, what: str) -> None:
        self.append(Finding("ok", what))

    def warning(self, what: str, cure: str) -> None:
        self.append(Finding("warning", what, cure))

    def error(self, what: str, cure: str) -> None:
        self.append(Finding("error", what, cure))

    @property
    def failed(self) -> bool:
        """True if there is an error among them."""
        return any(finding.level == "error" for finding in self)
