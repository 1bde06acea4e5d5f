"""Administration of a Kafka cluster: topics, groups, offsets, configurations, security, transactions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .._io.admin import Calls
from .._io.client import Client, Facade
from .._options.arguments import TIMEOUT
from .._options.checks import boolean, discreet
from ..config import AdminConfig
from .acls import (
    AclBinding,
    AclBindingFilter,
    AclCalls,
    AclOperation,
    AclPatternType,
    AclPermissionType,
    AclResourceType,
)
from .base import outcomes_of
from .brokers import BrokerCalls, LogDirDescription, ReplicaInfo
from .cluster import (
    BrokerDescription,
    ClusterCalls,
    ClusterDescription,
    FeatureDescription,
    FeatureUpdate,
    FeatureUpgradeType,
    FeatureVersions,
    QuorumDescription,
    QuorumReplica,
    RaftVoterEndpoint,
)
from .configs import (
    ConfigCalls,
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
)
from .groups import (
    ClassicGroupDescription,
    ClassicMemberDescription,
    ConsumerGroupDescription,
    ConsumerMemberDescription,
    GroupListing,
    GroupState,
    GroupType,
)
from .hanging_transactions import HangingTransaction, HangingTransactionCalls
from .offsets import OffsetChange, ResetTo, ToOffset, ToShifted
from .partitions import ElectionType, OffsetSpec, PartitionReassignment
from .quotas import ClientQuotaFilter, QuotaCalls, QuotaEntity
from .security import DelegationToken, ScramCredential, ScramDeletion, ScramMechanism, ScramUpsertion, SecurityCalls
from .share_groups import (
    ShareGroupCalls,
    ShareGroupDescription,
    ShareGroupOffset,
    ShareMemberDescription,
    StartOffsetChange,
)
from .streams_groups import (
    StreamsGroupCalls,
    StreamsGroupDescription,
    StreamsMemberDescription,
    StreamsNode,
    StreamsSubtopology,
    StreamsTasks,
    StreamsTopology,
    StreamsTopologyStatus,
)
from .topics import CreatedTopic, NewPartitions, NewTopic, PartitionDescription, TopicDescription, TopicListing
from .transactions import FencedProducer, ProducerState, TransactionDescription, TransactionListing, TransactionState

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..config import AdminOptions
    from ..metrics import MetadataMetrics


__all__ = [
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPatternType",
    "AclPermissionType",
    "AclResourceType",
    "AdminClient",
    "BrokerDescription",
    "ClassicGroupDescription",
    "ClassicMemberDescription",
    "ClientQuotaFilter",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "ConsumerGroupDescription",
    "ConsumerMemberDescription",
    "CreatedTopic",
    "DelegationToken",
    "ElectionType",
    "FeatureDescription",
    "FeatureUpdate",
    "FeatureUpgradeType",
    "FeatureVersions",
    "FencedProducer",
    "GroupListing",
    "GroupState",
    "GroupType",
    "HangingTransaction",
    "LogDirDescription",
    "NewPartitions",
    "NewTopic",
    "OffsetChange",
    "OffsetSpec",
    "PartitionDescription",
    "PartitionReassignment",
    "ProducerState",
    "QuorumDescription",
    "QuorumReplica",
    "QuotaEntity",
    "RaftVoterEndpoint",
    "ReplicaInfo",
    "ResetTo",
    "ScramCredential",
    "ScramDeletion",
    "ScramMechanism",
    "ScramUpsertion",
    "ShareGroupDescription",
    "ShareGroupOffset",
    "ShareMemberDescription",
    "StartOffsetChange",
    "StreamsGroupDescription",
    "StreamsMemberDescription",
    "StreamsNode",
    "StreamsSubtopology",
    "StreamsTasks",
    "StreamsTopology",
    "StreamsTopologyStatus",
    "ToOffset",
    "ToShifted",
    "TopicDescription",
    "TopicListing",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
    "outcomes_of",
]


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
    Facade,
):
    """Client that creates, inspects and changes topics, groups and other parts of a Kafka cluster.

        async with AdminClient("localhost:9092") as admin:
            await admin.create_topics([NewTopic("events", num_partitions=6, replication_factor=3)])
            print(await admin.describe_topics(["events"]))

    Instead of ``async with``, call `start` and `stop`. `AdminOptions` describes the options.

    Each call retries temporary failures, such as a lost connection, a moved controller or leader, or an exceeded quota,
    for at most ``timeout_ms`` (default: ``default_api_timeout_ms``). After that time, it raises a
    `RequestTimedOutError` that describes the last attempt. A change may still take effect after a timeout or a
    cancellation.

    If the response to a successful attempt is lost, the next attempt may fail, for example with
    `TopicAlreadyExistsError`. A note on the error then mentions the lost response.

    A call for several items, such as several topics, completes as many of them as it can. If some items fail
    permanently, the call raises the first failure. A note on this error names the failed items, and its ``outcomes``
    maps each item to its result or its error (see `outcomes_of`).

    Only `create_topics` creates topics; no other call does so as a side effect. Invalid arguments raise `ConfigError`
    (a ValueError) or `ConfigTypeError` (a TypeError) before any request is sent. Every call may also raise the broker's
    error if this user lacks a permission, for example `ClusterAuthorizationFailedError`.
    """

    @discreet
    def __init__(self, bootstrap_servers: str | Iterable[str], **options: Unpack[AdminOptions]) -> None:
        """Check the options, without connecting.

        Raises `ConfigError` or `ConfigTypeError` for an invalid option.
        """
        self._set_up(AdminConfig.from_options(bootstrap_servers, options))

    def _set_up(self, config: AdminConfig, parent: Client | None = None) -> None:
        self._client = Client(config, parent=parent)
        self._client.facade = type(self).__name__
        self._calls = Calls(self._client, config.default_api_timeout_ms)

    async def start(self, *, wait: bool = True, timeout_ms: float | None = None) -> None:
        """Connect to the cluster.

        If ``wait`` is False, the call returns immediately, and the client keeps trying to connect in the background.

        Raises `KafkaConnectionError`, with the reason for each bootstrap server, if no server can be used within
        ``timeout_ms`` (default: ``request_timeout_ms``). Raises authentication and TLS errors unchanged. After an error
        or a cancellation, the client is stopped and cannot be started again.
        """
        await self._client.start(wait=boolean("wait", wait), timeout_ms=TIMEOUT("timeout_ms", timeout_ms))

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Close every connection, within ``timeout_ms`` (default: 10000).

        Calls in progress raise `ClientClosedError`. The method may be called repeatedly.
        """
        await self._client.stop(TIMEOUT("timeout_ms", timeout_ms))

    def metrics(self) -> MetadataMetrics:
        """Return counts of metadata refreshes, bootstraps, and leaders learned from responses (KIP-951).

        The counts begin when the client is created.
        """
        return self._client.metadata.metrics()
