"""Providers of OAUTHBEARER tokens, for the option ``sasl_oauth_token_provider``.

    Producer(servers, security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER",
             sasl_oauth_token_provider=ClientCredentials("https://idp.example.org/token", "orders", secret))

A provider is an object with a method ``token()``, which returns a `Token`. The method may block, because clients call
it in a thread. A custom provider does not need this package.
"""

from .._options.token import Token
from .assertion import Assertion, AssertionFile, TokenFile
from .clouds import azure, confluent_cloud, google
from .endpoint import ClientCredentials, JwtBearer
from .msk import AwsCredentials, msk_iam

__all__ = [
    "Assertion",
    "AssertionFile",
    "AwsCredentials",
    "ClientCredentials",
    "JwtBearer",
    "Token",
    "TokenFile",
    "azure",
    "confluent_cloud",
    "google",
    "msk_iam",
]
