"""Options of the clients, from the command line, the environment, a profile in a TOML file, and a password prompt.

This is the order of precedence, except that the prompt comes first. Secrets are not accepted on the command line,
because every user of the machine can read it.
"""

from __future__ import annotations

import dataclasses
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._options.checks import Secret
from ..config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from ..errors import ConfigError
from .names import close_to
from .schemas import RegistrySettings

ENVIRONMENT_PREFIX = "AIOKAFKA_LEAD_"

_SERVERS = "bootstrap_servers"
_NAME = re.compile(r"[\w.-]*")
"""Matches the start of a text that may contain a secret. An error message shows only this start."""

_FIELDS = {
    field.name: field
    for kind in (ProducerConfig, ConsumerConfig, AdminConfig, ClientConfig, RegistrySettings)
    for field in dataclasses.fields(kind)
}
_PROMPTED = "sasl_plain_password"
_CONFIG = f"{ENVIRONMENT_PREFIX}CONFIG"
_OTHERS = {_CONFIG, *(f"{ENVIRONMENT_PREFIX}{name}" for name in ("PROFILE", "TRACEBACK", "PURE", "WITHOUT"))}
"""Environment variables with the prefix that are not options of clients."""


def profile_path(environment: Mapping[str, str]) -> Path:
    """Return ``$AIOKAFKA_LEAD_CONFIG``, or by default ``~/.config/aiokafka-lead/config.toml``."""
    named = environment.get(_CONFIG)
    if named:
        return Path(os.path.expanduser(named))
    # Not `Path.home`, which raises an error for a user without a passwd entry, as in containers.
    home = environment.get("HOME") or os.path.expanduser("~")
    return Path(environment.get("XDG_CONFIG_HOME") or f"{home}/.config") / "aiokafka-lead" / "config.toml"


def options_of(
    *,
    servers: str | None,
    profile: str | None,
    settings: Sequence[str],
    environment: Mapping[str, str],
    ask: Callable[[str], str] | None,
    note: Callable[[str], None],
) -> dict[str, Any]:
    """Return the options of clients from all sources. Raises `ConfigError` if an option is invalid.

    ``settings`` are the values of ``--option``. ``ask`` prompts for the SASL password if it is not None. ``note``
    reports environment variables with the prefix that are not options.
    """
    if profile == "":  # from an unset variable; the user may not mean the default profile's cluster
        raise ConfigError("the name of the profile is empty")
    path = profile_path(environment)
    options = _profile(profile or environment.get(f"{ENVIRONMENT_PREFIX}PROFILE"), path)
    variables = {ENVIRONMENT_PREFIX + name.upper(): name for name in _FIELDS}
    for variable, name in variables.items():
        text = environment.get(variable)
        if text:  # container templates often set variables to an empty value
            options[name] = _value(name, text, _FIELDS[name])
    for variable in environment:
        if variable.startswith(ENVIRONMENT_PREFIX) and variable not in variables and variable not in _OTHERS:
            note(f"{variable} is ignored: there is no such option{close_to(variable, variables)}")
    for setting in settings:
        name, separator, text = setting.partition("=")
        if not separator:
            shown = _NAME.match(name)[0]  # type: ignore[index]
            raise ConfigError(f"--option takes NAME=VALUE; '=' is missing after {shown!r}")
        known = _FIELDS.get(name)
        if known is None:
            raise ConfigError(f"--option {name}: there is no such option{close_to(name, _FIELDS)}")
        if not known.repr and not _is_open(name, text):
            variable = ENVIRONMENT_PREFIX + name.upper()
            raise ConfigError(
                f"{name} is a secret, and other users can read the command line; set {variable}, put it into a profile,"
                " or use --ask-password for the SASL password"
            )
        options[name] = _value(name, text, known)
    if servers is not None:
        options[_SERVERS] = servers
    if ask is not None:
        options[_PROMPTED] = Secret(ask("Password: "))
    if not options.get(_SERVERS):
        missing = environment.get(_CONFIG) and not os.path.exists(path)
        raise ConfigError(
            "no bootstrap servers are set; pass --bootstrap-servers,"
            f" set {ENVIRONMENT_PREFIX}{_SERVERS.upper()}, or use a profile"
            + (f" (there is no file {path}, which {_CONFIG} names)" if missing else "")
        )
    return options


def _is_open(name: str, text: str) -> bool:
    """Return True if this value of a secret option contains no secret, such as a proxy URL without a password."""
    return name == "proxy_url" and "@" not in text


def _profile(name: str | None, path: Path) -> dict[str, Any]:
    """Return the options of a profile. The default is the profile ``default``, if it exists."""
    if not os.path.isfile(path):  # unlike `Path.is_file`, False for a path in another user's home directory
        if name is not None:
            raise ConfigError(f"profile {name!r} not found: there is no file {path}")
        return {}
    try:
        content = tomllib.loads(path.read_text("utf-8-sig"))
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
    profiles = content.pop("profiles", {})
    if content:
        raise ConfigError(
            f"{path}: {next(iter(content))!r} is outside the tables [profiles.NAME]; move it into one of them"
        )
    if not isinstance(profiles, dict):
        raise ConfigError(f"{path}: 'profiles' must be a table of profiles")
    found = profiles.get(name or "default")
    if found is None:
        if name is None:
            return {}
        others = ", ".join(map(repr, profiles)) or "none"
        raise ConfigError(f"{path} has no profile {name!r}; its profiles: {others}{close_to(name, profiles)}")
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: profile {name or 'default'!r} must be a table of options")
    unknown = [option for option in found if option not in _FIELDS]
    if unknown:
        raise ConfigError(f"{path}: {unknown[0]} is not an option of a client{close_to(unknown[0], _FIELDS)}")
    secret = [option for option in found if not _FIELDS[option].repr]
    if secret and os.name == "posix" and path.stat().st_mode & 0o077:
        raise ConfigError(
            f"{path} contains a secret ({secret[0]}), but other users can read the file; run: chmod 600 {path}"
        )
    return {option: Secret(value) if option in secret else value for option, value in found.items()}


def _value(name: str, text: str, field: dataclasses.Field[Any]) -> Any:
    """Convert the text of an option to the option's type. Raises `ConfigError`."""
    kind = str(field.type)
    if name == "acks":
        return int(text) if text.lstrip("-").isdigit() else text
    try:
        if kind.startswith("bool"):
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[text.lower()]
        if kind.startswith("int"):
            return int(text)
        if kind.startswith("float"):
            return float(text)
    except (KeyError, ValueError):
        raise ConfigError(f"{name}: {text!r} is not a value of type {kind}") from None
    return text if field.repr else Secret(text)
