"""Ways to deploy the package to YARN."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aiokafka_lead.testing.thread import ClusterThread

from .deployments import archived, check_zip, on_a_cluster, submitted
from .yarn import MiniYarn


@pytest.fixture(scope="module")
def yarn() -> Iterator[MiniYarn]:
    with MiniYarn() as running:
        yield running


@on_a_cluster
@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_an_archive_of_an_environment(yarn: MiniYarn, cluster: ClusterThread, tmp_path: Path, mode: str) -> None:
    archive, python = archived(tmp_path), "./environment/bin/python"
    # In cluster mode the driver's node unpacks it.
    folder = tmp_path if mode == "client" else tmp_path / "elsewhere"
    folder.mkdir(exist_ok=True)
    found = submitted(
        yarn, cluster, f"archived-{mode}", "--deploy-mode", mode, "--archives", f"{archive}#environment",
        folder=folder, python=python,
    )  # fmt: skip
    assert found
    assert all("/environment/lib/" in path and f"{tmp_path}/" not in path for path in found)


@on_a_cluster
def test_a_zip(yarn: MiniYarn, cluster: ClusterThread, tmp_path: Path) -> None:
    check_zip(yarn, cluster, tmp_path, "--deploy-mode", "cluster")
