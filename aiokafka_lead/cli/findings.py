"""What `doctor` finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Finding", "Findings"]

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    what: str
    cure: str = ""

    def row(self) -> dict[str, Any]:
        return {"level": self.level, "what": self.what, "cure": self.cure or None}


class Findings(list[Finding]):
    """All of them, in the order in which they were made."""

    def ok(self, what: str) -> None:
        self.append(Finding("ok", what))

    def warning(self, what: str, cure: str) -> None:
        self.append(Finding("warning", what, cure))

    def error(self, what: str, cure: str) -> None:
        self.append(Finding("error", what, cure))

    @property
    def failed(self) -> bool:
        """Whether something is wrong."""
        return any(finding.level == "error" for finding in self)
