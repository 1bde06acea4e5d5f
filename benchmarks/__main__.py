"""``python -m benchmarks NAME [OPTIONS]``: run one benchmark; without a name, list them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

_HELPERS = {"__init__", "__main__", "embedded", "follower", "load", "prober", "stats", "traces"}


def main() -> None:
    """Find the benchmark's module and hand over."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in _HELPERS)
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        sys.exit(f"usage: python -m benchmarks NAME [OPTIONS], NAME one of: {', '.join(names)}")
    importlib.import_module(f"benchmarks.{sys.argv[1]}").main(sys.argv[2:])


if __name__ == "__main__":
    main()
