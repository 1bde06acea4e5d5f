"""``aiokafka-lead produce``: writes records from standard input."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping
from typing import Annotated, Any

import anyio
import typer

from .._core.producer.delivery import Delivery
from ..admin import AdminClient, ConfigResource, ConfigResourceType
from ..errors import ConfigError, ConfigTypeError, KafkaError, SchemaContentError
from ..producer import Producer
from .escapes import without_escapes
from .failures import ExitCode, Failed, exit_code, sentence
from .input_json import record_of
from .names import missing_topic
from .registering import Compression, add
from .schemas import FromJson, registry_of, writer_of
from .session import Session
from .stdin import lines

__all__ = ["register", "topic_to_write"]

_LONGEST_LINE = 64_000_000
_LINE_PER_RECORD = 4
"""A line in base64 or with escapes is at most this many times longer than its record."""

_CREATED_WITHIN_S = {"true": 10.0, "false": 0.0}
"""Time until a missing topic exists after a write, by the brokers' configuration."""

_MAYBE_CREATED_WITHIN_S = 0.7
"""The same if the configuration is unknown."""

_AUTO_CREATE = "auto.create.topics.enable"

_IN_FLIGHT = 10_000
"""Maximum number of unchecked deliveries; the producer's own memory bounds their bytes."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "produce", produce)


async def produce(
    session: Session,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to write to.")],
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", help="A line is a key, this, and a value.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of all records.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="Of all records; may be repeated.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", help="Write to this partition.")] = None,
    input_json: Annotated[
        bool,
        typer.Option("--input-json", help="A line is a JSON object of key, value, headers, partition, timestamp_ms."),
    ] = False,
    null_value: Annotated[
        bool, typer.Option("--null-value", "-Z", help="An empty value is a null one: a tombstone.")
    ] = False,
    value_schema: Annotated[
        str | None,
        typer.Option(
            "--value-schema", metavar="FILE", help="Values are JSON, written by this .avsc or .json, or by the latest."
        ),
    ] = None,
    key_schema: Annotated[str | None, typer.Option("--key-schema", metavar="FILE", help="The same of keys.")] = None,
    register: Annotated[
        bool,
        typer.Option("--register", help="Register these schemas where they are missing."),
    ] = False,
    compression: Compression = "none",
) -> None:
    """Write a record for each line of standard input.

    Ends with the input, when all are acknowledged.
    """
    headers = [_header(text) for text in header or ()]
    if input_json and (key_separator is not None or key is not None):
        raise ConfigError("--input-json excludes --key and --key-separator: a line says its own key")
    if key_separator == "":
        raise ConfigError("--key-separator is empty: a line cannot be parted there")
    separator = None if key_separator is None else without_escapes("--key-separator", key_separator)
    constant = None if key is None else key.encode("utf-8", "surrogateescape")
    schemas: dict[str, FromJson] = {}
    for part, given in (("key", key_schema), ("value", value_schema)):
        if given is not None:
            registry = registry_of(session.options)
            schemas[part] = await writer_of(registry, given, topic, is_key=part == "key", register=register)

    def parsed(line: bytes, number: int) -> dict[str, Any]:
        if input_json:
            record = record_of(line, number, schemas)
            record["headers"] = [*headers, *record["headers"]]
        else:
            record = {**_from_line(line, separator, constant, number), "headers": headers}
        if null_value and not record.get("value"):
            record["value"] = None
        record.setdefault("partition", partition)
        return record

    compressing = {} if compression == "none" else {"compression_type": compression}
    longest = max(_LONGEST_LINE, _LINE_PER_RECORD * session.options.get("max_request_size", 0))
    is_typed = sys.stdin.isatty()
    async with session.producer(**compressing) as producer:
        await topic_to_write(session, producer, topic)
        if is_typed:
            session.out.hint("each line is a record (Ctrl-D ends)")
        writing = _Writing(producer, topic)
        number = 0
        with session.out.progress(wanted=not is_typed) as progress:
            task = None if progress is None else progress.add_task(f"to {topic}", total=None)
            try:
                async for some in lines(longest):
                    for line in some:
                        number += 1
                        record = parsed(line, number)
                        for part, schema in schemas.items():
                            record[part] = await _by_schema(schema, record.get(part), topic, part, number)
                        await writing.send(record, number)
                    await writing.settle(leave=_IN_FLIGHT)
                    if progress is not None and task is not None:
                        progress.update(task, completed=writing.written)
                await writing.settle()
            except Exception as error:
                raise await writing.stopped(error) from None
    session.out.done(f"{topic}: {writing.written} records", topic=topic, records=writing.written)


async def topic_to_write(session: Session, producer: Producer[Any, Any], topic: str) -> None:
    """Return once the topic exists, which some clusters create now; raise `Failed` if they do not."""
    async with session.admin() as admin:
        if topic in await admin.list_topics(include_internal=True):
            return
        creates = await _auto_create(admin)
        try:
            with anyio.fail_after(_CREATED_WITHIN_S.get(creates, _MAYBE_CREATED_WITHIN_S)):
                await producer.partitions_for(topic)
        except TimeoutError:
            raise await missing_topic(admin, topic) from None


async def _auto_create(admin: AdminClient) -> str:
    """Return the configuration of automatic creation; an empty text if this user may not read it."""
    try:
        brokers = (await admin.describe_cluster()).brokers
        resource = ConfigResource(ConfigResourceType.BROKER, str(brokers[0].node_id))
        entry = (await admin.describe_configs([resource]))[resource].get(_AUTO_CREATE)
    except KafkaError:
        return ""
    return "" if entry is None or entry.value is None else entry.value


class _Writing:
    """Records in flight, with their line numbers."""

    def __init__(self, producer: Producer[Any, Any], topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._pending: deque[tuple[int, Delivery]] = deque()
        self.written = 0

    async def send(self, record: Mapping[str, Any], number: int) -> None:
        """Send a record; raise `Failed` if it cannot be sent."""
        try:
            delivery = await self._producer.send(self._topic, **record)
        except (ConfigError, ConfigTypeError, KafkaError) as error:
            raise _at_line(number, error) from None
        self._pending.append((number, delivery))

    async def settle(self, *, leave: int = 0) -> None:
        """Wait for acknowledgements, oldest first, until ``leave`` are pending; raise `Failed` for a failed one."""
        while len(self._pending) > leave:
            number, delivery = self._pending[0]
            try:
                await delivery
            except KafkaError as error:
                raise _at_line(number, error) from None
            finally:
                self._pending.popleft()
            self.written += 1

    async def stopped(self, error: Exception) -> Exception:
        """Wait for pending records, and return the error with the number of records that were written."""
        while self._pending:
            try:
                await self.settle()
            except Failed:
                continue
        return Failed(f"{sentence(error)}\n{self.written} records were written", exit_code(error))


def _at_line(number: int, error: Exception) -> Failed:
    wrong = isinstance(error, (ConfigError, ConfigTypeError))
    return Failed(f"line {number}: {sentence(error)}", ExitCode.FAILED if wrong else exit_code(error))


async def _by_schema(schema: FromJson, content: bytes | None, topic: str, part: str, number: int) -> bytes | None:
    if content is None:
        return None
    try:
        return await schema.encode(content, topic, is_key=part == "key")
    except SchemaContentError as error:
        raise Failed(f"line {number}: the {part} does not fit its schema: {error}") from None


def _header(text: str) -> tuple[str, bytes]:
    name, separator, value = text.partition("=")
    if not separator:
        raise ConfigError(f"--header takes NAME=VALUE, not {text!r}")
    return name, value.encode("utf-8", "surrogateescape")


def _from_line(line: bytes, separator: bytes | None, key: bytes | None, number: int) -> dict[str, Any]:
    if separator is None:
        return {"key": key, "value": line}
    own, found, value = line.partition(separator)
    if not found:
        raise Failed(f"line {number} has no key: there is no {separator.decode(errors='backslashreplace')!r} in it")
    return {"key": own, "value": value}
