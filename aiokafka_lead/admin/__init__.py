"""Administration of a Kafka cluster."""

from __future__ import annotations

from .acls import AclBinding, AclBindingFilter, AclOperation, AclPatternType, AclPermissionType, AclResourceType
from .base import outcomes_of
from .brokers import LogDirDescription, ReplicaInfo
from .client import AdminClient
from .cluster import (
    BrokerDescription,
    ClusterDescription,
    FeatureDescription,
    FeatureUpdate,
    FeatureUpgradeType,
    FeatureVersions,
    QuorumDescription,
    QuorumReplica,
    RaftVoterEndpoint,
)
from .configs import ConfigChange, ConfigEntry, ConfigOperation, ConfigResource, ConfigResourceType, ConfigSource
from .groups import (
    ClassicGroupDescription,
    ClassicMemberDescription,
    ConsumerGroupDescription,
    ConsumerMemberDescription,
    GroupListing,
    GroupState,
    GroupType,
)
from .hanging import HangingTransaction
from .offsets import OffsetChange, ResetTo, ToOffset, ToShifted
from .partitions import ElectionType, OffsetSpec, PartitionReassignment
from .quotas import ClientQuotaFilter, QuotaEntity
from .security import DelegationToken, ScramCredential, ScramDeletion, ScramMechanism, ScramUpsertion
from .share_groups import ShareGroupDescription, ShareGroupOffset, ShareMemberDescription, StartOffsetChange
from .streams_groups import (
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
