"""Controls of parts of an `EmbeddedCluster`: transactions, share groups, logins, and clients' metrics."""

from __future__ import annotations

import secrets
import ssl
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

from .._options.arguments import list_of, map_of, string, topic_name
from .._options.checks import boolean, instance, integer, milliseconds, one_of, optional, text
from .._records.layout import CODEC_NAMES
from ..errors import ConfigError
from ..types import TopicPartition
from ._server.engine import Engine
from ._server.sasl import DelegationToken
from ._state.client_metrics import ACCEPTED, DEFINITIONS, TelemetryPush
from ._state.offsets import TRANSACTION
from ._state.share_partition import SharePartition
from .faults import Caller

_OPTIONS = map_of("str to str", text, optional(string))
_METRICS = list_of("metrics", string)
_MATCH = list_of("match", text)
_CODECS = list_of("compression_types", one_of(*CODEC_NAMES))


class _Controls:
    """Base class of the controls for a part of a running cluster.

    ``call`` runs a function in the thread of the cluster.
    """

    def __init__(self, engine: Engine, call: Caller) -> None:
        self._engine = engine
        self._call = call

    def called_by(self, call: Caller) -> Self:
        """Return the same controls for another thread; ``call`` runs a function in the thread of the cluster."""
        return type(self)(self._engine, call)


class ShareDelivery(NamedTuple):
    """State of the delivery of a record in a share group."""

    offset: int
    state: str
    """``"available"``, ``"acquired"``, ``"acknowledged"`` or ``"archived"``. The last two are final."""
    delivery_count: int
    """Number of deliveries so far."""
    member_id: str
    """Id of the member that holds the record, or an empty str."""


class ShareControls(_Controls):
    """Controls of the share groups of an `EmbeddedCluster`: configs, locks and deliveries."""

    def configure(self, group_id: str, options: Mapping[str, str | None]) -> None:
        """Set configs of a group; a value of None restores the default.

            cluster.shares.configure("workers", {"share.auto.offset.reset": "earliest"})

        This is like `AdminClient.incremental_alter_configs` for a resource of type GROUP. Raises `InvalidConfigError`
        for an unknown config or an invalid value.
        """
        text("group_id", group_id)
        changes = _OPTIONS("options", options)

        def change() -> None:
            configs = self._engine.groups.configs
            merged = {**configs.overrides(group_id), **changes}
            overrides = {name: value for name, value in merged.items() if value is not None}
            configs.check(group_id, overrides)
            configs.replace(group_id, overrides)

        self._call(change)

    def expire_locks(self, group_id: str) -> None:
        """Release all records that the members of a group hold, as if the locks had expired."""
        text("group_id", group_id)

        def expire() -> None:
            for shares in self._of_group(group_id):
                shares.expire_locks()

        self._call(expire)

    def deliveries(self, group_id: str, topic: str, partition: int = 0) -> list[ShareDelivery]:
        """Return the delivery states of a group's records in a partition, starting at the first unfinished record."""
        text("group_id", group_id)
        topic_name("topic", topic)
        integer(0)("partition", partition)

        def look() -> list[ShareDelivery]:
            return [
                ShareDelivery(offset, delivery.state.name.lower(), delivery.count, delivery.member_id)
                for shares in self._of_group(group_id)
                if (shares.partition.topic.name, shares.partition.index) == (topic, partition)
                for batch in shares.batches
                for offset, delivery in batch.records(shares.start_offset, batch.last)
            ]

        return self._call(look)

    def _of_group(self, group_id: str) -> list[SharePartition]:
        return [
            shares
            for node_id in self._engine.state.nodes
            for shares in self._engine.share_broker(node_id).of_group(group_id)
        ]


_LAST_EPOCH = 32_766


class TransactionView(NamedTuple):
    """State of a transactional id at its coordinator. ``state`` is a name as in DescribeTransactions."""

    state: str
    producer_id: int
    epoch: int
    partitions: tuple[TopicPartition, ...]
    """Partitions of the transaction that do not have its marker yet."""
    groups: tuple[str, ...]
    """Consumer groups whose offsets are part of the transaction."""


