"""A real schema registry, Apicurio's, and Java's serializers for it. Maven downloads them once."""

from __future__ import annotations

import base64
import json
import shutil
import signal
import subprocess
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2

from ..kafka.harness import java
from ..kafka.harness.processes import Processes, wait_until
from ..ports import PortPool

VERSION: Final = "3.0.9"

_JAVA: Final = Path(__file__).parent / "java"
_MAVEN_TIMEOUT_S: Final = 600
_START_TIMEOUT_S: Final = 120
_FLAGS: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


class Apicurio:
    """A running registry."""

    def __init__(self, port: int, processes: Processes) -> None:
        self._base = f"http://127.0.0.1:{port}"
        self._processes = processes

    @property
    def url(self) -> str:
        """Return the URL of its API in Confluent's form."""
        return f"{self._base}/apis/ccompat/v7"

    def is_ready(self) -> bool:
        """Return True if it answers."""
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    @contextmanager
    def serdes(self) -> Iterator[JavaSerdes]:
        """Return Java's serializers and deserializers of Avro and JSON for this registry."""
        with self._java("RegistrySerdes", _jars("avro-json", "pom.xml"), "v2") as process:
            yield JavaSerdes(process)

    @contextmanager
    def protobuf(self) -> Iterator[JavaProtobuf]:
        """Return Java's serializer and deserializer of Protobuf for this registry."""
        with self._java("RegistryProtobuf", _jars("protobuf", "protobuf.xml"), "v3") as process:
            yield JavaProtobuf(process)

    @contextmanager
    def _java(self, program: str, jars: str, interface: str) -> Iterator[subprocess.Popen[bytes]]:
        classes = java.compile_class(_JAVA / f"{program}.java", jars)
        url = f"{self._base}/apis/registry/{interface}"
        with (self._processes.folder / f"{program}.log").open("ab") as log:
            process = self._processes.start(
                ["java", *_FLAGS, "-cp", f"{classes}:{jars}", program, url],
                log=log,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        try:
            yield process
        finally:
            self._processes.end(process, sig=signal.SIGKILL)


class _Asked:
    """A Java program that answers lines of words in base64."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def _ask(self, *words: str | bytes) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        every = [base64.b64encode(word.encode() if isinstance(word, str) else word) for word in words]
        self._process.stdin.write(b" ".join(every) + b"\n")
        self._process.stdin.flush()
        reply = self._process.stdout.readline()
        assert reply, "the Java program has failed, and its log says why"
        return base64.b64decode(reply)


class JavaSerdes(_Asked):
    """See ``RegistrySerdes.java``."""

    def write(self, topic: str, schema: Any, value: Any) -> bytes:
        """Return Java's bytes for a value, given in Avro's JSON."""
        return self._ask("write", topic, json.dumps(schema), json.dumps(value))

    def read(self, topic: str, content: bytes) -> Any:
        """Return the value that Java reads, in Avro's JSON."""
        return json.loads(self._ask("read", topic, content))

    def write_json(self, topic: str, value: Any) -> bytes:
        """Return Java's bytes for a value, by the JSON Schema registered for the topic."""
        return self._ask("write-json", topic, json.dumps(value))

    def read_json(self, topic: str, content: bytes) -> Any:
        """Return the value that Java reads from these bytes."""
        return json.loads(self._ask("read-json", topic, content))


class JavaProtobuf(_Asked):
    """See ``RegistryProtobuf.java``."""

    def write(self, topic: str, message: Any, *, latest: bool = False) -> bytes:
        """Return Java's bytes for a message; ``latest``: by the schema registered for the topic."""
        return self._ask("write-latest" if latest else "write", *_named(topic, message), message.SerializeToString())

    def read(self, topic: str, kind: Any, content: bytes) -> Any:
        """Return the message that Java reads."""
        return kind.FromString(self._ask("read", *_named(topic, kind), content))


def _named(topic: str, message: Any) -> tuple[str, bytes, str]:
    """Return the topic, and a type of messages with all files that it needs."""
    files = descriptor_pb2.FileDescriptorSet()

    def add(file: Any) -> None:
        for each in file.dependencies:
            add(each)
        if all(file.name != each.name for each in files.file):
            file.CopyToProto(files.file.add())

    add(message.DESCRIPTOR.file)
    return topic, files.SerializeToString(), message.DESCRIPTOR.full_name


@contextmanager
def running() -> Iterator[Apicurio]:
    """Start the registry; raise `java.JavaUnavailableError` if that is impossible."""
    java.require_java()
    home = _home()
    ports = PortPool()
    processes = Processes()
    try:
        port = ports.take()
        with (processes.folder / "registry.log").open("ab") as log:
            options = [f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1"]
            runner = home / f"apicurio-registry-app-{VERSION}-runner.jar"
            process = processes.start(["java", *_FLAGS, *options, "-jar", str(runner)], log=log)
        registry = Apicurio(port, processes)
        wait_until(lambda: registry.is_ready() or process.poll() is not None, "the registry answers", _START_TIMEOUT_S)
        if process.poll() is not None:
            said = (processes.folder / "registry.log").read_text(errors="replace")
            raise RuntimeError(f"the registry has ended:\n{said[-4000:]}")
        yield registry
    finally:
        processes.close()
        ports.close()


def _home() -> Path:
    """Return the folder of the unpacked registry."""
    target = java.CACHE / f"apicurio-{VERSION}"
    with java.lock(f"apicurio-{VERSION}"):
        if not target.is_dir():
            partial = java.CACHE / f"apicurio-{VERSION}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            # A later plugin requires the parent's pom, which was never published.
            plugin = "org.apache.maven.plugins:maven-dependency-plugin:2.8:get"
            artifact = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
            _maven(plugin, f"-Dartifact={artifact}", "-Dtransitive=false", f"-Dmaven.repo.local={partial / 'repo'}")
            (archive,) = partial.rglob(f"apicurio-registry-app-{VERSION}-all.tar.gz")
            with tarfile.open(archive) as packed:
                packed.extractall(partial / "app", filter="data")
            (partial / "app").rename(target)
            shutil.rmtree(partial)
    return target


def _jars(name: str, pom: str) -> str:
    target = java.CACHE / f"registry-serdes-{name}"
    with java.lock(target.name):
        if not target.is_dir():
            partial = java.CACHE / f"{target.name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            _maven("-f", str(_JAVA / pom), "dependency:copy-dependencies", f"-DoutputDirectory={partial}")
            partial.rename(target)
    return ":".join(sorted(str(jar) for jar in target.glob("*.jar")))


def _maven(*arguments: str) -> None:
    command = ["mvn", "-q", "-B", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_MAVEN_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"Maven could not bring the registry:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
