"""StreamsGroupTopologyDescriptionUpdate (API key 93), versions 0.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class TopologyDescriptionNode(Struct):
    __slots__ = ("name", "node_type", "source_topics", "sink_topic", "stores", "successors")
    FIELDS = (
        "name string 0+",
        "node_type int8 0+",
        "source_topics []string 0+",
        "sink_topic string 0+ null 0+ = null",
        "stores []string 0+",
        "successors []string 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        node_type: int = 0,
        source_topics: list[str] = DEFAULT,
        sink_topic: str | None = None,
        stores: list[str] = DEFAULT,
        successors: list[str] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.node_type: int = node_type
        self.source_topics: list[str] = [] if source_topics is DEFAULT else source_topics
        self.sink_topic: str | None = sink_topic
        self.stores: list[str] = [] if stores is DEFAULT else stores
        self.successors: list[str] = [] if successors is DEFAULT else successors


class TopologyDescriptionSubtopology(Struct):
    __slots__ = ("subtopology_id", "nodes")
    FIELDS = (
        "subtopology_id string 0+",
        "nodes []TopologyDescriptionNode 0+",
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        nodes: list[TopologyDescriptionNode] = DEFAULT,
    ) -> None:
        self.subtopology_id: str = subtopology_id
        self.nodes: list[TopologyDescriptionNode] = [] if nodes is DEFAULT else nodes


class TopologyDescriptionGlobalStore(Struct):
    __slots__ = ("source", "processor")
    FIELDS = (
        "source TopologyDescriptionNode 0+",
        "processor TopologyDescriptionNode 0+",
    )

    def __init__(
        self,
        *,
        source: TopologyDescriptionNode = DEFAULT,
        processor: TopologyDescriptionNode = DEFAULT,
    ) -> None:
        self.source: TopologyDescriptionNode = TopologyDescriptionNode() if source is DEFAULT else source
        self.processor: TopologyDescriptionNode = TopologyDescriptionNode() if processor is DEFAULT else processor


class TopologyDescription(Struct):
    __slots__ = ("subtopologies", "global_stores")
    FIELDS = (
        "subtopologies []TopologyDescriptionSubtopology 0+",
        "global_stores []TopologyDescriptionGlobalStore 0+",
    )

    def __init__(
        self,
        *,
        subtopologies: list[TopologyDescriptionSubtopology] = DEFAULT,
        global_stores: list[TopologyDescriptionGlobalStore] = DEFAULT,
    ) -> None:
        self.subtopologies: list[TopologyDescriptionSubtopology] = [] if subtopologies is DEFAULT else subtopologies
        self.global_stores: list[TopologyDescriptionGlobalStore] = [] if global_stores is DEFAULT else global_stores


class StreamsGroupTopologyDescriptionUpdateResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "error_message")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+ = null",
    )
    NAME = "StreamsGroupTopologyDescriptionUpdate"
    API_KEY = 93
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class StreamsGroupTopologyDescriptionUpdateRequest(Request[StreamsGroupTopologyDescriptionUpdateResponse]):
    __slots__ = ("group_id", "member_id", "topology_epoch", "topology_description")
    FIELDS = (
        "group_id string 0+",
        "member_id string 0+",
        "topology_epoch int32 0+",
        "topology_description TopologyDescription 0+",
    )
    NAME = "StreamsGroupTopologyDescriptionUpdate"
    API_KEY = 93
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = StreamsGroupTopologyDescriptionUpdateResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        topology_epoch: int = 0,
        topology_description: TopologyDescription = DEFAULT,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.topology_epoch: int = topology_epoch
        self.topology_description: TopologyDescription = (
            TopologyDescription() if topology_description is DEFAULT else topology_description
        )