class TransactionControls(_Controls):
    """Controls of the transactions of an `EmbeddedCluster`: markers, timeouts and coordinators."""

    @property
    def marker_delay_ms(self) -> float | None:
        """Time in milliseconds from the response to EndTxn until the markers are written (default: 0).

        If it is None, only `write_markers` writes them. Until they are written, further requests of the transactional
        id get CONCURRENT_TRANSACTIONS, and the records of the transaction are beyond the last stable offset.
        """
        return self._engine.transactions.marker_delay_ms

    @marker_delay_ms.setter
    def marker_delay_ms(self, delay_ms: float | None) -> None:
        self._engine.transactions.marker_delay_ms = optional(milliseconds())("marker_delay_ms", delay_ms)

    def write_markers(self) -> None:
        """Write the markers of all transactions that have been committed or aborted but still lack them."""
        self._call(self._engine.transactions.write_markers)

    def time_out(self, transactional_id: str) -> bool:
        """Abort an open transaction as if its timeout had passed. Return False if none is open."""
        text("transactional_id", transactional_id)
        return self._call(lambda: self._engine.transactions.time_out(transactional_id))

    def use_epochs_up_to(self, transactional_id: str, epoch: int) -> None:
        """Advance the producer epoch of a transactional id that has no open transaction.

        With an epoch beyond 32766, the next producer gets another producer id. Raises `ConfigError` if the id is
        unknown, has an open transaction, or already has a later epoch.
        """
        text("transactional_id", transactional_id)
        integer(0, _LAST_EPOCH)("epoch", epoch)
        self._call(lambda: self._set_epoch(transactional_id, epoch))

    def _set_epoch(self, transactional_id: str, epoch: int) -> None:
        txn = self._engine.transactions.transactions.get(transactional_id)
        if txn is None or txn.state.value == "Ongoing" or txn.epoch > epoch:
            raise ConfigError(
                f"transactional id {transactional_id} is unknown, has an open transaction, or already has a later epoch"
            )
        txn.epoch = epoch

    def forget(self, transactional_id: str) -> None:
        """Make the coordinator forget a transactional id.

        An open transaction of the id then hangs: no coordinator ends it (KIP-664).
        """
        text("transactional_id", transactional_id)
        self._call(lambda: self._engine.transactions.forget(transactional_id))

    def view(self, transactional_id: str) -> TransactionView | None:
        """Return the current state of a transactional id, or None if it is unknown."""
        text("transactional_id", transactional_id)
        return self._call(lambda: self._view(transactional_id))

    def _view(self, transactional_id: str) -> TransactionView | None:
        txn = self._engine.transactions.transactions.get(transactional_id)
        if txn is None:
            return None
        partitions = tuple(TopicPartition(partition.topic.name, partition.index) for partition in txn.partitions)
        return TransactionView(txn.state.value, txn.producer_id, txn.epoch, partitions, tuple(txn.groups))

    def coordinator(self, transactional_id: str) -> int:
        """Return the id of the broker that coordinates a transactional id, or -1 if no broker is running."""
        text("transactional_id", transactional_id)
        return self._call(lambda: self._engine.state.coordinators.of(TRANSACTION, transactional_id))

    def move_coordinator(self, transactional_id: str, to: int | None = None) -> int:
        """Move a transactional id to another coordinator and return that broker's id.

        ``to`` is the id of a broker (default: the next broker). The move includes all transactional ids that Kafka
        would store in the same partition of ``__transaction_state``.
        """
        text("transactional_id", transactional_id)
        if to is not None and integer(0)("to", to) not in self._engine.state.nodes:
            raise ConfigError(f"to must be one of {list(self._engine.state.nodes)}, not {to}")
        return self._call(lambda: self._engine.move_coordinator(TRANSACTION, transactional_id, to))


