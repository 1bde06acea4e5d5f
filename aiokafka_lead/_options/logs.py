"""Logs that name their client and carry structured fields."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ..errors import KafkaError
from ..errors.shown import one_line
from ..types import TopicPartition

FIELDS = ("client_id", "broker", "topic", "partition", "api")
"""Attributes of every `logging.LogRecord` of this package. None if they do not apply to the message."""


class ClientLog(logging.LoggerAdapter[logging.Logger]):
    """A logger whose messages begin with the client's id, and whose log records have the `FIELDS`.

    The values of the fields come from ``extra``, and from arguments such as a `TopicPartition` or the error of a
    broker.
    """

    def __init__(self, logger: logging.Logger, client_id: str) -> None:
        super().__init__(logger, None)
        self.client_id = client_id
        self._said: set[str] = set()

    def warn_once(self, text: str) -> None:
        """Log a warning, but only once per client."""
        if text not in self._said:
            self._said.add(text)
            self.warning("%s", text, stacklevel=2)

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a message with the source line of the caller. All other methods call this one."""
        if self.isEnabledFor(level):
            stacklevel = kwargs.pop("stacklevel", 1) + 1
            try:
                text = str(msg) % args if args else str(msg)
            except Exception:  # the repr of an application's exception has failed, so show only the name of its class
                args = tuple(type(arg).__name__ if isinstance(arg, BaseException) else arg for arg in args)
                text = str(msg) % args
            line = (f"%s: {msg}", self.client_id, *args) if args else ("%s: %s", self.client_id, msg)
            # Some messages contain names and texts from brokers. If these would break the log, escape the whole
            # message.
            if (safe := one_line(text)) is not text:
                line = ("%s: %s", self.client_id, safe)
            fields = {"client_id": self.client_id, **_named(args), **(kwargs.pop("extra", None) or {})}
            kwargs["extra"] = {**_NO_FIELDS, **fields}
            self.logger.log(level, *line, stacklevel=stacklevel, **kwargs)


_NO_FIELDS = dict.fromkeys(FIELDS)


def _named(args: tuple[object, ...]) -> Mapping[str, object]:
    """Return the log fields whose values are found among the arguments of a message."""
    found: dict[str, object] = {}
    for arg in args:
        if isinstance(arg, TopicPartition):
            found["topic"], found["partition"] = arg
        elif isinstance(arg, KafkaError):
            if arg.broker is not None:
                found["broker"] = arg.broker
            if arg.api is not None:
                found["api"] = arg.api
    return found


def client_log(area: str, client_id: str) -> ClientLog:
    """Return the log of one client, with the logger ``aiokafka_lead.<area>``."""
    return ClientLog(logging.getLogger(f"aiokafka_lead.{area}"), client_id)
