"""Invariants under any answers of brokers, in any order."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._core.metadata.rebootstrap import RebootstrapCause
from aiokafka_lead._core.metadata.state import MetadataState
from aiokafka_lead._core.metadata.types import Broker, ClusterSnapshot, LeaderHint

from .cluster_answers import ID_A, ID_B, answer, broker, hint, merged_ahead, read_whole, topic

NAMES = {"a": ID_A, "b": ID_B}
nodes = st.integers(-1, 5)
epochs = st.integers(-1, 8)
answered_topics = st.builds(
    lambda name, leaders, error: topic(*leaders, name=name, topic_id=NAMES[name], error_code=error),
    st.sampled_from(sorted(NAMES)),
    st.lists(st.tuples(nodes, epochs), max_size=3),
    st.sampled_from([0, 0, 0, 0, 3, 5]),
)
answers = st.tuples(
    st.lists(answered_topics, max_size=2, unique_by=lambda entry: entry.name),
    st.sets(st.integers(1, 4), min_size=1),
    st.sampled_from([8, 9, 12, 13]),
)
hints = st.builds(
    lambda name, partition, leader, epoch, address, error: hint(
        leader,
        epoch,
        name=name,
        topic_id=NAMES[name],
        partition=partition,
        endpoint=broker(leader) if address else None,
        error_code=error,
    ),
    st.sampled_from(sorted(NAMES)),
    st.integers(-1, 3),
    nodes,
    epochs,
    st.booleans(),
    st.sampled_from([6, 6, 74, 3]),
)
steps = st.lists(
    st.one_of(answers, st.lists(hints, min_size=1, max_size=3), st.just(RebootstrapCause.UNAVAILABLE)), max_size=30
)


def frozen(snapshot: ClusterSnapshot) -> object:
    return (
        snapshot.generation,
        dict(snapshot.brokers),
        {name: (entry, tuple(entry.partitions)) for name, entry in snapshot.topics.items()},
        dict(snapshot.topic_names),
    )


def step(state: MetadataState, move: object, now: float) -> None:
    if isinstance(move, RebootstrapCause):
        state.rebootstrap(move)
    elif isinstance(move, tuple):
        topics, known, version = move
        state.apply(read_whole(answer(*topics, brokers=sorted(known)), version), now, NAMES)
    elif isinstance(move, list):
        state.apply_hints(move)


@given(steps)
def test_epochs_of_a_topic_id_only_fall_by_a_rewind(moves: list[object]) -> None:
    state = MetadataState([("boot", 9092)])
    for number, move in enumerate(moves):
        before, rewinds = state.snapshot, state.counters.rewinds
        step(state, move, float(number))
        after = state.snapshot
        fallen = 0
        for name, known in before.topics.items():
            now_known = after.topics.get(name)
            # A topic believed deleted starts again: with no partitions first.
            if now_known is None or not now_known.partitions or now_known.topic_id != known.topic_id:
                continue
            assert len(now_known.partitions) >= len(known.partitions)
            fallen += sum(
                new.leader_epoch < old.leader_epoch
                for old, new in zip(known.partitions, now_known.partitions, strict=False)
            )
        assert fallen == state.counters.rewinds - rewinds


@given(steps)
def test_snapshots_never_change_and_generations_grow(moves: list[object]) -> None:
    state = MetadataState([("boot", 9092)])
    kept: list[tuple[ClusterSnapshot, object]] = [(state.snapshot, frozen(state.snapshot))]
    for number, move in enumerate(moves):
        step(state, move, float(number))
        if state.snapshot is not kept[-1][0]:
            assert state.snapshot.generation > kept[-1][0].generation
            kept.append((state.snapshot, frozen(state.snapshot)))
    for snapshot, meaning in kept:
        assert frozen(snapshot) == meaning


@given(st.lists(st.tuples(answers, st.lists(hints, max_size=2)), max_size=30))
def test_what_is_merged_ahead_is_what_would_be_merged_then(moves: list[tuple[Any, list[LeaderHint]]]) -> None:
    """Even with hints in between."""
    at_once, ahead = MetadataState([("boot", 9092)]), MetadataState([("boot", 9092)])
    for number, ((topics, known, version), offered) in enumerate(moves):
        said = read_whole(answer(*topics, brokers=sorted(known)), version)
        merged = merged_ahead(ahead, said, float(number))
        accepted = [state.apply_hints(offered) for state in (at_once, ahead)]
        applied = [at_once.apply(said, float(number), NAMES), ahead.apply(said, float(number), NAMES, merged)]
        assert accepted[0] == accepted[1]
        assert applied[0].changed == applied[1].changed
        assert offered or applied[0] == applied[1]
        assert frozen(at_once.snapshot) == frozen(ahead.snapshot)
        assert at_once.counters.snapshot() == ahead.counters.snapshot()


@given(steps)
def test_every_view_of_a_snapshot_is_the_same(moves: list[object]) -> None:
    state = MetadataState([("boot", 9092)])
    for number, move in enumerate(moves):
        step(state, move, float(number))
        snapshot = state.snapshot
        single = {
            (name, index): snapshot.partition(name, index)
            for name in NAMES
            for index in range(snapshot.partition_count(name))
        }
        whole = {(name, entry.partition): entry for name, t in snapshot.topics.items() for entry in t.partitions}
        assert single == whole
        for (name, index), entry in whole.items():
            assert (entry.topic, entry.partition) == (name, index)
            assert snapshot.leader(name, index) == (entry.leader_id, entry.leader_epoch)
        assert snapshot.topic_names == {
            entry.topic_id: name for name, entry in snapshot.topics.items() if entry.topic_id.int
        }


@given(steps, st.lists(hints, min_size=1, max_size=5))
def test_an_accepted_hint_leads_where_it_says_and_has_an_address(
    moves: list[object], offered: list[LeaderHint]
) -> None:
    state = MetadataState([("boot", 9092)])
    for number, move in enumerate(moves):
        step(state, move, float(number))
    for single in offered:
        received = state.counters.hints_received
        [accepted] = state.apply_hints([single])
        assert state.counters.hints_received == received + 1
        if accepted:
            where = state.snapshot.leader(single.topic, single.partition)
            assert where == (single.leader_id, single.leader_epoch)
            assert isinstance(state.snapshot.brokers[single.leader_id], Broker)
    counted = state.counters.snapshot()
    assert counted.hints_received == sum(
        getattr(counted, name) for name in vars(counted) if name.startswith(("hints_accepted", "hints_rejected"))
    )