class SecurityControls(_Controls):
    """Controls of logins to a running `EmbeddedCluster`."""

    def create_delegation_token(self, owner: str) -> DelegationToken:
        """Create a token with which clients can log in as this user, by SCRAM (KIP-48).

        Raises `ConfigError` unless ``owner`` is one of ``sasl_users``.
        """
        if text("owner", owner) not in (self._engine.options.sasl.users or {}):
            raise ConfigError(f"owner must be one of sasl_users, not {owner!r}")
        token = DelegationToken(owner, secrets.token_urlsafe(16), b64encode(secrets.token_bytes(64)).decode())
        self._call(lambda: self._engine.options.sasl.tokens.setdefault(token.token_id, token))
        return token

    def expire_delegation_token(self, token_id: str) -> None:
        """Make a token invalid for new logins. Open connections stay, as with Kafka."""
        if self._call(lambda: self._engine.options.sasl.tokens.pop(text("token_id", token_id), None)) is None:
            raise ConfigError(f"token_id must be the id of a token, not {token_id!r}")

    def replace_ssl_context(self, context: ssl.SSLContext) -> None:
        """Use this context for later connections. The cluster must have been created with ``ssl_context``."""
        instance(ssl.SSLContext, "an ssl.SSLContext")("context", context)
        if self._engine.options.ssl_context is None:
            raise ConfigError("the cluster does not use TLS: create it with ssl_context")
        self._call(lambda: setattr(self._engine.options, "ssl_context", context))


class TelemetryControls(_Controls):
    """Controls of metric subscriptions in an `EmbeddedCluster` with ``client_telemetry``."""

    def subscribe(
        self, name: str, metrics: Iterable[str] = ("*",), *, interval_ms: int = 300_000, match: Iterable[str] = ()
    ) -> None:
        """Subscribe to the metrics whose names begin with one of these prefixes (default: all metrics).

            cluster.telemetry.subscribe("all", interval_ms=1000, match=["client_id=orders-.*"])

        Clients push the metrics every ``interval_ms`` (default: 300000). ``match`` selects clients, with items such as
        ``"client_id=orders-.*"`` (default: all clients). An earlier subscription with the same ``name`` is replaced.
        This is like `AdminClient.incremental_alter_configs` for a resource of type CLIENT_METRICS. Raises
        `InvalidConfigError` or `InvalidRequestError` for an invalid argument.
        """
        text("name", name)
        options = {
            "metrics": ",".join(_METRICS("metrics", metrics)),
            "interval.ms": str(integer(0)("interval_ms", interval_ms)),
            "match": ",".join(_MATCH("match", match)),
        }
        self._change(name, {option: value for option, value in options.items() if value})

    def unsubscribe(self, name: str) -> None:
        """Remove a subscription."""
        self._change(text("name", name), {})

    def _change(self, name: str, options: Mapping[str, str]) -> None:
        if not self._engine.apis.telemetry:
            raise ConfigError("the cluster does not accept metrics: create it with client_telemetry=True")
        assert options.keys() <= DEFINITIONS.keys()

        def change() -> None:
            self._engine.client_metrics.check(name, options)
            self._engine.client_metrics.replace(name, options)

        self._call(change)

    def accept(
        self,
        compression_types: Iterable[str] = ACCEPTED,
        *,
        max_bytes: int = 1_048_576,
        delta: bool = True,
    ) -> None:
        """Set the pushes that the brokers accept: the codecs, the maximum size in bytes, and the temporality.

        ``delta`` requests the change since the last push; otherwise clients push totals since their start. Only later
        subscriptions are affected.
        """
        codecs = _CODECS("compression_types", compression_types)
        integer(0)("max_bytes", max_bytes)
        boolean("delta", delta)

        def change() -> None:
            metrics = self._engine.client_metrics
            metrics.accepted, metrics.max_bytes, metrics.delta = list(codecs), max_bytes, delta

        self._call(change)

    @property
    def pushes(self) -> list[TelemetryPush]:
        """Pushes from clients, oldest first. The last 10000 are kept."""
        return self._call(lambda: list(self._engine.client_metrics.pushes))
