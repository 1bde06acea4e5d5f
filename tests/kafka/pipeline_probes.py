"""Probes pending offsets of two transactional ids in the same partition and group (KIP-447), as in pipelines."""

from __future__ import annotations

from aiokafka_lead._wire.messages import offset_fetch as of

from .coordinator_probes import coordinator
from .probes import Answers, World
from .transaction_probes import transactional

__all__ = ["offsets_of_two"]


async def offsets_of_two(world: World) -> Answers:
    """The later of two offsets counts, whichever transaction ends first. It is stable once both have ended."""
    topic, group = world.name("-offsets"), world.name("-group")
    await world.topic(topic)
    broker = await coordinator(world, group)

    async def position(*, stable: bool) -> tuple[int, int]:
        wanted = of.OffsetFetchRequestGroup(
            group_id=group, topics=[of.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
        )
        response = await world.ask(of.OffsetFetchRequest(groups=[wanted], require_stable=stable), 9, broker=broker)
        found = response.groups[0].topics[0].partitions[0]
        return found.error_code, found.committed_offset

    async def stable() -> tuple[int, int]:
        """Wait for the markers, which are in the group's partition a moment after the end."""
        while True:
            found = await position(stable=True)
            if found[0] == 0:
                return found

    answers: Answers = {}
    first, second = await transactional(world, "-first"), await transactional(world, "-second")
    epochs = [await first.begin(), await second.begin()]
    for number, (one, other) in enumerate(((True, True), (False, True), (True, False), (False, False))):
        low = 10 * number + 1
        for forward in (True, False):
            name = f"{one} {other} {'in order' if forward else 'the other way'}"
            answers[f"{name}: commits"] = [
                await first.commit_offset(group, broker, topic, low, epochs[0], version=5),
                await second.commit_offset(group, broker, topic, low + 1, epochs[1], version=5),
            ]
            answers[f"{name}: pending"] = (await position(stable=True))[0]
            ends = [(first, 0, one), (second, 1, other)]
            for at, (txn, index, committed) in enumerate(ends if forward else ends[::-1]):
                code, epochs[index] = await txn.ended(epochs[index], committed=committed)
                answers[f"{name}: end {at}"] = code
                await txn.until("CompleteCommit" if committed else "CompleteAbort")
                if at == 0:
                    answers[f"{name}: half"] = (await position(stable=True))[0]
            answers[f"{name}: then"] = await stable()
            low += 5
    return answers
