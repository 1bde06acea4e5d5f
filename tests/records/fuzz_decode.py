"""Fuzz the decoder: ``python -m tests.records.fuzz_decode -max_total_time=300`` (needs the ``fuzz`` extra: atheris).

Coverage of the plain Python source guides the fuzzer. The compiled codec decodes each input, too, and both must return
the same records, or the same error. The arguments are passed to libFuzzer: a folder keeps the corpus, and files are
only replayed, with both codecs.

To check the memory of the compiled codec, build with ``CFLAGS=-fsanitize=address`` and run ``LD_PRELOAD=$(gcc
-print-file-name=libasan.so) PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 python -m pytest tests/records``, and this
module in the same way with the corpus's files.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import tempfile
from pathlib import Path
from typing import Any

import atheris

from aiokafka_lead.errors import BatchTooLargeError, CorruptRecordError
from aiokafka_lead.types import TimestampType
from tests.records.peers import LEGACY_BUILDERS
from tests.records.variants import VARIANTS, pure

_MAX_DECOMPRESSED_BYTES = 1 << 20


def outcome(codec: Any, data: bytes) -> list[Any]:
    """Return all results of a codec for ``data``; the last one is the error's text if it refuses."""
    seen: list[Any] = []
    try:
        for batch in codec.read_batches(data, check_crcs=False, max_decompressed_bytes=_MAX_DECOMPRESSED_BYTES):
            seen.append(repr(batch))
            seen.append((batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.leader_epoch))
            seen.append(batch.max_timestamp_ms)
            try:
                seen.append([repr(record) for record in batch.records("t", 1, batch.base_offset + 1)])
            except (BatchTooLargeError, CorruptRecordError) as error:
                seen.append(str(error))
            try:
                columns = batch.columns(batch.base_offset + 1)
                seen.append((columns.offsets, columns.timestamps_ms, columns.keys, columns.values, columns.headers))
                index = columns.index
                seen.append((index.packed_keys(), index.packed_values(), bool(index.has_headers())))
                seen.append(batch.control_type() if batch.is_control else None)
            except (BatchTooLargeError, CorruptRecordError) as error:
                seen.append(str(error))
    except (BatchTooLargeError, CorruptRecordError) as error:
        seen.append(str(error))
    return seen


def check(data: bytes) -> None:
    """Compare both variants, on the data as it is and on the data as the records of a valid batch."""
    for stream in (data, _as_records(data)):
        outcomes = [outcome(codec, stream) for codec in VARIANTS.values()]
        if any(one != outcomes[0] for one in outcomes):
            raise AssertionError(f"the variants differ: {outcomes}")


def _as_records(data: bytes) -> bytes:
    batch = bytearray(61) + data
    pure.layout.write_header(batch, 5, 1, data[0] & 0x30 if data else 0, 20, 7, 9, -1, -1, -1, min(20, len(data) // 7))
    return bytes(batch)


def seeds() -> list[bytes]:
    """Write batches of every kind, for the fuzzer to start from."""
    headers = [("trace", b"abc"), ("", None), ("k" * 70, b"")]
    records = [
        pure.StoredRecord(1_700_000_000_000, b"key", b"value", headers),
        pure.StoredRecord(1_699_999_999_000, None, b""),
        pure.StoredRecord(0, b"", None, headers[:1], 7),
        pure.StoredRecord(2**62, b"k" * 200, b"v" * 9000),
    ]
    found = [
        pure.build_batch(records, base_offset=100, compression=codec, timestamp_type=kind)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd")
        for kind in (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)
    ]
    found.append(
        pure.control_batch(
            pure.ControlType.COMMIT, base_offset=3, timestamp_ms=5, producer_id=7, producer_epoch=1, leader_epoch=2
        )
    )
    found.append(found[0] + found[-1])
    found.append(b"".join(bytes(pure.encoder.encode_record(i, 0, b"k", b"v", headers)) for i in range(4)))
    return found + legacy_seeds()


def legacy_seeds() -> list[bytes]:
    """Return messages of formats 0 and 1, written by another client."""
    found = []
    for magic, codec in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)):
        builder = LEGACY_BUILDERS["aiokafka"](magic, codec, 1 << 20)
        for offset in range(3):
            builder.append(offset, timestamp=5, key=b"key", value=b"value" * offset)
        found.append(bytes(builder.build()))
    return found


def main() -> None:
    instrument: Any = atheris.instrument_func  # pyright: ignore[reportAttributeAccessIssue]
    for name in ("decoder", "batch", "reading", "legacy", "compression.snappy"):
        module = importlib.import_module(f"{pure.__name__}.{name}")
        for _, member in inspect.getmembers(module):
            if inspect.isfunction(member):
                instrument(member)
            elif inspect.isclass(member) and member.__module__ == module.__name__:
                for _, method in inspect.getmembers(member, inspect.isfunction):
                    instrument(method)
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(seeds()):
            Path(folder, f"seed-{number}").write_bytes(seed)
        replayed = any(Path(argument).is_file() for argument in sys.argv[1:])
        atheris.Setup(sys.argv if replayed else [*sys.argv, folder, "-max_len=16384"], check)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
