r"""The table of escapes, for both templates and separators: ``\n``, ``\t``, ``\x1f``, ``\u00e9`` and others."""

from __future__ import annotations

import re

from ..errors import ConfigError

ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.|$)", re.DOTALL)
_SINGLE = {"n": 10, "t": 9, "r": 13, "0": 0, "a": 7, "b": 8, "e": 27, "f": 12, "v": 11, "\\": 92}


def unescaped(option: str, escape: str) -> bytes:
    r"""Return the bytes for the text after a backslash: ``\xff`` is that byte, ``\u00ff`` that character in UTF-8."""
    if escape in _SINGLE:
        return bytes((_SINGLE[escape],))
    if escape[:1] == "x" and len(escape) == 3:
        return bytes.fromhex(escape[1:])
    if escape[:1] in ("u", "U") and len(escape) > 1:
        try:
            return chr(int(escape[1:], 16)).encode()
        except (ValueError, OverflowError):  # half of a surrogate pair, or beyond Unicode
            raise ConfigError(f"{option}: \\{escape} is no character") from None
    known = ", ".join(f"\\{name}" for name in _SINGLE)
    raise ConfigError(f"{option}: there is no \\{escape}, but {known}, \\xHH, \\uHHHH and \\UHHHHHHHH")


def without_escapes(option: str, text: str) -> bytes:
    """Return a command-line text with its escapes replaced; raise `ConfigError` for an unknown one."""
    made, end = b"", 0
    for found in ESCAPE.finditer(text):
        made += text[end : found.start()].encode("utf-8", "surrogateescape") + unescaped(option, found[1])
        end = found.end()
    return made + text[end:].encode("utf-8", "surrogateescape")
