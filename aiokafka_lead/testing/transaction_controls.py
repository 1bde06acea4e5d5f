"""Controls of the transactions of a cluster."""

from __future__ import annotations

from typing import NamedTuple

from .._options.checks import integer, milliseconds, optional, text
from ..errors import ConfigError
from ..types import TopicPartition
from ._caller import Caller
from ._server.engine import Engine
from ._state.coordinators import TRANSACTION

__all__ = ["TransactionControls", "TransactionView"]

_LAST_EPOCH = 32_766


class TransactionView(NamedTuple):
    """A transactional id in its coordinator's view; ``state`` has the names of DescribeTransactions."""

    state: str
    producer_id: int
    epoch: int
    partitions: tuple[TopicPartition, ...]
    """Parts of the transaction without a marker so far."""
    groups: tuple[str, ...]
    """Consumer groups whose offsets are part of it."""


class TransactionControls:
    """Shows and controls the transactions of an `EmbeddedCluster`."""

    def __init__(self, engine: Engine, call: Caller) -> None:
        self._engine = engine
        self._call = call

    def called_by(self, call: Caller) -> TransactionControls:
        """Return the same controls for another thread: ``call`` runs a function in the cluster's."""
        return TransactionControls(self._engine, call)

    @property
    def marker_delay_ms(self) -> float | None:
        """Time from EndTxn's answer to the markers; 0 at first, None holds them until `write_markers`.

        Until then the transactional id's next requests are answered with CONCURRENT_TRANSACTIONS, and the records stay
        beyond the last stable offset.
        """
        return self._engine.transactions.marker_delay_ms

    @marker_delay_ms.setter
    def marker_delay_ms(self, delay_ms: float | None) -> None:
        self._engine.transactions.marker_delay_ms = optional(milliseconds())("marker_delay_ms", delay_ms)

    def write_markers(self) -> None:
        """Write the markers of every decided transaction."""
        self._call(self._engine.transactions.write_markers)

    def time_out(self, transactional_id: str) -> bool:
        """End an open transaction as if its timeout had passed; return False if none is open."""
        text("transactional_id", transactional_id)
        return self._call(lambda: self._engine.transactions.time_out(transactional_id))

    def use_epochs_up_to(self, transactional_id: str, epoch: int) -> None:
        """Advance to a later epoch outside a transaction: 32766 is followed by another producer id."""
        text("transactional_id", transactional_id)
        integer(0, _LAST_EPOCH)("epoch", epoch)
        self._call(lambda: self._set_epoch(transactional_id, epoch))

    def _set_epoch(self, transactional_id: str, epoch: int) -> None:
        txn = self._engine.transactions.transactions.get(transactional_id)
        if txn is None or txn.state.value == "Ongoing" or txn.epoch > epoch:
            raise ConfigError(f"{transactional_id} is not known, has a transaction open, or a later epoch")
        txn.epoch = epoch

    def forget(self, transactional_id: str) -> None:
        """Make the coordinator forget a transactional id: its open transaction then hangs (KIP-664)."""
        text("transactional_id", transactional_id)
        self._call(lambda: self._engine.transactions.forget(transactional_id))

    def view(self, transactional_id: str) -> TransactionView | None:
        """Return the current state of a transactional id; None for an unknown one."""
        text("transactional_id", transactional_id)
        return self._call(lambda: self._view(transactional_id))

    def _view(self, transactional_id: str) -> TransactionView | None:
        txn = self._engine.transactions.transactions.get(transactional_id)
        if txn is None:
            return None
        partitions = tuple(TopicPartition(partition.topic.name, partition.index) for partition in txn.partitions)
        return TransactionView(txn.state.value, txn.producer_id, txn.epoch, partitions, tuple(txn.groups))

    def coordinator(self, transactional_id: str) -> int:
        """Return the broker that coordinates a transactional id."""
        text("transactional_id", transactional_id)
        return self._call(lambda: self._engine.state.coordinators.of(TRANSACTION, transactional_id))

    def move_coordinator(self, transactional_id: str, to: int | None = None) -> int:
        """Move a transactional id, with its slot, to another broker (the next one). Returns the broker."""
        text("transactional_id", transactional_id)
        if to is not None and integer(0)("to", to) not in self._engine.state.nodes:
            raise ConfigError(f"to must be one of {list(self._engine.state.nodes)}, not {to}")
        return self._call(lambda: self._engine.move_coordinator(TRANSACTION, transactional_id, to))
