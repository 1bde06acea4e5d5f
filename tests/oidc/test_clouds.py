"""Tokens of the clouds: signatures equal to AWS's own, and the providers' libraries against stand-ins on loopback."""

from __future__ import annotations

import base64
import importlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest
from botocore.credentials import RefreshableCredentials

from aiokafka_lead import Producer
from aiokafka_lead.errors import (
    ConfigError,
    ConfigTypeError,
    KafkaError,
    SaslAuthenticationFailedError,
    TokenProviderError,
)
from aiokafka_lead.oidc import Token, azure, confluent_cloud, google, msk_iam
from aiokafka_lead.oidc.msk import AwsCredentials, signed
from aiokafka_lead.testing import EmbeddedCluster

from .identity_provider import Answer, json_answer

AWS_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
SECRET_KEY = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
AT = 1_767_323_045  # 2026-01-02T03:04:05Z

SIGNATURES = {
    None: "00629abe90095b91c1a9e460b67a01a8e4e7499b99f571276b99dd9258dd65e5",
    "session/token+with=signs": "a827343d21d4ceccdea8feaa8dd24646e3519b8a580683aa3dfb5dcd83a66e72",
}
"""Signatures by session token, from aws-msk-iam-sasl-signer-python 1.0.2 with botocore for these keys at this time."""


def decoded(token: str) -> str:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()


@contextmanager
def stand_in(answer: Callable[[str, dict[str, str]], Answer]) -> Iterator[tuple[str, list[str]]]:
    """Answer each GET by path and headers in threads; yield the server's address, and the requested paths."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            status, headers, body = answer(self.path, {name.lower(): text for name, text in self.headers.items()})
            try:
                self.send_response(status)
                for name, text in headers.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                return  # the client has disconnected

        def do_PUT(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            """Keep requests out of the log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def send(provider: Any, seen: list[tuple[str, Any]], **options: Any) -> None:
    """Send a record through a broker that accepts each token, and records it with its extensions."""

    def validate(token: str, extensions: Any) -> str:
        seen.append((token, dict(extensions)))
        return "alice"

    async with EmbeddedCluster(1, oauth_validator=validate) as cluster:
        given: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER", **options}
        async with Producer(cluster.bootstrap_servers, sasl_oauth_token_provider=provider, **given) as producer:
            await producer.send_and_wait("t", b"v")


# --- Amazon MSK ---


@pytest.mark.parametrize("session_token", SIGNATURES)
def test_the_signature_is_that_of_awss_own_signer(session_token: str | None) -> None:
    url = urlsplit(decoded(signed("eu-central-1", AwsCredentials("AKIDEXAMPLE", SECRET_KEY, session_token), AT)))
    assert (url.scheme, url.netloc, url.path) == ("https", "kafka.eu-central-1.amazonaws.com", "/")
    query = {name: value for name, (value,) in parse_qs(url.query).items()}
    assert query.pop("User-Agent").startswith("aiokafka-lead/")
    assert query.pop("X-Amz-Security-Token", None) == session_token
    assert query == {
        "Action": "kafka-cluster:Connect",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": "AKIDEXAMPLE/20260102/eu-central-1/kafka-cluster/aws4_request",
        "X-Amz-Date": "20260102T030405Z",
        "X-Amz-Expires": "900",
        "X-Amz-SignedHeaders": "host",
        "X-Amz-Signature": SIGNATURES[session_token],
    }


@pytest.mark.parametrize("key", [SECRET_KEY, "a", "\u00e4/+ ="])
@pytest.mark.parametrize("session_token", [None, "a b+c/d=e~f", "x" * 1500])
def test_botocore_signs_the_same(key: str, session_token: str | None) -> None:
    """At the current time, with any key."""
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    while True:  # until both sign within the same second
        request = AWSRequest("GET", "https://kafka.us-east-1.amazonaws.com/?Action=kafka-cluster%3AConnect")
        SigV4QueryAuth(Credentials("AKID", key, session_token), "kafka-cluster", "us-east-1", expires=900).add_auth(
            request
        )
        theirs = parse_qs(urlsplit(str(request.url)).query)
        ours = parse_qs(
            urlsplit(decoded(signed("us-east-1", AwsCredentials("AKID", key, session_token), time.time()))).query
        )
        if ours["X-Amz-Date"] == theirs["X-Amz-Date"]:
            break
    del ours["User-Agent"]
    assert ours == theirs


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> pytest.MonkeyPatch:
    """Environment without any credentials."""
    for name in (*AWS_VARIABLES, "AWS_PROFILE", "AWS_CREDENTIAL_EXPIRATION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_METADATA_SERVICE_TIMEOUT", "1")
    return monkeypatch


def container_credentials(expires_in_s: float) -> Answer:
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + expires_in_s))
    return json_answer(200, AccessKeyId="AKIDCONTAINER", SecretAccessKey=SECRET_KEY, Token="session", Expiration=ends)


