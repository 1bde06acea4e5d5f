"""A server with the parts of Kubernetes' API that Spark uses. It runs pods as processes of this machine.

Spark builds its pods, their config maps and their services as for any cluster. Each pod has a folder instead of a
container: the mounted volumes are in it, and their paths are replaced in arguments and environment. The commands are
the same as in the entry point of Spark's images.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.kafka.harness.processes import Processes

from .standalone import SETTINGS, bare_environment, lean_home, run_submit

IMAGE = "registry.example.org/spark-py"
_IP = "127.0.0.1"
_DRIVER_TIMEOUT_S = 500
_PATH = re.compile(r"/apis?/(?:[\w.]+/)?v1/namespaces/default/(\w+)(?:/([^/]+))?")
_LABEL = re.compile(r"([^ ,!=]+)(?:=([^,]*)| in \(([^)]*)\))")

Object = dict[str, Any]


class LocalKubernetes:
    """Keeps the objects, and starts a process for each pod. All methods block."""

    def __init__(self) -> None:
        self._processes = Processes()
        self.folder = self._processes.folder
        self._home = lean_home(self.folder / "spark")
        self._objects: dict[tuple[str, str], Object] = {}
        """Objects by kind (as in paths: "pods") and name."""
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._changed = threading.Condition()
        self.pods: list[Object] = []
        """All pods that have ever been created."""
        self._is_stopped = False
        kubernetes = self

        class Handler(_Handler):
            cluster = kubernetes

        self._server = ThreadingHTTPServer((_IP, 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{_IP}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill everything."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._processes.close()

    def wait_for_end(self) -> None:
        """Wait until this cluster ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped)

    # --- Spark's questions -------------------------------------------------------------------------------------------

    def create(self, kind: str, found: Object) -> Object:
        """Keep an object; start a pod."""
        name = found["metadata"]["name"]
        found["metadata"].update(namespace="default", uid=str(uuid.uuid4()), creationTimestamp="2026-01-01T00:00:00Z")
        with self._changed:
            self._objects[kind, name] = found
            if kind == "pods":
                found["status"] = {"phase": "Pending"}
                self.pods.append(found)
                threading.Thread(target=self._run, args=(found,), daemon=True).start()
            self._changed.notify_all()
        return found

    def get(self, kind: str, name: str) -> Object | None:
        """Return an object; None if there is none."""
        with self._changed:
            return self._objects.get((kind, name))

    def select(self, kind: str, labels: Mapping[str, Sequence[str]], fields: Mapping[str, str]) -> list[Object]:
        """Return the objects with these labels and fields."""
        with self._changed:
            return [
                found
                for (each, _), found in self._objects.items()
                if each == kind
                and all(found["metadata"].get("labels", {}).get(name) in wanted for name, wanted in labels.items())
                and all(_field(found, path) == wanted for path, wanted in fields.items())
            ]

    def delete(self, kind: str, name: str) -> None:
        """Delete an object. If it is a pod, kill it."""
        with self._changed:
            self._objects.pop((kind, name), None)
            running = self._running.get(name) if kind == "pods" else None
        if running is not None:
            running.kill()

    # --- pods --------------------------------------------------------------------------------------------------------

    def _run(self, pod: Object) -> None:
        """Run a pod to its end."""
        name, (container,) = pod["metadata"]["name"], pod["spec"]["containers"]
        folder = self.folder / "pods" / name
        (folder / "work").mkdir(parents=True)
        mounted = self._mounted(pod, folder)
        if mounted is None:
            return

        def here(text: str) -> str:
            for path, place in mounted.items():
                text = text.replace(path, str(place))
            return text

        environment = {
            **bare_environment(),
            "SPARK_HOME": str(self._home),
            "JAVA_TOOL_OPTIONS": f"-Djdk.net.hosts.file={self._hosts()}",
            **{entry["name"]: here(_value(entry, name)) for entry in container["env"]},
        }
        command = self._command([here(text) for text in container["args"]], environment)
        with (folder / "stdout").open("wb") as log:
            running = self._processes.start(
                ["env", f"--chdir={folder / 'work'}", *command], log=log, environment=environment
            )
        with self._changed:
            self._running[name] = running
            ready = {"type": "Ready", "status": "True"}
            pod["status"] = {"phase": "Running", "podIP": _IP, "conditions": [ready]}
            self._changed.notify_all()
        code = running.wait()
        with self._changed:
            pod["status"] = {"phase": "Failed" if code else "Succeeded", "podIP": _IP}
            self._changed.notify_all()

    def _mounted(self, pod: Object, folder: Path) -> dict[str, Path] | None:
        """Return the places of volumes, by the paths in the container; None if this cluster ends."""
        (container,) = pod["spec"]["containers"]
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes", ())}
        found: dict[str, Path] = {}
        for mount in container.get("volumeMounts", ()):
            found[mount["mountPath"]] = place = folder / mount["name"]
            place.mkdir()
            wanted = volumes[mount["name"]].get("configMap")
            if wanted is None:
                continue
            with self._changed:  # Spark creates it after the pod
                while ("configmaps", wanted["name"]) not in self._objects:
                    if self._is_stopped:
                        return None
                    self._changed.wait()
                for file, text in self._objects["configmaps", wanted["name"]].get("data", {}).items():
                    (place / file).write_text(text)
        return found

    def _hosts(self) -> Path:
        """Write the names of services to a file for Java, as the cluster's name server would tell them."""
        file = self.folder / "hosts"
        with self._changed:
            services = [f"{name}.default.svc" for kind, name in self._objects if kind == "services"]
            file.write_text(f"{_IP} localhost {socket.gethostname()} {' '.join(services)}\n")
        return file

    def _command(self, arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        if arguments[0] == "driver":
            bind = f"spark.driver.bindAddress={environment['SPARK_DRIVER_BIND_ADDRESS']}"
            submit = str(self._home / "bin/spark-submit")
            return [submit, "--conf", bind, "--deploy-mode", "client", *arguments[1:]]
        memory = environment["SPARK_EXECUTOR_MEMORY"]
        options = [text for name, text in sorted(environment.items()) if name.startswith("SPARK_JAVA_OPT_")]
        command = ["java", *options, f"-Xmx{memory}", "-cp", f"{self._home}/jars/*"]
        command += ["org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"]
        for option, name in _EXECUTOR.items():
            command += [f"--{option}", environment[name]]
        return command

    # --- programs ----------------------------------------------------------------------------------------------------

    def submit(
        self,
        program: Path,
        *arguments: str,
        options: Sequence[str] = (),
        folder: Path,
        environment: Mapping[str, str],
    ) -> subprocess.CompletedProcess[str]:
        """Run a program by ``spark-submit`` in cluster mode, to its end; the result has the output of its driver."""
        before = len(self.pods)
        settings = {
            **SETTINGS,
            "spark.blockManager.port": "0",  # all pods have the same address
            "spark.driver.blockManager.port": str(_free_port()),
            "spark.driver.port": str(_free_port()),
            "spark.kubernetes.container.image": IMAGE,
            "spark.kubernetes.driver.master": self.url,
            "spark.kubernetes.executor.apiPollingInterval": "1s",
            "spark.kubernetes.executor.enableApiWatcher": "false",
            "spark.kubernetes.file.upload.path": (self.folder / "uploaded").as_uri(),
            "spark.kubernetes.submission.waitAppCompletion": "false",
        }
        (self.folder / "uploaded").mkdir(exist_ok=True)
        done = run_submit(
            f"k8s://{self.url}", program, *arguments, settings=settings,
            options=["--deploy-mode", "cluster", *options], folder=folder,
            environment={**bare_environment(), "SPARK_HOME": str(self._home), **environment},
        )  # fmt: skip
        if done.returncode == 0:
            name = self.pods[before]["metadata"]["name"]
            with self._changed:
                self._changed.wait_for(lambda: name in self._running, _DRIVER_TIMEOUT_S)
            done.returncode = self._running[name].wait(_DRIVER_TIMEOUT_S)
            done.stdout += (self.folder / "pods" / name / "stdout").read_text(errors="replace")
        return done


_EXECUTOR = {
    "driver-url": "SPARK_DRIVER_URL",
    "executor-id": "SPARK_EXECUTOR_ID",
    "cores": "SPARK_EXECUTOR_CORES",
    "app-id": "SPARK_APPLICATION_ID",
    "hostname": "SPARK_EXECUTOR_POD_IP",
    "resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "podName": "SPARK_EXECUTOR_POD_NAME",
}
"""Arguments of an executor, and the variables of their values."""


class _Handler(BaseHTTPRequestHandler):
    """Answers Spark's client."""

    protocol_version = "HTTP/1.1"
    cluster: LocalKubernetes

    def handle(self) -> None:
        with suppress(ConnectionError):  # of a client that has ended
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        kind, name, query = self._asked()
        if "watch" in query and "Upgrade" in self.headers:
            self._answer(503, {})  # the client then asks without a web socket
        elif "watch" in query:
            self._follow()
        elif name is None:
            self._answer(200, {"kind": "List", "apiVersion": "v1", "items": self._selected(kind, query)})
        elif (found := self.cluster.get(kind, name)) is None:
            self._answer(404, {})
        else:
            self._answer(200, found)

    def do_POST(self) -> None:
        kind, _, _ = self._asked()
        self._answer(201, self.cluster.create(kind, self._body()))

    def do_PATCH(self) -> None:
        kind, name, _ = self._asked()
        given = self._body()
        found = None if name is None else self.cluster.get(kind, name)
        self._answer(200, self.cluster.create(kind, given) if found is None else found)

    def do_DELETE(self) -> None:
        kind, name, query = self._asked()
        self._body()
        names = [each["metadata"]["name"] for each in self._selected(kind, query)] if name is None else [name]
        for each in names:
            self.cluster.delete(kind, each)
        self._answer(200, {"status": "Success"})

    def _follow(self) -> None:
        """Answer that nothing changes; Spark lists its pods as well."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True
        self.cluster.wait_for_end()

    def _asked(self) -> tuple[str, str | None, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        match = _PATH.fullmatch(parts.path)
        return ("", "", {}) if match is None else (match[1], match[2], parse_qs(parts.query))

    def _selected(self, kind: str, query: Mapping[str, Sequence[str]]) -> list[Object]:
        found = _LABEL.findall(query.get("labelSelector", [""])[0])
        labels = {name: [one] if one else several.split(",") for name, one, several in found}
        fields = dict(part.split("=", 1) for part in query.get("fieldSelector", [""])[0].split(",") if part)
        return self.cluster.select(kind, labels, fields)

    def _body(self) -> Object:
        found: Object = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        return found

    def _answer(self, status: int, found: Object) -> None:
        content = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _field(found: Any, path: str) -> Any:
    for name in path.split("."):
        found = found.get(name, {})
    return found


def _value(entry: Object, name: str) -> str:
    """Return the value of a variable; a reference names the pod or its address."""
    if "valueFrom" not in entry:
        return str(entry.get("value", ""))
    return name if entry["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name" else _IP


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((_IP, 0))
        port: int = found.getsockname()[1]
    return port
