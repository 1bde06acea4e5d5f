"""Clusters for the tests in this folder: started on first use, kept for the session, stopped at its end."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from typing import Any

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
_RELEASES = ("kafka_oldest", "kafka_first_with_producer_ids", "kafka_old", "kafka")
"""Fixtures that are clusters of different releases."""
_CLUSTERS = (*_RELEASES[:-1], "kafka_that_waits", "kafka_alone", "kafka")
"""Fixtures that are clusters, in the order in which their tests run."""
_RESTARTING = ("test_failures.py", "test_groups_failures.py", "test_harness.py", "test_leadership.py")
"""Files whose tests restart brokers; they run first, since a start takes longer with more topics."""
_running: dict[str, KafkaCluster] = {}
_last_test: dict[str, str] = {}
"""Last test of each cluster."""


@pytest.hookimpl(specname="pytest_collection_modifyitems", tryfirst=True)
def pytest_leave_combinations_to_the_suite_all(items: list[pytest.Item]) -> None:
    """Mark tests that only combine releases, event loops and codecs."""
    # Pytest accepts only functions named pytest_... as hooks, whatever their specname.
    for item in items:
        if item.nodeid.startswith(_OURS) and _is_combination(item):
            item.add_marker(pytest.mark.suite("all"))


def _is_combination(item: pytest.Item) -> bool:
    """Return True for tests of an old release on trio or with most codecs, and of a codec on trio.

    Also return True for the release between two releases that run all tests.
    """
    assert isinstance(item, pytest.Function)
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    cluster, codec, is_on_trio = _cluster_of(item), parameters.get("codec"), "trio" in item.name
    if cluster in _RELEASES[:-1]:
        return cluster == "kafka_first_with_producer_ids" or is_on_trio or codec not in (None, "zstd")
    return codec is not None and is_on_trio


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder ``kafka``, extend its timeouts, and sort the tests by cluster."""
    places = [index for index, item in enumerate(items) if item.nodeid.startswith(_OURS)]
    ours = sorted((items[index] for index in places), key=_turn)
    for index, item in zip(places, ours, strict=True):
        items[index] = item
        item.add_marker(pytest.mark.kafka)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))
        cluster = _cluster_of(item)
        if cluster is not None:
            _last_test[cluster] = item.nodeid


def _turn(item: pytest.Item) -> tuple[int, bool]:
    return _CLUSTERS.index(_cluster_of(item) or "kafka"), item.path.name not in _RESTARTING


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
    **options: Any,
) -> Iterator[KafkaCluster]:
    try:
        require_java()
    except JavaUnavailableError as error:
        # CI has to run these tests, so it must not pass on a machine without Java.
        if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
            pytest.fail(f"CI needs a real Apache Kafka: {error}")
        pytest.skip(f"{_NO_JAVA}: {error}")
    cluster = KafkaCluster(release, **options)
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


@pytest.fixture(scope="session")
def telemetry_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """File to which the plugin of `kafka_alone` writes what clients push."""
    return tmp_path_factory.mktemp("telemetry") / "pushes"


@pytest.fixture(scope="session")
def kafka_alone(telemetry_file: Path) -> Iterator[KafkaCluster]:
    """One broker with all special features that tests need, because starting a broker for each takes long.

    It enforces access rules (ACLs), and allows its anonymous users everything; it receives metrics of clients
    (KIP-714) and topologies of streams groups (KIP-1331); and there is an additional controller that does not vote yet.
    """
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "metric.reporters": "BrokerPlugin",
        "telemetry.file": str(telemetry_file),
        "group.streams.topology.description.plugin.class": "BrokerPlugin",
    }
    plugin = _HERE / "harness" / "BrokerPlugin.java"
    options = {"brokers": 1, "spare": True, "properties": properties, "plugin": plugin}
    yield from _session_cluster("kafka_alone", NEWEST, **options)


@pytest.fixture(scope="session")
def kafka_that_waits() -> Iterator[KafkaCluster]:
    """Two brokers; a frozen one keeps its leaderships for the duration of any test."""
    properties = {"broker.session.timeout.ms": "600000"}
    yield from _session_cluster("kafka_that_waits", NEWEST, brokers=2, lean=True, properties=properties)


@pytest.fixture(scope="session")
def kafka_old() -> Iterator[KafkaCluster]:
    """Two brokers of the last release line without leader hints (KIP-951)."""
    yield from _session_cluster("kafka_old", OLD, brokers=2, lean=True)


@pytest.fixture(scope="session")
def kafka_first_with_producer_ids() -> Iterator[KafkaCluster]:
    """One broker of the oldest release whose KRaft supports idempotent producers."""
    yield from _session_cluster("kafka_first_with_producer_ids", FIRST_WITH_PRODUCER_IDS, brokers=1)


@pytest.fixture(scope="session")
def kafka_oldest() -> Iterator[KafkaCluster]:
    """One broker of the oldest release with KRaft."""
    yield from _session_cluster("kafka_oldest", OLDEST, brokers=1)


@pytest.fixture(scope="session", params=_RELEASES)
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
