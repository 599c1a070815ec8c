"""Reads RocketMQ's ACL 1.0 (plain_acl.yml) as users and policies of ACL 2.0.

Differences from RocketMQ's own migration (`migrateAuthFromV1Enabled`):

- A permission that is none of RocketMQ's denies. RocketMQ makes it an entry that allows all.
- `SUB` becomes `Sub,Get`, and an account may write the trace topic. ACL 1.0 checked neither the
  requests for offsets nor the trace topic, and clients of before must work.
- A permission of a name replaces the default: with `t=SUB` and the default `PUB`, nobody sends to
  `t`. In RocketMQ's migration the default then counts for sending.
- A key that appears twice, an unknown key and a name with `*` are errors.

Addresses that ACL 1.0 admits without a signature are not carried over. Only the core of YAML is
read: all values are texts, tags have no effect, and aliases are errors, because a small file could
become large by them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from epochmq.auth.policies import (
    Action,
    BadPolicy,
    Decision,
    Pattern,
    Policies,
    PolicyEntry,
    PolicyType,
    Resource,
    ResourceType,
    merged,
    parse_resource,
)
from epochmq.auth.users import BadUser, UserType, check_user
from epochmq.base import limits
from epochmq.base.errors import ConfigError
from epochmq.model.names import TRACE_TOPIC

FILE_BYTES_MAX = 1 << 20
FILES_MAX = 256
_LISTS = frozenset(("topicPerms", "groupPerms"))
_TEXTS = frozenset(
    (
        "accessKey",
        "secretKey",
        "admin",
        "whiteRemoteAddress",
        "defaultTopicPerm",
        "defaultGroupPerm",
    )
)
_WHITE_LIST = "globalWhiteRemoteAddresses"
_FILE_KEYS = frozenset(("accounts", "dataVersion", _WHITE_LIST))
_NEEDS_SIGNATURE = "is not carried over: every request needs a signature"
_ACTIONS: Mapping[str, frozenset[Action]] = {
    "PUB": frozenset({Action.PUB}),
    "SUB": frozenset({Action.SUB, Action.GET}),
    "PUB|SUB": frozenset({Action.PUB, Action.SUB, Action.GET}),
    "SUB|PUB": frozenset({Action.PUB, Action.SUB, Action.GET}),
}
_DENY = "DENY"


@dataclass(frozen=True, slots=True)
class PlainAccount:
    """An account of ACL 1.0 as a user of ACL 2.0."""

    name: str
    password: str = field(repr=False)
    type: UserType = UserType.NORMAL
    policies: Policies = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlainAcl:
    """The accounts of files, and what is not carried over from them, for the log."""

    accounts: tuple[PlainAccount, ...] = ()
    notes: tuple[str, ...] = ()


class _BadFile(ValueError):
    """What is wrong in a file; the text contains no password."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            line = self.peek_event().start_mark.line + 1
            raise _BadFile(f"line {line}: aliases of YAML (*name) are not read")
        return super().compose_node(parent, index)


def read_plain_acl(path: str) -> PlainAcl:
    """Read a file, or RocketMQ's directory `conf` with plain_acl.yml and acl/**.yml; blocks.

    Raises:
        ConfigError: there is no file, or a file cannot be used; each problem names its file.
    """
    problems: list[str] = []
    found: dict[str, PlainAccount] = {}
    notes: list[str] = []
    for file in _files(Path(path)):
        try:
            parsed = parse_plain_acl(_read(file))
            for account in parsed.accounts:
                if account.name in found:
                    raise _BadFile(f"account '{account.name}' is in another file too")
                found[account.name] = account
            notes += (f"{file}: {note}" for note in parsed.notes)
        except ValueError as error:
            problems.append(f"{file}: {error}")
    if len(found) > limits.USERS_MAX:
        problems.append(f"{path} has more than {limits.USERS_MAX} accounts")
    if problems:
        raise ConfigError(problems)
    return PlainAcl(tuple(found.values()), tuple(notes))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = [path / "plain_acl.yml"] if (path / "plain_acl.yml").exists() else []
    for suffix in ("yml", "yaml"):
        found += sorted((path / "acl").rglob(f"*.{suffix}"))
    if not found:
        raise ConfigError([f"{path} has neither plain_acl.yml nor files *.yml in acl"])
    if len(found) > FILES_MAX:
        raise ConfigError([f"{path} has more than {FILES_MAX} files of accounts"])
    return found


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            data = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise _BadFile(f"cannot be read: {error.strerror}") from None
    if len(data) > FILE_BYTES_MAX:
        raise _BadFile(f"is longer than {FILE_BYTES_MAX} bytes")
    return data


