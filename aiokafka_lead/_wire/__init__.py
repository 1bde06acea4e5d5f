"""Kafka's protocol: messages, their codecs, frames, and the negotiation of versions.

The classes of an API are in a module of their own, ``aiokafka_lead._wire.messages.<api>``, which is imported where it
is used; nothing here imports one.
"""

from __future__ import annotations

from .api_key import ApiKey
from .apis import request_class
from .codec import decode, encode
from .framing import (
    RequestFrame,
    RequestHeader,
    UnsupportedRequestError,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    peek_correlation_id,
)
from .message import ZERO_UUID, Buffer, Message, Records, Request, Response, Struct
from .versions import ApiVersions

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
    "decode_request",
    "decode_request_header",
    "decode_response",
    "encode",
    "encode_request",
    "encode_response",
    "peek_correlation_id",
    "request_class",
]
