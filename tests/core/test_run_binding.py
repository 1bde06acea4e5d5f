"""Handlers receive the arguments that their parameters ask for, by name and annotation."""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal, NewType, TypedDict

import msgspec
import pydantic
import pytest

from aiokafka_lead import ConsumerRecord, Transaction
from aiokafka_lead._core.consumer.position import Position
from aiokafka_lead._core.run.binding import bound, bound_to_batch
from aiokafka_lead._core.run.failures import blamed, described, quotes_input
from aiokafka_lead._core.run.later import Closed, RetryTopics
from aiokafka_lead._core.run.options import RunConfig, delays
from aiokafka_lead._options.serialization import inspected
from aiokafka_lead.errors import ConfigTypeError, DropRecordError, PermanentError, RecordDeserializationError
from aiokafka_lead.errors.shown import shown_cause
from aiokafka_lead.types import TimestampType, TopicPartition

pytestmark = pytest.mark.anyio

Record = ConsumerRecord[Any, Any]


class Model(pydantic.BaseModel):
    cents: int


class Card(pydantic.BaseModel):
    kind: Literal["card"]
    number: str


class Struct(msgspec.Struct):
    cents: int


@dataclasses.dataclass
class Plain:
    cents: int


class Typed(TypedDict):
    cents: int


class Odd:
    pass


def record(
    value: Any = b'{"cents": 3}', key: Any = b"k", topic: str = "t", headers: Any = (("trace", b"t"),)
) -> Record:
    return ConsumerRecord(topic, 0, 7, 9, TimestampType.CREATE_TIME, key, value, headers, 0)


async def got(handler: Callable[..., Awaitable[Any]], given: Record | None = None) -> Any:
    return await bound(handler, transactional=False)(record() if given is None else given)


async def model(order: Model) -> Any:
    return order


async def struct(order: Struct) -> Any:
    return order


async def plain(order: Plain) -> Any:
    return order


async def typed(order: Typed) -> Any:
    return order


async def mapping(order: dict[str, int]) -> Any:
    return order


async def some_dict(order: dict) -> Any:  # type: ignore[type-arg]
    return order


async def text(order: str) -> Any:
    return order


async def raw(order: bytes) -> Any:
    return order


async def maybe(order: Model | None) -> Any:
    return order


async def either(order: Model | Card) -> Any:
    return order


@pytest.mark.parametrize(
    ("handler", "value"),
    [
        (model, Model(cents=3)),
        (struct, Struct(3)),
        (plain, Plain(3)),
        (typed, {"cents": 3}),
        (mapping, {"cents": 3}),
        (some_dict, {"cents": 3}),
        (text, '{"cents": 3}'),
        (raw, b'{"cents": 3}'),
        (maybe, Model(cents=3)),
        (either, Model(cents=3)),
    ],
)
async def test_a_value_is_what_the_annotation_says(handler: Any, value: Any) -> None:
    assert await got(handler) == value


async def test_what_a_deserializer_has_made_is_checked_too() -> None:
    assert await got(model, record({"cents": 3})) == Model(cents=3)
    assert await got(struct, record({"cents": 3})) == Struct(3)
    assert await got(text, record("told")) == "told"
    with pytest.raises(RecordDeserializationError):
        await got(plain, record(3))


async def test_no_value_is_none_where_that_may_be() -> None:
    assert await got(maybe, record(None)) is None
    with pytest.raises(RecordDeserializationError):
        await got(model, record(None))


@pytest.mark.parametrize("handler", [model, struct, plain, mapping, some_dict, either])
@pytest.mark.parametrize("value", [b"[4111]", b'{"cents": "4111"', b"\xff"])
async def test_a_bad_value_is_a_record_that_cannot_be_read(handler: Any, value: bytes) -> None:
    with pytest.raises(RecordDeserializationError, match=r"the value of the record at offset 7 of t-0 is no") as caught:
        await got(handler, record(value))
    assert caught.value.lasts
    assert caught.value.record.value == value
    assert "4111" not in str(caught.value)


class Colour(enum.Enum):
    RED = "red"


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    colour: Colour


