"""Secrets are never revealed: each contains a word that must not appear in anything printed, logged or kept."""

from __future__ import annotations

import dataclasses
import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StringType, StructField, StructType

from aiokafka_lead import AdminClient, Client, Consumer, Producer, ShareConsumer, TransactionPipeline
from aiokafka_lead._core.connection.sasl.oauthbearer import OAuthBearer
from aiokafka_lead._wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from aiokafka_lead._wire.messages.create_delegation_token import CreateDelegationTokenResponse
from aiokafka_lead._wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from aiokafka_lead._wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aiokafka_lead.config import ClientConfig
from aiokafka_lead.errors import ConfigError, ConfigTypeError, KafkaError, SaslAuthenticationFailedError
from aiokafka_lead.fastapi import Kafka
from aiokafka_lead.oidc import AwsCredentials, ClientCredentials, Token
from aiokafka_lead.security import OAuth, Plain, Scram, Tls
from aiokafka_lead.spark.data_source import KafkaDataSource
from aiokafka_lead.testing import EmbeddedCluster

from .leaks import everything

SECRET = "MARKED"
BYTES = SECRET.encode()

PASSWORD: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_plain_username": "alice",
    "sasl_plain_password": SECRET,
}


@pytest.mark.parametrize(
    "holder",
    [
        SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + BYTES),
        SaslAuthenticateResponse(auth_bytes=BYTES),
        AlterUserScramCredentialsRequest(upsertions=[ScramCredentialUpsertion(name="alice", salted_password=BYTES)]),
        CreateDelegationTokenResponse(hmac=BYTES),
        ExpireDelegationTokenRequest(hmac=BYTES),
        Token(SECRET, None, {"a": SECRET}),
        OAuthBearer(Token(SECRET)),
        ClientCredentials("https://a", "alice", SECRET),
        AwsCredentials("key", SECRET, SECRET),
        Plain("alice", SECRET),
        vars(Scram("alice", SECRET)),
        OAuth(lambda: SECRET),
        Plain("alice", "other", tls=Tls(password=SECRET, keydata=SECRET, ca_password=SECRET)),
        ClientConfig.from_options("a", {"security": Scram("alice", SECRET)}),
        ClientConfig.from_options("a", PASSWORD),
        vars(ClientConfig.from_options("a", PASSWORD)),
        dataclasses.asdict(ClientConfig.from_options("a", PASSWORD)),
    ],
    ids=lambda holder: type(holder).__name__,
)
def test_repr(holder: object) -> None:
    assert SECRET not in repr(holder)


def test_a_secret_is_still_what_it_was() -> None:
    config = ClientConfig.from_options("a", PASSWORD)
    assert config.sasl_plain_password == SECRET
    assert pickle.loads(pickle.dumps(config.sasl_plain_password)) == SECRET


def consumer(servers: str, **options: Any) -> Consumer[Any, Any]:
    return Consumer(bootstrap_servers=servers, **options)


def share_consumer(servers: str, **options: Any) -> ShareConsumer[Any, Any]:
    return ShareConsumer(bootstrap_servers=servers, group_id="g", **options)


CLIENTS = [Producer, AdminClient, consumer, share_consumer, TransactionPipeline, Client, Kafka]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "options",
    [
        PASSWORD | {"no_such_option": 1},
        PASSWORD | {"security_protocol": "PLAINTEXT"},
        PASSWORD | {"request_timeout_ms": -1},
        PASSWORD | {"sasl_plain_password": SECRET + "\ud800"},
        PASSWORD | {"sasl_oauthbearer_client_credentials_client_secret": SECRET},
        PASSWORD | {"security_protocol": "SASL_SSL", "ssl_password": SECRET, "ssl_certfile": "/nowhere"},
        PASSWORD | {"sasl_plain_pasword": SECRET},
        PASSWORD | {"sasl_plain_password": BYTES},
        PASSWORD | {"sasl_plain_password": [SECRET]},
        PASSWORD | {"security_protocol": "SSL", "ssl_certdata": SECRET, "ssl_keydata": BYTES},
    ],
)
def test_mistakes_in_options(client: Any, options: dict[str, Any]) -> None:
    with pytest.raises(KafkaError) as caught:
        client("localhost", **options)
    assert SECRET not in everything(caught.value)


@pytest.mark.parametrize("servers", [f"SASL_SSL://alice:{SECRET}@host:9092", f"alice:{SECRET}@host:9092"])
@pytest.mark.parametrize("client", CLIENTS)
def test_servers_with_credentials(client: Any, servers: str) -> None:
    with pytest.raises(ConfigError, match="without credentials") as caught:
        client(servers)
    assert SECRET not in everything(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Token(SECRET + " x"),
        lambda: Token(SECRET.encode()),  # type: ignore[arg-type]
        lambda: Token("a", None, {"a": SECRET + "\0"}),
        lambda: ClientCredentials(f"https://alice:{SECRET}@host/token", "alice", "x"),
        lambda: ClientCredentials("ftp://host/token", "alice", SECRET),
        lambda: ClientCredentials("https://host/token", "alice", SECRET + "\udce9"),
        lambda: ClientCredentials("https://host/token", "alice", "x", parameters={"key": SECRET + "\udce9"}),
    ],
)
def test_mistakes_in_providers_of_tokens(make: Callable[[], object]) -> None:
    with pytest.raises((ConfigError, ConfigTypeError)) as caught:
        make()
    assert SECRET not in everything(caught.value)


