"""Clusters for the tests in this folder: started on first use, kept for the session, stopped at its end."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

from aiokafka_lead import AdminClient
from tests import kerberos
from tests.oidc import identity_provider

from .harness import (
    FIRST_WITH_PRODUCER_IDS,
    NEWEST,
    OLD,
    OLDEST,
    JavaUnavailableError,
    KafkaCluster,
    Kerberos,
    Release,
    TokenIssuer,
    require_java,
)

_HERE = Path(__file__).parent
_OURS = "tests/kafka/"
_TIMEOUT_S = 400
_NO_JAVA = "no real Apache Kafka here"
_CLUSTERS = ("kafka_oldest", "kafka_first_with_producer_ids", "kafka_old", "kafka")
"""Fixtures that are clusters, in the order in which their tests run."""
_running: dict[str, KafkaCluster] = {}
_last_test: dict[str, str] = {}
"""Last test of each cluster."""


@pytest.hookimpl(specname="pytest_collection_modifyitems", tryfirst=True)
def pytest_leave_trio_on_old_releases_to_the_suite_all(items: list[pytest.Item]) -> None:
    """Releases answer alike on both event loops, so only the suite "all" runs old ones on trio."""
    # Pytest accepts only functions named pytest_... as hooks, whatever their specname.
    for item in items:
        if item.nodeid.startswith(_OURS) and _cluster_of(item) not in (None, "kafka") and "trio" in item.name:
            item.add_marker(pytest.mark.suite("all"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder ``kafka``, extend its timeouts, and group the tests by cluster."""
    places = [index for index, item in enumerate(items) if item.nodeid.startswith(_OURS)]
    ours = sorted((items[index] for index in places), key=lambda item: _CLUSTERS.index(_cluster_of(item) or "kafka"))
    for index, item in zip(places, ours, strict=True):
        items[index] = item
        item.add_marker(pytest.mark.kafka)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))
        cluster = _cluster_of(item)
        if cluster is not None:
            _last_test[cluster] = item.nodeid


