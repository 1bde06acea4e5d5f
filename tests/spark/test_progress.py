"""A stream's offsets, and losses between two of them."""

from __future__ import annotations

import json
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead import TopicPartition
from aiokafka_lead.spark import lag
from aiokafka_lead.spark.source.progress import DataLossError, Progress, between, report
from aiokafka_lead.spark.source.ranges import OffsetRange

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OFFSETS = st.dictionaries(
    st.builds(TopicPartition, st.text("abz.-_9", min_size=1, max_size=5), st.integers(0, 30)), st.integers(0, 2**62)
)


@given(OFFSETS, st.none() | OFFSETS, st.randoms(use_true_random=False))
def test_equal_offsets_are_equal_text(
    offsets: dict[TopicPartition, int], began: dict[TopicPartition, int] | None, random: Random
) -> None:
    def mixed(found: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        entries = list(found.items())
        random.shuffle(entries)
        return dict(entries)

    ids = {tp.topic: f"id of {tp.topic}" for tp in offsets}
    text = json.dumps(Progress(offsets, ids, began).to_json())
    other_ids = dict(sorted(ids.items(), reverse=True))
    assert text == json.dumps(Progress(mixed(offsets), other_ids, None if began is None else mixed(began)).to_json())
    assert Progress.from_json(json.loads(text)) == Progress(offsets, ids, began)


def test_sparks_connector_reads_the_offsets_and_nothing_else() -> None:
    # Spark parses the text as a map of maps of numbers (JsonUtils.partitionOffsets).
    found = Progress({T0: 5}, {"t": "an id"}, {T0: 3, T1: 0}).to_json()
    flat = {(topic, int(partition)): at for topic, partitions in found.items() for partition, at in partitions.items()}
    assert flat == {("t", 0): 5}


def test_offsets_of_sparks_connector_are_understood() -> None:
    assert Progress.from_json({"t": {"1": 5, "0": 3}}).offsets == {T0: 3, T1: 5}


def test_ranges_between_two_offsets() -> None:
    ranges, losses = between(Progress({T0: 3, T1: 5}), Progress({T0: 10, T1: 5}), {})
    assert ranges == [OffsetRange("t", 0, 3, 10), OffsetRange("t", 1, 5, 5)]
    assert losses == []


def test_new_partitions_are_read_from_their_first_offset() -> None:
    assert between(Progress({T0: 3}), Progress({T0: 3, T1: 9}), {T1: 0}) == (
        [OffsetRange("t", 0, 3, 3), OffsetRange("t", 1, 0, 9)],
        [],
    )
    assert between(Progress({}), Progress({T1: 9}), {T1: 4})[1] == [
        "partition t-1 is new, but retention has already deleted records before offset 4"
    ]
    assert between(Progress({}), Progress({T1: 9}), {}) == ([], ["partition t-1 is new, but no longer exists"])


def test_a_topic_created_again_is_read_from_its_beginning() -> None:
    start, end = Progress({T0: 500}, {"t": "old"}), Progress({T0: 800}, {"t": "new"})
    assert start.unknown_in(end) == {T0}
    ranges, losses = between(start, end, {T0: 0})
    assert ranges == [OffsetRange("t", 0, 0, 800)]
    assert losses == [
        "topic t was deleted and created again, or is in another cluster: what was not read before is lost"
    ]


def test_a_log_that_was_cut_and_a_partition_that_is_gone() -> None:
    ranges, losses = between(Progress({T0: 500, T1: 1}, {"t": "x"}), Progress({T0: 100}, {"t": "x"}), {})
    assert ranges == []
    assert losses == [
        "partition t-0 was truncated: it ended at offset 500 and now ends at 100",
        "partition t-1 no longer exists",
    ]


def test_losses_fail_the_query_unless_it_is_told_to_go_on() -> None:
    report(["x"], fail=False)
    report([], fail=True)
    with pytest.raises(DataLossError, match=r"^x; y \(set failOnDataLoss=false"):
        report(["x", "y"], fail=True)


def test_no_offset_beyond_an_end() -> None:
    assert Progress({T0: 7, T1: 2}).at_most(Progress({T0: 5})) == Progress({T0: 5})


@pytest.mark.parametrize("end", [None, "3", '"a"', "[1]", '{"logOffset": 3}', '{"shards": {"s-1": "495"}}', "at 7"])
def test_lag_leaves_out_sources_of_other_kinds(end: str | None) -> None:
    ours = SimpleNamespace(startOffset=None, endOffset='{"t": {"0": 5}}', latestOffset='{"t": {"0": 7, "1": 2}}')
    progress: Any = SimpleNamespace(sources=[SimpleNamespace(startOffset=end, endOffset=end, latestOffset=end), ours])
    assert lag(progress) == {T0: 2, T1: 2}


def test_lag_before_the_first_micro_batch() -> None:
    """The query's ``lastProgress`` is then None."""
    assert lag(None) == {}


@pytest.mark.parametrize(("start", "expected"), [('{"t": {"0": 5}}', {T0: 2}), (None, {})])
def test_lag_before_the_end_of_a_micro_batch_is_known(start: str | None, expected: dict[TopicPartition, int]) -> None:
    began = SimpleNamespace(startOffset=start, endOffset=None, latestOffset='{"t": {"0": 7}}')
    progress: Any = SimpleNamespace(sources=[began])
    assert lag(progress) == expected
