"""`Consumer.run`: a handler decides the fate of its record, and all of its errors reach the log."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pydantic
import pytest

from aiokafka_lead import ConsumerRecord, Producer
from aiokafka_lead.errors import (
    ConfigTypeError,
    DropRecordError,
    HandlerError,
    PermanentError,
    TopicAuthorizationFailedError,
)
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import started
from .support import E0, committed, fill, runner_of, until

pytestmark = pytest.mark.anyio

Record = ConsumerRecord[Any, Any]
FAST: dict[str, Any] = {"retry_backoff_ms": 5, "order": "partition"}


async def run_to_last(cluster: EmbeddedCluster, count: int, failing: Any, **options: Any) -> list[int]:
    """Run over this many records; call ``failing`` with each offset. Return the offsets as they were handled."""
    await fill(cluster, count)
    seen: list[int] = []
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            seen.append(record.offset)
            if record.offset == count - 1:
                done()
            failing(record.offset)

        await consumer.run(handle, **{**FAST, **options})
    return seen


async def test_no_retry_where_the_handler_says_that_none_helps(cluster: EmbeddedCluster) -> None:
    def failing(offset: int) -> None:
        if offset == 1:
            try:
                raise LookupError("no such customer")
            except LookupError as error:
                raise PermanentError("hopeless") from error

    assert await run_to_last(cluster, 3, failing, dead_letter_topic="failed") == [0, 1, 2]
    [letter] = cluster.records("failed")
    told = dict(letter.headers)
    assert told["dead_letter.exception"] == b"LookupError"
    assert told["dead_letter.message"] == b"no such customer"
    assert told["dead_letter.attempts"] == b"1"
    assert await committed(cluster, E0) == 3


async def test_a_record_is_dropped_where_the_handler_says_so(cluster: EmbeddedCluster) -> None:
    def failing(offset: int) -> None:
        if offset == 1:
            raise DropRecordError("out of date")

    assert await run_to_last(cluster, 3, failing, dead_letter_topic="failed") == [0, 1, 2]
    assert cluster.records("failed") == []
    assert await committed(cluster, E0) == 3


async def test_only_named_exceptions_are_tried_again(cluster: EmbeddedCluster) -> None:
    failed: list[int] = []

    def failing(offset: int) -> None:
        if offset < 2 and failed.count(offset) < 2:
            failed.append(offset)
            raise ConnectionError if offset else ValueError

    seen = await run_to_last(cluster, 3, failing, retry_on=(OSError, LookupError), dead_letter_topic="failed")
    assert seen == [0, 1, 1, 1, 2]
    assert [dict(letter.headers)["dead_letter.offset"] for letter in cluster.records("failed")] == [b"0"]


async def test_retry_on_takes_exceptions_alone(cluster: EmbeddedCluster) -> None:
    wrong: Any = ["ValueError"]
    async with runner_of(cluster) as consumer:
        with pytest.raises(ConfigTypeError, match="retry_on must be exception classes"):
            await consumer.run(lambda record: None, retry_on=wrong)  # type: ignore[arg-type, return-value]


async def test_each_attempt_is_logged_with_its_traceback(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(offset: int) -> None:
        if offset == 0:
            raise LookupError("gone")

    with caplog.at_level(logging.INFO, "aiokafka_lead"):
        await run_to_last(cluster, 2, failing, retries=1, dead_letter_topic="failed")
    lines = [line for line in caplog.records if "could not be handled" in line.getMessage()]
    assert [line.levelno for line in lines] == [logging.INFO, logging.WARNING]
    for line in lines:
        assert line.exc_info is not None
        assert isinstance(line.exc_info[1], LookupError)
        assert (line.topic, line.partition) == ("events", 0)  # type: ignore[attr-defined]
    assert "failing" in caplog.text


class Order(pydantic.BaseModel):
    cents: int


async def test_what_was_read_stays_out_of_the_log(cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    """pydantic's errors quote it."""

    def failing(offset: int) -> None:
        if offset == 0:
            Order.model_validate_json(b'{"cents": "4111-1111"}')

    with caplog.at_level(logging.DEBUG, "aiokafka_lead"):
        await run_to_last(cluster, 2, failing, retries=0, dead_letter_topic="failed")
    assert "ValidationError: cents int_parsing" in caplog.text
    assert "4111" not in caplog.text


async def test_the_right_to_write_dead_letters_is_asked_for_first(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("Metadata", topic="failed", error_code=TopicAuthorizationFailedError.code, count=None)
    async with runner_of(cluster) as consumer:
        with pytest.raises(TopicAuthorizationFailedError, match="failed"):
            await consumer.run(never, dead_letter_topic="failed")


async def test_a_refused_dead_letter_names_record_and_cause(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 1)
    cluster.faults.add("Produce", topic="failed", count=None, error_code=TopicAuthorizationFailedError.code)
    async with runner_of(cluster) as consumer:

        async def handle(record: Record) -> None:
            raise LookupError("gone")

        with pytest.raises(HandlerError, match="gone") as caught:
            await consumer.run(handle, retries=0, dead_letter_topic="failed")
    assert caught.value.record.value == b"0"
    assert isinstance(caught.value.__cause__, TopicAuthorizationFailedError)


async def test_a_dead_letter_waits_for_the_end_of_an_outage(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 1)
    short: dict[str, Any] = {"delivery_timeout_ms": 300, "request_timeout_ms": 200, "linger_ms": 0}
    outage = cluster.faults.add("Produce", topic="failed", drop=True)
    async with (
        started(Producer(cluster.bootstrap_servers, **short)) as letters,
        runner_of(cluster) as consumer,
        anyio.create_task_group() as tasks,
    ):

        async def handle(record: Record) -> None:
            raise LookupError("gone")

        async def run() -> None:
            await consumer.run(handle, retries=0, dead_letter_topic="failed", dead_letter_producer=letters)

        tasks.start_soon(run)
        with anyio.fail_after(30):
            while not (problems := consumer.health().problems):  # noqa: ASYNC110 (no event)
                await anyio.sleep(0.01)
            assert "no dead letter or retry could be written for" in problems[0]
            assert consumer.health().live
            outage.remove()
            while not cluster.records("failed"):  # noqa: ASYNC110 (no event)
                await anyio.sleep(0.01)
            while consumer.health().problems:  # noqa: ASYNC110 (no event)
                await anyio.sleep(0.01)
        await consumer.stop()
    assert {letter.value for letter in cluster.records("failed")} == {b"0"}


async def test_a_handler_that_takes_too_long_has_failed(cluster: EmbeddedCluster) -> None:
    calls: list[int] = []
    await fill(cluster, 2)
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            calls.append(record.offset)
            if record.offset == 0:
                await anyio.sleep_forever()
            done()

        with anyio.fail_after(20):
            await consumer.run(handle, handler_timeout_ms=20, retries=1, dead_letter_topic="failed", **FAST)
    assert calls == [0, 0, 1]
    [letter] = cluster.records("failed")
    assert dict(letter.headers)["dead_letter.exception"] == b"TimeoutError"


async def test_a_slow_handler_is_named_once(cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    await fill(cluster, 1)
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            with anyio.fail_after(20):
                while "has been running" not in caplog.text:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
                await anyio.sleep(0.05)
            done()

        await consumer.run(handle, slow_handler_ms=10)
    assert caplog.text.count("the handler of the record at offset 0 of events-0 has been running") == 1


async def never(record: Record) -> None:
    raise AssertionError("nothing is handed out")