def parse_plain_acl(data: bytes) -> PlainAcl:
    """Read the accounts in the bytes of a file; raises `ValueError`, whose text has no password."""
    try:
        root = yaml.compose(data, Loader=_Loader)
    except _BadFile:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f"line {mark.line + 1}: "
        raise _BadFile(f"{where}no YAML") from None
    except (yaml.YAMLError, ValueError):
        raise _BadFile("no YAML text in UTF-8") from None
    except RecursionError:
        raise _BadFile("is nested too deeply") from None
    if root is None:
        return PlainAcl()
    keys = _mapping(root)
    if unknown := sorted(keys.keys() - _FILE_KEYS):
        raise _BadFile(f"unknown key '{unknown[0][:40]}'")
    notes: list[str] = []
    if (addresses := keys.get(_WHITE_LIST)) is not None and _items(addresses):
        notes.append(f"{_WHITE_LIST} {_NEEDS_SIGNATURE}")
    accounts = keys.get("accounts")
    found: dict[str, PlainAccount] = {}
    for node in () if accounts is None else _items(accounts):
        account = _account(node, notes)
        if account.name in found:
            raise _BadFile(f"{_line(node)}account '{account.name}' appears twice")
        found[account.name] = account
    return PlainAcl(tuple(found.values()), tuple(notes))


def _account(node: yaml.Node, notes: list[str]) -> PlainAccount:
    keys = _mapping(node)
    if unknown := sorted(keys.keys() - _TEXTS - _LISTS):
        raise _BadFile(f"{_line(node)}unknown key '{unknown[0][:40]}' of an account")
    texts = {key: _text(value) for key, value in keys.items() if key in _TEXTS}
    name, password = texts.get("accessKey", ""), texts.get("secretKey", "")
    try:
        check_user(name, password)
    except BadUser as error:
        raise _BadFile(f"{_line(node)}{error}") from None
    if texts.get("whiteRemoteAddress"):
        notes.append(f"whiteRemoteAddress of account {name} {_NEEDS_SIGNATURE}")
    if texts.get("admin", "").lower() == "true":
        return PlainAccount(name, password, UserType.SUPER)
    policies: Policies = {}
    for kind, default, perms in (
        (ResourceType.TOPIC, "defaultTopicPerm", "topicPerms"),
        (ResourceType.GROUP, "defaultGroupPerm", "groupPerms"),
    ):
        any_name = Resource(kind, Pattern.ANY)
        unknown_before = len(notes)
        entry = _entry(any_name, texts.get(default, "") or _DENY, notes)
        named = list(_named_entries(kind, keys.get(perms), notes))
        notes[unknown_before:] = [f"account {name}: {note}" for note in notes[unknown_before:]]
        try:
            policies = merged(policies, PolicyType.DEFAULT, [entry, *map(_denied, named)])
            policies = merged(policies, PolicyType.CUSTOM, named)
        except BadPolicy as error:
            raise _BadFile(f"{_line(node)}{error}") from None
    trace = Resource(ResourceType.TOPIC, Pattern.LITERAL, TRACE_TOPIC)
    if all(entry.resource != trace for entry in policies[PolicyType.CUSTOM]):
        written = PolicyEntry(trace, _ACTIONS["PUB"])
        policies = merged(policies, PolicyType.CUSTOM, [written])
    return PlainAccount(name, password, UserType.NORMAL, policies)


def _denied(entry: PolicyEntry) -> PolicyEntry:
    """Return the entry that denies what `entry` does not mention, before the default is asked."""
    return PolicyEntry(entry.resource, frozenset({Action.ALL}), decision=Decision.DENY)


def _named_entries(
    kind: ResourceType, node: yaml.Node | None, notes: list[str]
) -> Iterator[PolicyEntry]:
    seen: set[Resource] = set()
    for item in () if node is None else _items(node):
        name, equals, permission = _text(item).partition("=")
        name = name.strip()
        if not equals or not name or "*" in name:
            raise _BadFile(f"{_line(item)}'{name[:80]}' must be NAME=PERMISSION, without *")
        try:
            resource = parse_resource(f"{kind}:{name}")
        except BadPolicy as error:
            raise _BadFile(f"{_line(item)}{error}") from None
        if resource in seen:
            raise _BadFile(f"{_line(item)}{resource} appears twice")
        seen.add(resource)
        yield _entry(resource, permission, notes)


def _entry(resource: Resource, permission: str, notes: list[str]) -> PolicyEntry:
    permission = permission.strip()
    actions = _ACTIONS.get(permission)
    if actions is not None:
        return PolicyEntry(resource, actions)
    if permission != _DENY:
        notes.append(f"permission '{permission[:40]}' of {resource} is unknown and denies")
    return PolicyEntry(resource, frozenset({Action.ALL}), decision=Decision.DENY)


# Nodes of YAML -----------------------------------------------------------------------------------


def _line(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}: "


def _mapping(node: yaml.Node) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        raise _BadFile(f"{_line(node)}there must be KEY: VALUE")
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        name = _text(key)
        if name in found:
            raise _BadFile(f"{_line(key)}'{name[:40]}' appears twice")
        found[name] = value
    return found


def _items(node: yaml.Node) -> list[yaml.Node]:
    if _is_null(node):
        return []
    if not isinstance(node, yaml.SequenceNode):
        raise _BadFile(f"{_line(node)}there must be a list")
    items: list[yaml.Node] = node.value
    return items


def _text(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise _BadFile(f"{_line(node)}there must be one value")
    return "" if _is_null(node) else str(node.value).strip()


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"
