"""Defaults and checks of the options of `ShareConsumer.run`."""

from __future__ import annotations

from ..._options.checks import boolean, option
from ..run.options import Fate, HandlingConfig


class ShareRunConfig(HandlingConfig):
    """The options of `ShareRunOptions` after they were checked."""

    renew_locks: bool = option(True, boolean)

    @property
    def _unreadable(self) -> Fate:
        return "reject" if self.on_bad_record == "skip" else super()._unreadable

    @property
    def _given_up(self) -> Fate:
        return "reject" if self.dead_letter_topic is None else "dead_letter"
