"""Configurations of topics, brokers, groups and other resources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from .._core.admin import BY_ANYONE, BY_CONTROLLER, outcome
from .._io.admin_requests import Route
from .._io.deadline import Deadline
from .._options.arguments import list_of, map_of, string
from .._options.checks import boolean, instance, optional
from .._values import NamedTuple
from .._wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from .._wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from .._wire.messages.list_config_resources import ListConfigResourcesRequest
from ..errors import ConfigError, KafkaError
from .base import AdminArea


class ConfigResourceType(IntEnum):
    """Type of a resource that has a configuration. The values are Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A resource that has a configuration, by its type and name.

        ConfigResource(ConfigResourceType.TOPIC, "events")
        ConfigResource(ConfigResourceType.BROKER, "1")  # one broker, by its id
        ConfigResource(ConfigResourceType.BROKER, "")  # the default of all brokers

    The name of a group is its id. The name of a subscription to client metrics is chosen by its creator.
    """

    type: ConfigResourceType
    name: str


class ConfigSource(IntEnum):
    """Source of a configuration's value. The values of the members are Kafka's numbers."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A configuration with its value, which is None if it is sensitive or not set."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    """True if the value can only be changed in the configuration file of a broker, followed by a restart."""
    is_sensitive: bool
    """True for a secret, whose value brokers never return."""

    @property
    def is_default(self) -> bool:
        """True if the value is Kafka's default."""
        return self.source is ConfigSource.DEFAULT_CONFIG


class ConfigOperation(IntEnum):
    """Type of change to a configuration (KIP-339)."""

    SET = 0
    DELETE = 1
    """Remove the value, which restores the default."""
    APPEND = 2
    """Append to a value that is a list."""
    SUBTRACT = 3
    """Remove from a value that is a list."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change of one configuration.

        ConfigChange("retention.ms", "3600000")
        ConfigChange("retention.ms", None, ConfigOperation.DELETE)

    ``value`` may be None only for `ConfigOperation.DELETE`.
    """

    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET


def _resource(name: str, value: Any) -> ConfigResource:
    match value:
        case (ConfigResourceType() as kind, owner):
            return ConfigResource(kind, string(f"{name}.name", owner))
    return _NO_RESOURCE(name, value)  # type: ignore[no-any-return]


_NO_RESOURCE = instance(ConfigResource, "a ConfigResource of a ConfigResourceType and a name")


def _change(name: str, value: Any) -> ConfigChange:
    change: ConfigChange = instance(ConfigChange, "a ConfigChange")(name, value)
    operation = instance(ConfigOperation, "a ConfigOperation")(f"{name}.operation", change.operation)
    content = optional(string)(f"{name}.value", change.value)
    if content is None and operation is not ConfigOperation.DELETE:
        raise ConfigError(f"{name}.value must not be None, except with ConfigOperation.DELETE")
    return ConfigChange(string(f"{name}.name", change.name), content, operation)


_NAMES = optional(list_of("names", string))
_RESOURCES = list_of("ConfigResource", _resource)
_CHANGES = map_of("ConfigResource to changes", _resource, list_of("ConfigChange", _change))
_RESOURCE_TYPES = optional(list_of("types", instance(ConfigResourceType, "a ConfigResourceType")))


