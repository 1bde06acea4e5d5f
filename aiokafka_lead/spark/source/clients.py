"""Clients for planning, for the driver and for tasks. They are imported on demand, because a task needs only one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ..._options.checks import INT32_MAX
from ...config import AdminConfig, ConsumerConfig, ProducerConfig
from ..client_loop import ClientLoop
from ..kafka_options import bootstrap_servers, client_options, configuration, kafka_settings

if TYPE_CHECKING:
    from ...admin import AdminClient
    from ...consumer import Consumer
    from ...producer import Producer

CHUNK_RECORDS = 16_384
"""Number of records after which a batch is passed to Spark. The JVM handles large Arrow batches more efficiently."""

_NO_MEMBER = {"group_instance_id": None, "auto_offset_reset": "none", "enable_auto_commit": False}


def check_settings(options: Mapping[str, str]) -> None:
    """Raise ValueError if a consumer does not accept the ``kafka.*`` options."""
    given = client_options(options, ConsumerConfig)
    configuration(options, ConsumerConfig, {**given, **_NO_MEMBER, "group_id": None})


def read_committed(options: Mapping[str, str]) -> bool:
    """Return True if the query reads only committed records."""
    return kafka_settings(options).get("isolation.level", "").strip() == "read_committed"


def admin_client(loop: ClientLoop, options: Mapping[str, str]) -> AbstractContextManager[AdminClient]:
    """Provide an idle or new admin client for the block, connected with the query's options."""
    from ...admin import AdminClient

    servers, given = bootstrap_servers(options), client_options(options, AdminConfig)
    within_ms = configuration(options, AdminConfig, given).default_api_timeout_ms
    return loop.borrow(lambda: AdminClient(servers, **given), _key("admin", options), within_ms)


def task_consumer(loop: ClientLoop, options: Mapping[str, str], within_ms: float) -> AbstractContextManager[Consumer]:
    """Provide a consumer for the ranges of a task. It belongs to no group and ignores ``kafka.group.id``."""
    return _consumer(loop, options, within_ms, group_id=None, max_poll_records=CHUNK_RECORDS)


def task_producer(loop: ClientLoop, options: Mapping[str, str]) -> AbstractContextManager[Producer]:
    """Provide a producer for dead letters. Its start is retried for up to ``kafka.delivery.timeout.ms``.

    Dead letters may exceed the limits for new records, because brokers have already accepted them. They are compressed
    unless an option says otherwise, because uncompressed they might be too large for the topic.
    """
    from ...producer import Producer

    servers = bootstrap_servers(options)
    unlimited = {"max_request_size": INT32_MAX, "buffer_memory": INT32_MAX}
    given = {"compression_type": "gzip", **client_options(options, ProducerConfig), **unlimited}
    within_ms = configuration(options, ProducerConfig, given).delivery_timeout_ms
    return loop.borrow(lambda: Producer(servers, **given), _key("dead letters", options), within_ms)


def group_consumer(loop: ClientLoop, options: Mapping[str, str], group_id: str) -> AbstractContextManager[Consumer]:
    """Provide a consumer that only commits offsets, without joining the group."""
    return _consumer(loop, options, None, group_id=group_id)


def _consumer(
    loop: ClientLoop, options: Mapping[str, str], within_ms: float | None, *, group_id: str | None, **owned: Any
) -> AbstractContextManager[Consumer]:
    from ...consumer import Consumer

    servers, given = bootstrap_servers(options), client_options(options, ConsumerConfig)
    given.update(owned, **_NO_MEMBER, group_id=group_id)
    # The planned topics exist. If one was deleted, creating it automatically would hide the loss.
    given.setdefault("allow_auto_create_topics", False)
    if within_ms is None:
        within_ms = configuration(options, ConsumerConfig, given).default_api_timeout_ms
    key = _key(f"consumer of group {group_id}", options)
    return loop.borrow(lambda: Consumer(bootstrap_servers=servers, **given), key, within_ms)


def _key(kind: str, options: Mapping[str, str]) -> tuple[Any, ...]:
    """Return a key for sharing idle clients between tasks with the same settings. See `ClientLoop.borrow`."""
    return (kind, *sorted(kafka_settings(options).items()))
