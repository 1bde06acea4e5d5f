"""The admin client: its life, and a class for each area of its calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self, Unpack

from .._io.admin import Calls
from .._io.client import Client
from .._io.pushed_metrics import PushedMetrics
from .._options.arguments import TIMEOUT
from .._options.checks import boolean, discreet
from ..config import AdminConfig, AdminOptions
from ..metrics import MetadataMetrics
from .acls import AclCalls
from .brokers import BrokerCalls
from .cluster import ClusterCalls
from .configs import ConfigCalls
from .hanging import HangingTransactionCalls
from .quotas import QuotaCalls
from .security import SecurityCalls
from .share_groups import ShareGroupCalls
from .streams_groups import StreamsGroupCalls

__all__ = ["AdminClient"]


class AdminClient(
    ShareGroupCalls,
    StreamsGroupCalls,
    HangingTransactionCalls,
    ConfigCalls,
    AclCalls,
    QuotaCalls,
    SecurityCalls,
    BrokerCalls,
    ClusterCalls,
    PushedMetrics,
):
    """Creates, inspects and changes what a Kafka cluster consists of.

    Use it as ``async with AdminClient("host:9092") as admin``, or await `start` and `stop`.

    Every call ends within its ``timeout_ms`` (``default_api_timeout_ms``) and then raises `RequestTimedOutError` with
    what was tried last. What may pass is tried again until then: lost connections, a controller or leader that moved, a
    quota. A call about several items does what it can; if some fail in the end, the first failure is raised: a note on
    it names all that failed, and its ``outcomes`` has what each item has become (see `outcomes_of`). Nothing here ever
    creates a topic but `create_topics`. Arguments that cannot be right raise `ConfigError` (a ValueError) or
    `ConfigTypeError` (a TypeError), and nothing is sent then.
    """

    @discreet
    def __init__(self, bootstrap_servers: str | Iterable[str], **options: Unpack[AdminOptions]) -> None:
        self._set_up(AdminConfig.from_options(bootstrap_servers, options))

    def _set_up(self, config: AdminConfig, parent: Client | None = None) -> None:
        self._close_timeout_ms = config.close_timeout_ms
        self._client = Client(config, parent=parent)
        self._client.facade = type(self).__name__
        self._calls = Calls(self._client, config.default_api_timeout_ms)

    async def start(self, *, wait: bool = True) -> None:
        """Connect to the cluster; without ``wait`` in the background, however long no broker can be reached.

        Raises `KafkaConnectionError` that names each bootstrap server and why it could not be used.
        """
        await self._client.start(wait=boolean("wait", wait))

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Close every connection; ends within ``timeout_ms`` (10000)."""
        await self._client.stop(TIMEOUT("timeout_ms", timeout_ms))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop(self._close_timeout_ms)

    def metrics(self) -> MetadataMetrics:
        """Counts of refreshes, bootstraps and the like since the client was made."""
        return self._client.metadata.metrics()
