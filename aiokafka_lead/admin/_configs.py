"""Configurations of topics, brokers and others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import anyio

from .._io.deadline import Deadline
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
from ..errors import KafkaError
from ._calls import BY_ANYONE, BY_CONTROLLER, Calls, Route, outcome, outcomes_of, successes
from .types import ConfigChange, ConfigEntry, ConfigResource, ConfigResourceType, ConfigSource

I = TypeVar("I")  # noqa: E741 - an item, which becomes a V(alue)
V = TypeVar("V")


def _by_route(items: Mapping[ConfigResource, V], others: Route) -> dict[Route | int, dict[ConfigResource, V]]:
    """A broker's own configuration is asked of that broker; everything else of the broker that is responsible."""
    routed: dict[Route | int, dict[ConfigResource, V]] = {}
    for resource, item in items.items():
        own = resource.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) and resource.name.isdigit()
        routed.setdefault(int(resource.name) if own else others, {})[resource] = item
    return routed


async def _each_route(
    items: Mapping[ConfigResource, I],
    others: Route,
    ask: Callable[[Route | int, Mapping[ConfigResource, I]], Awaitable[Mapping[ConfigResource, V]]],
) -> dict[ConfigResource, V]:
    """What each resource has become, whichever broker was asked: one that fails keeps nobody from the others."""
    found: dict[ConfigResource, V | KafkaError] = {}

    async def ask_one(to: Route | int, mine: Mapping[ConfigResource, I]) -> None:
        try:
            found.update(await outcomes_of(ask(to, mine)))
        except KafkaError as error:
            found.update(dict.fromkeys(mine, error))

    async with anyio.create_task_group() as asking:
        for to, mine in _by_route(items, others).items():
            asking.start_soon(ask_one, to, mine)
    return successes({resource: found[resource] for resource in items})


async def describe(
    calls: Calls, resources: Iterable[ConfigResource], names: Iterable[str] | None, deadline: Deadline
) -> dict[ConfigResource, dict[str, ConfigEntry]]:
    """The configurations of each resource by name."""
    keys = None if names is None else list(names)

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
        to: Route | int, mine: Mapping[ConfigResource, None]
    ) -> Mapping[ConfigResource, dict[str, ConfigEntry]]:
        return await calls.batch(mine, to, build, read, deadline, BY_ANYONE)

    return await _each_route(dict.fromkeys(resources), Route.ANY, ask)


def _entries(result: DescribeConfigsResult) -> dict[str, ConfigEntry]:
    return {
        entry.name: ConfigEntry(
            entry.name, entry.value, ConfigSource(entry.config_source), entry.read_only, entry.is_sensitive
        )
        for entry in result.configs
    }


async def alter(
    calls: Calls,
    changes: Mapping[ConfigResource, Iterable[ConfigChange]],
    validate_only: bool,
    deadline: Deadline,
) -> None:
    """Change single configurations and leave the others alone."""

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

    async def ask(to: Route | int, mine: Mapping[ConfigResource, list[ConfigChange]]) -> Mapping[ConfigResource, None]:
        return await calls.batch(mine, to, build, read, deadline, BY_CONTROLLER)

    await _each_route({resource: list(mine) for resource, mine in changes.items()}, Route.CONTROLLER, ask)


def _name(resource: ConfigResource) -> str:
    return f"{resource.type.name.lower()} {resource.name!r}"
