"""Security features for users' tests: delegation tokens, Kerberos, client certificates, and their replacement."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from aiokafka_lead import Producer
from aiokafka_lead.errors import ConfigError, ConfigTypeError, KafkaError, SaslAuthenticationFailedError
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster

from ..kerberos import Realm

pytestmark = pytest.mark.anyio

USERS = {"alice": "alice-secret"}


def server_context(authority: trustme.CA, verify: ssl.VerifyMode = ssl.CERT_NONE) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = verify
    return context


def own_certificate(authority: trustme.CA, folder: Path, name: str) -> dict[str, Any]:
    """Return the options of a client with a certificate of this authority."""
    ca, own = folder / "ca.pem", folder / f"{name}.pem"
    authority.cert_pem.write_to_path(ca)
    issued = authority.issue_cert(f"{name}@example.org", common_name=name, organization_name="Example")
    issued.private_key_and_cert_chain_pem.write_to_path(own)
    return {"security_protocol": "SSL", "ssl_cafile": ca, "ssl_certfile": own}


def scram(name: str, password: str, **options: Any) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": name,
        "sasl_plain_password": password,
        **options,
    }


def users_of(cluster: EmbeddedCluster, broker: int = 1) -> set[str | None]:
    """Return the users that produced at a broker; trustme adds more to a subject, which is left out."""
    users = {r.user for r in cluster.requests if (r.api, r.broker) == ("Produce", broker)}
    return {None if user is None else user.partition(",")[0] for user in users}


async def test_a_delegation_token_logs_in_as_its_owner_until_it_expires() -> None:
    async with EmbeddedCluster(1, sasl_users=USERS) as cluster:
        token = cluster.security.create_delegation_token("alice")
        given = scram(token.token_id, token.hmac)
        async with Producer(cluster.bootstrap_servers, **given, sasl_delegation_token=True) as producer:
            await producer.send_and_wait("t", b"v")
        assert users_of(cluster) == {"alice"}
        with pytest.raises(SaslAuthenticationFailedError):  # it does not present itself as one
            async with Producer(cluster.bootstrap_servers, **given):
                pass
        cluster.security.expire_delegation_token(token.token_id)
        with pytest.raises(SaslAuthenticationFailedError):
            async with Producer(cluster.bootstrap_servers, **given, sasl_delegation_token=True):
                pass


async def test_controls_check_what_they_are_given() -> None:
    async with EmbeddedCluster(1, sasl_users=USERS) as cluster:
        for wrong in (5, "", "bob"):
            with pytest.raises((ConfigError, ConfigTypeError), match=r"^owner"):
                cluster.security.create_delegation_token(wrong)  # type: ignore[arg-type]
            with pytest.raises((ConfigError, ConfigTypeError), match=r"^token_id"):
                cluster.security.expire_delegation_token(wrong)  # type: ignore[arg-type]
        with pytest.raises(ConfigTypeError, match=r"^context"):
            cluster.security.replace_ssl_context(None)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="create it with ssl_context"):
            cluster.security.replace_ssl_context(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


@pytest.mark.parametrize("verify", [ssl.CERT_OPTIONAL, ssl.CERT_REQUIRED])
async def test_client_certificates_are_asked_for_or_demanded(verify: ssl.VerifyMode, tmp_path: Path) -> None:
    authority = trustme.CA()
    async with EmbeddedCluster(1, ssl_context=server_context(authority, verify)) as cluster:
        options = own_certificate(authority, tmp_path, "alice")
        async with Producer(cluster.bootstrap_servers, **options) as producer:
            await producer.send_and_wait("t", b"v")
        assert users_of(cluster) == {"CN=alice"}
        cluster.requests.clear()
        del options["ssl_certfile"]
        if verify is ssl.CERT_OPTIONAL:
            async with Producer(cluster.bootstrap_servers, **options) as producer:
                await producer.send_and_wait("t", b"v")
            assert users_of(cluster) == {None}
        else:
            with pytest.raises(KafkaError, match=r"(wants|demands) a client certificate.* set ssl_certfile"):
                async with Producer(cluster.bootstrap_servers, **options):
                    pass


async def test_both_sides_replace_their_certificates_under_load(tmp_path: Path) -> None:
    old, new = trustme.CA(), trustme.CA()
    async with EmbeddedCluster(3, ssl_context=server_context(old, ssl.CERT_REQUIRED)) as cluster:
        cluster.create_topic("t", num_partitions=3, replication_factor=1)
        options = own_certificate(old, tmp_path, "alice")
        async with Producer(cluster.bootstrap_servers, **options) as producer:
            for number in range(20):
                await producer.send_and_wait("t", b"%d" % number, partition=0)
            cluster.security.replace_ssl_context(server_context(new, ssl.CERT_REQUIRED))
            own_certificate(new, tmp_path, "alice-of-new")
            (tmp_path / "alice-of-new.pem").replace(tmp_path / "alice.pem")
            for number in range(60):
                await producer.send_and_wait("t", b"%d" % number, partition=number % 3)
        assert sum(cluster.end_offset("t", partition) for partition in range(3)) == 80
        leader = cluster.leader("t", 0)
        assert users_of(cluster, leader) == {"CN=alice"}  # open connections are unaffected
        assert [users_of(cluster, broker) for broker in {1, 2, 3} - {leader}] == [{"CN=alice-of-new"}] * 2


async def test_kerberos(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(realm.config))
    async with EmbeddedCluster(1, gssapi_keytab=realm.service_keytab) as cluster:
        options: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}
        async with Producer(cluster.bootstrap_servers, **options, sasl_kerberos_keytab=realm.client_keytab) as producer:
            await producer.send_and_wait("t", b"v")
        assert users_of(cluster) == {"alice"}
    # A broker without the service's key.
    async with EmbeddedCluster(1, gssapi_keytab=realm.client_keytab) as cluster:
        with pytest.raises(SaslAuthenticationFailedError, match="not found in keytab"):
            async with Producer(cluster.bootstrap_servers, **options, sasl_kerberos_keytab=realm.client_keytab):
                pass


def test_in_a_thread() -> None:
    with ClusterThread(EmbeddedCluster(1, sasl_users=USERS)) as cluster:
        token = cluster.security.create_delegation_token("alice")
        cluster.security.expire_delegation_token(token.token_id)
        with pytest.raises(ConfigError, match="id of a token"):
            cluster.security.expire_delegation_token(token.token_id)
