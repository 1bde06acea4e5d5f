"""Log lines that say which client they are of, and what they are about."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ..errors import KafkaError
from ..errors.shown import one_line
from ..types import TopicPartition

__all__ = ["FIELDS", "ClientLog", "client_log"]

FIELDS = ("client_id", "broker", "topic", "partition", "api")
"""Attributes that every `logging.LogRecord` of this package has; None where the line is about no such thing."""


class ClientLog(logging.LoggerAdapter[logging.Logger]):
    """A plain logger, each of whose lines begins with the client's id, and whose log records have `FIELDS`.

    The fields come from ``extra``, and from what the line names: a `TopicPartition`, an error of a broker.
    """

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
            try:
                text = str(msg) % args if args else str(msg)
            except Exception:  # that of an error of the application's which cannot be shown: the class has to do
                args = tuple(type(arg).__name__ if isinstance(arg, BaseException) else arg for arg in args)
                text = str(msg) % args
            line = (f"%s: {msg}", self.client_id, *args) if args else ("%s: %s", self.client_id, msg)
            # Names and texts of brokers are in some lines; those that would break a log go in as one escaped text.
            if (safe := one_line(text)) is not text:
                line = ("%s: %s", self.client_id, safe)
            fields = {"client_id": self.client_id, **_named(args), **(kwargs.pop("extra", None) or {})}
            kwargs["extra"] = {**_NO_FIELDS, **fields}
            self.logger.log(level, *line, stacklevel=stacklevel, **kwargs)


_NO_FIELDS = dict.fromkeys(FIELDS)


def _named(args: tuple[object, ...]) -> Mapping[str, object]:
    """The fields of what a line is about."""
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
    """The log of one client, for ``aiokafka_lead.<area>``."""
    return ClientLog(logging.getLogger(f"aiokafka_lead.{area}"), client_id)
