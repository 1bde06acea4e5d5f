"""Options of the exactly-once sink, and its ledger.

Clients are imported on demand, because Spark plans every write in a new process, which should import little.
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
from ...kafka_options import boolean, bootstrap_servers, configuration, integer, producer_options

if TYPE_CHECKING:
    from ...._io.transactions.handover import TransactionCommits
    from ....admin import AdminClient
    from ....consumer import Consumer


ASKED, PREFIX, LEDGER, BATCH = "exactlyOnce", "transactionalIdPrefix", "ledgerTopic", "batchId"

TRANSACTION_TIMEOUT_MS = 900_000
"""Default of ``kafka.transaction.timeout.ms``, which is also the brokers' default of ``transaction.max.timeout.ms``."""

LONGEST_PREFIX = 200
"""Maximum number of characters of a prefix. Transactional ids and group ids are somewhat longer."""


@dataclass(frozen=True)
class ExactlyOnce:
    """The settings of an exactly-once sink, and the configurations of its clients."""

    options: Mapping[str, str] = field(repr=False)
    """Options from Spark."""
    prefix: str
    """Prefix of transactional ids, and the group id of the ledger."""
    ledger: TopicPartition
    """Partition whose committed offset is the ledger."""
    batch: int | None = None
    """Number of a DataFrame write (option ``batchId``). None for a streaming query or a write without a number."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without cached properties, which may contain a token provider that cannot be pickled."""
        return ExactlyOnce, (self.options, self.prefix, self.ledger, self.batch)

    @property
    def main_id(self) -> str:
        """Transactional id of task 0, whose transactions contain the decisions.

        The id ends with two numbers like the other ids. With one number, it could equal an id of a task of a query with
        a shorter prefix.
        """
        return f"{self.prefix}-0-0"

    def task_id(self, task: int, attempt: int) -> str:
        """Return the transactional id for one attempt of a task, given the numbers of both."""
        return self.main_id if task == 0 else f"{self.prefix}-{task}-{attempt}"

    def is_task_id(self, transactional_id: str) -> bool:
        """Return True if a transactional id belongs to a task of this prefix other than task 0."""
        return re.fullmatch(rf"{re.escape(self.prefix)}-[1-9][0-9]*-[0-9]+", transactional_id) is not None

    @cached_property
    def _servers(self) -> str:
        return bootstrap_servers(self.options)

    @cached_property
    def producer_options(self) -> dict[str, Any]:
        """Options of a transactional producer, without ``transactional_id``."""
        return {"transaction_timeout_ms": TRANSACTION_TIMEOUT_MS, **producer_options(self.options)}

    @cached_property
    def _client_options(self) -> dict[str, Any]:
        known = ClientConfig.__dataclass_fields__
        return {name: value for name, value in self.producer_options.items() if name in known}

    @cached_property
    def within_ms(self) -> float:
        """Time limit of each step in ms (``kafka.max.block.ms``)."""
        return self.config(self.main_id).max_block_ms

    def config(self, transactional_id: str) -> ProducerConfig:
        """Check the producer options with this id, and return the configuration.

        Raises ValueError for options that conflict with transactions.
        """
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
    """Return the settings in the options, or None for a sink that writes at least once.

    Raises ValueError for invalid options.
    """
    if not boolean(options, ASKED, False):
        for name in (PREFIX, LEDGER, BATCH):
            if name in options:
                raise ValueError(f"option '{name}' needs the option '{ASKED}' to be true")
        return None
    topic = options.get(LEDGER, options.get("topic", "")).strip()
    if not topic:
        raise ValueError(
            f"option '{ASKED}' needs the option 'topic'; if rows name their topics, set '{LEDGER}' to any topic, "
            "for which the progress is then committed"
        )
    topic_name(f"option '{LEDGER if LEDGER in options else 'topic'}'", topic)
    if streaming and BATCH in options:
        raise ValueError(f"option '{BATCH}' is for writes of a DataFrame; a streaming query numbers its micro-batches")
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
        f"option '{ASKED}' needs the option '{PREFIX}', whose value must stay the same when this "
        + ("query is restarted; or set 'checkpointLocation' with .option()" if streaming else "job is repeated")
    )


