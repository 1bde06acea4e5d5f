"""Controls of the share groups of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .._options.arguments import map_of, string, topic_name
from .._options.checks import integer, optional, text
from ._caller import Caller
from ._server.engine import Engine
from ._state.share_partition import SharePartition

__all__ = ["ShareControls", "ShareDelivery"]

_OPTIONS = map_of("str to str", text, optional(string))


class ShareDelivery(NamedTuple):
    """State of a record in a share group."""

    offset: int
    state: str
    """available, acquired, acknowledged or archived: the last two are final."""
    delivery_count: int
    member_id: str
    """The member that has it, or an empty string."""


class ShareControls:
    """Shows and controls the share groups of an `EmbeddedCluster`."""

    def __init__(self, engine: Engine, call: Caller) -> None:
        self._engine = engine
        self._call = call

    def called_by(self, call: Caller) -> ShareControls:
        """Return the same controls for another thread: ``call`` runs a function in the cluster's."""
        return ShareControls(self._engine, call)

    def configure(self, group_id: str, options: Mapping[str, str | None]) -> None:
        """Set options of a group, like `AdminClient.incremental_alter_configs` for a resource of type GROUP.

        None resets one. Raises `InvalidConfigError`.
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
        """End the locks of all records held by members of a group, as if their time had passed."""
        text("group_id", group_id)

        def expire() -> None:
            for shares in self._of_group(group_id):
                shares.expire_locks()

        self._call(expire)

    def deliveries(self, group_id: str, topic: str, partition: int = 0) -> list[ShareDelivery]:
        """Return the records in delivery to a group's members, from the first unfinished one on."""
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
