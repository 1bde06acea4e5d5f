"""Starts and breaks real Apache Kafka clusters."""

from .certificates import Certificates
from .cluster import KafkaCluster
from .java import JavaUnavailableError, require_java
from .releases import FIRST_WITH_PRODUCER_IDS, NEWEST, OLD, OLDEST, Release
from .settings import PASSWORD, USER, Kerberos, Listener, TokenIssuer
from .tools import ToolError, ToolResult

__all__ = [
    "FIRST_WITH_PRODUCER_IDS",
    "NEWEST",
    "OLD",
    "OLDEST",
    "PASSWORD",
    "USER",
    "Certificates",
    "JavaUnavailableError",
    "KafkaCluster",
    "Kerberos",
    "Listener",
    "Release",
    "TokenIssuer",
    "ToolError",
    "ToolResult",
    "require_java",
]
