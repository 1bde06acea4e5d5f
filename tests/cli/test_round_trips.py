"""Records of any bytes, written by `consume` and read back by `produce`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pyarrow.parquet
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from aiokafka_lead import ConsumerRecord, TimestampType
from aiokafka_lead.cli.produce import record_of
from aiokafka_lead.cli.record_text import FORMS, as_json, template, without_escapes
from aiokafka_lead.cli.schema_json import AvroJson, message_of, plain
from aiokafka_lead.cli.schemas import AsJson, FromJson, writer_of
from aiokafka_lead.cli.streams import Stdout
from aiokafka_lead.schema import Schema, SchemaRegistry, SchemaSerializer
from aiokafka_lead.schema.proto_file import DescribedMessages
from aiokafka_lead.schema.protobuf import ProtobufFormat
from aiokafka_lead.schema.types import ResolvedSchema
from aiokafka_lead.schema.values import NamedRecord
from aiokafka_lead.testing import ClusterThread, EmbeddedSchemaRegistry

from .conftest import CommandLine

ALL = ("-o", "beginning", "--until", "end")
ODD = (
    b"",
    b"null",
    b"NaN",
    b'"text"',
    b"1e400",
    b"0.12345678901234567891",
    b'{"text":"cut \\ud83d"}',
    b"\xff\x00\n\x1b[2J",
)

contents = st.none() | st.sampled_from(ODD) | st.binary(max_size=30) | st.text(max_size=30).map(str.encode)
names = st.text(max_size=10)  # never with half a surrogate pair: Kafka's strings are UTF-8
headers = st.lists(st.tuples(names, contents), max_size=3)
records = st.tuples(contents, contents, headers)

Content = tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]


def read(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> ConsumerRecord[Any, Any]:
    return ConsumerRecord("t", 0, 0, 1000, TimestampType.CREATE_TIME, key, value, tuple(headers))


def strict(line: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    return json.loads(line, parse_constant=refuse)


@given(records, st.sampled_from(FORMS))
@settings(max_examples=300, deadline=None)
@example((None, b"null", []), "json")
@example((b"", b'"text"', [("", None), ("h", b"\xff\x00\x9f")]), "json")
def test_a_line_of_json_says_all_that_a_record_has(record: Content, form: str) -> None:
    key, value, some = record
    line = as_json(read(key, value, some), form, form)
    assert "\n" not in line
    strict(line)
    back = record_of(line.encode("utf-8", "surrogatepass"), 1)
    assert back["headers"] == list(some)
    if form != "json":  # whitespace around JSON may differ
        assert (back.get("key"), back.get("value")) == (key, value)
        return
    for name, content in (("key", key), ("value", value)):
        again = back.get(name)
        assert (again is None) == (content is None)
        assert again == content or strict(again.decode()) == strict(content.decode())  # type: ignore[union-attr]


_ESCAPES = {"n": 10, "t": 9, "r": 13, "0": 0, "a": 7, "b": 8, "e": 27, "f": 12, "v": 11, "\\": 92}
_DIRECTIVES: dict[str, Callable[[ConsumerRecord[Any, Any]], bytes]] = {
    "t": lambda record: b"t",
    "p": lambda record: b"0",
    "o": lambda record: b"0",
    "T": lambda record: b"1000",
    "D": lambda record: b"1970-01-01T00:00:01.000Z",
    "k": lambda record: b"null" if record.key is None else record.key,
    "v": lambda record: b"null" if record.value is None else record.value,
    "s": lambda record: b"null" if record.value is None else record.value,
    "h": lambda record: b",".join(
        name.encode() + b"=" + (b"null" if content is None else content) for name, content in record.headers
    ),
    "%": lambda record: b"%",
}
_literals = st.text(st.characters(exclude_characters="%\\", exclude_categories=["Cs"]), min_size=1, max_size=5)
_plain = (
    _literals.map(lambda text: (text, text.encode()))
    | st.sampled_from([*_ESCAPES]).map(lambda name: (f"\\{name}", bytes([_ESCAPES[name]])))
    | st.integers(0, 255).map(lambda byte: (f"\\x{byte:02x}", bytes([byte])))
    | st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]).map(lambda c: (f"\\u{ord(c):04X}", c.encode()))
    | st.characters(exclude_categories=["Cs"]).map(lambda c: (f"\\U{ord(c):08x}", c.encode()))
)


@given(st.lists(_plain | st.sampled_from([*_DIRECTIVES]), max_size=8), records)
@settings(max_examples=300, deadline=None)
def test_a_template_writes_what_it_says(parts: list[Any], record: Content) -> None:
    """Each part gives its bytes, whatever precedes or follows it; separators have the same escapes."""
    key, value, some = record
    shown = read(key, value, some)
    text = "".join(f"%{part}" if isinstance(part, str) else part[0] for part in parts)
    wanted = b"".join(_DIRECTIVES[part](shown) if isinstance(part, str) else part[1] for part in parts)
    assert template(text, "text", "text", Stdout())(shown) == wanted
    plain_parts = [part for part in parts if not isinstance(part, str)]
    separator = without_escapes("-K", "".join(part[0] for part in plain_parts))
    assert separator == b"".join(part[1] for part in plain_parts)


def test_digits_and_duplicates_of_json_stay(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("digits", 1)
    cluster.create_topic("digits-again", 1)
    values = [b"-0", b"1e400", b"0.12345678901234567891", b'{"a":1, "a":2.50}', b"12345678901234567890123", b"[ 1 ]"]
    cli.fine("produce", "digits", stdin=b"\n".join(values))
    shown = cli.fine("consume", "digits", *ALL, "--json", "--value-as", "json")
    cli.fine("produce", "digits-again", "--input-json", stdin=shown.out)
    assert [record.value for record in cluster.records("digits-again")] == values


@pytest.mark.parametrize("form", ["text", "hex", "base64"])
@given(st.lists(records, min_size=1, max_size=10))
@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_records_go_out_and_come_back(
    cli: CommandLine, cluster: ClusterThread, form: str, given: list[Content]
) -> None:
    there, again = f"there-{uuid4().hex}", f"again-{uuid4().hex}"
    for topic in (there, again):
        cluster.create_topic(topic, 1)
    lines = [as_json(read(*record), "base64", "base64") for record in given]
    cli.fine("produce", there, "--input-json", stdin="\n".join(lines).encode())
    shown = cli.fine("consume", there, *ALL, "--json", "--key-as", form, "--value-as", form).out
    cli.fine("produce", again, "--input-json", stdin=shown.encode())
    for topic in (there, again):
        found = [(record.key, record.value, list(record.headers)) for record in cluster.records(topic)]
        assert found == [(key, value, list(some)) for key, value, some in given]
        assert {record.timestamp_ms for record in cluster.records(topic)} == {1000}


@given(st.lists(records, min_size=1, max_size=10))
@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_parquet_has_the_same_bytes(
    cli: CommandLine, cluster: ClusterThread, tmp_path: Path, given: list[Content]
) -> None:
    topic = f"parquet-{uuid4().hex}"
    cluster.create_topic(topic, 1)
    lines = [as_json(read(*record), "base64", "base64") for record in given]
    cli.fine("produce", topic, "--input-json", stdin="\n".join(lines).encode())
    path = tmp_path / "out.parquet"
    cli.fine("consume", topic, *ALL, "-O", str(path))
    table = pyarrow.parquet.read_table(path)
    found = [
        (row["key"], row["value"], [(each["key"], each["value"]) for each in row["headers"]])
        for row in table.to_pylist()
    ]
    assert found == [(key, value, list(some)) for key, value, some in given]


def _same_nan(number: float) -> float:
    """Return the number; any NaN becomes Python's NaN, because JSON cannot represent other NaNs."""
    return math.nan if math.isnan(number) else number


MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(lambda found: found.replace(tzinfo=UTC))
AVRO: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "bytes": ("bytes", st.binary()),
    "fixed": ({"type": "fixed", "name": "F", "size": 3}, st.binary(min_size=3, max_size=3)),
    "uuid": (
        {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
        st.binary(min_size=16, max_size=16),
    ),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        st.decimals(-(10**6), 10**6, places=2),
    ),
    "millis": (
        {"type": "long", "logicalType": "timestamp-millis"},
        MOMENTS.map(lambda found: found.replace(microsecond=found.microsecond // 1000 * 1000)),
    ),
    "micros": ({"type": "long", "logicalType": "timestamp-micros"}, MOMENTS),
    "day": ({"type": "int", "logicalType": "date"}, st.dates()),
    "time": ({"type": "long", "logicalType": "time-micros"}, st.times()),
    "double": ("double", st.floats().map(_same_nan)),
    "float": ("float", st.floats(width=32).map(_same_nan)),
    "long": ("long", st.integers(-(2**63), 2**63 - 1)),
    "text": (["null", "string"], st.none() | st.text()),
    "choice": (["null", "long", "string"], st.none() | st.integers(-(2**63), 2**63 - 1) | st.text()),
    "enum": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, st.sampled_from("AB")),
    "list": ({"type": "array", "items": "bytes"}, st.lists(st.binary())),
    "map": ({"type": "map", "values": ["null", "bytes"]}, st.dictionaries(st.text(), st.none() | st.binary())),
    "again": ("F", st.binary(min_size=3, max_size=3)),
    "event": (
        [
            "null",
            *({"type": "record", "name": name, "fields": [{"name": "id", "type": "bytes"}]} for name in ("C", "D")),
        ],
        st.none()
        | st.builds(NamedRecord, st.sampled_from(["a.b.C", "a.b.D"]), st.fixed_dictionaries({"id": st.binary()})),
    ),
    "events": (
        {"type": "array", "items": ["C", {"type": "record", "name": "G", "namespace": "", "fields": []}]},
        st.lists(
            st.builds(NamedRecord, st.just("a.b.C"), st.fixed_dictionaries({"id": st.binary()}))
            | st.just(NamedRecord("G", {}))
        ),
    ),
}
SCHEMA = {
    "type": "record",
    "name": "R",
    "namespace": "a.b",
    "fields": [{"name": name, "type": kind} for name, (kind, _) in AVRO.items()],
}


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with EmbeddedSchemaRegistry() as made:
        yield SchemaRegistry(made.url)


