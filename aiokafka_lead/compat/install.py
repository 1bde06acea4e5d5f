"""`install`: ``import aiokafka`` gives this package."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

__all__ = ["install", "uninstall"]

_HERE = __name__.rpartition(".")[0]

_ROOMS = (
    "abc",
    "admin",
    "admin.client",
    "admin.config_resource",
    "admin.new_partitions",
    "admin.new_topic",
    "admin.records_to_delete",
    "client",
    "cluster",
    "consumer",
    "consumer.consumer",
    "consumer.group_coordinator",
    "consumer.subscription_state",
    "coordinator",
    "coordinator.assignors",
    "coordinator.assignors.abstract",
    "coordinator.assignors.range",
    "coordinator.assignors.roundrobin",
    "coordinator.assignors.sticky",
    "coordinator.assignors.sticky.sticky_assignor",
    "coordinator.protocol",
    "errors",
    "helpers",
    "partitioner",
    "producer",
    "producer.message_accumulator",
    "producer.producer",
    "protocol",
    "protocol.admin",
    "protocol.api",
    "protocol.metadata",
    "structs",
    "util",
)
"""Every module that has aiokafka's name for it."""


def install() -> None:
    """Have ``import aiokafka`` and its modules give this package, in this process, from now on; may be called again.

    Call it before anything imports aiokafka: raises RuntimeError if aiokafka itself is imported already, since what
    was taken from it would stay what it is.
    """
    loaded = sys.modules.get("aiokafka")
    if loaded is not None and loaded.__name__ != _HERE:
        raise RuntimeError(
            "aiokafka is imported already: call aiokafka_lead.compat.install() before anything does that"
        )
    for name, module in _modules().items():
        sys.modules[name] = module


def uninstall() -> None:
    """Take back `install`: what is imported from then on is aiokafka itself, where that is installed."""
    for name, module in _modules().items():
        if sys.modules.get(name) is module:
            del sys.modules[name]


def _modules() -> dict[str, ModuleType]:
    rooms = {f"aiokafka.{room}": import_module(f"{_HERE}.{room}") for room in _ROOMS}
    return {"aiokafka": sys.modules[_HERE], **rooms}
