"""Ways to deploy the package to Kubernetes, with Spark's pods run as processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aiokafka_lead.testing.thread import ClusterThread

from .deployments import archived, check_zip, on_a_cluster, submitted
from .kubernetes import IMAGE, LocalKubernetes


@pytest.fixture(scope="module")
def kubernetes() -> Iterator[LocalKubernetes]:
    with LocalKubernetes() as running:
        yield running


def environments(kubernetes: LocalKubernetes, role: str) -> list[dict[str, str | None]]:
    """Return the variables of all drivers or executors; all pods have the image."""
    containers = [pod["spec"]["containers"][0] for pod in kubernetes.pods]
    assert {container["image"] for container in containers} == {IMAGE}
    return [
        {entry["name"]: entry.get("value") for entry in container["env"]}
        for container in containers
        if container["args"][0] == role
    ]


@on_a_cluster
def test_an_archive_of_an_environment(kubernetes: LocalKubernetes, cluster: ClusterThread, tmp_path: Path) -> None:
    archive, python = archived(tmp_path), "./environment/bin/python"
    (tmp_path / "elsewhere").mkdir()
    found = submitted(
        kubernetes, cluster, "archived", "--archives", f"{archive}#environment", folder=tmp_path / "elsewhere",
        python=python,
    )  # fmt: skip
    assert found
    assert all("/environment/lib/" in path and f"{tmp_path}/" not in path for path in found)
    assert environments(kubernetes, "driver")[-1]["PYSPARK_PYTHON"] == python
    assert len(environments(kubernetes, "executor")) >= 2


@on_a_cluster
def test_a_zip_and_the_python_of_an_image(kubernetes: LocalKubernetes, cluster: ClusterThread, tmp_path: Path) -> None:
    check_zip(kubernetes, cluster, tmp_path)
