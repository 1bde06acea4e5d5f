"""Converts Java's SASL settings (JAAS configurations and callback handlers) to options of this client."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from .secrets import hidden

if TYPE_CHECKING:
    from ..oidc.clouds import Google
    from ..oidc.msk import MskIam

_ENTRY = re.compile(
    r"""//[^\n]*|/\*.*?\*/|(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"'][^\s;"]*))""", re.DOTALL
)
"""Matches an option of a JAAS configuration, or a comment, like Java's StreamTokenizer."""
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_MODULE = re.compile(r"\s*(?:[\w$]+\.)*(\w*LoginModule)\s")
_KERBEROS = {
    "keyTab": "sasl_kerberos_keytab",
    "principal": "sasl_kerberos_principal",
    "serviceName": "sasl_kerberos_service_name",
}
_OAUTH = {
    "clientId": "sasl_oauthbearer_client_credentials_client_id",
    "clientSecret": "sasl_oauthbearer_client_credentials_client_secret",
    "scope": "sasl_oauthbearer_scope",
}
_EXTENSION = "extension_"

_HANDLERS = ("sasl.login.callback.handler.class", "sasl.client.callback.handler.class")
_MSK, _GOOGLE = "IAMOAuthBearerLoginCallbackHandler", "GcpLoginCallbackHandler"
_EQUIVALENT = {
    _MSK,
    _GOOGLE,
    "AbstractLogin$DefaultLoginCallbackHandler",
    "IAMClientCallbackHandler",
    "KerberosClientCallbackHandler",
    "OAuthBearerLoginCallbackHandler",
    "OAuthBearerSaslClientCallbackHandler",
    "SaslClientCallbackHandler",
}
"""Callback handlers of Kafka, Amazon MSK (IAM) and Google's Kafka that this client can replace."""
_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")


def login_options(settings: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``sasl_*`` options for Java's settings.

    ``given`` are options that other settings were converted to. Raises ValueError, which names the option, for a
    setting that is invalid or has no equivalent.
    """
    jaas = settings.get("sasl.jaas.config", "")
    by_token = given.get("sasl_mechanism") in ("OAUTHBEARER", "AWS_MSK_IAM")
    # With other mechanisms, a handler either has an equivalent in this client, or username and password are missing,
    # which `_login` reports.
    handlers = {_class_name(settings, name) for name in _HANDLERS} if by_token else ()
    entries = _entries(jaas)
    if given.get("sasl_mechanism") == "AWS_MSK_IAM" or "IAMLoginModule" in jaas or _MSK in handlers:
        return _tokens(_msk_iam(_region(settings, entries)))
    if _GOOGLE in handlers:
        return _tokens(_google_token)
    if "OAuthBearerLoginModule" in jaas or given.get("sasl_mechanism") == "OAUTHBEARER":
        return _oauth(entries, given)
    return _login(jaas, entries, given) if jaas else {}


def _class_name(settings: Mapping[str, str], name: str) -> str:
    """Return the class name of a callback handler without its package. Raises ValueError if there is no equivalent."""
    kind = settings.get(name, "").strip().rpartition(".")[2]
    if kind and kind not in _EQUIVALENT:
        raise ValueError(f"option 'kafka.{name}': {kind} is a Java class without an equivalent in this client")
    return kind


def _entries(jaas: str) -> dict[str, str]:
    """Return the options in a JAAS configuration. Values may be in double, single or no quotes."""

    def character(escape: re.Match[str]) -> str:
        text = escape[1]
        return chr(int(text, 8)) if text[0] in "01234567" else _ESCAPED.get(text, text)

    found = {
        key: _ESCAPE.sub(character, double or single) or bare for key, double, single, bare in _ENTRY.findall(jaas)
    }
    found.pop("", None)  # a comment matches without a name
    return hidden(found)


def _login(jaas: str, entries: dict[str, str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the JAAS options of PlainLoginModule, ScramLoginModule or Krb5LoginModule. Raises ValueError."""
    found: dict[str, Any]
    if "Krb5LoginModule" in jaas:
        if entries.get("useKeyTab") != "true":
            entries.pop("keyTab", None)
        mechanism = given.get("sasl_mechanism", "GSSAPI")  # Java's default
        return {"sasl_mechanism": mechanism} | {
            own: entries[name] for name, own in _KERBEROS.items() if name in entries
        }
    module = _MODULE.match(jaas)
    if module is not None and module[1] not in ("PlainLoginModule", "ScramLoginModule") and "password" not in entries:
        raise ValueError(f"option 'kafka.sasl.jaas.config': {module[1]} has no equivalent in this client")
    if module is None or not {"username", "password"} <= entries.keys():
        raise ValueError("option 'kafka.sasl.jaas.config' must contain a LoginModule with username and password")
    found = {"sasl_plain_username": entries["username"], "sasl_plain_password": entries["password"]}
    if entries.get("tokenauth") == "true":
        found["sasl_delegation_token"] = True
    return found


def _oauth(entries: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the JAAS options of OAuthBearerLoginModule (KIP-768, KIP-342). Raises ValueError.

    Separate settings, which ``given`` contains, take precedence over JAAS options.
    """
    if "sasl_oauthbearer_token_endpoint_url" not in given:
        raise ValueError(
            "OAUTHBEARER needs option 'kafka.sasl.oauthbearer.token.endpoint.url', or the class "
            f"{_MSK} or {_GOOGLE} in option 'kafka.{_HANDLERS[0]}'"
        )
    found: dict[str, Any] = {own: entries[name] for name, own in _OAUTH.items() if name in entries and own not in given}
    extensions = {name.removeprefix(_EXTENSION): text for name, text in entries.items() if name.startswith(_EXTENSION)}
    return {**found, "sasl_oauthbearer_extensions": extensions} if extensions else found


def _tokens(provider: object) -> dict[str, Any]:
    return {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider}


def _region(settings: Mapping[str, str], entries: Mapping[str, str]) -> str:
    """Return the AWS region of the cluster.

    The region is part of the brokers' host names in ``bootstrap.servers``. If no host name contains it, it comes from
    the environment variable AWS_REGION or, if that is not set, AWS_DEFAULT_REGION.

    Raises ValueError if the region is in neither place, or if a JAAS option selects a role or profile for the
    credentials, because this client selects these only by environment variables.
    """
    for name in entries:
        if name.startswith("awsRole") or name == "awsProfileName":
            raise ValueError(
                f"option 'kafka.sasl.jaas.config': {name} is not supported; set AWS_PROFILE in the environment of the "
                "driver and the executors instead (a profile that names a role needs botocore)"
            )
    found = _REGION.search(settings.get("bootstrap.servers", ""))
    region = found[1] if found else next(filter(None, map(os.environ.get, _REGION_VARIABLES)), "")
    if not region:
        raise ValueError(
            "no host in option 'kafka.bootstrap.servers' contains the AWS region; set AWS_REGION in the environment of "
            "the driver and the executors"
        )
    return region


@cache
def _msk_iam(region: str) -> MskIam:
    """Return the token provider for a region. All clients of the process share it and its cached credentials."""
    from ..oidc import msk_iam

    return msk_iam(region)


@cache
def _google() -> Google:
    from ..oidc import google

    return google()


def _google_token() -> Any:
    """Return a token. The first call finds the credentials, which may take seconds."""
    return _google().token()