def test_a_misspelt_secret_of_a_client_on_shared_connections() -> None:
    with pytest.raises(ConfigTypeError, match="did you mean sasl_plain_password") as caught:
        Client("a", **PASSWORD).producer(sasl_plain_pasword=SECRET)  # type: ignore[call-arg]
    assert SECRET not in everything(caught.value)


SPARK = {
    "kafka.bootstrap.servers": "localhost:9092",
    "subscribe": "t",
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "SCRAM-SHA-256",
    "kafka.sasl.jaas.config": f'ScramLoginModule required username="alice" password="{SECRET}";',
    "schema.registry.password": SECRET,
}


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ({"minPartitions": "x"}, "minPartitions"),
        ({"kafka.request.timeout.ms": "soon"}, "request.timeout.ms"),
        ({"kafka.sasl.jaas.config": f'PlainLoginModule required passwort="{SECRET}";'}, "username and password"),
        ({"kafka.sasl.mechanism": "OAUTHBEARER", "kafka.sasl.oauthbearer.x.client.secret": SECRET}, "token.endpoint"),
        ({"valueSchema": "latest"}, "schema.registry.url"),
    ],
)
def test_mistakes_in_sparks_options(mistake: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        KafkaDataSource(CaseInsensitiveDict({**SPARK, **mistake})).schema()
    assert SECRET not in everything(caught.value)


def test_spark_outages() -> None:
    given = {**SPARK, "kafka.bootstrap.servers": "localhost:1"}
    quick = {"kafka.default.api.timeout.ms": "100", "kafka.max.block.ms": "100"}
    source = KafkaDataSource(CaseInsensitiveDict({**given, **quick}))
    with pytest.raises(KafkaError) as caught:
        source.reader(source.schema()).partitions()
    assert SECRET not in everything(caught.value)
    exact = {"topic": "t", "exactlyOnce": "true", "transactionalIdPrefix": "x"}
    columns = StructType([StructField("value", StringType())])
    writer = KafkaDataSource(CaseInsensitiveDict({**given, **quick, **exact})).writer(columns, overwrite=False)
    with pytest.raises(KafkaError) as caught:
        pickle.dumps(writer)
    assert SECRET not in everything(caught.value)


def test_a_variable_of_spark_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "some.properties"
    file.write_text(f"password={SECRET}")
    provider = {"kafka.config.providers": "file", "kafka.config.providers.file.class": "FileConfigProvider"}
    given = {**SPARK, **provider, "kafka.sasl.jaas.config": f"${{file:{file}:pasword}}"}
    with pytest.raises(ValueError, match="the entry does not exist") as caught:
        KafkaDataSource(CaseInsensitiveDict(given)).schema()
    assert SECRET not in everything(caught.value)


@pytest.mark.anyio
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
async def test_a_login_that_is_refused(mechanism: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    options: dict[str, Any] = PASSWORD | {"sasl_mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        options = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_oauth_token_provider": lambda: Token(SECRET),
        }
    async with EmbeddedCluster(
        brokers=1, sasl_users={"alice": "another"}, oauth_validator=lambda token, extensions: None
    ) as cluster:
        with anyio.fail_after(20), pytest.raises(SaslAuthenticationFailedError) as caught:
            async with Producer(cluster.bootstrap_servers, **options):
                pass
        assert SECRET not in everything(caught.value)
        assert SECRET not in caplog.text
        assert all(SECRET not in repr(record.__dict__) for record in caplog.records)
        assert SECRET not in repr(list(cluster.requests))


@pytest.mark.anyio
@pytest.mark.parametrize(("mechanism", "warns"), [("PLAIN", True), ("SCRAM-SHA-256", False)])
async def test_credentials_that_can_be_read_on_their_way_are_warned_of_once(
    mechanism: str, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with EmbeddedCluster(brokers=2, sasl_users={"alice": SECRET}) as cluster:
        cluster.create_topic("t", partitions=2)
        options: dict[str, Any] = PASSWORD | {"sasl_mechanism": mechanism}
        async with Producer(cluster.bootstrap_servers, **options) as producer:
            for partition in (0, 1):
                await producer.send_and_wait("t", b"v", partition=partition)
    found = [record.getMessage() for record in caplog.records if "use SASL_SSL" in record.getMessage()]
    assert len(found) == warns
