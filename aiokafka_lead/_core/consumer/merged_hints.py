"""Leader hints in an answer for several consumers."""

from __future__ import annotations

from ..._wire.messages.fetch import FetchResponse
from ...types import TopicPartition
from ..leadership.hints import FIRST_FETCH_WITH_HINTS, HintReader
from ..metadata.types import LeaderHint
from .merged_ask import MergedRequest

__all__ = ["take_hints"]


def take_hints(sent: MergedRequest, response: FetchResponse) -> list[LeaderHint]:
    """Read the hints once for all consumers; see `HintReader.take`."""
    reader = HintReader(sent.version >= FIRST_FETCH_WITH_HINTS, response.node_endpoints)
    if reader.tells_leaders and response.node_endpoints:
        for topic in response.responses:
            name = topic.topic or sent.names.get(topic.topic_id, "")
            for data in topic.partitions:
                if data.error_code:
                    asked = sent.asked.get(TopicPartition(name, data.partition_index))
                    if asked is not None:
                        reader.take(name, asked.topic_id, data.partition_index, data.error_code, data.current_leader)
    return reader.hints
