"""A PostgreSQL server for the tests, from the programs of Debian's or another package.

Debian and Ubuntu: ``apt-get install postgresql``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from ..ports import PortPool

_PLACES = "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin"
_STARTS_WITHIN_S = 60
_USER = "postgres"
"""The user that the package creates: the server refuses to run as root."""


def programs() -> Path | None:
    """Return the folder of the newest server's programs; None if there is none."""
    folders = [path for place in _PLACES for path in Path("/").glob(place.removeprefix("/"))]
    found = shutil.which("initdb")
    folders += [] if found is None else [Path(found).resolve().parent]
    return max((path for path in folders if (path / "postgres").exists()), default=None)


class Postgres:
    """A server on 127.0.0.1 that can be killed, and restarted on the same port with its committed data."""

    def __init__(self, *, durable: bool = False) -> None:
        """Create its files; ``durable`` writes to disk before confirming a commit."""
        folder = programs()
        assert folder is not None
        self._programs = folder
        self._ports = PortPool()
        self.port = self._ports.take()
        self._folder = Path(tempfile.mkdtemp(prefix="outbox-pg-"))
        self._data = self._folder / "data"
        self._server: subprocess.Popen[bytes] | None = None
        self._user = _USER if os.getuid() == 0 else None
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        sync = [] if durable else ["--no-sync"]
        self._run("initdb", "-D", str(self._data), "-U", "test", "--auth=trust", "-E", "UTF8", "--no-locale", *sync)
        self._settings = ["-c", f"fsync={'on' if durable else 'off'}", "-c", "max_connections=200"]

    def url(self, scheme: str = "postgresql") -> str:
        """Return the URL of the database: with the scheme ``postgresql+asyncpg`` for SQLAlchemy."""
        return f"{scheme}://test@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = ["-p", str(self.port), "-k", str(self._folder), "-h", "127.0.0.1", *self._settings]
        with (self._folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *options],
                stdout=log,
                stderr=log,
                user=self._user,
                cwd=self._folder,
                start_new_session=True,
            )
        self._run("pg_isready", "-h", "127.0.0.1", "-p", str(self.port), "-t", "1", tries=_STARTS_WITHIN_S)

    def kill(self) -> None:
        """Kill all of its processes at once, as the crash of a machine does."""
        if self._server is not None:
            os.killpg(self._server.pid, signal.SIGKILL)
            self._server.wait()
            self._server = None

    def close(self) -> None:
        """Kill the server, and remove its files."""
        self.kill()
        self._ports.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str, tries: int = 1) -> None:
        for left in reversed(range(tries)):
            ended = subprocess.run(
                [self._programs / program, *arguments],
                capture_output=True,
                text=True,
                check=False,
                user=self._user,
                cwd=self._folder,
            )
            if ended.returncode == 0:
                return
            assert left, f"{program}: {ended.stdout}{ended.stderr}"
