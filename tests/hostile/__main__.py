"""Runs the campaign: ``python -m tests.hostile --seconds 600``, or with ``--seed N`` a single case.

At the end it prints the number of cases, the duration of the longest case, and the peak memory of the process.
"""

from __future__ import annotations

import argparse
import logging
import resource
import sys
import time

import anyio

from .campaign import Failure, run_case


def main() -> int:
    """Run the campaign; return the exit status, 0 without a failure."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run this one alone")
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    given = parser.parse_args()
    logging.getLogger("aiokafka_lead").propagate = given.seed is not None
    begun = time.monotonic()
    cases, longest, failed = 0, (0.0, 0), 0
    seed = given.first if given.seed is None else given.seed
    while time.monotonic() < begun + given.seconds:
        started = time.monotonic()
        try:
            name = anyio.run(run_case, seed, backend=given.backend)
        except Failure as failure:
            print(failure, flush=True)
            failed += 1
        else:
            if given.seed is not None:
                print(name)
        cases += 1
        longest = max(longest, (time.monotonic() - started, seed))
        if given.seed is not None:
            break
        seed += 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    took_s, slowest = longest
    print(
        f"{cases:,} cases in {time.monotonic() - begun:.0f} s, {failed} failed; the longest took {took_s:.1f} s "
        f"(seed {slowest}), the process at most {peak:.0f} MB"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