@pytest.mark.anyio
async def test_credentials_of_a_container_are_found_by_botocore_and_fetched_anew_in_time(
    aws: pytest.MonkeyPatch,
) -> None:
    """MSK's sessions end with their credentials, so credentials about to expire are useless."""
    with stand_in(lambda path, headers: container_credentials(60)) as (address, asked):
        aws.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://{address}/role")
        provider = msk_iam("eu-central-1")
        seen: list[tuple[str, Any]] = []
        await send(provider, seen)
        first = len(asked)
        provider.token()
        assert len(asked) > first
    assert "Credential=AKIDCONTAINER%2F" in decoded(seen[0][0])


def refreshable(left_s: float) -> RefreshableCredentials:
    """Return botocore's credentials of a role whose renewal fails."""

    def refresh() -> dict[str, str]:
        raise OSError("the metadata service does not answer")

    ends = datetime.now(UTC) + timedelta(seconds=left_s)
    return RefreshableCredentials("AKID", SECRET_KEY, "session", ends, refresh, "test")


@pytest.mark.parametrize(
    "made",
    [
        refreshable,
        lambda left_s: AwsCredentials("AKID", SECRET_KEY, "session", time.time() + left_s),
        lambda left_s: AwsCredentials("AKID", SECRET_KEY, "s", datetime.now(UTC) + timedelta(seconds=left_s)),  # type: ignore[arg-type]
    ],
)
def test_a_token_does_not_outlive_its_credentials(made: Callable[[float], Any]) -> None:
    for left_s, life_s in ((660, 660), (3600, 900)):
        token = msk_iam("eu-central-1", partial(made, left_s)).token()
        assert token.expires_at is not None
        assert life_s - 10 < token.expires_at - time.time() <= life_s
        expires = parse_qs(urlsplit(decoded(token.value)).query)["X-Amz-Expires"]
        assert life_s - 10 < int(expires[0]) <= life_s


def test_credentials_that_have_ended_make_no_token() -> None:
    ended = AwsCredentials("AKID", SECRET_KEY, "session", 1_700_000_000)
    with pytest.raises(TokenProviderError, match="valid until 2023-11-14T22:13:20"):
        msk_iam("eu-central-1", lambda: ended).token()


@pytest.mark.parametrize("zone", ["Z", "+00:00", ""])
def test_the_environment_says_when_its_credentials_end(aws: pytest.MonkeyPatch, zone: str) -> None:
    aws.setitem(sys.modules, "botocore.session", None)  # simulates a missing installation
    aws.setenv("AWS_ACCESS_KEY_ID", "AKID")
    aws.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    ends = datetime.now(UTC) + timedelta(seconds=300)
    aws.setenv("AWS_CREDENTIAL_EXPIRATION", ends.strftime("%Y-%m-%dT%H:%M:%S") + zone)
    token = msk_iam("eu-central-1").token()
    assert token.expires_at is not None
    assert token.expires_at <= ends.timestamp()
    aws.setenv("AWS_CREDENTIAL_EXPIRATION", "soon")
    with pytest.raises(TokenProviderError, match="AWS_CREDENTIAL_EXPIRATION"):
        msk_iam("eu-central-1").token()


@pytest.mark.anyio
@pytest.mark.parametrize("answer", [json_answer(500), json_answer(200, nothing="here"), (200, {}, b"<html>")])
async def test_a_metadata_service_that_fails_is_an_error_of_the_provider(
    aws: pytest.MonkeyPatch, answer: Answer
) -> None:
    with stand_in(lambda path, headers: answer) as (address, _):
        aws.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://{address}/role")
        # botocore tries three times, a second apart.
        with anyio.fail_after(20), pytest.raises(TokenProviderError) as caught:
            await send(msk_iam("eu-central-1"), [], sasl_oauth_token_timeout_ms=500)
    assert caught.value.retriable


@pytest.mark.anyio
async def test_no_credentials_at_all_are_an_error_that_says_so(aws: pytest.MonkeyPatch) -> None:
    with anyio.fail_after(20), pytest.raises(SaslAuthenticationFailedError, match="no AWS credentials were found"):
        await send(msk_iam("eu-central-1"), [])


# --- Azure Event Hubs ---


