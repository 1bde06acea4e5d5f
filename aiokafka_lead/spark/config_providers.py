"""Java's config providers (KIP-297, KIP-421), which read values of settings on each machine.

With ``kafka.config.providers=env`` and a class in ``kafka.config.providers.env.class``, other settings may contain
``${env:NAME}``. The value is read from the environment or a file on each machine, so Spark never shows it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from .._options.checks import Secret
from .secrets import hidden

_NAMES = "kafka.config.providers"
_VARIABLE = re.compile(r"\$\{([^}:]*):(?:([^}]*):)?([^}:]*)\}")
_END = re.compile(r"\r\n|\r|\n")
_CONTINUES = re.compile(r"(?<!\\)(?:\\\\)*\\$")
_LINE = re.compile(r"\s*((?:\\.|[^\s=:\\])+)\s*[=:]?\s*(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)

Lookup = Callable[[str, str], str]
"""Function that returns the text for a path (``""`` if none is given) and a key. Raises KeyError or OSError."""


def with_variables(options: Mapping[str, str]) -> dict[str, str]:
    """Replace ``${provider:path:key}`` and ``${provider:key}`` of declared providers in the values of options.

    The names of the options must be in lower case. Raises ValueError for an unsupported provider class, and for a value
    that cannot be read. The error names the option, and never contains a value.
    """
    names = [name.strip() for name in options.get(_NAMES, "").split(",")]
    # Like Java, ignore a provider without a class.
    providers = {name: _provider(name, options) for name in names if f"{_NAMES}.{name.lower()}.class" in options}
    return hidden(
        {
            name: value if name.startswith(_NAMES) else _replaced(name, value, providers)
            for name, value in options.items()
        }
    )


def _provider(name: str, options: Mapping[str, str]) -> Lookup:
    option = f"{_NAMES}.{name.lower()}"
    if limits := [entry for entry in options if entry.startswith(f"{option}.param.")]:
        raise ValueError(f"option '{limits[0]}' is not supported")
    kind = options[f"{option}.class"].strip().rpartition(".")[2]
    if kind not in _LOOKUPS:
        raise ValueError(f"option '{option}.class' must name one of Java's {', '.join(_LOOKUPS)}, not '{kind}'")
    return _LOOKUPS[kind]


def _replaced(name: str, value: str, providers: Mapping[str, Lookup]) -> str:
    def find(match: re.Match[str]) -> str:
        provider, path, key = match[1], match[2] or "", match[3]
        if provider not in providers:
            return match[0]
        try:
            return providers[provider](path, key)
        except KeyError:
            why = "the entry does not exist"
        except UnicodeDecodeError:
            why = "it is not valid UTF-8"
        except OSError as error:
            why = str(error.strerror)
        # Raised outside of the except blocks, because the traceback of the original error contains secrets in a file.
        raise ValueError(f"option '{name}': {match[0]} cannot be read: {why}")

    found = _VARIABLE.sub(find, value)
    return value if found == value else Secret(found)


def _from_environment(path: str, key: str) -> str:
    return os.environ[key]


def _from_directory(path: str, key: str) -> str:
    return (Path(path) / key).read_bytes().decode()


def _from_properties(path: str, key: str) -> str:
    """Return a value from a Java properties file."""
    found = None
    for line in _logical(_END.split(Path(path).read_bytes().decode())):
        match = _LINE.fullmatch(line)
        if match is not None and _unescaped(match[1]) == key:
            found = match[2]  # as in Java, the last entry counts
    if found is None:
        raise KeyError(key)
    return _unescaped(found)


def _logical(lines: Iterable[str]) -> Iterator[str]:
    """Join each line that ends with a backslash with the next line. Skip comments, which are never continued."""
    begun = ""
    for line in lines:
        text = line.lstrip(" \t\f")
        if not begun and text.startswith(("#", "!")):
            continue
        begun += text
        if _CONTINUES.search(text):
            begun = begun[:-1]
        else:
            yield begun
            begun = ""
    yield begun


def _unescaped(text: str) -> str:
    def character(escape: re.Match[str]) -> str:
        return chr(int(escape[1], 16)) if escape[1] else _CONTROLS.get(escape[2], escape[2])

    # A character beyond U+FFFF is written as two escapes, which form a surrogate pair.
    return _ESCAPED.sub(character, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
_LOOKUPS: Mapping[str, Lookup] = {
    "EnvVarConfigProvider": _from_environment,
    "DirectoryConfigProvider": _from_directory,
    "FileConfigProvider": _from_properties,
}
