"""Configurations of topics, brokers, groups and others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .. import _checks, _configs
from ..types import ConfigChange, ConfigEntry, ConfigResource
from .base import AdminArea


class ConfigCalls(AdminArea):
    """Configurations of topics, brokers, groups and others."""

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Iterable[str] | None = None,
        timeout_ms: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """The configurations of topics, brokers and others, by resource and name; all unless some are named.

        A broker that is down is waited for, for ``timeout_ms`` (``default_api_timeout_ms``) at most; where there is
        none of this id, that fails with `BrokerIdNotRegisteredError` soon.
        """
        wanted = _checks.RESOURCES("resources", resources)
        named = _checks.NAMES("names", names)
        return await _configs.describe(self._calls, wanted, named, self._calls.deadline(timeout_ms))

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> None:
        """Change single configurations, or only check that they could be; all others stay (KIP-339).

        Brokers that are down or unknown are as in `describe_configs`.
        """
        wanted = _checks.CHANGES("changes", changes)
        _checks.boolean("validate_only", validate_only)
        await _configs.alter(self._calls, wanted, validate_only, self._calls.deadline(timeout_ms))
