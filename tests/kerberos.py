"""A real Kerberos realm for tests: an MIT KDC on this machine, with its own folder, and without root rights.

Debian and Ubuntu: ``apt-get install krb5-kdc krb5-admin-server libkrb5-dev``, then ``pip install gssapi``.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from .kafka.harness.processes import Processes, freeze, wait_until
from .ports import PortPool

REALM: Final = "TEST.LOCAL"
CLIENT: Final = f"alice@{REALM}"
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")
_PLACES = "/usr/sbin:/usr/lib/mit/sbin:/usr/local/sbin:/opt/homebrew/opt/krb5/sbin"
_TIMEOUT_S = 90


def missing() -> str | None:
    """Return a missing prerequisite of a realm, with the command that installs it, or None."""
    for program in _PROGRAMS:
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:{_PLACES}") is None:
            return f"no {program} (apt-get install krb5-kdc krb5-admin-server libkrb5-dev)"
    try:
        import gssapi  # noqa: F401 # pyright: ignore[reportMissingImports]
    except (ImportError, OSError) as error:
        return f"no gssapi (apt-get install libkrb5-dev; pip install gssapi): {error}"
    return None


class Realm:
    """A KDC, the user alice, and the service kafka on localhost and 127.0.0.1; keytabs are in ``folder``."""

    def __init__(self) -> None:
        self._processes: Final = Processes()
        self._ports: Final = PortPool()
        self.folder: Final = self._processes.folder
        self._port: Final = self._ports.take()
        self._kdc: subprocess.Popen[bytes] | None = None
        self.config: Final = self.write_config("krb5.conf")
        """Value of KRB5_CONFIG for brokers and clients."""
        self.client_keytab: Final = self.folder / "alice.keytab"
        self.service_keytab: Final = self.folder / "kafka.keytab"

    def write_config(self, name: str, *, ticket_lifetime: str = "10m", port: int | None = None) -> Path:
        """Write a Kerberos configuration for clients of this realm, or of a realm at another port; return its path."""
        path = self.folder / name
        path.write_text(
            f"""[libdefaults]
 default_realm = {REALM}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
 ticket_lifetime = {ticket_lifetime}
[realms]
 {REALM} = {{
  kdc = 127.0.0.1:{port or self._port}
 }}
[domain_realm]
 localhost = {REALM}
 127.0.0.1 = {REALM}
"""
        )
        return path

    def start(self) -> None:
        """Create the realm, and start its KDC."""
        (self.folder / "kdc.conf").write_text(
            f"""[kdcdefaults]
 kdc_listen = ""
 kdc_tcp_listen = 127.0.0.1:{self._port}
[realms]
 {REALM} = {{
  database_name = {self.folder}/principal
  key_stash_file = {self.folder}/stash
  acl_file = {self.folder}/kadm5.acl
 }}
[logging]
 kdc = FILE:{self.folder}/kdc.log
"""
        )
        self._run("kdb5_util", "create", "-r", REALM, "-s", "-P", "master-password")
        for principal in (CLIENT, "kafka/localhost", "kafka/127.0.0.1"):
            self._run("kadmin.local", "-q", f"addprinc -randkey {principal}")
        self._run("kadmin.local", "-q", f"ktadd -k {self.client_keytab} {CLIENT}")
        self._run("kadmin.local", "-q", f"ktadd -k {self.service_keytab} kafka/localhost kafka/127.0.0.1")
        with open(self.folder / "kdc.out", "wb") as log:
            self._kdc = self._processes.start([_program("krb5kdc"), "-n"], log=log, environment=self._environment)
        wait_until(self._listens, "the KDC listens", _TIMEOUT_S)

    def stop(self) -> None:
        self._processes.close()
        self._ports.close()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Freeze the KDC in the block: it accepts connections, but never answers."""
        assert self._kdc is not None
        freeze(self._kdc)
        try:
            yield
        finally:
            self._kdc.send_signal(signal.SIGCONT)

    def tickets_given(self) -> int:
        """Return the number of ticket-granting tickets that the KDC has issued to alice."""
        log = (self.folder / "kdc.log").read_text()
        return sum("AS_REQ" in line and "ISSUE" in line and CLIENT in line for line in log.splitlines())

    @property
    def _environment(self) -> Mapping[str, str]:
        return os.environ | {"KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf")}

    def _run(self, program: str, *arguments: str) -> None:
        command = [_program(program), *arguments]
        subprocess.run(command, env=self._environment, check=True, capture_output=True, timeout=_TIMEOUT_S)

    def _listens(self) -> bool:
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self._port)) == 0


def _program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{_PLACES}")
    assert found is not None
    return found
