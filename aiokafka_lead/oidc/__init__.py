"""Token providers for OAUTHBEARER, for the option ``sasl_oauth_token_provider``.

    Producer(servers, security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER",
             sasl_oauth_token_provider=ClientCredentials("https://idp.example.org/token", "orders", secret))

Each is an object with ``token()``, which returns a `Token`. They block, because clients call them in threads; users of
a custom provider need none of this package.
"""

from __future__ import annotations

from .._options.token import Token
from .assertion import Assertion, AssertionFile, TokenFile
from .clouds import azure, confluent_cloud, google
from .endpoint import ClientCredentials, JwtBearer
from .msk import msk_iam

__all__ = [
    "Assertion",
    "AssertionFile",
    "ClientCredentials",
    "JwtBearer",
    "Token",
    "TokenFile",
    "azure",
    "confluent_cloud",
    "google",
    "msk_iam",
]
