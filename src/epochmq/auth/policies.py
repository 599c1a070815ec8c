"""Access policies: which user may do what with which topic, group or cluster.

A policy is a list of entries. An entry names a resource, actions, source addresses and a decision.
`decide` evaluates the entries of one user. The order is the one that RIP-68 describes:

- Custom entries count; Default entries count only if no Custom entry matches.
- The entry with the closest resource decides: a type before any type, then a literal name before a
  prefix before any name, then a longer prefix before a shorter one.
- Among entries with the same resource, Deny wins.
- If no entry matches, access is denied.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import lru_cache
from typing import TypeVar

from epochmq.base import limits
from epochmq.model.names import DLQ, RETRY


class ResourceType(StrEnum):
    """What a resource is."""

    ANY = "Any"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    TOPIC = "Topic"
    GROUP = "Group"


class Pattern(Enum):
    """How an entry names its resource; a lower number decides before a higher one."""

    LITERAL = 0
    PREFIXED = 1
    ANY = 2


class Action(StrEnum):
    """What is done with a resource. In an entry, `ALL` stands for every action."""

    ALL = "All"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class Decision(StrEnum):
    """What a matching entry says."""

    ALLOW = "Allow"
    DENY = "Deny"


class PolicyType(StrEnum):
    """Custom entries are asked before Default entries."""

    CUSTOM = "Custom"
    DEFAULT = "Default"


class BadPolicy(ValueError):
    """A policy that cannot be read; the text says which part of it."""


@dataclass(frozen=True, slots=True)
class Resource:
    """What an entry names: a type, and a name, a prefix, or any name (`*`)."""

    type: ResourceType
    pattern: Pattern
    name: str = ""

    def matches(self, type_: ResourceType, name: str) -> bool:
        """Return whether the resource includes the one with this type and name."""
        if self.type is not ResourceType.ANY and self.type is not type_:
            return False
        if self.pattern is Pattern.ANY:
            return True
        if self.pattern is Pattern.LITERAL:
            return name == self.name
        return name.startswith(self.name)

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The closer of two matching resources has the lower rank."""
        return self.type is ResourceType.ANY, self.pattern.value, -len(self.name)

    def __str__(self) -> str:
        name = {Pattern.LITERAL: self.name, Pattern.PREFIXED: f"{self.name}*"}.get(
            self.pattern, "*"
        )
        return "*" if self.type is ResourceType.ANY else f"{self.type}:{name}"


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """One rule of a policy. No source addresses means all of them."""

    resource: Resource
    actions: frozenset[Action]
    source_ips: tuple[str, ...] = ()
    decision: Decision = Decision.ALLOW


@dataclass(frozen=True, slots=True)
class Need:
    """One access that a request needs: any of the actions on one resource."""

    type: ResourceType
    name: str
    actions: frozenset[Action]

    def __str__(self) -> str:
        return f"{'|'.join(sorted(self.actions))} on {self.type}:{self.name}"


T = TypeVar("T", bound=StrEnum)

Policies = dict[PolicyType, tuple[PolicyEntry, ...]]
"""The policies of one user."""


def decide(policies: Policies, need: Need, source_ip: str) -> bool:
    """Return whether the policies of a user allow `need` from this address.

    A need without actions is allowed by no policy: only Super users have it.
    """
    if not need.actions:
        return False
    for kind in (PolicyType.CUSTOM, PolicyType.DEFAULT):
        found = [
            entry
            for entry in policies.get(kind, ())
            if (Action.ALL in entry.actions or not need.actions.isdisjoint(entry.actions))
            and entry.resource.matches(need.type, need.name)
            and _is_from(source_ip, entry.source_ips)
        ]
        if found:
            return min(found, key=_order).decision is Decision.ALLOW
    return False


def _order(entry: PolicyEntry) -> tuple[tuple[bool, int, int], bool]:
    return entry.resource.rank, entry.decision is Decision.ALLOW


