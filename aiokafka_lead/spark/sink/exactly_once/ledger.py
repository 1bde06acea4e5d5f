"""The ledger: a prefix's latest run, and the last decision. It is stored in a consumer group's metadata.

A broker accepts 4096 bytes of metadata with an offset (``offset.metadata.max.bytes``). A decision with hundreds of
transactions needs more: its text continues in further groups, which are committed in the same transaction.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from ...._io.transactions.handover import OpenTransaction
from ....producer import Producer
from ....types import OffsetAndMetadata
from .settings import ExactlyOnce

PIECE_CHARACTERS = 4000
FORMAT = 1


class Entry(NamedTuple):
    """The content of the ledger."""

    run: str
    """The run that wrote it; earlier runs may no longer write."""
    decided: bool = False
    """True if it is the decision of this run; otherwise it is the state when the run began."""
    query: str | None = None
    """The streaming query of the latest decision; None for the write of a DataFrame, or without a decision."""
    batch: int = -1
    """The micro-batch of that decision."""
    decided_ms: int = 0
    """Time of the decision in milliseconds since 1970."""
    others: tuple[OpenTransaction, ...] = ()
    """Transactions of that decision that may still be open."""

    @property
    def name(self) -> str:
        """Name of the decision, for messages."""
        return "a write" if self.query is None else f"query {self.query}, batch {self.batch}"


async def read(settings: ExactlyOnce) -> Entry | None:
    """Return the ledger, once no transaction that writes it is open; None if there is none."""
    count, text = await _piece(settings, settings.prefix)
    if not count:
        return None
    for number in range(1, count):
        text += (await _piece(settings, _group(settings, number)))[1]
    content = json.loads(text)
    if content["format"] != FORMAT:
        raise ValueError(f"the ledger of '{settings.prefix}' is of a later version of this package")
    others = tuple(OpenTransaction(f"{settings.prefix}-{name}", *rest) for name, *rest in content["others"])
    return Entry(*content["entry"])._replace(others=others)


async def write(settings: ExactlyOnce, producer: Producer, entry: Entry) -> None:
    """Add the entry to the producer's open transaction, and commit that."""
    others = [(o.transactional_id.removeprefix(f"{settings.prefix}-"), *o[1:]) for o in entry.others]
    text = json.dumps({"format": FORMAT, "entry": entry[:-1], "others": others}, separators=(",", ":"))
    pieces = [text[at : at + PIECE_CHARACTERS] for at in range(0, len(text), PIECE_CHARACTERS)]
    for number, piece in enumerate(pieces):
        # The offset is for people who inspect the group with tools.
        stored = OffsetAndMetadata(entry.batch + 1, f"{len(pieces)}:{piece}")
        await producer.send_offsets_to_transaction({settings.ledger: stored}, _group(settings, number))
    await producer.commit_transaction()


def _group(settings: ExactlyOnce, number: int) -> str:
    # Users number prefixes: a piece's group must not be the ledger of such a prefix.
    return f"{settings.prefix}.ledger-{number}" if number else settings.prefix


async def _piece(settings: ExactlyOnce, group: str) -> tuple[int, str]:
    """Return the number of pieces, and this group's piece."""
    async with settings.reader(group) as reader:
        stored = await reader.committed(settings.ledger, timeout_ms=settings.within_ms)
    if stored is None:
        return 0, ""
    count, _, text = stored.metadata.partition(":")
    if not count.isdigit():
        raise ValueError(f"group '{group}' is no ledger of this package: give another transactionalIdPrefix")
    return int(count), text
