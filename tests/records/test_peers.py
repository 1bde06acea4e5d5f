"""The independent codecs of aiokafka and kafka-python: each side reads the other's output."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .material import CODECS, SAMPLE, RecordTuple, built, read, records
from .peers import BUILDERS, READERS
from .variants import VARIANTS

# kafka-python's snappy needs an additional library.
COMBINATIONS = [(peer, name) for peer in BUILDERS for name in CODECS if (peer, name) != ("kafka-python", "snappy")]


def theirs(peer: str, wanted: list[RecordTuple], compression: str) -> bytes:
    builder = BUILDERS[peer](
        magic=2,
        compression_type=CODECS.index(compression),
        is_transactional=False,
        producer_id=9,
        producer_epoch=2,
        base_sequence=4,
        batch_size=10_000_000,
    )
    for offset, (timestamp, key, value, headers) in enumerate(wanted):
        assert builder.append(offset, timestamp, key, value, list(headers)) is not None
    return bytes(builder.build())


def read_by(peer: str, batch: bytes) -> list[RecordTuple]:
    batches = READERS[peer](batch)
    found: list[RecordTuple] = []
    while (view := batches.next_batch()) is not None:
        assert view.validate_crc()
        found += [(r.timestamp, r.key, r.value, tuple(r.headers)) for r in view]
    return found


@pytest.mark.parametrize(("peer", "compression"), COMBINATIONS)
def test_we_read_what_they_write(codec: Any, peer: str, compression: str) -> None:
    batch = theirs(peer, SAMPLE, compression)
    assert read(codec, batch) == SAMPLE
    [view] = codec.read_batches(batch)
    assert (view.producer_id, view.producer_epoch, view.base_sequence) == (9, 2, 4)


@pytest.mark.parametrize(("peer", "compression"), COMBINATIONS)
def test_they_read_what_we_write(codec: Any, peer: str, compression: str) -> None:
    assert read_by(peer, built(codec, SAMPLE, compression)) == SAMPLE


@given(records, st.sampled_from(list(READERS)))
def test_generated_records(wanted: list[RecordTuple], peer: str) -> None:
    batch = built(next(iter(VARIANTS.values())), wanted, producer_id=9, producer_epoch=2, base_sequence=4)
    assert read_by(peer, batch) == wanted
    # kafka-python writes max_timestamp as we do, so identical bytes leave no difference.
    assert theirs(peer, wanted, "none")[21:] == batch[21:]
