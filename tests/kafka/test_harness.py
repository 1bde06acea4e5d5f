"""The harness itself: its promises about brokers, tools and cleanup."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Producer

from .harness import PASSWORD, USER, KafkaCluster, Listener
from .harness.processes import Processes, alive, wait_until

_CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"


def test_every_listener_takes_its_clients(kafka: KafkaCluster) -> None:
    assert kafka.certificates is not None
    for listener in [each for each in Listener if each is not Listener.PROXIED]:
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            options: dict[str, str | int] = {
                "bootstrap.servers": kafka.bootstrap(listener),
                "security.protocol": listener.protocol,
                "ssl.ca.location": str(kafka.certificates.authority),
                "ssl.certificate.location": str(kafka.certificates.client_certificate),
                "ssl.key.location": str(kafka.certificates.client_certificate),
                "sasl.mechanism": mechanism,
                "sasl.username": USER,
                "sasl.password": PASSWORD,
            }
            consumer = Consumer({**options, "group.id": "harness", "log_level": 0})
            addresses = {f"{b.host}:{b.port}" for b in kafka.known(consumer).brokers.values()}
            consumer.close()
            assert addresses == set(kafka.bootstrap(listener).split(","))


def test_the_java_tools_run_warm(kafka: KafkaCluster, topic_name: Callable[[], str]) -> None:
    topic = kafka.create_topic(topic_name(), partitions=1)
    servers = ["--bootstrap-server", kafka.bootstrap()]
    kafka.tools.run(_CONSOLE_PRODUCER, *servers, "--topic", topic, stdin=b"one\ntwo\n")
    read = kafka.tools.run(_CONSOLE_CONSUMER, *servers, "--topic", topic, "--from-beginning", "--max-messages", "2")
    assert read.splitlines() == ["one", "two"]
    assert kafka.tools.call("org.apache.kafka.tools.TopicCommand", "--no-such-option").status != 0


def test_a_killed_broker_comes_back_with_its_data(kafka: KafkaCluster, topic_name: Callable[[], str]) -> None:
    topic = kafka.create_topic(topic_name(), partitions=1)
    leader = kafka.leader(topic)
    producer = Producer({"bootstrap.servers": kafka.bootstrap(), "acks": "all", "log_level": 0})
    producer.produce(topic, b"kept")
    assert producer.flush(30) == 0
    kafka.kill(leader)
    wait_until(lambda: kafka.leader(topic) not in (leader, -1), "another broker leads", 60)
    kafka.start_broker(leader)
    read = kafka.tools.run(
        _CONSOLE_CONSUMER,
        "--bootstrap-server",
        kafka.bootstrap(),
        "--topic",
        topic,
        "--from-beginning",
        "--max-messages",
        "1",
    )
    assert read.strip() == "kept"


def test_nothing_outlives_the_run() -> None:
    """A run killed by SIGKILL cannot clean up; the reaper does."""
    code = (
        "import sys, time\n"
        "from tests.kafka.harness.processes import Processes\n"
        "processes = Processes()\n"
        "with open(processes.folder / 'log', 'wb') as log:\n"
        "    child = processes.start([sys.executable, '-c', 'import time; time.sleep(600)'], log=log)\n"
        "print(child.pid, processes.folder, flush=True)\n"
        "time.sleep(600)\n"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    assert run.stdout is not None
    with run.stdout:
        pid, folder = run.stdout.readline().split()
    assert alive(int(pid))
    os.kill(run.pid, signal.SIGKILL)
    run.wait(60)
    wait_until(lambda: not alive(int(pid)) and not Path(folder).exists(), "the child and its folder are gone", 60)


def test_close_ends_what_still_runs() -> None:
    processes = Processes()
    with (processes.folder / "log").open("wb") as log:
        child = processes.start([sys.executable, "-c", "import signal, time; signal.pause()"], log=log)
    processes.close()
    assert child.returncode == -signal.SIGKILL
    assert not processes.folder.exists()