def _place(path: str) -> str:
    """Return a checkpoint location in canonical form, according to the rules of Hadoop's Path."""
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
#
# The latest run of a prefix and the last decision, stored in the metadata of a committed offset.
#
# By default, a broker accepts 4096 bytes of metadata with an offset (``offset.metadata.max.bytes``). A decision with
# hundreds of transactions needs more. Its text continues in the metadata of other groups, which are committed in the
# same transaction.


PIECE_CHARACTERS = 4000
FORMAT = 1


class Entry(NamedTuple):
    """Content of the ledger: the current run, and its last decision to commit transactions."""

    run: str
    """Name of the run that wrote the entry. Earlier runs are fenced."""
    decided: bool = False
    """True if this run has decided; False if the last decision is of an earlier run."""
    query: str | None = None
    """Id of the query of the last decision; None for a write without a number, or without a decision."""
    batch: int = -1
    """Micro-batch of the last decision."""
    decided_ms: int = 0
    """Time of the last decision in milliseconds since 1970."""
    others: tuple[OpenTransaction, ...] = ()
    """Transactions of the last decision that may still be open, except the main transaction."""

    @property
    def name(self) -> str:
        """Name of the last decision for messages."""
        return "a write" if self.query is None else f"query {self.query}, batch {self.batch}"


async def read(settings: ExactlyOnce) -> Entry | None:
    """Return the entry in the ledger, or None if there is none.

    Waits until open transactions that write the ledger have ended. Raises ValueError if a later version of this
    package, or another program, has written the metadata.
    """
    count, text = await _piece(settings, settings.prefix)
    if not count:
        return None
    for number in range(1, count):
        text += (await _piece(settings, _group(settings, number)))[1]
    content = json.loads(text)
    if content["format"] != FORMAT:
        raise ValueError(f"a later version of this package has written the ledger of prefix '{settings.prefix}'")
    others = tuple(OpenTransaction(f"{settings.prefix}-{name}", *rest) for name, *rest in content["others"])
    return Entry(*content["entry"])._replace(others=others)


async def write(settings: ExactlyOnce, producer: Producer, entry: Entry) -> None:
    """Write an entry in the producer's open transaction, and commit the transaction."""
    others = [(o.transactional_id.removeprefix(f"{settings.prefix}-"), *o[1:]) for o in entry.others]
    text = json.dumps({"format": FORMAT, "entry": entry[:-1], "others": others}, separators=(",", ":"))
    pieces = [text[at : at + PIECE_CHARACTERS] for at in range(0, len(text), PIECE_CHARACTERS)]
    for number, piece in enumerate(pieces):
        # The offset has no meaning here, but is visible in tools that show the group.
        stored = OffsetAndMetadata(entry.batch + 1, f"{len(pieces)}:{piece}")
        await producer.send_offsets_to_transaction({settings.ledger: stored}, _group(settings, number))
    await producer.commit_transaction()


def _group(settings: ExactlyOnce, number: int) -> str:
    # Not f"{prefix}-{number}", which may be another prefix, and therefore the group of its ledger.
    return f"{settings.prefix}.ledger-{number}" if number else settings.prefix


async def _piece(settings: ExactlyOnce, group: str) -> tuple[int, str]:
    """Return the number of pieces of the text, and the piece in this group. Without a ledger, the number is 0."""
    async with running(lambda: settings.reader(group), settings.within_ms) as reader:
        stored = await reader.committed(settings.ledger, timeout_ms=settings.within_ms)
    if stored is None:
        return 0, ""
    count, _, text = stored.metadata.partition(":")
    if not count.isdigit():
        raise ValueError(
            f"group '{group}' has committed offsets that are not a ledger of this package; set another "
            "transactionalIdPrefix"
        )
    return int(count), text
