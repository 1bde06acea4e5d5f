"""Access control rules.

The embedded brokers store and report them, but do not enforce them.
"""

from __future__ import annotations

from typing import NamedTuple

_ANY = 1
"""Number that matches every value of an enumeration in a filter."""
_MATCH, _LITERAL, _PREFIXED = 2, 3, 4
_WILDCARD = "*"


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = _bits(3, 4, 5, 6, 7, 8, 10, 11)
CLUSTER_OPERATIONS = _bits(5, 7, 8, 9, 10, 11, 12)
GROUP_OPERATIONS = _bits(3, 6, 8, 10, 11)
"""Bit field of all operations on a group. Every client is authorized for them (KIP-430; Java: ``AclEntry``)."""


class Rule(NamedTuple):
    """An access control rule. Enumerations are numbers, as in the protocol."""

    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


class RuleFilter(NamedTuple):
    """A filter of access control rules. The value None matches any text."""

    resource_type: int
    name: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def accepts(self, rule: Rule) -> bool:
        """Return True if a rule matches the whole filter (Java: ``AclBindingFilter.matches``)."""
        return (
            self.resource_type in (_ANY, rule.resource_type)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self.operation in (_ANY, rule.operation)
            and self.permission in (_ANY, rule.permission)
            and self._accepts_name(rule)
        )

    def _accepts_name(self, rule: Rule) -> bool:
        if self.pattern not in (_ANY, _MATCH, rule.pattern):
            return False
        if self.name is None or self.name == rule.name:
            return True
        if self.pattern != _MATCH:
            return False
        if rule.pattern == _LITERAL:
            return rule.name == _WILDCARD
        return rule.pattern == _PREFIXED and self.name.startswith(rule.name)


class Acls:
    """Holds all access control rules of the cluster, without duplicates."""

    def __init__(self) -> None:
        self._rules: dict[Rule, None] = {}

    def add(self, rule: Rule) -> None:
        self._rules[rule] = None

    def found(self, wanted: RuleFilter) -> list[Rule]:
        return [rule for rule in self._rules if wanted.accepts(rule)]

    def delete(self, wanted: RuleFilter) -> list[Rule]:
        gone = self.found(wanted)
        for rule in gone:
            del self._rules[rule]
        return gone
