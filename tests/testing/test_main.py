"""``python -m aiokafka_lead.testing``: a cluster for clients in other processes."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin
import pytest

from aiokafka_lead.testing.__main__ import main

ROOT = Path(__file__).parents[2]


def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "aiokafka_lead.testing", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    match = re.fullmatch(r"bootstrap\.servers=(\S+)\n", process.stdout.readline())
    assert match is not None
    return process, match[1]


def stop(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> None:
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == 0


def test_it_serves_until_it_is_told_to_stop() -> None:
    process, servers = start(
        "--brokers", "2", "--port", "0", "--topic", "events:6:1", "--topic", "more", "--topic-config", "retention.ms=5"
    )
    try:
        assert len(servers.split(",")) == 2
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": servers})
        topics = admin.list_topics(timeout=20).topics
        assert {name: len(topic.partitions) for name, topic in topics.items()} == {"events": 6, "more": 1}
    finally:
        stop(process)


def test_it_may_demand_authentication() -> None:
    process, servers = start("--brokers", "1", "--port", "0", "--sasl-user", "alice:secret", "--cluster-id", "mine")
    try:
        admin = confluent_kafka.admin.AdminClient(
            {
                "bootstrap.servers": servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": "alice",
                "sasl.password": "secret",
            }
        )
        assert admin.describe_cluster().result(20).cluster_id == "mine"
    finally:
        stop(process, signal.SIGINT)


def test_a_port_that_is_taken_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["--brokers", "1", "--port", str(taken.getsockname()[1])]) == 1
    assert "cannot listen" in capsys.readouterr().err


def test_a_wrong_option_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--port", "0", "--topic-config", "retention.bytes=much"]) == 2
    assert "retention.bytes" in capsys.readouterr().err
    for wrong in (["--topic", "t:many"], ["--sasl-user", "alice"], ["--topic-config", "retention.bytes"]):
        with pytest.raises(SystemExit):
            main(["--port", "0", *wrong])
