"""Protobuf schemas as text, and data written with them: beside Java, at a real registry."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from google.protobuf import any_pb2, api_pb2, descriptor_pb2, struct_pb2, type_pb2
from google.protobuf.json_format import MessageToDict, ParseDict

from aiokafka_lead.errors import InvalidSchemaError
from aiokafka_lead.schema import Schema, SchemaRegistry
from aiokafka_lead.schema.proto_file import DescribedMessages, message_names
from aiokafka_lead.schema.proto_text import NoText, proto_text
from aiokafka_lead.schema.types import ResolvedSchema
from aiokafka_lead.testing import EmbeddedSchemaRegistry

from . import messages
from .apicurio import Apicurio, JavaProtobuf

pytestmark = pytest.mark.anyio

MESSAGES: list[Any] = [
    messages.PLAIN(id=7),
    messages.SECOND(id=8),
    messages.ADDRESS(city="x"),
    messages.ORDER(id=1, customer="c", lines=[messages.LINE(item="a")], total=messages.MONEY(cents=3)),
    messages.LINE(item="b"),
    messages.BASKET(counts={"a": 2}, state=1, gift=messages.GIFT(item="c"), note=""),
    messages.GIFT(item="d"),
]


# --- beside Java ---


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.DESCRIPTOR.full_name)
async def test_protobuf_is_read_and_written_as_by_java(
    real_registry: Apicurio, java_protobuf: JavaProtobuf, name: str, message: Any
) -> None:
    registry = SchemaRegistry(real_registry.url)
    kind = type(message)
    ours = await registry.protobuf_serializer(kind, auto_register=True).encode(message, f"{name}-ours")
    assert java_protobuf.read(f"{name}-ours", kind, ours) == message
    theirs = java_protobuf.write(f"{name}-theirs", message)
    assert await registry.deserializer(kind).decode(theirs) == message
    latest = await registry.protobuf_serializer(kind, use_latest=True).encode(message, f"{name}-theirs")
    assert latest[:5] == theirs[:5]
    assert java_protobuf.read(f"{name}-theirs", kind, latest) == message


# --- the text ---


def described(kind: Any) -> descriptor_pb2.FileDescriptorProto:
    """Return the descriptor of a message type's file."""
    file = descriptor_pb2.FileDescriptorProto()
    kind.DESCRIPTOR.file.CopyToProto(file)
    return file


@pytest.mark.parametrize(
    "kind", [messages.ORDER, messages.PLAIN, any_pb2.Any, api_pb2.Api, struct_pb2.Struct, type_pb2.Type]
)
def test_the_text_has_every_message_type_in_its_place(kind: Any) -> None:
    file = kind.DESCRIPTOR.file
    top = {(index,): each.full_name for index, each in enumerate(file.message_types_by_name.values())}
    assert {path: each for path, each in message_names(proto_text(described(kind))).items() if len(path) == 1} == top


def test_the_text_of_a_file_with_everything() -> None:
    assert proto_text(described(messages.EVERYTHING)) == messages.EVERYTHING_TEXT


def test_a_file_without_a_text_here() -> None:
    editions = descriptor_pb2.FileDescriptorProto(name="e.proto", syntax="editions")
    with pytest.raises(NoText):
        proto_text(editions)
    unknown = descriptor_pb2.FileDescriptorProto(name="u.proto", syntax="proto3")
    unknown.options.MergeFromString(b"\xc2\x3e\x01x")  # field 1000, which is undefined
    with pytest.raises(NoText):
        proto_text(unknown)


# --- classes built from the text ---

SHOP = """
edition = "2023"; package shop; import weak "other.proto"; import "buf/validate/validate.proto";
import "google/protobuf/timestamp.proto"; import public "confluent/type/decimal.proto";
option (mine) = { a: 1 b { c: "}" } };
message Order {
  option (x).y = true; reserved 5, 7 to 9; reserved "old"; extensions 100 to 200 [declaration = { number: 1 }];
  int64 id = 1 [json_name = "theId", (buf.validate.field).int64 = {gt: 0}];
  map<string, Line> lines = 3; // message Hidden {}
  oneof by { option (z) = 1; string guest = 4; Line line = 0x6; }
  message Line { enum K { option allow_alias = true; A = 0; B = -1; C = 0x2; AA = 0; } K k = 1; State state = 2; };
  google.protobuf.Timestamp at = 10; confluent.type.Decimal price = 11; inner.Money money = 13;
  bytes message = 14; repeated string option = 15 [features.repeated_field_encoding = EXPANDED];
  extend Order { string more = 100; }
}
enum State { OPEN = 0 [deprecated = true]; CLOSED = 1; }
service S { rpc Do(Order) returns (stream Order) { option x = 1; } rpc Go(Order) returns (Order); }
extend google.protobuf.FieldOptions { string my = 50000; }
"""
MONEY = 'syntax = "proto3"; package shop.inner; message Money { optional sint64 cents = 1; }'


