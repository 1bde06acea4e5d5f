"""The options of a sink that writes exactly once, checked.

Clients are imported on demand, because Spark plans every write in a process that must first import this module.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ...._io.transactions.handover import OpenTransaction
from ...._options.arguments import topic_name
from ....config import ClientConfig, ProducerConfig
from ....producer import Producer
from ....types import OffsetAndMetadata, TopicPartition
from ...client_loop import running
from ...kafka_options import boolean, bootstrap_servers, configuration, integer
from ..producer_options import producer_options

if TYPE_CHECKING:
    from ...._io.transactions.handover import TransactionCommits
    from ....admin import AdminClient
    from ....consumer import Consumer


ASKED, PREFIX, LEDGER, BATCH = "exactlyOnce", "transactionalIdPrefix", "ledgerTopic", "batchId"

TRANSACTION_TIMEOUT_MS = 900_000
"""Default of ``kafka.transaction.timeout.ms``: the most that brokers allow by default."""

LONGEST_PREFIX = 200
"""Maximum length in characters; transactional ids and groups are somewhat longer."""


@dataclass(frozen=True)
class ExactlyOnce:
    """Settings for the clients of a sink."""

    options: Mapping[str, str] = field(repr=False)
    """The options given by Spark."""
    prefix: str
    """Prefix of transactional ids; also the group of the ledger."""
    ledger: TopicPartition
    """The partition for which the group's commits are the ledger."""
    batch: int | None = None
    """Number of this write, if it is the write of a DataFrame that must not be repeated."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out cached properties: a provider of tokens may be in use, and then cannot be pickled."""
        return ExactlyOnce, (self.options, self.prefix, self.ledger, self.batch)

    @property
    def main_id(self) -> str:
        """The transactional id of task 0, whose transactions contain the decisions.

        Like the other ids it ends with two numbers: otherwise it could be a task's id under a shorter prefix.
        """
        return f"{self.prefix}-0-0"

    def task_id(self, task: int, attempt: int) -> str:
        """Return the transactional id of an attempt of any task."""
        return self.main_id if task == 0 else f"{self.prefix}-{task}-{attempt}"

    def is_task_id(self, transactional_id: str) -> bool:
        """Return True if it is the id of an attempt of any task but the first."""
        return re.fullmatch(rf"{re.escape(self.prefix)}-[1-9][0-9]*-[0-9]+", transactional_id) is not None

    @cached_property
    def _servers(self) -> str:
        return bootstrap_servers(self.options)

    @cached_property
    def producer_options(self) -> dict[str, Any]:
        """Options of a transactional producer, without its id."""
        return {"transaction_timeout_ms": TRANSACTION_TIMEOUT_MS, **producer_options(self.options)}

    @cached_property
    def _client_options(self) -> dict[str, Any]:
        known = ClientConfig.__dataclass_fields__
        return {name: value for name, value in self.producer_options.items() if name in known}

    @cached_property
    def within_ms(self) -> float:
        """Time limit of a step, the same as a producer's (``kafka.max.block.ms``)."""
        return self.config(self.main_id).max_block_ms

    def config(self, transactional_id: str) -> ProducerConfig:
        """Return a producer's configuration. Raises ValueError for options incompatible with transactions."""
        given = {**self.producer_options, "transactional_id": transactional_id}
        return configuration(self.options, ProducerConfig, given)

    def producer(self, transactional_id: str) -> Producer:
        """Return a producer that gets a producer id when it starts."""
        from ....producer import Producer

        return Producer(self._servers, **self.producer_options, transactional_id=transactional_id)

    def resumed(self, opened: OpenTransaction) -> Producer:
        """Return a producer that continues a task's open transaction."""
        from ...._io.transactions.handover import resume

        producer = self.producer(opened.transactional_id)
        resume(producer, opened)
        return producer

    def reader(self, group: str) -> Consumer:
        """Return a consumer for reading a group's commits."""
        from ....consumer import Consumer

        return Consumer(bootstrap_servers=self._servers, **self._client_options, group_id=group)

    def admin(self) -> AdminClient:
        """Return an admin client."""
        from ....admin import AdminClient

        return AdminClient(self._servers, **self._client_options)

    def commits(self) -> TransactionCommits:
        """Return a client that commits tasks' open transactions."""
        from ...._io.transactions.handover import TransactionCommits

        return TransactionCommits(self._servers, **self._client_options)


