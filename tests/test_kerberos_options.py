"""GSSAPI's options when the extra is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from aiokafka_lead.config import ClientConfig
from aiokafka_lead.errors import ConfigError


def test_gssapi_needs_its_extra() -> None:
    program = """
import sys
sys.modules["gssapi"] = None
from aiokafka_lead import Producer
try:
    Producer("a:1", security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPI")
except ValueError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.startswith(
        'sasl_mechanism GSSAPI needs the extra "gssapi", and the system\'s Kerberos library: pip install'
    )


@pytest.mark.parametrize("name", ["service_name", "domain_name", "principal", "keytab"])
def test_its_options_are_for_it_alone(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^sasl_kerberos_{name} needs sasl_mechanism GSSAPI"):
        ClientConfig.from_options("a:1", {f"sasl_kerberos_{name}": "x"})
