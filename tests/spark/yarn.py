"""Hadoop's YARN on this machine: a resource manager and a node manager in one JVM, from Hadoop's own tests."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pyspark
from py4j.java_gateway import JavaGateway

from tests.kafka.harness.processes import Processes, wait_until

from .maven import fetched_jars
from .standalone import SETTINGS, bare_environment, run_submit

_HADOOP = "3.5.0"
_START_TIMEOUT_S = 120
_JARS = Path(pyspark.__file__).parent / "jars"
_CONFIGURATION = {
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100.0",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.resource.memory-mb": "8192",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.resourcemanager.hostname": "127.0.0.1",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.minimum-allocation-mb": "128",
}


class MiniYarn:
    """Starts the JVM. All methods block."""

    def __init__(self) -> None:
        self._processes = Processes()
        self.folder = self._processes.folder
        self.environment = {
            **bare_environment(),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "HADOOP_CONF_DIR": str(self.folder / "conf"),
        }
        self._log = (self.folder / "yarn.log").open("w")
        self._gateway: JavaGateway | None = None
        self._cluster: Any = None
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        jars = [*fetched_jars("hadoop", _HADOOP), *sorted(_JARS.glob("*.jar"))]
        self._gateway = gateway = JavaGateway.launch_gateway(
            jarpath=str(next(_JARS.glob("py4j-*.jar"))), classpath=":".join(map(str, jars)),
            javaopts=["-Xmx512m", "--add-opens=java.base/java.lang=ALL-UNNAMED"], die_on_exit=True,
            redirect_stdout=self._log, redirect_stderr=self._log, cwd=str(self.folder),
        )  # fmt: skip
        java: Any = gateway.jvm
        configuration = java.org.apache.hadoop.yarn.conf.YarnConfiguration()
        for name, value in _CONFIGURATION.items():
            configuration.set(name, value)
        self._cluster = java.org.apache.hadoop.yarn.server.MiniYARNCluster("yarn", 1, 1, 1)
        self._cluster.init(configuration)
        self._cluster.start()
        assert self._cluster.waitForNodeManagersToConnect(_START_TIMEOUT_S * 1000)
        address = "yarn.resourcemanager.address"
        wait_until(lambda: not self._cluster.getConfig().get(address).endswith(":0"), address, _START_TIMEOUT_S)
        (self.folder / "conf").mkdir()
        file = java.java.io.FileOutputStream(str(self.folder / "conf/yarn-site.xml"))
        self._cluster.getConfig().writeXml(file)
        file.close()

    def stop(self) -> None:
        """End all containers, and the JVM."""
        if self._cluster is not None:
            self._cluster.stop()
        if self._gateway is not None:
            self._gateway.shutdown()
        self._log.close()
        self._processes.close()

    def submit(
        self,
        program: Path,
        *arguments: str,
        options: Sequence[str] = (),
        folder: Path,
        environment: Mapping[str, str],
    ) -> subprocess.CompletedProcess[str]:
        """Run a program by ``spark-submit``, to its end; the result has the output of a driver in the cluster."""
        before = set(self._logs())
        settings = {
            **SETTINGS,
            "spark.yarn.jars": f"local:{_JARS}/*",
            "spark.yarn.stagingDir": (self.folder / "staging").as_uri(),
            "spark.yarn.populateHadoopClasspath": "false",
        }
        done = run_submit(
            "yarn", program, *arguments, settings=settings, options=options, folder=folder,
            environment={**self.environment, **environment},
        )  # fmt: skip
        for log in sorted(set(self._logs()) - before):
            text = log.read_text(errors="replace")
            if log.name == "stdout":
                done.stdout += text
            else:
                done.stderr += text
        return done

    def _logs(self) -> list[Path]:
        """Return the output of application masters: in cluster mode these are the drivers."""
        return [*self.folder.glob("target/**/container_*_000001/std*")]
