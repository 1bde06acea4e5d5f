"""Plans the ranges of a batch query, from the cluster's state."""

from __future__ import annotations

from collections.abc import Mapping

from ..client_loop import client_loop
from .clients import admin_client, read_committed
from .cluster_view import ClusterView
from .options import SourceOptions
from .ranges import OffsetRange


def find_ranges(options: Mapping[str, str], parsed: SourceOptions) -> list[OffsetRange]:
    """Return the offsets from the query's start to its end, within ``fromOffset`` and ``untilOffset``."""
    loop = client_loop()
    with admin_client(loop, options) as admin:
        view = ClusterView(admin, parsed, read_committed=read_committed(options))
        return loop.run(_find, view, parsed)


async def _find(view: ClusterView, parsed: SourceOptions) -> list[OffsetRange]:
    attempts = 0
    while True:
        starts = (await view.at(parsed.starting, starting=True)).offsets
        ends = (await view.at(parsed.ending, starting=False)).offsets
        attempts += 1
        # They differ if a partition was added or removed in between, or a broker lags.
        if starts.keys() == ends.keys() or attempts == parsed.offset_attempts:
            break
    found = [OffsetRange(*tp, starts[tp], ends[tp]) for tp in sorted(starts.keys() & ends.keys())]
    for one in found:
        if one.start > one.until:
            raise ValueError(f"the start of {one.tp} is after its end: {one.start}, {one.until}")
    return [one.within(parsed.from_offset, parsed.until_offset) for one in found]
