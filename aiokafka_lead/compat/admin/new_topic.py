"""`NewTopic`, in a module of the same name as in aiokafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import IllegalArgumentError

__all__ = ["NewTopic"]


class NewTopic:
    """Topic to create.

    Give either the numbers of partitions and replicas, or -1 for both and the replicas of each partition.
    """

    def __init__(
        self,
        name: str,
        num_partitions: int,
        replication_factor: int,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        topic_configs: Mapping[str, str] | None = None,
    ) -> None:
        if (num_partitions == -1 or replication_factor == -1) is (replica_assignments is None):
            raise IllegalArgumentError(
                "either num_partitions/replication_factor or replica_assignment must be specified"
            )
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignments = dict(replica_assignments or {})
        self.topic_configs = dict(topic_configs or {})