@pytest.mark.parametrize("value", [b'{"colour": "sec\'ret"}', b'{"secret": 1}'])
async def test_what_msgspec_quotes_is_left_out(value: bytes) -> None:
    async def handle(order: Strict) -> None: ...

    with pytest.raises(RecordDeserializationError, match=r"Invalid enum value|unknown field") as caught:
        await got(handle, record(value))
    assert "ret" not in str(caught.value)
    assert quotes_input(caught.value)


async def test_parts_of_a_record_by_their_names() -> None:
    async def handle(
        order: Model, key: str, headers: Mapping[str, bytes], offset: int, topic: str, *, record: Record
    ) -> Any:
        return order.cents, key, headers, offset, topic, record.timestamp_ms

    assert await got(handle) == (3, "k", {"trace": b"t"}, 7, "t", 9)


async def test_headers_as_text_or_as_they_are() -> None:
    async def as_text(value: bytes, headers: dict[str, str]) -> Any:
        return headers

    async def as_they_are(value: bytes, headers) -> Any:  # type: ignore[no-untyped-def]
        return headers

    assert await got(as_text) == {"trace": "t"}
    assert await got(as_they_are) == (("trace", b"t"),)


async def test_a_key_that_is_no_text_is_a_record_that_cannot_be_read() -> None:
    async def handle(value: bytes, key: str) -> None: ...

    with pytest.raises(RecordDeserializationError, match=r"the key of .* is not a valid str") as caught:
        await got(handle, record(key=b"\xff"))
    assert caught.value.part == "key"


async def test_names_count_without_annotations_too() -> None:
    async def handle(value, key, offset):  # type: ignore[no-untyped-def]
        return value, key, offset

    async def alone(value):  # type: ignore[no-untyped-def]
        return value

    assert await got(handle) == (b'{"cents": 3}', b"k", 7)
    assert await got(alone) == b'{"cents": 3}'


async def test_a_whole_number_is_a_float_in_json() -> None:
    async def handle(price: float) -> Any:
        return price

    assert type(await got(handle, record(b"5"))) is float
    with pytest.raises(RecordDeserializationError):
        await got(handle, record(b"true"))


async def test_what_wraps_a_partial_has_the_annotations_of_its_function() -> None:
    @functools.wraps(functools.partial(model))
    async def handle(order):  # type: ignore[no-untyped-def]
        return order

    assert await got(handle) == Model(cents=3)


LATE = """
async def with_record(record: KafkaRecord):
    return record

async def with_both(order: Model, record: KafkaRecord):
    return order

def decode(content: bytes, context: Context):
    return content
"""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated earlier")
async def test_annotations_that_only_type_checkers_know() -> None:
    scope: dict[str, Any] = {"__name__": __name__, "Model": Model}
    exec(compile(LATE, "late", "exec", dont_inherit=True), scope)
    given = record()
    assert await got(scope["with_record"], given) is given
    assert await got(scope["with_both"]) == Model(cents=3)
    assert inspected("value_deserializer", scope["decode"]).asks


def test_a_model_needs_a_parameter() -> None:
    async def handle(*given: Any) -> None: ...

    with pytest.raises(ConfigTypeError, match="has no parameter for a Model"):
        bound(handle, transactional=False, model=Model)


def test_what_could_not_be_decoded_is_in_no_text() -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        b"secret \xff".decode()
    assert shown_cause(caught.value).startswith('UnicodeDecodeError("')
    assert "secret" not in shown_cause(caught.value)


def test_a_partition_that_is_asked_for_no_more_does_not_open_again_and_again() -> None:
    closed = Closed(lambda record, now_ms: 5_000.0, time.monotonic)
    assert closed.due(TopicPartition("t", 0), [record()], 1.0) == 0
    assert closed.opens_in_s(2.0) == 3.0
    assert closed.opens_in_s(6.0) == float("inf")


def test_a_clock_that_is_set_back_keeps_no_partition_closed() -> None:
    seconds = [100.0]
    due_ms = 1_000_004_000.0
    closed = Closed(lambda record, now_ms: due_ms if now_ms > due_ms - 10_000 else 0.0, lambda: seconds[0])
    tp, position = TopicPartition("t", 0), Position(7)
    assert closed.due(tp, [record()], 1_000_000.0) == 0
    seconds[0] += 3.0
    assert closed.is_closed(tp, position, 5.0)
    assert closed.opens_in_s(5.0) == 1.0
    seconds[0] += 1.0
    assert not closed.is_closed(tp, position, 6.0)
    assert closed.due(tp, [record()], 6.0) == 1