def _is_from(address: str, sources: tuple[str, ...]) -> bool:
    if not sources:
        return True
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(found in _network(source) for source in sources)


@lru_cache(maxsize=4096)
def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network(text, strict=False)


# Reading -------------------------------------------------------------------------------------
# Texts of RocketMQ's tools: types, actions and decisions compare without regard to case.


def parse_resource(text: str) -> Resource:
    """Read `*`, `TYPE:*`, `TYPE:NAME` or `TYPE:PREFIX*`; raises `BadPolicy`.

    A retry topic or a dead-letter topic stands for its group.
    """
    if text == "*":
        return Resource(ResourceType.ANY, Pattern.ANY)
    kind, colon, name = text.partition(":")
    if not colon or not name or len(name) > limits.NAME_LENGTH_MAX:
        raise BadPolicy(f"resource '{text[:80]}' must be '*', 'TYPE:*', 'TYPE:NAME', 'TYPE:PRE*'")
    type_ = _named(ResourceType, kind, "resource type")
    if type_ is ResourceType.TOPIC and name.startswith((RETRY, DLQ)):
        type_, name = ResourceType.GROUP, name.removeprefix(RETRY).removeprefix(DLQ)
    if name == "*":
        return Resource(type_, Pattern.ANY)
    prefix, star, _ = name.partition("*")
    return Resource(type_, Pattern.PREFIXED if star else Pattern.LITERAL, prefix)


def parse_actions(names: Iterable[str]) -> frozenset[Action]:
    """Read a list of actions, which must not be empty; raises `BadPolicy`."""
    found = frozenset(_named(Action, name.strip(), "action") for name in names if name.strip())
    if not found:
        raise BadPolicy("an entry needs at least one action")
    return found


def parse_source_ips(texts: Iterable[str] | None) -> tuple[str, ...]:
    """Read addresses and CIDR ranges, of IPv4 or IPv6; raises `BadPolicy`."""
    found = []
    for text in texts or ():
        if not (text := text.strip()):
            continue
        try:
            ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise BadPolicy(
                f"'{text[:80]}' is not an IP address and no range as 10.0.0.0/8"
            ) from None
        found.append(text)
    if len(found) > limits.POLICY_SOURCES_MAX:
        raise BadPolicy(f"an entry has at most {limits.POLICY_SOURCES_MAX} source addresses")
    return tuple(found)


def parse_decision(text: str | None) -> Decision:
    """Read a decision; raises `BadPolicy`."""
    return _named(Decision, text or "", "decision")


def parse_policy_type(text: str | None) -> PolicyType:
    """Read a policy type; nothing means Custom. Raises `BadPolicy`."""
    return _named(PolicyType, text or PolicyType.CUSTOM, "policy type")


def _named(kind: type[T], text: str, what: str) -> T:
    for member in kind:
        if member.value.lower() == text.strip().lower():
            return member
    raise BadPolicy(f"{what} '{text[:40]}' is not one of {', '.join(kind)}")


def merged(policies: Policies, kind: PolicyType, entries: Iterable[PolicyEntry]) -> Policies:
    """Return the policies with these entries added; an entry replaces one of its resource.

    Raises `BadPolicy` when there would be too many.
    """
    kept = {entry.resource: entry for entry in policies.get(kind, ())}
    kept.update((entry.resource, entry) for entry in entries)
    if len(kept) > limits.POLICY_ENTRIES_MAX:
        raise BadPolicy(f"a user has at most {limits.POLICY_ENTRIES_MAX} entries in a policy")
    return {**policies, kind: tuple(kept.values())}


def without(policies: Policies, kind: PolicyType, resource: Resource) -> Policies:
    """Return the policies without the entry of `resource`; an empty policy is left out."""
    left = tuple(entry for entry in policies.get(kind, ()) if entry.resource != resource)
    found = {**policies, kind: left}
    return {kind: entries for kind, entries in found.items() if entries}
