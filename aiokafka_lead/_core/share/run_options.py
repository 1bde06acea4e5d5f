"""Options of `ShareConsumer.run`."""

from __future__ import annotations

from ..._options.checks import boolean, option
from ..run.options import Fate, HandlingConfig, HandlingOptions


class ShareRunOptions(HandlingOptions, total=False):
    """Options for calling a handler in `ShareConsumer.run`. Times are in milliseconds."""

    retries: int
    """Number of times that a record is delivered again after a handler has raised, counted over all members of the
    group (3). Keep it below the group's limit of deliveries (5 by default), at which brokers drop a record themselves.
    """
    renew_locks: bool
    """Renew the locks of records with slow handlers, if brokers can (True; Apache Kafka 4.2)."""
    dead_letter_topic: str | None
    """Topic for records whose retries are exhausted, or which cannot be deserialized: with their original bytes, and
    the cause in headers (see `DEAD_LETTER_HEADERS`). They are rejected when their dead letter is acknowledged. With
    None they are rejected with an error in the log (None)."""


class ShareRunConfig(HandlingConfig):
    """Checked options of `ShareRunOptions`."""

    renew_locks: bool = option(True, boolean)

    @property
    def _unreadable(self) -> Fate:
        return "reject" if self.on_bad_record == "skip" else super()._unreadable

    @property
    def _given_up(self) -> Fate:
        return "reject" if self.dead_letter_topic is None else "dead_letter"