class ConfigCalls(AdminArea):
    """Admin calls for the configurations of topics, brokers, groups and other resources."""

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Iterable[str] | None = None,
        timeout_ms: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Return the configurations of resources as nested dicts, by resource and then by name.

            topic = ConfigResource(ConfigResourceType.TOPIC, "events")
            found = await admin.describe_configs([topic], names=["retention.ms"])
            print(found[topic]["retention.ms"].value)

        ``names`` limits the result to these configurations (default: all). Names that do not exist are omitted. The
        configuration of a broker comes from that broker. If the broker is down, the call waits for at most
        ``timeout_ms`` (default: ``default_api_timeout_ms``).

        Raises `UnknownTopicOrPartitionError` if a topic does not exist, and `BrokerIdNotRegisteredError`, without
        waiting, if no broker has the id. The error's ``outcomes`` contain the configurations of the other resources.
        """
        wanted = _RESOURCES("resources", resources)
        named = _NAMES("names", names)
        deadline = self._calls.deadline(timeout_ms)
        keys = None if named is None else list(named)

        def build(pending: Mapping[ConfigResource, None]) -> DescribeConfigsRequest:
            return DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
                    for kind, name in pending
                ]
            )

        def read(
            response: DescribeConfigsResponse,
        ) -> Iterator[tuple[ConfigResource, dict[str, ConfigEntry] | KafkaError]]:
            for entry in response.results:
                resource = ConfigResource(ConfigResourceType(entry.resource_type), entry.resource_name)
                yield resource, outcome(_entries(entry), entry.error_code, _name(resource), entry.error_message)

        async def ask(
            to: Route | int, mine: Mapping[ConfigResource, None], its_deadline: Deadline
        ) -> Mapping[ConfigResource, dict[str, ConfigEntry]]:
            return await self._calls.batch(mine, to, build, read, its_deadline, BY_ANYONE)

        return await self._calls.by_route(dict.fromkeys(wanted), _broker_or(Route.ANY), ask, deadline)

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[ConfigChange]],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> None:
        """Change the given configurations, and leave all other configurations unchanged (KIP-339).

            topic = ConfigResource(ConfigResourceType.TOPIC, "events")
            await admin.incremental_alter_configs({topic: [ConfigChange("retention.ms", "3600000")]})

        With ``validate_only``, the brokers check the changes without making them. A change to one broker is sent to
        that broker, and the call waits for the broker if it is down.

        Raises `InvalidConfigError` for an unknown name or an invalid value, `PolicyViolationError`,
        `UnknownTopicOrPartitionError` if a topic does not exist, and `BrokerIdNotRegisteredError` if no broker has the
        id. Each resource gets all its changes or none. The other resources are still changed.
        """
        wanted = _CHANGES("changes", changes)
        boolean("validate_only", validate_only)
        deadline = self._calls.deadline(timeout_ms)

        def build(pending: Mapping[ConfigResource, list[ConfigChange]]) -> IncrementalAlterConfigsRequest:
            return IncrementalAlterConfigsRequest(
                resources=[
                    AlterConfigsResource(
                        resource_type=resource.type,
                        resource_name=resource.name,
                        configs=[
                            AlterableConfig(name=change.name, config_operation=change.operation, value=change.value)
                            for change in mine
                        ],
                    )
                    for resource, mine in pending.items()
                ],
                validate_only=validate_only,
            )

        def read(response: IncrementalAlterConfigsResponse) -> Iterator[tuple[ConfigResource, KafkaError | None]]:
            for entry in response.responses:
                resource = ConfigResource(ConfigResourceType(entry.resource_type), entry.resource_name)
                yield resource, outcome(None, entry.error_code, _name(resource), entry.error_message)

        async def ask(
            to: Route | int, mine: Mapping[ConfigResource, list[ConfigChange]], its_deadline: Deadline
        ) -> Mapping[ConfigResource, None]:
            return await self._calls.batch(mine, to, build, read, its_deadline, BY_CONTROLLER)

        items = {resource: list(mine) for resource, mine in wanted.items()}
        await self._calls.by_route(items, _broker_or(Route.CONTROLLER), ask, deadline)

    async def list_config_resources(
        self, types: Iterable[ConfigResourceType] | None = None, *, timeout_ms: float | None = None
    ) -> list[ConfigResource]:
        """Return the resources of these types that have configurations (default: of all types).

        Needs Kafka 4.1 (KIP-1142). Brokers of Kafka 3.7 to 4.0 list only the subscriptions to client metrics. With such
        brokers, the call returns only these if ``types`` is None, and raises `UnsupportedVersionError` if ``types``
        contains any other type.
        """
        kinds = _RESOURCE_TYPES("types", types)
        deadline = self._calls.deadline(timeout_ms)
        # Before Kafka 4.1, the API listed only client metrics and had no filter.
        only_metrics = kinds is not None and set(kinds) == {ConfigResourceType.CLIENT_METRICS}
        request = ListConfigResourcesRequest(resource_types=[] if only_metrics else [int(each) for each in kinds or ()])
        response = await self._calls.call(Route.ANY, request, deadline)
        wanted = set(ConfigResourceType) if kinds is None else set(kinds)
        return [
            ConfigResource(ConfigResourceType(each.resource_type), each.resource_name)
            for each in response.config_resources
            if each.resource_type in wanted
        ]

    async def list_client_metrics_resources(self, *, timeout_ms: float | None = None) -> list[str]:
        """Return the names of the subscriptions to client metrics (KIP-714, Kafka 3.7)."""
        found = await self.list_config_resources([ConfigResourceType.CLIENT_METRICS], timeout_ms=timeout_ms)
        return [resource.name for resource in found]


def _broker_or(others: Route) -> Callable[[ConfigResource], Route | int]:
    """Return a function that decides the destination of a request about a resource.

    The destination is the broker to which the resource belongs, or ``others`` if it belongs to none.
    """

    def route(resource: ConfigResource) -> Route | int:
        own = resource.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
        is_id = resource.name.isascii() and resource.name.isdigit()
        return int(resource.name) if own and is_id else others

    return route


def _entries(result: DescribeConfigsResult) -> dict[str, ConfigEntry]:
    return {
        entry.name: ConfigEntry(
            entry.name, entry.value, ConfigSource(entry.config_source), entry.read_only, entry.is_sensitive
        )
        for entry in result.configs
    }


def _name(resource: ConfigResource) -> str:
    return f"{resource.type.name.lower()} {resource.name!r}"
