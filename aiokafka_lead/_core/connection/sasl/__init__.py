"""SASL mechanisms without I/O (KIP-43, KIP-84): challenges in, responses out.

A mechanism is one class in one module. `_io.connection.login` chooses it, and fetches first what it needs, like
OAUTHBEARER's token.
"""

from __future__ import annotations

from .mechanism import Credentials, SaslMechanism

__all__ = ["Credentials", "SaslMechanism"]
