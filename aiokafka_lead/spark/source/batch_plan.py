"""Plans the ranges of offsets of a batch query from the state of the cluster."""

from __future__ import annotations

from collections.abc import Mapping

import anyio

from ..client_loop import client_loop
from .bounds import is_beginning
from .clients import admin_client, read_committed
from .cluster_view import ClusterView
from .options import SourceOptions
from .progress import report
from .ranges import OffsetRange


def find_ranges(options: Mapping[str, str], parsed: SourceOptions) -> tuple[list[OffsetRange], Mapping[str, str]]:
    """Return the ranges to read, and the ids of their topics. Raises ValueError or `DataLossError`."""
    loop = client_loop()
    with admin_client(loop, options) as admin:
        view = ClusterView(admin, parsed, read_committed=read_committed(options))
        return loop.run(_find, view, parsed)


async def _find(view: ClusterView, parsed: SourceOptions) -> tuple[list[OffsetRange], Mapping[str, str]]:
    attempts = 1
    while True:
        start = await view.at(parsed.starting, starting=True)
        end = await view.at(parsed.ending, starting=False)
        # They differ if a partition or a topic was created or deleted in between, or a broker lags.
        differ = start.offsets.keys() ^ end.offsets.keys()
        recreated = start.recreated(end)
        if not (differ or recreated) or attempts == parsed.offset_attempts:
            break
        attempts += 1
        await anyio.sleep(parsed.offset_retry_interval_ms / 1000)
    unclear = [*(f"partition {tp}" for tp in sorted(differ)), *(f"topic {topic}" for topic in sorted(recreated))]
    report([f"brokers disagree about {name}, so it is not read" for name in unclear], fail=parsed.fail_on_data_loss)
    start, end = start.without(recreated), end.without(recreated)
    both = sorted(start.offsets.keys() & end.offsets.keys())
    found = [OffsetRange(*tp, start.offsets[tp], end.offsets[tp], is_beginning(parsed.starting, tp)) for tp in both]
    for one in found:
        if one.start > one.until:
            raise ValueError(f"the starting offset of {one.tp} is after its ending offset: {one.start}, {one.until}")
    return [one.within(parsed.from_offset, parsed.until_offset) for one in found], end.topic_ids
