"""Protobuf messages as ``protoc`` would generate their classes: two files, nested types."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, text_format
from google.protobuf.message_factory import GetMessageClass

_POOL = descriptor_pool.Default()
_FIELD = descriptor_pb2.FieldDescriptorProto

PROTO = """
syntax = "proto3";
package shop;  // message Hidden {}
import "shop/money.proto";
option java_package = "message { }";
enum State { OPEN = 0; CLOSED = 1; }
message Customer { string name = 1; message Address { string city = 1; message Zip { string code = 1; } } }
message Order {
  int64 id = 1;
  /* message Nowhere { */
  oneof by { string customer = 2; string guest = 3; }
  message Line { string item = 1; }
  repeated Line lines = 4;
  Money total = 5;
}
"""
"""A badly formatted text of the file of `ORDER`, with everything that may confuse a parser of names."""


def _message(name: str, *fields: tuple[str, int, str], nested: tuple[Any, ...] = ()) -> Any:
    made = descriptor_pb2.DescriptorProto(name=name, nested_type=nested)
    for field, number, kind in fields:
        repeated = kind.startswith("*")
        label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
        bare = kind.lstrip("*")
        if bare in ("string", "int64"):
            made.field.add(name=field, number=number, label=label, type=getattr(_FIELD, f"TYPE_{bare.upper()}"))
        else:
            made.field.add(name=field, number=number, label=label, type=_FIELD.TYPE_MESSAGE, type_name=bare)
    return made


_POOL.Add(
    descriptor_pb2.FileDescriptorProto(
        name="shop/money.proto",
        package="shop",
        syntax="proto3",
        message_type=[_message("Money", ("cents", 1, "int64"))],
    )
)
_POOL.Add(
    descriptor_pb2.FileDescriptorProto(
        name="shop/order.proto",
        package="shop",
        syntax="proto3",
        dependency=["shop/money.proto"],
        message_type=[
            _message("Customer", ("name", 1, "string"), nested=(_message("Address", ("city", 1, "string")),)),
            _message(
                "Order",
                ("id", 1, "int64"),
                ("customer", 2, "string"),
                ("lines", 4, "*.shop.Order.Line"),
                ("total", 5, ".shop.Money"),
                nested=(_message("Line", ("item", 1, "string")),),
            ),
        ],
    )
)
_POOL.Add(
    descriptor_pb2.FileDescriptorProto(
        name="shop/plain.proto",
        package="shop",
        syntax="proto3",
        message_type=[_message("Plain", ("id", 1, "int64")), _message("Second", ("id", 1, "int64"))],
    )
)

_BASKET = """
name: "shop/basket.proto" package: "shop" syntax: "proto3"
options { java_package: "org.shop" java_multiple_files: true }
enum_type { name: "State" value { name: "OPEN" number: 0 } value { name: "PAID" number: 1 } }
message_type {
  name: "Basket"
  nested_type {
    name: "CountsEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_INT64 }
  }
  nested_type { name: "Gift" field { name: "item" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING } }
  field { name: "counts" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".shop.Basket.CountsEntry" }
  field { name: "state" number: 2 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".shop.State" }
  field { name: "guest" number: 3 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 }
  field { name: "gift" number: 4 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".shop.Basket.Gift"
          oneof_index: 0 }
  field { name: "note" number: 5 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 1 proto3_optional: true }
  oneof_decl { name: "by" } oneof_decl { name: "_note" }
  reserved_range { start: 8 end: 11 } reserved_name: "old"
}
"""
"""A nested type behind a map: registries count it as the first."""
_POOL.Add(text_format.Parse(_BASKET, descriptor_pb2.FileDescriptorProto()))
_TAGS = """
name: "all/tags.proto" package: "all" syntax: "proto2" dependency: "google/protobuf/descriptor.proto"
extension { name: "tags" number: 50002 label: LABEL_REPEATED type: TYPE_STRING
            extendee: ".google.protobuf.FieldOptions" }
