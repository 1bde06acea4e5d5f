"""Recognises peers with other protocols than Kafka's from their first bytes.

A client that interprets foreign bytes as a frame's length gets a wrong length: the ``HTTP`` of a web server means
1.2 GB, a TLS alert 352 MB. Both are far more common than a broker with a frame of that size, so they get a clear error.
"""

from __future__ import annotations

from ...errors import FrameTooLargeError, KafkaError, MalformedMessageError, NotKafkaError

HANDSHAKE_MAX_BYTES = 1024 * 1024
"""Maximum size of answers before a connection is ready, far above real sizes: a Kerberos token has at most 64 KiB,
ApiVersions a few KiB."""

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
    """Return a description of the protocol of these first bytes, and a remedy; None if it is unknown."""
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
    """Return the error for a frame with an unacceptable length; ``head`` begins with the length prefix."""
    foreign = recognise(head)
    if foreign is not None:
        return NotKafkaError(foreign)
    if length < 0:
        return MalformedMessageError(f"a frame has the length {length}; the stream begins with {_hex(head)}")
    if max_bytes <= HANDSHAKE_MAX_BYTES:
        return NotKafkaError(
            f"the server is not a Kafka broker: its first response has the length {length} and begins with "
            f"{_hex(head)}: check host and port in bootstrap_servers"
        )
    return FrameTooLargeError(f"a frame of {length} bytes exceeds receive_max_bytes ({max_bytes})")


def _shown(head: bytes) -> str:
    """Return the first line with unprintable characters replaced, because it is untrusted, and appears in logs."""
    line = head.splitlines()[0][:_SHOWN_BYTES] if head.splitlines() else b""
    return repr("".join(chr(byte) if 32 <= byte < 127 else "." for byte in line))


def _hex(head: bytes) -> str:
    return head[:16].hex(" ")