async def value_shown(registry: SchemaRegistry, content: bytes) -> bytes:
    """Return the value that a program reads in the JSON of a record with this content."""
    decoded = AsJson(registry, keys=False, values=True)
    record = read(None, content, [])
    await decoded.prepare([record])
    line = as_json(decoded.record(record), "text", "schema")
    strict(line)
    value: bytes = record_of(line.encode(), 1, ("value",))["value"]
    return value


@given(st.fixed_dictionaries({name: values for name, (_, values) in AVRO.items()}))
@settings(max_examples=100, deadline=None)
def test_avro_goes_out_and_comes_back(registry: SchemaRegistry, value: dict[str, Any]) -> None:
    async def there_and_back() -> None:
        serializer = registry.avro_serializer(SCHEMA, auto_register=True)
        content = await serializer.encode(value, "t")
        shown = await value_shown(registry, content)
        writer = FromJson(serializer, AvroJson(SCHEMA).value)
        assert await writer.encode(shown, "t", is_key=False) == content

    anyio.run(there_and_back)


_WORD = st.from_regex(r"[a-z]{1,8}", fullmatch=True)
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "double": st.floats().map(_same_nan),
    "float": st.floats(width=32).map(_same_nan),
    "bool": st.booleans(),
    "string": st.text(),
    "bytes": st.binary(),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), st.integers(-(2**31), 2**31 - 1)),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), st.integers(-(2**63), 2**63 - 1)),
    **dict.fromkeys(("uint32", "fixed32"), st.integers(0, 2**32 - 1)),
    **dict.fromkeys(("uint64", "fixed64"), st.integers(0, 2**64 - 1)),
    "E": st.sampled_from([0, 1, -5]),
}


