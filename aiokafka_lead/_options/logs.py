"""Log lines that say which client they are of."""

from __future__ import annotations

import logging
from typing import Any

from ..errors.shown import one_line

__all__ = ["ClientLog", "client_log"]


class ClientLog(logging.LoggerAdapter[logging.Logger]):
    """A plain logger, each of whose lines begins with the client's id."""

    def __init__(self, logger: logging.Logger, client_id: str) -> None:
        super().__init__(logger, None)
        self.client_id = client_id
        self._said: set[str] = set()

    def warn_once(self, text: str) -> None:
        """A warning that this client gives once."""
        if text not in self._said:
            self._said.add(text)
            self.warning("%s", text, stacklevel=2)

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """What every other method comes down to. The line is that of the caller, not of this one."""
        if self.isEnabledFor(level):
            stacklevel = kwargs.pop("stacklevel", 1) + 1
            line = (f"%s: {msg}", self.client_id, *args) if args else ("%s: %s", self.client_id, msg)
            # Names and texts of brokers are in some lines; those that would break a log go in as one escaped text.
            text = str(msg) % args if args else str(msg)
            if (safe := one_line(text)) is not text:
                line = ("%s: %s", self.client_id, safe)
            self.logger.log(level, *line, stacklevel=stacklevel, **kwargs)


def client_log(area: str, client_id: str) -> ClientLog:
    """The log of one client, for ``aiokafka_lead.<area>``."""
    return ClientLog(logging.getLogger(f"aiokafka_lead.{area}"), client_id)
