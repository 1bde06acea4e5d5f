"""Kafka's protocol: messages, their codecs, frames, and the negotiation of versions.

The classes of an API are in a separate module, ``aiokafka_lead._wire.messages.<api>``, which its users import; this
package imports none. The broker's side is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .codec import decode, element_decoder, encode, make_codecs, stepwise_decoder
from .framing import decode_answer, decode_response, decode_response_in_steps, encode_request, peek_correlation_id
from .message import ZERO_UUID, Buffer, Message, Records, Request, Response, Struct
from .versions import ApiVersions

if TYPE_CHECKING:
    from .api_key import ApiKey
    from .server import (
        RequestFrame,
        RequestHeader,
        UnsupportedRequestError,
        decode_request,
        decode_request_header,
        encode_response,
        request_class,
    )

__all__ = [
    "ZERO_UUID",
    "ApiKey",
    "ApiVersions",
    "Buffer",
    "Message",
    "Records",
    "Request",
    "RequestFrame",
    "RequestHeader",
    "Response",
    "Struct",
    "UnsupportedRequestError",
    "decode",
    "decode_answer",
    "decode_request",
    "decode_request_header",
    "decode_response",
    "decode_response_in_steps",
    "element_decoder",
    "encode",
    "encode_request",
    "encode_response",
    "make_codecs",
    "peek_correlation_id",
    "request_class",
    "stepwise_decoder",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(".api_key" if name == "ApiKey" else ".server", __name__), name)
    return value