def test_another_group_s_record_in_a_retry_topic_of_the_same_name_is_left_out() -> None:
    """ "a.b" of the group "c", and "a" of "b.c"."""
    ours, others = RetryTopics("c", delays("d", ["1s"])), RetryTopics("b.c", delays("d", ["1s"]))
    ours.add(["a.b"])
    others.add(["a"])
    assert ours.names["a.b"] == others.names["a"]
    for topic, by in (("a.b", ours), ("a", others)):
        letter = by.letter(record(topic=topic), LookupError(), 1, delays("d", ["1s"])[0], 0.0)
        waiting = record(topic=letter.topic, headers=tuple(letter.headers))
        assert by.origin(waiting).topic == topic
        with pytest.raises(DropRecordError, match=f"its original topic is {topic}"):
            (others if by is ours else ours).origin(waiting)


@pytest.mark.parametrize("kind", TimestampType)
@pytest.mark.parametrize("ahead_s", [0, 4, 86_400])
def test_a_clock_that_is_ahead_holds_nobody_up(kind: TimestampType, ahead_s: int) -> None:
    """New retry topics have the brokers' times. In others, a record is due early if its time cannot be right."""
    topics = RetryTopics("g", delays("d", ["10s"]))
    topics.add(["t"])
    now_ms = 1_700_000_000_000
    letter = topics.letter(record(), LookupError(), 1, delays("d", ["10s"])[0], now_ms / 1000 + ahead_s)
    stamp = now_ms if kind is TimestampType.LOG_APPEND_TIME else now_ms + 1000 * ahead_s
    waiting = ConsumerRecord(letter.topic, 0, 0, stamp, kind, b"k", b"", tuple(letter.headers), None)
    due_in_ms = max(0, topics.due_ms(waiting, now_ms) - now_ms)
    if kind is TimestampType.LOG_APPEND_TIME:
        assert due_in_ms == 10_000
    else:
        assert due_in_ms == (0 if ahead_s > 5 else 10_000 + 1000 * ahead_s)


@pytest.mark.parametrize("digits", [400, 5000])
def test_numbers_that_another_program_has_written_too_long_are_ignored(digits: int) -> None:
    """A float has no more than 308 digits, and Python converts no more than 4300."""
    topics = RetryTopics("g", delays("d", ["10s"]))
    topics.add(["t"])
    headers = tuple((f"retry.{name}", b"9" * digits) for name in ("attempts", "delays", "due_ms", "offset"))
    waiting = record(topic="t.g.retry.10s", headers=headers)
    assert topics.due_ms(waiting, 0.0) <= 10_000
    assert (topics.attempts(waiting), topics.delays(waiting), topics.offset(waiting)) == (0, 1, waiting.offset)


async def test_a_handler_of_records_is_called_itself() -> None:
    async def bare(record): ...  # type: ignore[no-untyped-def]

    async def annotated(given: Record) -> None: ...

    async def anything(given: Any) -> None: ...

    async def with_transaction(given: Record, txn: Transaction[Any, Any]) -> None: ...

    async def with_more(given: Record, more: str = "more") -> None: ...

    for handler in (bare, annotated, anything, with_transaction, with_more):
        assert bound(handler, transactional=handler is with_transaction) is handler


async def test_a_transaction_goes_where_it_is_asked_for() -> None:
    async def handle(order: Model, txn: Transaction[Any, Any]) -> Any:
        return order.cents, txn

    async def without(record: Record) -> Any:
        return record.offset

    txn: Any = object()
    assert await bound(handle, transactional=True)(record(), txn) == (3, txn)
    assert await bound(without, transactional=True)(record(), txn) == 7
    with pytest.raises(ConfigTypeError, match="a transaction requires exactly_once"):
        bound(handle, transactional=False)


async def unknown(order: Odd) -> None: ...


async def two_values(order: Model, other: Model) -> None: ...


async def nothing_said(order: Model, other) -> None: ...  # type: ignore[no-untyped-def]


