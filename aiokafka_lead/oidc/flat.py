"""Token providers that are described by options with plain values, for configurations in dicts and for Spark."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from .._options.oauth import FLAT_OPTIONS, OAuthConfig
from ..errors import ConfigError
from .assertion import TokenFile
from .endpoint import ClientCredentials


def settle_provider(config: OAuthConfig) -> None:
    """Create the provider from the ``sasl_oauthbearer_*`` options, and reset these options.

    Other clients that are created with the resulting options then share the provider.
    """
    given = [name for name in FLAT_OPTIONS if getattr(config, name)]
    if config.sasl_oauth_token_provider is not None:
        if given:
            raise ConfigError(f"{given[0]} and sasl_oauth_token_provider exclude each other")
        return
    object.__setattr__(config, "sasl_oauth_token_provider", _provider_of(config))
    for name in given:
        object.__setattr__(config, name, type(config).__dataclass_fields__[name].default)


def _provider_of(config: OAuthConfig) -> ClientCredentials | TokenFile:
    url = config.sasl_oauthbearer_token_endpoint_url
    if url is None:
        raise ConfigError("sasl_mechanism OAUTHBEARER needs a sasl_oauth_token_provider")
    if url.startswith("file:"):
        return TokenFile(Path(unquote(urlsplit(url).path)), extensions=config.sasl_oauthbearer_extensions)
    for name in ("client_id", "client_secret"):
        option = f"sasl_oauthbearer_client_credentials_{name}"
        if getattr(config, option) is None:
            raise ConfigError(f"{option} is required with sasl_oauthbearer_token_endpoint_url")
    try:
        return ClientCredentials(
            url,
            config.sasl_oauthbearer_client_credentials_client_id or "",
            config.sasl_oauthbearer_client_credentials_client_secret,
            scope=config.sasl_oauthbearer_scope,
            extensions=config.sasl_oauthbearer_extensions,
            header_urlencode=config.sasl_oauthbearer_header_urlencode,
        )
    except ConfigError as error:
        raise ConfigError(f"sasl_oauthbearer_token_endpoint_url: {error.message}") from None