"""
_POOL.Add(text_format.Parse(_TAGS, descriptor_pb2.FileDescriptorProto()))
_POOL.Add(
    text_format.Parse(
        r"""
        name: "all/everything.proto" package: "all" syntax: "proto2"
        dependency: ["all/tags.proto", "shop/plain.proto"] public_dependency: 1
        options { java_package: "a\"b" optimize_for: CODE_SIZE }
        enum_type {
          name: "Color" options { allow_alias: true }
          value { name: "RED" number: 0 options { deprecated: true } }
          value { name: "ROT" number: 0 } value { name: "BLUE" number: 5 }
          reserved_range { start: 7 end: 7 } reserved_range { start: 9 end: 11 } reserved_name: "GREEN"
        }
        message_type {
          name: "Everything"
          nested_type {
            name: "ByNameEntry" options { map_entry: true }
            field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
            field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".shop.Second" }
          }
          nested_type {
            name: "Inner"
            field {
              name: "content" number: 1 label: LABEL_REQUIRED type: TYPE_BYTES default_value: "a\\001\\\"\\\\c"
            }
          }
          field { name: "by_name" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE
                  type_name: ".all.Everything.ByNameEntry" }
          field { name: "inner" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".all.Everything.Inner"
                  json_name: "iNNer" options { [all.tags]: "t1" [all.tags]: "t2" } }
          field { name: "number" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 oneof_index: 0 }
          field { name: "text" number: 4 label: LABEL_OPTIONAL type: TYPE_STRING oneof_index: 0 default_value: "s" }
          oneof_decl { name: "choice" }
          field { name: "ones" number: 5 label: LABEL_REPEATED type: TYPE_SINT64 options { packed: true } }
          field { name: "color" number: 6 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".all.Color"
                  default_value: "BLUE" }
          extension_range { start: 100 end: 200 } extension_range { start: 500 end: 536870912 }
          reserved_range { start: 20 end: 21 } reserved_name: "old"
        }
        extension { name: "more" number: 100 label: LABEL_OPTIONAL type: TYPE_BOOL extendee: ".all.Everything" }
        service {
          name: "Everywhere"
          method { name: "Do" input_type: ".all.Everything" output_type: ".shop.Second" server_streaming: true
                   options { deprecated: true } }
          method { name: "Go" input_type: ".all.Everything" output_type: ".shop.Second" client_streaming: true }
        }
        """,
        descriptor_pb2.FileDescriptorProto(),
    )
)
EVERYTHING_TEXT = r"""syntax = "proto2";
package all;
import "all/tags.proto";
import public "shop/plain.proto";
option java_package = "a\"b";
option optimize_for = CODE_SIZE;
enum Color {
  option allow_alias = true;
  RED = 0 [deprecated = true];
  ROT = 0;
  BLUE = 5;
  reserved 7;
  reserved 9 to 11;
  reserved "GREEN";
}
message Everything {
  message Inner {
    required bytes content = 1 [default = "a\001\"\\c"];
  }
  map<string, .shop.Second> by_name = 1;
  optional .all.Everything.Inner inner = 2 [json_name = "iNNer", (all.tags) = "t1", (all.tags) = "t2"];
  oneof choice {
    int32 number = 3;
    string text = 4 [default = "s"];
  }
  repeated sint64 ones = 5 [packed = true];
  optional .all.Color color = 6 [default = BLUE];
  reserved 20;
  reserved "old";
  extensions 100 to 199;
  extensions 500 to max;
}
extend .all.Everything {
  optional bool more = 100;
}
service Everywhere {
  rpc Do(.all.Everything) returns (stream .shop.Second) {
    option deprecated = true;
  }
  rpc Go(stream .all.Everything) returns (.shop.Second);
}
"""
"""The output of ``protoc`` for the file of `EVERYTHING`."""


def _class(name: str) -> Any:
    return GetMessageClass(_POOL.FindMessageTypeByName(name))


MONEY: Any = _class("shop.Money")
CUSTOMER: Any = _class("shop.Customer")
ADDRESS: Any = _class("shop.Customer.Address")
ORDER: Any = _class("shop.Order")
LINE: Any = _class("shop.Order.Line")
PLAIN: Any = _class("shop.Plain")
SECOND: Any = _class("shop.Second")
EVERYTHING: Any = _class("all.Everything")
INNER: Any = _class("all.Everything.Inner")
BASKET: Any = _class("shop.Basket")
GIFT: Any = _class("shop.Basket.Gift")