@st.composite
def protobuf(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Return a ``.proto`` file, and the fields of a message ``M`` in it."""
    syntax = draw(st.sampled_from(["proto2", "proto3"]))
    label = "optional " if syntax == "proto2" else draw(st.sampled_from(["", "optional "]))
    lines: list[str] = []
    fields: dict[str, Any] = {}
    for number, name in enumerate(draw(st.lists(_WORD, unique=True, max_size=6)), draw(st.integers(1, 20))):
        kind = draw(st.sampled_from([*_SCALARS, "m.N"]))
        value: st.SearchStrategy[Any] = _SCALARS.get(kind, st.just({"n": 1}))
        form = draw(st.sampled_from(["one", "repeated", "map", "oneof"]))
        name = f"{name}_{number}"  # no keyword, and no name of two
        if form == "repeated":
            lines.append(f"repeated {kind} {name} = {number};")
            fields[name] = draw(st.lists(value, max_size=3))
        elif form == "map":
            lines.append(f"map<string, {kind}> {name} = {number};")
            fields[name] = draw(st.dictionaries(st.text(), value, max_size=3))
        else:
            one = f"{kind} {name} = {number};"
            lines.append(f"oneof choice_{number} {{ {one} }}" if form == "oneof" else label + one)
            fields[name] = draw(value)
    body = "\n".join(lines)
    text = f'syntax = "{syntax}"; package m; message M {{ {body} }} enum E {{ Z = 0; A = 1; B = -5; }}'
    return f"{text} message N {{ {label}int64 n = 1; }}", fields


@given(protobuf())
@settings(max_examples=100, deadline=None)
def test_protobuf_goes_out_and_comes_back(registry: SchemaRegistry, given: tuple[str, dict[str, Any]]) -> None:
    text, fields = given
    schema = Schema(text, "PROTOBUF")

    async def there_and_back() -> None:
        topic = uuid4().hex
        await registry.register(f"{topic}-value", schema)
        kind = DescribedMessages(ResolvedSchema(schema)).kind("m.M")
        message = ParseDict(plain(fields), kind())
        serializer: SchemaSerializer[Any] = SchemaSerializer(registry, ProtobufFormat(kind, text))
        content = await serializer.encode(message, topic)
        shown = await value_shown(registry, content)
        writer = await writer_of(registry, "latest", topic, is_key=False, register=False)
        again = await writer.encode(shown, topic, is_key=False)
        assert MessageToDict(kind.FromString(again[6:])) == MessageToDict(message)
        assert again[:6] == content[:6]

    anyio.run(there_and_back)


def test_messages_that_have_no_json_are_shown_by_their_fields() -> None:
    imports = "".join(f'import "google/protobuf/{name}.proto";' for name in ("timestamp", "any", "struct"))
    fields = (
        "int64 id = 1; google.protobuf.Timestamp at = 2; repeated google.protobuf.Any any = 3;"
        "map<string, google.protobuf.Value> some = 4; map<bool, int64> counts = 5; M m = 6;"
    )
    text = f'syntax = "proto3"; {imports} message M {{ {fields} }}'
    message = DescribedMessages(ResolvedSchema(Schema(text, "PROTOBUF"))).kind("M")(id=2**60)
    message.counts[True] = 5
    message.at.seconds = 2**40
    none = {"id": "0", "counts": {}, "any": [], "some": {}}
    whole = {**none, "id": str(2**60), "counts": {"true": "5"}}
    assert plain(message) == {**whole, "at": {"seconds": 2**40}}
    message.at.seconds = 0
    message.any.add(type_url="type.googleapis.com/a.B", value=b"x")
    message.some["n"].number_value = math.nan
    message.some["t"].string_value = "x"
    some = {"n": {"number_value": "NaN"}, "t": "x"}
    odd = {"any": [{"type_url": "type.googleapis.com/a.B", "value": "eA=="}], "some": some}
    assert plain(message) == {**whole, "at": "1970-01-01T00:00:00Z", **odd}
    assert plain(type(message)(m=message)) == {**none, "m": plain(message)}


@pytest.mark.parametrize("largest", [3.4028234663852886e38, -3.4028234663852886e38])
def test_the_largest_float_is_shown_so_that_it_can_be_read(largest: float) -> None:
    fields = "float one = 1; repeated float many = 2; map<string, float> some = 3; M m = 4; double wide = 5;"
    kind = DescribedMessages(ResolvedSchema(Schema(f'syntax = "proto3"; message M {{ {fields} }}', "PROTOBUF"))).kind(
        "M"
    )
    for message in (
        kind(one=largest, wide=3.4028235e38),
        kind(many=[0.5, largest]),
        kind(some={"a": largest}),
        kind(m=kind(one=largest)),
    ):
        assert message_of(json.dumps(plain(message)), kind) == message


def test_a_branch_of_a_union_is_chosen_by_what_fits() -> None:
    one = {"type": "record", "name": "One", "fields": [{"name": "at", "type": {"type": "int", "logicalType": "date"}}]}
    other = {"type": "record", "name": "Other", "fields": [{"name": "price", "type": "double"}]}
    schema = AvroJson(["null", one, other, "string"])
    assert schema.value('{"at": "2025-03-01"}') == {"at": date(2025, 3, 1)}
    assert schema.value('{"price": "Infinity"}') == {"price": math.inf}
    assert schema.value('"2025-03-01"') == "2025-03-01"
    assert schema.value('{"neither": 1.5}') == {"neither": 1.5}
    moment = AvroJson({"type": "long", "logicalType": "timestamp-millis"})
    assert moment.value('"2025-03-01T12:00:00Z"') == datetime(2025, 3, 1, 12, tzinfo=UTC)
    assert moment.value("1000") == 1000
    assert plain(timedelta(seconds=1)) == "0:00:01"


def test_numbers_keep_their_digits_or_are_refused() -> None:
    amount = AvroJson({"type": "bytes", "logicalType": "decimal"})
    assert [amount.value(text) for text in ("12.5", "1234567890123456789.12", '"0.1"', "7")] == [
        Decimal(text) for text in ("12.5", "1234567890123456789.12", "0.1", "7")
    ]
    price = AvroJson(["double", "string"])
    assert [price.value(text) for text in ("1.5", "2", "1e308", '"NaN-like"')] == [1.5, 2.0, 1e308, "NaN-like"]
    for text in ("1e400", "-1e400", "1" + "0" * 400, "1" + "0" * 5000):
        assert not isinstance(price.value(text), float)  # which would be infinite: the writer reports it
