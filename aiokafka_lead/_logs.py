"""Log lines that say which client they are of."""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["ClientLog", "client_log"]


class ClientLog(logging.LoggerAdapter[logging.Logger]):
    """A plain logger, each of whose lines begins with the client's id."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """What every other method comes down to. The line is that of the caller, not of this one."""
        if self.isEnabledFor(level):
            stacklevel = kwargs.pop("stacklevel", 1) + 1
            self.logger.log(level, f"%s: {msg}", self.extra["client_id"], *args, stacklevel=stacklevel, **kwargs)


def client_log(area: str, client_id: str) -> ClientLog:
    """The log of one client, for ``aiokafka_lead.<area>``; the id is in its records' ``client_id``, too."""
    return ClientLog(logging.getLogger(f"aiokafka_lead.{area}"), {"client_id": client_id})