@pytest.mark.anyio
@pytest.mark.parametrize("library", ["azure.identity", "azure.identity.aio"])
async def test_a_managed_identity_of_azure(monkeypatch: pytest.MonkeyPatch, library: str, anyio_backend: str) -> None:
    if library.endswith("aio") and anyio_backend == "trio":
        pytest.skip("its transport is of asyncio")
    credentials = importlib.import_module(library)
    ends_at = int(time.time()) + 3600

    def answer(path: str, headers: dict[str, str]) -> Answer:
        if headers.get("x-identity-header") != "HEADER":
            return json_answer(401)
        return json_answer(200, access_token="tok-azure", expires_on=str(ends_at), resource="r", token_type="Bearer")

    with stand_in(answer) as (address, asked):
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://{address}/msi/token")
        monkeypatch.setenv("IDENTITY_HEADER", "HEADER")
        credential = credentials.ManagedIdentityCredential()
        seen: list[tuple[str, Any]] = []
        await send(azure("orders", credential), seen)
        closing = credential.close()
        if closing is not None:
            await closing
    assert seen[0] == ("tok-azure", {})
    assert parse_qs(urlsplit(asked[0]).query)["resource"] == ["https://orders.servicebus.windows.net"]


@pytest.mark.anyio
async def test_an_identity_endpoint_that_refuses_is_an_error_of_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = importlib.import_module("azure.identity")
    with stand_in(lambda path, headers: json_answer(400, error="invalid_resource")) as (address, _):
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"http://{address}/msi/token")
        monkeypatch.setenv("IDENTITY_HEADER", "HEADER")
        with anyio.fail_after(30), pytest.raises(TokenProviderError) as caught:
            await send(azure("orders", credentials.ManagedIdentityCredential()), [])
    assert caught.value.retriable


@pytest.mark.parametrize("namespace", ["", "https://orders", "orders:9093", "a b", "user@orders"])
def test_a_namespace_is_a_name(namespace: str) -> None:
    with pytest.raises(ConfigError, match="namespace"):
        azure(namespace, object())


@pytest.mark.parametrize("namespace", [None, 5, b"orders"])
def test_a_namespace_of_another_type(namespace: Any) -> None:
    with pytest.raises(ConfigTypeError, match="namespace"):
        azure(namespace, object())


# --- Google's Managed Kafka ---


@contextmanager
def machine_of_google(answer: Callable[[str, dict[str, str]], Answer]) -> Iterator[Any]:
    """Credentials of a service account, from this metadata server."""
    compute_engine = importlib.import_module("google.auth.compute_engine")
    metadata = importlib.import_module("google.auth.compute_engine._metadata")
    with stand_in(answer) as (address, _), pytest.MonkeyPatch.context() as environment:
        environment.setenv("GCE_METADATA_HOST", address)
        importlib.reload(metadata)  # read once
        try:
            yield compute_engine.Credentials()
        finally:
            environment.undo()
            importlib.reload(metadata)


@pytest.mark.anyio
async def test_the_service_account_of_a_machine_of_google() -> None:
    def answer(path: str, headers: dict[str, str]) -> Answer:
        if headers.get("metadata-flavor") != "Google":
            return json_answer(403)
        if "/token" in path:
            status, fields, body = json_answer(200, access_token="tok-google", expires_in=3600, token_type="Bearer")
        else:
            status, fields, body = json_answer(200, email="orders@p.iam.gserviceaccount.com", scopes=["s"], aliases=[])
        return status, fields | {"Metadata-Flavor": "Google"}, body

    seen: list[tuple[str, Any]] = []
    with machine_of_google(answer) as credentials:
        await send(google(credentials), seen)
    header, claims, access = (decoded(part) for part in seen[0][0].split("."))
    assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    content = json.loads(claims)
    assert (content["iss"], content["scope"], content["sub"]) == ("Google", "kafka", "orders@p.iam.gserviceaccount.com")
    assert 3000 < content["exp"] - time.time() <= 3600
    assert access == "tok-google"


@pytest.mark.anyio
@pytest.mark.parametrize("answer", [json_answer(404), (200, {"Metadata-Flavor": "Google"}, b"<html>")])
async def test_a_metadata_server_of_google_that_fails_is_an_error_of_the_provider(answer: Answer) -> None:
    with (
        machine_of_google(lambda path, headers: answer) as credentials,
        anyio.fail_after(20),
        pytest.raises(TokenProviderError) as caught,
    ):
        await send(google(credentials), [], sasl_oauth_token_timeout_ms=500)
    assert caught.value.retriable


# --- Confluent Cloud ---


@pytest.mark.anyio
async def test_what_confluent_cloud_wants_goes_with_the_token() -> None:
    seen: list[tuple[str, Any]] = []
    await send(lambda: Token("tok", None, confluent_cloud("lkc-abc123", "pool-x1y2")), seen)
    extensions = {"logicalCluster": "lkc-abc123", "identityPoolId": "pool-x1y2"}
    assert seen == [("tok", extensions)] * len(seen) != []
    assert confluent_cloud("lkc-abc123") == {"logicalCluster": "lkc-abc123"}


@pytest.mark.parametrize("wrong", ["lkc\x01auth=Bearer x", "", "lkc-\u00e4"])
def test_an_extension_cannot_be_more_than_one(wrong: str) -> None:
    with pytest.raises(KafkaError):
        confluent_cloud(wrong)
