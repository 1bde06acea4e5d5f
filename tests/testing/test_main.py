"""``python -m aiokafka_lead.testing``: a cluster for clients in other processes."""

from __future__ import annotations

import signal
import socket

import confluent_kafka
import confluent_kafka.admin
import confluent_kafka.schema_registry
import pytest

from aiokafka_lead.testing.__main__ import main

from ..programs import Program

SERVERS = r"^bootstrap\.servers=(\S+)$"


def serving(*arguments: str) -> Program:
    return Program("-m", "aiokafka_lead.testing", *arguments)


def test_it_serves_until_it_is_told_to_stop() -> None:
    arguments = ("--topic", "events:6:1", "--topic", "more", "--topic-config", "retention.ms=5")
    with serving("--brokers", "2", "--port", "0", *arguments) as program:
        servers = program.read_until(SERVERS)[1]
        assert len(servers.split(",")) == 2
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": servers})
        topics = admin.list_topics(timeout=40).topics
        assert {name: len(topic.partitions) for name, topic in topics.items()} == {"events": 6, "more": 1}
        assert program.end() == 0


def test_it_may_demand_authentication() -> None:
    arguments = ("--sasl-user", "alice:secret", "--cluster-id", "mine")
    with serving("--brokers", "1", "--port", "0", *arguments) as program:
        admin = confluent_kafka.admin.AdminClient(
            {
                "bootstrap.servers": program.read_until(SERVERS)[1],
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": "alice",
                "sasl.password": "secret",
            }
        )
        assert admin.describe_cluster().result(40).cluster_id == "mine"
        assert program.end(signal.SIGINT) == 0


def test_a_schema_registry_runs_beside_it() -> None:
    with serving("--brokers", "1", "--port", "0", "--schema-registry-port", "0") as program:
        url = program.read_until(r"^schema\.registry\.url=(\S+)$")[1]
        program.read_until(SERVERS)
        registry = confluent_kafka.schema_registry.SchemaRegistryClient({"url": url})
        schema = confluent_kafka.schema_registry.Schema('"string"', "AVRO")
        assert registry.get_schema(registry.register_schema("s", schema)).schema_str == '"string"'
        assert program.end() == 0


def test_a_port_that_is_taken_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for option in ("--port", "--schema-registry-port"):
            assert main(["--brokers", "1", "--port", "0", option, port]) == 1
            assert f"error: cannot listen on 127.0.0.1, port {port}" in capsys.readouterr().err


def test_a_wrong_option_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--port", "0", "--topic-config", "retention.bytes=much"]) == 2
    assert "retention.bytes" in capsys.readouterr().err
    for wrong in (["--topic", "t:many"], ["--sasl-user", "alice"], ["--topic-config", "retention.bytes"]):
        with pytest.raises(SystemExit):
            main(["--port", "0", *wrong])
