"""``kafka.*`` options: Java's names and values, this client's own options."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from aiokafka_lead.config import AdminConfig, ConsumerConfig, ProducerConfig
from aiokafka_lead.spark.client_loop import client_loop
from aiokafka_lead.spark.kafka_options import bootstrap_servers, client_options, refuse_owned
from aiokafka_lead.testing import EmbeddedCluster
from aiokafka_lead.testing.thread import ClusterThread

from .support import read


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
        (
            _given(proxy__url="socks5://a:1", connect="x", metadata__cluster__check__enable="false", client__rack="r"),
            ConsumerConfig,
            {"proxy_url": "socks5://a:1", "metadata_cluster_check_enable": False, "client_rack": "r"},
        ),
        (
            _given(partitioner__rack__aware="true", client__rack="r", bootstrap__resolve__timeout__ms="500"),
            ProducerConfig,
            {"partitioner_rack_aware": True, "client_rack": "r", "bootstrap_resolve_timeout_ms": 500.0},
        ),
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


@pytest.mark.parametrize(
    ("entries", "password"),
    [
        ("""username='$ConnectionString' password='Endpoint=sb://x;Key=a"b='""", 'Endpoint=sb://x;Key=a"b='),
        (r"""username='a' password="it's \\ \ttab \101 \"q\"" """, 'it\'s \\ \ttab A "q"'),
        ("""username=a /* password='x' */ password='say \\'x\\''""", "say 'x'"),
        ("username='a' // password='x'\n password='b//c'", "b//c"),
        ("username='a' password=''", ""),
    ],
)
def test_quotes_in_a_jaas_line(entries: str, password: str) -> None:
    """Java's JaasConfig has the same outcomes."""
    given = _given(
        security__protocol="SASL_SSL",
        sasl__mechanism="PLAIN",
        sasl__jaas__config=f"PlainLoginModule required {entries};",
    )
    assert client_options(given, ConsumerConfig)["sasl_plain_password"] == password


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (
            'useKeyTab=true storeKey=true keyTab="/etc/alice.keytab" principal="alice@TEST.LOCAL" serviceName=mail',
            {
                "sasl_kerberos_keytab": "/etc/alice.keytab",
                "sasl_kerberos_principal": "alice@TEST.LOCAL",
                "sasl_kerberos_service_name": "mail",
            },
        ),
        ('useTicketCache=true keyTab="/etc/alice.keytab"', {}),
    ],
)
def test_tickets_from_a_jaas_line(entries: str, expected: dict[str, str]) -> None:
    jaas = f"com.sun.security.auth.module.Krb5LoginModule required {entries};"
    for mechanism in ({}, {"sasl__mechanism": "gssapi"}):
        found = client_options(
            _given(security__protocol="SASL_PLAINTEXT", sasl__jaas__config=jaas, **mechanism), ConsumerConfig
        )
        assert found == {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"} | expected
    named = _given(security__protocol="SASL_SSL", sasl__mechanism="GSSAPI", sasl__kerberos__service__name="mail")
    assert client_options(named, ConsumerConfig)["sasl_kerberos_service_name"] == "mail"


def test_a_delegation_token_from_a_jaas_line() -> None:
    jaas = (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="i" password="h" tokenauth="true";'
    )
    found = client_options(
        _given(security__protocol="SASL_SSL", sasl__mechanism="SCRAM-SHA-256", sasl__jaas__config=jaas), ConsumerConfig
    )
    assert found["sasl_delegation_token"] is True


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
    found = client_options(settings, ConsumerConfig)
    assert found == {
        "security_protocol": "SSL",
        "ssl_cafile": str(trusted),
        "ssl_certfile": str(own),
        "ssl_check_hostname": False,
    }
    ConsumerConfig.from_options("a:1", found)
    inline = _given(
        security__protocol="SSL",
        ssl__truststore__certificates=authority.cert_pem.bytes().decode(),
        ssl__keystore__certificate__chain="".join(pem.bytes().decode() for pem in certificate.cert_chain_pems),
        ssl__keystore__key=certificate.private_key_pem.bytes().decode(),
    )
    found = client_options(inline, ConsumerConfig)
    assert found.keys() == {"security_protocol", "ssl_cadata", "ssl_certdata", "ssl_keydata"}
    ConsumerConfig.from_options("a:1", found)


def _tls(**options: str) -> dict[str, str]:
    return _given(security__protocol="SSL", **options)


def _encrypted(key: bytes) -> str:
    loaded = serialization.load_pem_private_key(key, None)
    how = serialization.BestAvailableEncryption(b"right")
    return loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how).decode()


