"""Some cases of the campaign. ``HOSTILE_RUNS=200`` runs more, and ``python -m tests.hostile`` any number."""

from __future__ import annotations

import os

import pytest

from .campaign import run_case

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


@pytest.mark.parametrize("seed", range(int(os.environ.get("HOSTILE_RUNS", "6"))))
async def test_bent_answers_end_no_client_badly(seed: int) -> None:
    await run_case(seed)
