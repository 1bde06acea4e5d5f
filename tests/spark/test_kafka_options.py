"""``kafka.*`` options: Java's names and values, this client's own options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trustme

from aiokafka_lead.config import AdminConfig, ConsumerConfig, ProducerConfig
from aiokafka_lead.spark.kafka_options import bootstrap_servers, client_options, refuse_owned


def _given(**options: str) -> dict[str, str]:
    return {"kafka." + name.replace("__", "."): value for name, value in options.items()}


@pytest.mark.parametrize(
    ("options", "config", "expected"),
    [
        (_given(request__timeout__ms="1500"), AdminConfig, {"request_timeout_ms": 1500.0}),
        (
            _given(fetch__max__bytes="77", check__crcs="FALSE"),
            ConsumerConfig,
            {"fetch_max_bytes": 77, "check_crcs": False},
        ),
        (_given(fetch__max__bytes="77"), AdminConfig, {}),
        (_given(acks="all", compression__type="zstd"), ProducerConfig, {"acks": "all", "compression_type": "zstd"}),
        (_given(acks="1"), ProducerConfig, {"acks": 1}),
        (
            _given(compression__type="zstd", compression__zstd__level="7", compression__lz4__level="3"),
            ProducerConfig,
            {"compression_type": "zstd", "compression_level": 7},
        ),
        (_given(leader__hint__policy="off"), ConsumerConfig, {"leader_hint_policy": "off"}),
        (_given(receive__buffer__bytes="65536", no__such__thing="1", key__serializer="x"), ProducerConfig, {}),
        ({"topic": "t", "KAFKA.CLIENT.ID": "me"}, ProducerConfig, {"client_id": "me"}),
    ],
)
def test_settings(options: dict[str, str], config: Any, expected: dict[str, Any]) -> None:
    assert client_options(options, config) == expected


@pytest.mark.parametrize("module", ["plain.PlainLoginModule", "scram.ScramLoginModule"])
def test_credentials_from_a_jaas_line(module: str) -> None:
    jaas = (
        f'org.apache.kafka.common.security.{module} required\n username="al\\"ice" password=\'x\' password="s;=cret";'
    )
    found = client_options(
        _given(security__protocol="sasl_plaintext", sasl__mechanism="scram-sha-256", sasl__jaas__config=jaas),
        ConsumerConfig,
    )
    assert found == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": 'al"ice',
        "sasl_plain_password": "s;=cret",
    }


def test_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    trusted, own = tmp_path / "ca.pem", tmp_path / "own.pem"
    authority.cert_pem.write_to_path(trusted)
    certificate.private_key_and_cert_chain_pem.write_to_path(own)
    settings = _given(
        security__protocol="SSL",
        ssl__truststore__location=str(trusted),
        ssl__keystore__location=str(own),
        ssl__endpoint__identification__algorithm="",
    )
    context = client_options(settings, ConsumerConfig)["ssl_context"]
    assert len(context.get_ca_certs()) == 1
    assert not context.check_hostname
    inline = _given(
        security__protocol="SSL",
        ssl__truststore__certificates=authority.cert_pem.bytes().decode(),
        ssl__keystore__certificate__chain="".join(pem.bytes().decode() for pem in certificate.cert_chain_pems),
        ssl__keystore__key=certificate.private_key_pem.bytes().decode(),
    )
    assert client_options(inline, ConsumerConfig)["ssl_context"].check_hostname


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (_given(request__timeout__ms="soon"), "request.timeout.ms"),
        (_given(check__crcs="yes"), "check.crcs"),
        (_given(security__protocol="SASL_SSL", sasl__jaas__config="nonsense"), "LoginModule"),
        (_given(security__protocol="SSL", ssl__truststore__type="JKS"), "must be PEM"),
        (_given(security__protocol="SSL", ssl__truststore__location="/no/such/file"), "certificates"),
    ],
)
def test_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        client_options(options, ConsumerConfig)


def test_servers_are_needed() -> None:
    assert bootstrap_servers({"kafka.bootstrap.servers": " a:1,b:2 "}) == "a:1,b:2"
    with pytest.raises(ValueError, match=r"kafka\.bootstrap\.servers"):
        bootstrap_servers({})


def test_settings_of_the_sources_own() -> None:
    refuse_owned(_given(client__id="me"), {"group.id": "why"})
    with pytest.raises(ValueError, match=r"'group.id' is not supported: why"):
        refuse_owned(_given(group__id="g"), {"group.id": "why"})
