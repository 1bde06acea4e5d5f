"""The message types of a ``.proto`` file, by their index paths: all that reading messages needs of its text."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from ..errors import InvalidSchemaError

_TOKEN = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | [{};] | [\w.]+ | \S""", re.DOTALL | re.VERBOSE
)
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def message_names(text: str) -> dict[tuple[int, ...], str]:
    """Return full names by path: ``(1, 0)`` is the first type in the file's second one. Raises `InvalidSchemaError`.

    ``text`` is a ``.proto`` file, or its descriptor in base64.
    """
    if is_descriptor(text):
        return _described(text)
    names: dict[tuple[int, ...], str] = {}
    package = ""
    open_blocks: list[tuple[tuple[int, ...], str] | None] = [((), "")]
    """Enclosing blocks: the path and name of each message type; None for any other block."""
    counts: dict[tuple[int, ...], int] = {}
    statement: list[str] = []
    for token in tokens(text):
        if token == "{":
            around = open_blocks[-1]
            if len(statement) == 2 and statement[0] == "message" and around is not None:
                above, prefix = around
                index = counts[above] = counts.get(above, -1) + 1
                name = f"{prefix}.{statement[1]}" if prefix else statement[1]
                names[*above, index] = name
                open_blocks.append(((*above, index), name))
            else:
                open_blocks.append(None)
            statement = []
        elif token == "}":
            if len(open_blocks) == 1:
                raise InvalidSchemaError("this is no .proto file: a brace is closed that was not opened")
            open_blocks.pop()
            statement = []
        elif token == ";":
            if len(statement) == 2 and statement[0] == "package":
                package = statement[1]
            statement = []
        else:
            statement.append(token)
    if len(open_blocks) != 1:
        raise InvalidSchemaError("this is no .proto file: a brace is not closed")
    return {path: f"{package}.{name}" if package else name for path, name in names.items()}


def is_descriptor(text: str) -> bool:
    """Return True if this is a descriptor in base64, and not the text of a file."""
    return _BASE64.fullmatch(text.strip()) is not None


def tokens(text: str) -> Iterator[str]:
    """Yield the words and signs of a ``.proto`` file, without comments."""
    for found in _TOKEN.finditer(text):
        token = found[0]
        if not token.startswith(("//", "/*")):
            yield token


def _described(text: str) -> dict[tuple[int, ...], str]:
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (DecodeError, binascii.Error):
        raise InvalidSchemaError("this is neither a .proto file nor its descriptor in base64") from None
    names: dict[tuple[int, ...], str] = {}

    def add(types: object, path: tuple[int, ...], prefix: str) -> None:
        for index, each in enumerate(types):  # type: ignore[arg-type,var-annotated]
            name = f"{prefix}.{each.name}" if prefix else each.name
            names[*path, index] = name
            add(each.nested_type, (*path, index), name)

    add(file.message_type, (), file.package)
    return names