def test_a_key_with_a_password(tmp_path: Path) -> None:
    certificate = trustme.CA().issue_cert("localhost")
    chain = certificate.cert_chain_pems[0].bytes().decode()
    key = _encrypted(certificate.private_key_pem.bytes())
    file = tmp_path / "own.pem"
    file.write_text(key + chain)
    for store, option in [
        ({"ssl__keystore__location": str(file)}, "ssl.keystore.location"),
        ({"ssl__keystore__certificate__chain": chain, "ssl__keystore__key": key}, "ssl.keystore.key"),
    ]:
        right = client_options(_tls(**store, ssl__key__password="right"), ConsumerConfig)
        ConsumerConfig.from_options("a:1", right)
        with pytest.raises(ValueError, match=f"is missing: the key of option 'kafka.{option}'"):
            client_options(_tls(**store), ConsumerConfig)
        with pytest.raises(ValueError, match=f"'kafka.ssl.key.password' is wrong: the key of option 'kafka.{option}'"):
            client_options(_tls(**store, ssl__key__password="wrong"), ConsumerConfig)
    other = trustme.CA().issue_cert("localhost").cert_chain_pems[0].bytes().decode()
    pair = {"ssl__keystore__certificate__chain": other, "ssl__keystore__key": key, "ssl__key__password": "right"}
    with pytest.raises(ValueError, match="the key does not belong to the certificate"):
        client_options(_tls(**pair), ConsumerConfig)


def test_errors_of_certificates_name_option_and_file(tmp_path: Path) -> None:
    one, other = (trustme.CA().issue_cert("localhost") for _ in range(2))
    chain, key = one.cert_chain_pems[0].bytes().decode(), other.private_key_pem.bytes().decode()
    junk = tmp_path / "store.jks"
    junk.write_bytes(b"\xfe\xed\xfe\xed")
    for options, words in [
        ({"ssl__truststore__location": "/no/such/file"}, r"truststore.location' \(/no/such/file\): No such file"),
        (
            {"ssl__truststore__location": str(junk)},
            rf"truststore.location' \({junk}\): this is a Java key store .JKS., convert",
        ),
        (
            {"ssl__keystore__type": "JKS", "ssl__keystore__location": str(junk)},
            "this is a Java key store .JKS., convert",
        ),
        ({"ssl__truststore__certificates": "junk"}, "'kafka.ssl.truststore.certificates': it contains no valid cert"),
        ({"ssl__keystore__location": "/no/such/file"}, r"keystore.location' \(/no/such/file\): No such file"),
        ({"ssl__keystore__location": str(junk)}, "convert it: keytool"),
        ({"ssl__keystore__key": key}, "'kafka.ssl.keystore.certificate.chain' is missing"),
        ({"ssl__keystore__certificate__chain": chain}, "'kafka.ssl.keystore.key' is missing"),
        (
            {"ssl__keystore__certificate__chain": chain, "ssl__keystore__key": key},
            "key does not belong to the certificate",
        ),
        ({"ssl__keystore__location": str(junk), "ssl__keystore__key": key}, "cannot be combined"),
        ({"ssl__truststore__location": "x", "ssl__truststore__certificates": chain}, "cannot be combined"),
    ]:
        with pytest.raises(ValueError, match=words) as caught:
            client_options(_tls(**options), ConsumerConfig)
        assert "PRIVATE KEY" not in str(caught.value)


