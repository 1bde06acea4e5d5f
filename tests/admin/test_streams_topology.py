"""The topology of a Kafka Streams application, as described by brokers from 4.4 on (KIP-1331)."""

from __future__ import annotations

from aiokafka_lead._wire.messages.streams_group_describe import (
    DescribedGroup,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from aiokafka_lead.admin import StreamsNode, StreamsTopologyStatus
from aiokafka_lead.admin.streams_groups import described


def test_a_topology() -> None:
    source = TopologyDescriptionNode(name="in", node_type=1, source_topics=["orders"], successors=["count"])
    count = TopologyDescriptionNode(name="count", node_type=2, stores=["counts"], successors=["out"])
    sink = TopologyDescriptionNode(name="out", node_type=3, sink_topic="totals")
    group = DescribedGroup(group_id="g", group_state="Stable", assignor_name="sticky", topology_description_status=3)
    group.topology_description = TopologyDescription(
        subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=[source, count, sink])],
        global_stores=[TopologyDescriptionGlobalStore(source=source, processor=count)],
    )
    found = described(group, 1)
    nodes = (
        StreamsNode("in", "source", ("orders",), None, (), ("count",)),
        StreamsNode("count", "processor", (), None, ("counts",), ("out",)),
        StreamsNode("out", "sink", (), "totals", (), ()),
    )
    assert found.topology is not None
    assert found.topology.subtopologies == {"0": nodes}
    assert found.topology.global_stores == (nodes[:2],)
    assert (found.assignor, found.topology_status) == ("sticky", StreamsTopologyStatus.AVAILABLE)


def test_no_topology() -> None:
    found = described(DescribedGroup(group_id="g", group_state="Stable", topology_description_status=1), 1)
    assert found.topology is None
    assert found.topology_status is StreamsTopologyStatus.NOT_STORED


def test_what_a_newer_broker_says() -> None:
    node = TopologyDescriptionNode(name="in", node_type=9)
    group = DescribedGroup(group_id="g", group_state="Stable", topology_description_status=9)
    group.topology_description = TopologyDescription(
        subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=[node])]
    )
    found = described(group, 1)
    assert found.topology is not None
    assert found.topology.subtopologies["0"][0].kind == "unknown"
    assert found.topology_status is StreamsTopologyStatus.UNKNOWN
