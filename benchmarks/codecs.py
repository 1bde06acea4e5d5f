"""Cost of each implementation of lz4 and zstd: microseconds of CPU time to compress and decompress a batch.

    python -m benchmarks.codecs [--seconds 0.3]

The order of implementations in `CODECS`, from which a client uses the first that is installed, follows these results.
Figures are the best of several rounds, at the default level, for lines of JSON.
"""

from __future__ import annotations

import argparse
import random
from functools import partial
from importlib import import_module

from aiokafka_lead._records import compression

from .stats import table
from .wire_codec import best_ns

SIZES = [4_000, 16_384, 100_000, 262_144]


def lines(size: int) -> bytes:
    chance = random.Random(1)
    made = b"".join(
        b'{"id": %d, "name": "user-%d", "price": %.2f}\n' % (i, chance.randrange(10**6), chance.random() * 100)
        for i in range(size // 30)
    )
    return made[:size]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0.3, help="time spent on each figure")
    seconds = parser.parse_args(arguments).seconds
    rows: list[list[object]] = []
    for codec in ("lz4", "zstd"):
        for name in compression.CODECS[codec].implementations:
            try:
                module = import_module(f"{compression.__name__}.{name}")
            except ImportError:
                print(f"{name} is not installed")
                continue
            for size in SIZES:
                batch = lines(size)
                compressed = module.compress(batch, None)
                writing = best_ns(partial(module.compress, batch, None), seconds) / 1000
                reading = best_ns(partial(module.decompress, compressed, size), seconds) / 1000
                rows.append([name, size, len(compressed), f"{writing:.1f}", f"{reading:.1f}"])
    print(table(["implementation", "bytes", "compressed", "compress us", "decompress us"], rows))


if __name__ == "__main__":
    main()