@pytest.mark.parametrize("mechanism", ["GSSAPI", "PLAIN", "nonsense"])
def test_a_mechanism_without_sasl_is_of_no_effect(mechanism: str) -> None:
    for protocol in ({}, {"security__protocol": "PLAINTEXT"}, {"security__protocol": "ssl"}):
        found = client_options(_given(sasl__mechanism=mechanism, **protocol), ConsumerConfig)
        assert "sasl_mechanism" not in found
        ConsumerConfig.from_options("a:1", found)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (_given(sasl__kerberos__service__name="kafka", sasl__oauthbearer__scope="s"), {}),
        (
            _given(security__protocol="SASL_SSL", sasl__mechanism="PLAIN", sasl__kerberos__service__name="kafka"),
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"},
        ),
        (_given(client__id="", client__rack=" ", group__id="", group__remote__assignor=""), {}),
        (_given(retry__backoff__max__ms="50"), {"retry_backoff_max_ms": 50.0, "retry_backoff_ms": 50.0}),
        (
            _given(reconnect__backoff__ms="900", reconnect__backoff__max__ms="80"),
            {"reconnect_backoff_max_ms": 80.0, "reconnect_backoff_ms": 80.0},
        ),
        (_given(retry__backoff__max__ms="5000"), {"retry_backoff_max_ms": 5000.0}),
        (_given(security__protocol="SSL", ssl__truststore__type="JKS"), {"security_protocol": "SSL"}),
        (_given(connections__max__idle__ms="-1"), {"connections_max_idle_ms": 2**63 - 1}),
    ],
)
def test_values_that_java_accepts(options: dict[str, str], expected: dict[str, Any]) -> None:
    """The outcomes were compared with Java's ConsumerConfig 3.9."""
    found = client_options(options, ConsumerConfig)
    assert found == expected
    if "sasl_mechanism" not in found:
        ConsumerConfig.from_options("a:1", found)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (_given(request__timeout__ms="soon"), "'kafka.request.timeout.ms'"),
        (_given(check__crcs="yes"), "'kafka.check.crcs'"),
        (_given(security__protocol="SASL_SSL", sasl__jaas__config="nonsense"), "LoginModule"),
        (_given(security__protocol="SSL", ssl__truststore__type="BKS"), "must be PEM or PKCS12"),
    ],
)
def test_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        client_options(options, ConsumerConfig)


_TOKEN_URL = {"sasl_oauthbearer_token_endpoint_url": "https://idp.example.org/token"}


@pytest.mark.parametrize("by", ["jaas", "settings"])
def test_oauthbearer_as_java_is_told(by: str) -> None:
    given = _given(
        security__protocol="SASL_SSL",
        sasl__mechanism="OAUTHBEARER",
        sasl__oauthbearer__token__endpoint__url="https://idp.example.org/token",
    )
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    if by == "jaas":
        jaas = f'{module} clientId="orders" clientSecret="secret" scope="kafka" extension_logicalCluster="lkc-1";'
        given |= _given(sasl__jaas__config=jaas)
        extensions: dict[str, Any] = {"sasl_oauthbearer_extensions": {"logicalCluster": "lkc-1"}}
    else:
        given |= _given(
            sasl__jaas__config=f"{module};",
            sasl__oauthbearer__client__credentials__client__id="orders",
            sasl__oauthbearer__client__credentials__client__secret="secret",
            sasl__oauthbearer__scope="kafka",
            sasl__login__refresh__buffer__seconds="30",
        )
        extensions = {"sasl_login_refresh_buffer_seconds": 30.0}
    found = client_options(given, ConsumerConfig)
    assert found == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        **_TOKEN_URL,
        "sasl_oauthbearer_client_credentials_client_id": "orders",
        "sasl_oauthbearer_client_credentials_client_secret": "secret",
        "sasl_oauthbearer_scope": "kafka",
        **extensions,
    }
    assert repr(ConsumerConfig.from_options("a:1", found).sasl_oauth_token_provider) == (
        "ClientCredentials('https://idp.example.org/token', 'orders')"
    )


