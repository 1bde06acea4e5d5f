"""The payments add up even if their workers are killed."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest


@pytest.mark.timeout(400)
def test_the_payments_add_up() -> None:
    command = [sys.executable, "-m", "examples.payments", "--payments", "80", "--seconds", "4"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=380, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    killed = re.search(r"80 payments, (\d+) workers killed: (\d+) booked", ended.stdout)
    assert killed is not None
    assert int(killed[1]) > 0
    assert int(killed[2]) > 0