def _cluster_of(item: pytest.Item) -> str | None:
    """Return the cluster that a test uses, by its fixtures or as a parameter of `any_kafka`."""
    assert isinstance(item, pytest.Function)
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return next((name for name in _CLUSTERS if name in item.fixturenames or name in parameters), None)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Stop a cluster after its last test: idle brokers take processor time from later tests."""
    for name, test in _last_test.items():
        if test == item.nodeid and name in _running:
            _running[name].stop()


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Report how many tests were skipped for lack of Java or Maven."""
    reasons = [
        report.longrepr[2].partition(f"{_NO_JAVA}: ")[2]
        for report in terminalreporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple) and _NO_JAVA in report.longrepr[2]
    ]
    if reasons:
        text = f"{len(reasons)} tests against a real Apache Kafka were SKIPPED: {reasons[0]}"
        terminalreporter.write_sep("!", text, red=True, bold=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the brokers' output when a test of this folder fails."""
    report = yield
    if report.failed and item.nodeid.startswith(_OURS):
        for cluster in _running.values():
            for node_id in cluster.node_ids:
                report.sections.append((f"Kafka {cluster.release}, log of node {node_id}", cluster.log(node_id)))
    return report


def _session_cluster(
    name: str,
    release: Release,
    *,
    brokers: int,
    secure: bool = False,
    kerberos: Kerberos | None = None,
    issuer: TokenIssuer | None = None,
    properties: Mapping[str, str] | None = None,
    plugin: Path | None = None,
    spare: bool = False,
) -> Iterator[KafkaCluster]:
    try:
        require_java()
    except JavaUnavailableError as error:
        # CI has to run these tests, so it must not pass on a machine without Java.
        if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
            pytest.fail(f"CI needs a real Apache Kafka: {error}")
        pytest.skip(f"{_NO_JAVA}: {error}")
    cluster = KafkaCluster(
        release,
        brokers=brokers,
        secure=secure,
        kerberos=kerberos,
        issuer=issuer,
        properties=properties,
        plugin=plugin,
        spare=spare,
    )
    _running[name] = cluster
    try:
        cluster.start()
        yield cluster
    finally:
        del _running[name]
        cluster.stop()


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three brokers of the newest release, with all listeners, and with Kerberos if it is installed.

    Their SASL listeners accept the tokens of `identity_provider.IdentityProvider`.
    """
    known = None
    if kerberos.missing() is None:
        realm: kerberos.Realm = request.getfixturevalue("realm")
        known = Kerberos(realm.config, realm.service_keytab)
    keys = tmp_path_factory.mktemp("identity") / "jwks.json"
    keys.write_text(identity_provider.jwks())
    issuer = TokenIssuer(keys, identity_provider.ISSUER, identity_provider.AUDIENCE)
    yield from _session_cluster("kafka", NEWEST, brokers=3, secure=True, kerberos=known, issuer=issuer)


@pytest.fixture(scope="module")
def kafka_with_rules() -> Iterator[KafkaCluster]:
    """One broker that enforces access rules (ACLs), and allows its anonymous users everything."""
    rules = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    yield from _session_cluster("kafka_with_rules", NEWEST, brokers=1, properties=rules)


@pytest.fixture(scope="module")
def kafka_with_spare() -> Iterator[KafkaCluster]:
    """One node, and an additional controller that does not vote yet."""
    yield from _session_cluster("kafka_with_spare", NEWEST, brokers=1, spare=True)


@pytest.fixture(scope="module")
def kafka_that_waits() -> Iterator[KafkaCluster]:
    """Two brokers; a frozen one keeps its leaderships for the duration of any test."""
    yield from _session_cluster(
        "kafka_that_waits", NEWEST, brokers=2, properties={"broker.session.timeout.ms": "600000"}
    )


@pytest.fixture(scope="module")
def kafka_that_asks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaCluster, Path]]:
    """One broker that receives metrics of clients (KIP-714), and the file to which its plugin writes them."""
    file = tmp_path_factory.mktemp("telemetry") / "pushes"
    properties = {"metric.reporters": "TelemetryFile", "telemetry.file": str(file)}
    plugin = _HERE / "harness" / "TelemetryFile.java"
    for cluster in _session_cluster("kafka_that_asks", NEWEST, brokers=1, properties=properties, plugin=plugin):
        yield cluster, file


@pytest.fixture(scope="session")
def kafka_old() -> Iterator[KafkaCluster]:
    """Three brokers of the last release line without leader hints (KIP-951)."""
    yield from _session_cluster("kafka_old", OLD, brokers=3)


@pytest.fixture(scope="session")
def kafka_first_with_producer_ids() -> Iterator[KafkaCluster]:
    """One broker of the oldest release whose KRaft supports idempotent producers."""
    yield from _session_cluster("kafka_first_with_producer_ids", FIRST_WITH_PRODUCER_IDS, brokers=1)


@pytest.fixture(scope="session")
def kafka_oldest() -> Iterator[KafkaCluster]:
    """One broker of the oldest release with KRaft."""
    yield from _session_cluster("kafka_oldest", OLDEST, brokers=1)


@pytest.fixture(scope="session", params=_CLUSTERS)
def any_kafka(request: pytest.FixtureRequest) -> KafkaCluster:
    """Each release in turn."""
    cluster: KafkaCluster = request.getfixturevalue(request.param)
    return cluster


@pytest.fixture
async def admin(kafka: KafkaCluster) -> AsyncIterator[AdminClient]:
    async with AdminClient(kafka.bootstrap()) as admin:
        yield admin


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """A function that returns names of topics that no other test uses, with the test's name in them."""
    stem = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")[:80]
    counter = itertools.count(1)
    run = os.urandom(3).hex()
    return lambda: f"{stem}-{run}-{next(counter)}"