_HANDLER = "kafka.sasl.login.callback.handler.class"
_MSK = "software.amazon.msk.auth.iam"
_BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
_BROKERS = "b-1.orders.abc123.c2.kafka.eu-central-1.amazonaws.com:9098"


def _login(mechanism: str, jaas: str, **more: str) -> dict[str, str]:
    return _given(security__protocol="SASL_SSL", sasl__mechanism=mechanism, sasl__jaas__config=jaas, **more)


@pytest.mark.parametrize(
    "login",
    [
        {
            **_login("AWS_MSK_IAM", f"{_MSK}.IAMLoginModule required awsDebugCreds=true;"),
            "kafka.sasl.client.callback.handler.class": f"{_MSK}.IAMClientCallbackHandler",
        },
        {**_login("OAUTHBEARER", _BEARER), _HANDLER: f"shaded.{_MSK}.IAMOAuthBearerLoginCallbackHandler"},
    ],
)
def test_amazons_login_with_iam(login: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "MARKED")
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    with_names = {**login, "kafka.bootstrap.servers": f"own.example.org:9098,{_BROKERS}"}
    found = client_options(with_names, ConsumerConfig)
    assert repr(found["sasl_oauth_token_provider"]) == "msk_iam('eu-central-1')"
    seen: list[str] = []

    def validate(token: str, extensions: Mapping[str, str]) -> str:
        seen.append(urlsafe_b64decode(token + "==").decode())
        return "orders"

    with ClusterThread(EmbeddedCluster(1, oauth_validator=validate)) as cluster:
        plaintext = {**login, "kafka.security.protocol": "SASL_PLAINTEXT"}
        cluster.create_topic("t", 1)
        assert read(cluster, subscribe="t", **plaintext) == []
        client_loop().close_idle()  # a client that connects again and again disturbs other tests of this process
    assert seen
    assert all(url.startswith("https://kafka.eu-west-3.amazonaws.com/") for url in seen)
    monkeypatch.delenv("AWS_REGION")
    with pytest.raises(ValueError, match="set AWS_REGION"):
        client_options(login, ConsumerConfig)


def test_googles_login() -> None:
    given = {**_login("OAUTHBEARER", _BEARER), _HANDLER: "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"}
    found = client_options(given, ProducerConfig)
    assert found["sasl_mechanism"] == "OAUTHBEARER"
    assert callable(ProducerConfig.from_options("a:1", found).sasl_oauth_token_provider)


@pytest.mark.parametrize(
    ("login", "words"),
    [
        (
            {**_login("OAUTHBEARER", _BEARER), _HANDLER: "org.acme.Login"},
            f"'{_HANDLER}': Login is a Java class without an equivalent",
        ),
        (_login("OAUTHBEARER", _BEARER), r"needs option 'kafka\.sasl\.oauthbearer\.token\.endpoint\.url'"),
        (_login("PLAIN", "org.acme.OtherLoginModule required;"), "OtherLoginModule has no equivalent"),
        (_login("AWS_MSK_IAM", "IAMLoginModule required awsRoleArn='a';"), "awsRoleArn is not supported; set AWS_PROF"),
        (_login("AWS_MSK_IAM", "IAMLoginModule required awsProfileName='a';"), "awsProfileName is not supported"),
    ],
)
def test_logins_without_an_equivalent(login: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        client_options({**login, "kafka.bootstrap.servers": _BROKERS}, ConsumerConfig)


def test_servers_are_needed() -> None:
    assert bootstrap_servers({"kafka.bootstrap.servers": " a:1,b:2 "}) == "a:1,b:2"
    with pytest.raises(ValueError, match=r"kafka\.bootstrap\.servers"):
        bootstrap_servers({})


def test_settings_of_the_sources_own() -> None:
    refuse_owned(_given(client__id="me"), {"group.id": "why"})
    with pytest.raises(ValueError, match=r"option 'kafka\.group\.id' is not supported: why"):
        refuse_owned(_given(group__id="g"), {"group.id": "why"})
