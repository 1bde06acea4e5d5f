"""Recognises servers that speak other protocols than Kafka's, from their first bytes.

A client that reads such bytes as the length of a frame gets a wrong length: the ``HTTP`` of a web server means 1.2 GB,
and a TLS alert means 352 MB. Both are far more likely than a broker that sends a frame of this size, so the error
should explain them.
"""

from __future__ import annotations

from ...errors import FrameTooLargeError, KafkaError, MalformedMessageError, NotKafkaError

HANDSHAKE_MAX_BYTES = 1024 * 1024
"""Maximum size in bytes of responses before a connection is ready.

Real ones are far smaller: a Kerberos token has at most 64 KiB, and ApiVersions a few KiB.
"""

_SHOWN_BYTES = 40

_TLS_RECORDS = {0x14: "change cipher spec", 0x15: "alert", 0x16: "handshake", 0x17: "data"}

_GREETINGS = (
    (b"HTTP/", "an HTTP server"),
    (b"SSH-", "an SSH server"),
    (b"220 ", "a mail or FTP server"),
    (b"220-", "a mail or FTP server"),
    (b"AMQP", "an AMQP broker"),
    (b"-ERR", "a Redis server"),
    (b"-DENIED", "a Redis server"),
    (b"<", "a server that sends HTML or XML"),
)


def recognise(head: bytes) -> str | None:
    """Return a description of the protocol that begins with these bytes, and a remedy, for an error message.

    Returns None if the protocol is unknown.
    """
    if len(head) >= 3 and head[0] in _TLS_RECORDS and head[1] == 3 and head[2] <= 4:
        return (
            f"the answer is a TLS {_TLS_RECORDS[head[0]]}: this listener uses TLS, "
            'set security_protocol to "SSL" or "SASL_SSL"'
        )
    for greeting, server in _GREETINGS:
        if head.startswith(greeting):
            return f"the answer {_shown(head)} comes from {server}: check host and port in bootstrap_servers"
    if len(head) >= 4 and all(32 <= byte < 127 or byte in b"\r\n\t" for byte in head[:16]):
        return f"the answer {_shown(head)} is text, not a Kafka frame: check host and port in bootstrap_servers"
    return None


def frame_length_error(head: bytes, length: int, max_bytes: int) -> KafkaError:
    """Return the error for a frame whose length is not acceptable. ``head`` starts with the length."""
    foreign = recognise(head)
    if foreign is not None:
        return NotKafkaError(foreign)
    if max_bytes <= HANDSHAKE_MAX_BYTES:
        return NotKafkaError(
            f"the server is not a Kafka broker: its first response has the length {length} and begins with "
            f"{_hex(head)}: check host and port in bootstrap_servers"
        )
    if length < 0:
        return MalformedMessageError(f"a frame has the length {length}; the stream begins with {_hex(head)}")
    return FrameTooLargeError(f"a frame of {length} bytes exceeds receive_max_bytes ({max_bytes})")


def _shown(head: bytes) -> str:
    """Return the first line without unprintable characters, because the text is untrusted and will appear in logs."""
    line = head.splitlines()[0][:_SHOWN_BYTES] if head.splitlines() else b""
    return repr("".join(chr(byte) if 32 <= byte < 127 else "." for byte in line))


def _hex(head: bytes) -> str:
    return head[:16].hex(" ")