async def not_there(order: NotThere) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (unknown, "handler unknown, parameter order: no record can be parsed as Odd"),
        (two_values, "parameter other: another parameter already receives the record's value"),
        (nothing_said, "parameter other: annotate it"),
        (not_there, "annotation 'NotThere' must exist at run time"),
    ],
)
def test_what_nothing_is_known_for_is_an_error_before_any_record(handler: Any, why: str) -> None:
    with pytest.raises(ConfigTypeError, match=why):
        bound(handler, transactional=False)


async def late(record: LateRecord) -> Any:  # type: ignore[name-defined]  # noqa: F821
    return record.offset


async def late_too(given: LateRecord, transaction: LateTransaction) -> Any:  # type: ignore[name-defined]  # noqa: F821
    return given.offset, transaction


async def test_the_name_of_a_record_that_only_type_checkers_know() -> None:
    assert await got(late) == 7
    txn: Any = object()
    assert await bound(late_too, transactional=True)(record(), txn) == (7, txn)


UserId = NewType("UserId", str)


class Color(enum.StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("kind", "key", "wanted"),
    [
        (UserId, b"ann", "ann"),
        (Annotated[str, "a name"], b"ann", "ann"),
        (Annotated[str, pydantic.StringConstraints(to_upper=True)], b"ann", "ANN"),
        (Literal["ann", "bob"], b"ann", "ann"),
        (Color, b"red", Color.RED),
        (Color, b'"red"', Color.RED),
        (uuid.UUID, b"12345678-1234-5678-1234-567812345678", uuid.UUID("12345678123456781234567812345678")),
        (uuid.UUID | None, None, None),
        (Annotated[int, pydantic.Field(ge=0)], b"42", 42),
        (Model, b'{"cents": 3}', Model(cents=3)),
    ],
)
async def test_a_key_is_text_or_json(kind: Any, key: Any, wanted: Any) -> None:
    async def handler(key, value):  # type: ignore[no-untyped-def]
        return key

    handler.__annotations__["key"] = kind
    assert await got(handler, record(key=key)) == wanted


async def test_text_under_another_name_is_text() -> None:
    async def new_type(name: UserId) -> Any:
        return name

    async def annotated(name: Annotated[str, "a name"], offset: Annotated[int, "its place"]) -> Any:
        return name, offset

    assert await got(new_type, record(b"ann")) == "ann"
    assert await got(annotated, record(b"ann")) == ("ann", 7)


async def nothing_taken() -> None: ...


async def too_much(record: Record, more: Any) -> None: ...


@pytest.mark.parametrize(("handler", "hint"), [(nothing_taken, ""), (too_much, "only with exactly_once")])
def test_a_handler_that_cannot_be_called_is_refused_at_the_start(handler: Any, hint: str) -> None:
    with pytest.raises(ConfigTypeError, match=f"cannot be called with a record.*{hint}"):
        bound(handler, transactional=False)


@pytest.mark.parametrize(
    ("raised", "fate"),
    [
        ([PermanentError()], "dead_letter"),
        ([OSError(), PermanentError()], "dead_letter"),
        ([OSError(), ConnectionError()], "retry"),
        ([OSError(), KeyError()], "dead_letter"),
        ([DropRecordError()], "drop"),
        ([DropRecordError(), OSError()], "dead_letter"),
    ],
)
def test_a_group_of_errors_is_judged_by_its_errors(raised: list[Exception], fate: str) -> None:
    config = RunConfig.from_options({"dead_letter_topic": "failed", "retry_on": OSError})
    group = ExceptionGroup("unhandled errors in a TaskGroup", [ExceptionGroup("within", raised)])
    assert config.verdict(group, 1).fate == fate


def test_a_group_names_its_only_error_and_quotes_no_input() -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        Model.model_validate({"cents": "secret"})
    group = ExceptionGroup("unhandled errors in a TaskGroup", [caught.value])
    assert blamed(group) is caught.value
    assert quotes_input(group)
    assert "secret" not in described(group)


async def order_or_none(order: Model | None = None) -> Any:
    return order


async def order_by_default(order: Model = Model(cents=0)) -> Any:  # noqa: B008
    return order


async def order_implicitly(order: Model = None) -> Any:  # type: ignore[assignment]
    return order


