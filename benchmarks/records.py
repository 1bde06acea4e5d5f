"""Cost of the record codec, compiled and in pure Python, and of aiokafka's codec.

``python -m benchmarks records [--seconds 10]`` prints nanoseconds per record, in batches of 1,000 records. A figure is
the best of all turns in the given time. The codecs take turns in one process, so a busy machine slows all of them
equally.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from tests.records.variants import VARIANTS

from .stats import table

RECORDS = 1_000
NOW = 1_700_000_000_000
ROOM = 2_000_000
Job = Callable[[], object]

KINDS: dict[str, tuple[bytes | None, bytes, list[tuple[str, bytes | None]]]] = {
    "100 B": (None, b"x" * 100, []),
    "100 B, key and header": (b"key-12345", b"x" * 100, [("trace", b"abcdefgh")]),
    "1 KB": (None, b"x" * 1000, []),
}


def ours(codec: Any) -> dict[str, Job]:
    """Return the operations to measure with one variant of the codec."""
    jobs: dict[str, Job] = {}
    values = [b"x" * 100] * RECORDS

    def encode(key: bytes | None, value: bytes, headers: list[tuple[str, bytes | None]]) -> Any:
        builder = codec.BatchBuilder(batch_size=ROOM)
        append = builder.append
        if headers:
            for _ in range(RECORDS):
                append(NOW, key, value, headers)
        else:
            for _ in range(RECORDS):
                append(NOW, key, value)
        return builder.build()

    def encode_in_bulk() -> Any:
        builder = codec.BatchBuilder(batch_size=ROOM)
        builder.append_values(NOW, values, 0)
        return builder.build()

    def batches(data: Any, check_crcs: bool = True) -> Any:
        return next(codec.read_batches(data, check_crcs=check_crcs))

    for name, kind in KINDS.items():
        data = encode(*kind)
        jobs[f"encode {name}"] = lambda kind=kind: encode(*kind)  # type: ignore[misc]
        jobs[f"decode {name}"] = lambda data=data: batches(data).records("t", 0)  # type: ignore[misc]
    small = encode(*KINDS["100 B"])
    jobs["encode 100 B in bulk"] = encode_in_bulk
    jobs["decode 100 B, values only"] = lambda: batches(small).columns().values
    jobs["decode 100 B, index only"] = lambda: batches(small).columns()
    jobs["checksum alone 100 B"] = lambda: batches(small)
    return jobs


def arrow(codec: Any) -> dict[str, Job]:
    """Return the operation that decodes to Apache Arrow, if pyarrow is installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return {}
    builder = codec.BatchBuilder(batch_size=ROOM)
    builder.append_values(NOW, [b"x" * 100] * RECORDS, 0)
    data = builder.build()
    return {"decode 100 B to Arrow": lambda: codec.arrow.to_arrow(next(codec.read_batches(data)).columns())}


def aiokafkas() -> dict[str, Job]:
    """Return the operations to measure with aiokafka's compiled codec."""
    jobs: dict[str, Job] = {}

    def encode(key: bytes | None, value: bytes, headers: list[tuple[str, bytes | None]]) -> bytes:
        builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, ROOM)
        append = builder.append
        for offset in range(RECORDS):
            append(offset, NOW, key, value, headers)
        return bytes(builder.build())

    def decode(data: bytes) -> list[Any]:
        batch: Any = MemoryRecords(data).next_batch()
        assert batch.validate_crc()
        return list(batch)

    for name, kind in KINDS.items():
        data = encode(*kind)
        jobs[f"encode {name}"] = lambda kind=kind: encode(*kind)  # type: ignore[misc]
        jobs[f"decode {name}"] = lambda data=data: decode(data)  # type: ignore[misc]
    return jobs


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks records")
    parser.add_argument("--seconds", type=float, default=10.0)
    seconds = parser.parse_args(arguments).seconds
    contenders = {name: {**ours(codec), **arrow(codec)} for name, codec in VARIANTS.items()}
    contenders["aiokafka"] = aiokafkas()
    best = {(who, name): math.inf for who, jobs in contenders.items() for name in jobs}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for who, jobs in contenders.items():
            for name, job in jobs.items():
                for _ in range(1 if who == "pure" else 5):
                    start = time.perf_counter()
                    job()
                    best[who, name] = min(best[who, name], time.perf_counter() - start)
    names = next(iter(contenders.values()))
    rows = [
        [name, *(best[who, name] / RECORDS * 1e9 if (who, name) in best else "-" for who in contenders)]
        for name in sorted(names)
    ]
    print(table(["ns a record", *contenders], rows))