def described_here(text: str, **references: str) -> DescribedMessages:
    others = ((f"{name}.proto", Schema(each, "PROTOBUF")) for name, each in references.items())
    return DescribedMessages(ResolvedSchema(Schema(text, "PROTOBUF"), tuple(others)))


def test_a_class_built_from_a_schema_has_all_its_fields() -> None:
    kind = described_here(SHOP, other=MONEY).kind("shop.Order")
    line = {"k": "B", "state": "CLOSED"}
    shown = {"id": "3", "lines": {"": line}, "line": {"k": "C"}, "at": "2020-01-01T00:00:00Z", "option": ["", "x"]}
    shown |= {"price": {"value": "AA==", "scale": 2}, "money": {"cents": "0"}, "message": "/w=="}
    made = ParseDict(shown, kind())
    assert MessageToDict(kind.FromString(made.SerializeToString()), preserving_proto_field_name=True) == shown
    assert MessageToDict(kind(id=1)) == {"theId": "1"}


@pytest.mark.parametrize("kind", [messages.ORDER, messages.BASKET, type_pb2.Type, any_pb2.Any])
def test_a_class_built_from_a_text_reads_as_the_generated_one(kind: Any) -> None:
    """Descriptors themselves are messages with everything that proto2 and proto3 have."""
    texts = {}
    for file in (descriptor_pb2.DESCRIPTOR, kind.DESCRIPTOR.file):
        made = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(made)
        texts[file.name] = (made, proto_text(made))
    built = described_here(texts["google/protobuf/descriptor.proto"][1]).kind("google.protobuf.FileDescriptorProto")
    for made, _ in texts.values():
        assert MessageToDict(built.FromString(made.SerializeToString())) == MessageToDict(made)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("message A { Nope x = 1; }", "Nope"),
        ("message A { int32 x = 1 }", "';'"),
        ("message A {", "too early"),
        ("message A { string s = ; }", "';'"),
        ('import "os/path.proto"; message A { os.Path p = 1; }', r"os\.Path"),
        ("message A { optional group G = 1 { } }", "group"),
        ("message A {" * 2000 + "}" * 2000, "recursion"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidSchemaError, match=why):
        described_here(text)


IN_THE_FIELD = """edition = "2023"; message A { B b = 1 [features.message_encoding = DELIMITED]; int32 y = 2; }
message B { int32 x = 1; }"""
IN_THE_FILE = """edition = "2023"; option features.message_encoding = DELIMITED; message A { B b = 1; int32 y = 2; }
message B { int32 x = 1; }"""
AS_IN_PROTO2 = """edition = "2023"; message A { B b = 1 [features.message_encoding = DELIMITED]; int32 y = 2; }
message B { enum K { option features.enum_type = CLOSED; N = 0; } int32 x = 1; K k = 3; }"""


@pytest.mark.parametrize("text", [IN_THE_FIELD, IN_THE_FILE, AS_IN_PROTO2])
def test_features_of_editions_determine_the_encoding(text: str) -> None:
    kind = described_here(text).kind("A")
    read = kind.FromString(b"\x0b\x08\x05\x18\x07\x0c\x10\x01")  # a group, which ends with a tag of its own
    assert MessageToDict(read, preserving_proto_field_name=True)["b"]["x"] == 5
    assert read.y == 1
    if text is AS_IN_PROTO2:
        assert not read.b.HasField("k")  # a closed enum


def test_edition_2024_says_who_may_use_a_message() -> None:
    text = """edition = "2024"; import option "options.proto"; export message Z { local message In { string q = 1; } }
    local enum K { N = 0; } message A { int32 x = 1; K local = 2; }"""
    assert message_names(text) == {(0,): "Z", (0, 0): "Z.In", (1,): "A"}
    described_here(text).kind("Z.In")


def test_a_descriptor_in_base64_may_end_with_a_line_break() -> None:
    made = descriptor_pb2.FileDescriptorProto()
    messages.ORDER.DESCRIPTOR.file.CopyToProto(made)
    text = base64.b64encode(made.SerializeToString()).decode()
    assert message_names(text + "\n") == message_names(text)


# --- the latest schema of a subject ---


async def test_the_latest_schema_says_where_a_message_type_is(
    schema_registry: EmbeddedSchemaRegistry, name: str
) -> None:
    """Another schema may have added types before it."""
    registry = SchemaRegistry(schema_registry.url)
    text = 'syntax = "proto3"; package shop; message Newer {} message Plain { int64 id = 1; }'
    await registry.register(f"{name}-value", Schema(text, "PROTOBUF"))
    serializer = registry.protobuf_serializer(messages.PLAIN, use_latest=True)
    written = await serializer.encode(messages.PLAIN(id=3), name)
    assert written[5:] == b"\x02\x02" + messages.PLAIN(id=3).SerializeToString()
    assert await registry.deserializer().decode(written) == messages.PLAIN(id=3)
    with pytest.raises(InvalidSchemaError, match=r"no message type shop\.Second"):
        await registry.protobuf_serializer(messages.SECOND, use_latest=True).encode(messages.SECOND(id=3), name)
