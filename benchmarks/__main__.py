"""Run one benchmark: ``python -m benchmarks NAME [OPTIONS]``. Without a name, list the benchmarks.

The name ``all`` runs every comparison with other clients in turn, with the same options. This takes about an hour.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

_HELPERS = {
    "__init__",
    "__main__",
    "busy",
    "embedded",
    "follower",
    "leader_gaps",
    "load",
    "prober",
    "reader",
    "roll_clusters",
    "roll_load",
    "share_prober",
    "stats",
    "traces",
}
_COMPARISONS = ["produce", "consume", "latency", "steady", "scale", "pauses", "footprint"]


def main() -> None:
    """Run the benchmark's module."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in _HELPERS)
    if len(sys.argv) < 2 or sys.argv[1] not in ("all", *names):
        sys.exit(f"usage: python -m benchmarks NAME [OPTIONS], NAME one of: all, {', '.join(names)}")
    for name in _COMPARISONS if sys.argv[1] == "all" else sys.argv[1:2]:
        importlib.import_module(f"benchmarks.{name}").main(sys.argv[2:])


if __name__ == "__main__":
    main()
