"""Records are copied from topic to topic exactly once, even if members of the copying group are killed."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from .copier import Copiers, fill, read_copies
from .harness import KafkaCluster
from .support import in_thread

pytestmark = pytest.mark.anyio

PARTITIONS = 3
EACH = 1000


@pytest.fixture
def anyio_backend() -> str:
    """One event loop suffices, because the members run in other processes."""
    return "asyncio"


@pytest.mark.parametrize(("protocol", "hard"), [("classic", True), ("consumer", False)])
async def test_nothing_is_lost_or_there_twice(
    kafka: KafkaCluster, topic_name: Callable[[], str], protocol: str, hard: bool
) -> None:
    source = topic_name()
    target = f"{source}-copies"
    for topic in (source, target):
        await in_thread(kafka.create_topic, topic, partitions=PARTITIONS)
    await fill(kafka.bootstrap(), source, PARTITIONS, EACH)
    options = {
        "servers": {"bootstrap_servers": kafka.bootstrap()},
        "source": source,
        "target": target,
        "group": f"{source}-group",
    }
    copiers = Copiers(2, 7, **options, protocol=protocol, batch=50)
    problems = ["the reader did not end"]
    begun = anyio.Event()

    async def watch() -> None:
        nonlocal problems
        problems = await read_copies(kafka.bootstrap(), target, [EACH] * PARTITIONS, 180, begun)

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await begun.wait()
            await in_thread(copiers.trouble, hard=hard)
        assert problems == []
        assert await in_thread(copiers.stop) == [0, 0]
    finally:
        await in_thread(copiers.kill)