def exactly_once(options: Mapping[str, str], *, streaming: bool) -> ExactlyOnce | None:
    """Return the settings from the options; None for a sink that writes at least once. Raises ValueError."""
    if not boolean(options, ASKED, False):
        for name in (PREFIX, LEDGER, BATCH):
            if name in options:
                raise ValueError(f"option '{name}' needs the option '{ASKED}' to be true")
        return None
    topic = options.get(LEDGER, options.get("topic", "")).strip()
    if not topic:
        raise ValueError(
            f"option '{ASKED}' needs the option 'topic'; where rows name their topics, '{LEDGER}' names any one topic, "
            "for which the progress is committed"
        )
    topic_name(f"option '{LEDGER if LEDGER in options else 'topic'}'", topic)
    if streaming and BATCH in options:
        raise ValueError(f"option '{BATCH}' is for writes of a DataFrame: a streaming query numbers its micro-batches")
    ledger, batch = TopicPartition(topic, 0), integer(options, BATCH, 0)
    found = ExactlyOnce(options, _prefix(options, streaming), ledger, batch)
    found.config(found.main_id)
    return found


def _prefix(options: Mapping[str, str], streaming: bool) -> str:
    given = options.get(PREFIX)
    if given is not None:
        prefix = given.strip()
        if not 0 < len(prefix) <= LONGEST_PREFIX:
            raise ValueError(f"option '{PREFIX}' must have 1 to {LONGEST_PREFIX} characters")
        return prefix
    checkpoint = options.get("checkpointLocation", "").strip()
    if streaming and checkpoint:
        return f"spark-{hashlib.sha256(_place(checkpoint).encode()).hexdigest()[:32]}"
    raise ValueError(
        f"option '{ASKED}' needs the option '{PREFIX}': a name that this "
        + ("query keeps when it is restarted, or 'checkpointLocation' as an option" if streaming else "job keeps")
    )


def _place(path: str) -> str:
    """Return a canonical spelling of a checkpoint's location, with the rules of Hadoop's Path."""
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        scheme, rest = "", path
    scheme, authority = scheme.lower(), ""
    if rest.startswith("//"):
        authority, _, rest = rest[2:].partition("/")
        rest = f"/{rest}"
    if scheme == "file":  # the meaning of a path without a scheme, unless Spark has another default
        scheme = authority = ""
    if not scheme and not rest.startswith("/"):
        rest = f"{os.getcwd()}/{rest}"
    plain = "/" + posixpath.normpath(rest).lstrip("/")
    return plain if not scheme else f"{scheme}:{'//' if authority else ''}{authority.lower()}{plain}"


# --- the ledger -------------------------------------------------------------------------------------------------------
#
# A prefix's latest run and the last decision, stored in the metadata of a consumer group's commit.
#
# A broker accepts 4096 bytes of metadata with an offset (``offset.metadata.max.bytes``). A decision with hundreds of
# transactions needs more: its text continues in further groups, which are committed in the same transaction.


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
    """Return the ledger, or None if there is none. First waits for open transactions that write the ledger."""
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
        # The offset only informs people who inspect the group.
        stored = OffsetAndMetadata(entry.batch + 1, f"{len(pieces)}:{piece}")
        await producer.send_offsets_to_transaction({settings.ledger: stored}, _group(settings, number))
    await producer.commit_transaction()


def _group(settings: ExactlyOnce, number: int) -> str:
    # Not PREFIX-NUMBER: users number their prefixes, and a piece's group must not be another prefix's ledger.
    return f"{settings.prefix}.ledger-{number}" if number else settings.prefix


async def _piece(settings: ExactlyOnce, group: str) -> tuple[int, str]:
    """Return the number of pieces, and this group's piece."""
    async with running(lambda: settings.reader(group), settings.within_ms) as reader:
        stored = await reader.committed(settings.ledger, timeout_ms=settings.within_ms)
    if stored is None:
        return 0, ""
    count, _, text = stored.metadata.partition(":")
    if not count.isdigit():
        raise ValueError(f"group '{group}' is no ledger of this package: give another transactionalIdPrefix")
    return int(count), text