@pytest.mark.parametrize("handler", [order_or_none, order_by_default, order_implicitly])
async def test_a_parameter_with_a_default_gets_the_value(handler: Any) -> None:
    assert await got(handler) == Model(cents=3)
    default = handler.__defaults__[0]
    assert await got(handler, record(None)) == default
    if default is None:
        assert await got(handler, record(b" null\n")) is None
    with pytest.raises(RecordDeserializationError):
        await got(handler, record(b"{}"))


async def test_a_parameter_with_a_default_gets_the_part_of_its_name() -> None:
    async def handle(
        order: Model,
        key: str = "none",
        headers: dict[str, str] | None = None,
        *,
        offset: int = -1,
        partition: int | None = None,
        note: str = "its default",
    ) -> Any:
        return order.cents, key, headers, offset, partition, note

    assert await got(handle) == (3, "k", {"trace": "t"}, 7, 0, "its default")
    assert await got(handle, record(key=None)) == (3, "none", {"trace": "t"}, 7, 0, "its default")

    async def of_record(given: Record, flag: bool = False, offset: int = -1) -> Any:
        return given.offset, flag, offset

    assert await got(of_record) == (7, False, 7)


async def test_a_partial_gives_what_it_says() -> None:
    async def handle(order: Model, offset: int = -1, service: Odd | None = None) -> Any:
        return order.cents, offset, service

    odd = Odd()
    assert await got(functools.partial(handle, offset=1, service=odd)) == (3, 1, odd)


async def test_a_default_of_a_type_that_only_type_checkers_know_stays() -> None:
    async def handle(order: Model, service: NotThere = None) -> Any:  # type: ignore[name-defined]  # noqa: F821
        return order.cents, service

    assert await got(handle) == (3, None)


async def test_a_parameter_with_a_default_gets_the_transaction_if_there_is_one() -> None:
    async def handle(given: Record, flag: bool = False, txn: Transaction[Any, Any] | None = None) -> Any:
        return given.offset, flag, txn

    txn: Any = object()
    assert await bound(handle, transactional=True)(record(), txn) == (7, False, txn)
    assert await got(handle) == (7, False, None)


async def batch_with_transaction(orders: list[Model] = [], txn: Any = None) -> Any:  # noqa: B006
    return orders, txn


async def batch_with_other_defaults(orders: list[Model], limit: int = 5, topic: str = "mine", txn: Any = None) -> Any:
    assert (limit, topic) == (5, "mine")
    return orders, txn


async def batch_with_named_transaction(orders: list[Model], key: str = "mine", *, txn: Any = None) -> Any:
    assert key == "mine"
    return orders, txn


@pytest.mark.parametrize("handle", [batch_with_transaction, batch_with_other_defaults, batch_with_named_transaction])
async def test_a_batch_may_have_defaults(handle: Any) -> None:
    txn: Any = object()
    for transactional in (False, True):
        call, item = bound_to_batch(handle, transactional=transactional)
        assert item(record()) == Model(cents=3)
        assert await call([1], *[txn] * transactional) == ([1], txn if transactional else None)


@pytest.mark.parametrize("kind", [Model | None, int | None, list[int] | None, Plain | None, Struct | None])
async def test_null_is_none(kind: Any) -> None:
    async def handler(value):  # type: ignore[no-untyped-def]
        return value

    handler.__annotations__["value"] = kind
    assert await got(handler, record(b"null")) is None
    assert await got(handler, record(None)) is None
    with pytest.raises(RecordDeserializationError):
        await got(handler, record(b"nul"))


@pytest.mark.parametrize("handler", [model, struct, plain, typed, mapping, some_dict])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32-le"])
async def test_json_in_other_encodings(handler: Any, encoding: str) -> None:
    value = '{"cents": 3}'
    assert await got(handler, record(value.encode(encoding))) == await got(handler, record(value.encode()))
    with pytest.raises(RecordDeserializationError):
        await got(handler, record("{".encode(encoding)))


@pytest.mark.parametrize("handler", [model, plain, typed, mapping])
async def test_numbers_in_quotes_are_numbers_for_all_that_pydantic_may_check(handler: Any) -> None:
    assert await got(handler, record(b'{"cents": "3"}')) == await got(handler)


async def test_null_as_text_is_text() -> None:
    async def handle(value: str | None) -> Any:
        return value

    assert await got(handle, record(b"null")) == "null"
