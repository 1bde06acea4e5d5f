"""A standalone Spark cluster on this machine: a master and its workers, each in a separate JVM."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import pyspark

from tests.kafka.harness.processes import Processes, wait_until

_ROOT = Path(__file__).parents[2]
_START_TIMEOUT_S = 240
_PROGRAM_TIMEOUT_S = 500
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.driver.extraJavaOptions": _QUICK_JVM,
    "spark.driver.memory": "512m",
    "spark.executor.extraJavaOptions": _QUICK_JVM,
    "spark.executor.memory": "512m",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of every driver."""
LOCAL_SETTINGS = {**SETTINGS, "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
"""Settings of drivers outside the cluster, on this machine."""


def lean_home(folder: Path) -> Path:
    """Fill a folder with Spark without its zip of PySpark; return the folder.

    Python workers would compile the zip's modules at each start, which takes three times as long as importing the
    installed modules; and Spark abandons a stream's worker after 10 s.
    """
    folder.mkdir(exist_ok=True)
    for part in ("bin", "jars"):
        (folder / part).symlink_to(Path(pyspark.__file__).parent / part)
    return folder


def checkout() -> dict[str, str]:
    """Return an environment in which Python finds this checkout as if it were installed."""
    # The module that PySpark looks for is at the top level.
    paths = [str(_ROOT), str(_ROOT / "aiokafka_lead/spark/autoload")]
    return {"PYTHONPATH": os.pathsep.join(paths)}


def bare_environment() -> dict[str, str]:
    """Return what Java and the shell need of this process's environment: what executors import comes from elsewhere."""
    kept = ("HOME", "JAVA_HOME", "LANG", "PATH", "TMPDIR")
    return {name: os.environ[name] for name in kept if name in os.environ}


def run_submit(
    master: str,
    program: Path,
    *arguments: str,
    settings: Mapping[str, str],
    options: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
) -> subprocess.CompletedProcess[str]:
    """Run a program by the ``spark-submit`` of ``SPARK_HOME`` in a folder, to its end."""
    command = [f"{environment['SPARK_HOME']}/bin/spark-submit", "--master", master, *options]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    return subprocess.run(
        [*command, str(program), *arguments], cwd=folder, env=environment,
        capture_output=True, text=True, timeout=_PROGRAM_TIMEOUT_S, check=False,
    )  # fmt: skip


class StandaloneSpark:
    """Starts the processes and finds them again. All methods block.

    ``environment`` is added to the environment of master and workers, and so of their executors.
    """

    def __init__(self, workers: int = 2, *, environment: Mapping[str, str] | None = None) -> None:
        self._processes = Processes()
        self.folder = self._processes.folder
        self._home = lean_home(self.folder / "spark")
        self.environment = {
            **bare_environment(),
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{_QUICK_JVM} -Dspark.deploy.maxExecutorRetries=-1",
            "SPARK_NO_DAEMONIZE": "1",
            **(environment or {}),
        }
        self.url = ""
        self._workers: list[subprocess.Popen[bytes]] = []
        try:
            self._start(workers)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill everything."""
        self._processes.close()

    def _start(self, workers: int) -> None:
        self._launch("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0")
        wait_until(self._has_url, "the master's URL", _START_TIMEOUT_S)
        for number in range(workers):
            worker = ["--host", "127.0.0.1", "--cores", "1", "--memory", "768m", "--webui-port", "0"]
            folder = str(self.folder / f"work-{number}")
            self._workers.append(
                self._launch(
                    f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *worker, "--work-dir", folder, self.url
                )
            )
        wait_until(lambda: self._log("master").count("Registering worker") == workers, "the workers", _START_TIMEOUT_S)

    def _launch(self, name: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("wb") as log:
            command = [str(self._home / "bin/spark-class"), main, *arguments]
            return self._processes.start(command, log=log, environment=self.environment)

    def _log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _has_url(self) -> bool:
        if found := re.search(r"Starting Spark master at (spark://\S+)", self._log("master")):
            self.url = found[1]
        return bool(found)

    def submit(
        self,
        program: Path,
        *arguments: str,
        options: Sequence[str] = (),
        folder: Path,
        environment: Mapping[str, str],
    ) -> subprocess.CompletedProcess[str]:
        """Run a program by ``spark-submit`` in a folder, to its end."""
        return run_submit(
            self.url, program, *arguments, settings=LOCAL_SETTINGS, options=options, folder=folder,
            environment={**self.environment, **environment},
        )  # fmt: skip

    def executors(self) -> list[int]:
        """Return the processes of the running executors."""
        children = _children()
        return [pid for worker in self._workers for pid in children[worker.pid] if "ExecutorBackend" in command_of(pid)]

    def python_workers(self) -> list[int]:
        """Return the Python processes of executors: the daemons that fork, and what they forked."""
        return [pid for executor in self.executors() for pid in descendants(executor) if "pyspark" in command_of(pid)]


def command_of(pid: int) -> str:
    """Return a process's command line; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def descendants(pid: int) -> Iterator[int]:
    """Yield the processes below a process, parents first."""
    children = _children()
    below = [pid]
    while below:
        found = children[below.pop()]
        yield from found
        below += found


def _children() -> defaultdict[int, list[int]]:
    found: defaultdict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # The second field, a name in parentheses, may contain blanks.
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has ended meanwhile
            found[parent].append(int(entry.name))
    return found


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> bool:
    """Send a process a signal; return False if it has ended before."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
