"""The files of ACL 1.0, read as users and policies of ACL 2.0."""

import re
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.auth.plain_acl import (
    FILE_BYTES_MAX,
    PlainAccount,
    parse_plain_acl,
    read_plain_acl,
)
from epochmq.auth.policies import Action, Need, ResourceType, decide
from epochmq.auth.users import UserType
from epochmq.base.errors import ConfigError

FILE = b"""
globalWhiteRemoteAddresses:
  - 10.10.103.*
accounts:
  - accessKey: RocketMQ
    secretKey: 012345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB|SUB
  - accessKey: rocketmq2
    secretKey: "12345678"
    whiteRemoteAddress: 192.168.1.*
    admin: true
"""
"""As the file in RocketMQ's distributions."""


def only(text: str) -> PlainAccount:
    (account,) = parse_plain_acl(text.encode()).accounts
    return account


def may(account: PlainAccount, action: Action, kind: ResourceType, name: str) -> bool:
    return decide(account.policies, Need(kind, name, frozenset({action})), "10.0.0.1")


def with_permissions(*permissions: str, default: str = "DENY") -> PlainAccount:
    lines = "".join(f"      - {each}\n" for each in permissions)
    return only(
        "accounts:\n  - accessKey: alice\n    secretKey: hunter2\n"
        f"    defaultTopicPerm: {default}\n    topicPerms:\n{lines or '      []'}\n"
    )


def test_the_file_of_a_distribution() -> None:
    found = parse_plain_acl(FILE)
    user, admin = found.accounts
    assert (user.name, user.password, user.type) == ("RocketMQ", "012345678", UserType.NORMAL)
    assert (admin.name, admin.type, admin.policies) == ("rocketmq2", UserType.SUPER, {})
    topic, group = ResourceType.TOPIC, ResourceType.GROUP
    assert not may(user, Action.PUB, topic, "topicA")
    assert may(user, Action.PUB, topic, "topicB")
    assert may(user, Action.SUB, topic, "topicC")
    assert may(user, Action.GET, topic, "topicC")
    assert not may(user, Action.PUB, topic, "topicC")
    assert not may(user, Action.PUB, topic, "other")
    assert not may(user, Action.SUB, group, "groupA")
    assert may(user, Action.SUB, group, "groupB")
    assert may(user, Action.SUB, group, "other")
    assert not may(user, Action.UPDATE, group, "groupB")
    assert may(user, Action.PUB, topic, "RMQ_SYS_TRACE_TOPIC")
    assert len(found.notes) == 2
    assert all("needs a signature" in note for note in found.notes)
    assert "12345678" not in repr(found)


@pytest.mark.parametrize(
    "permission", ["", "ANY", "pub", "PUB,SUB", "PUB |SUB", "ALL", "PUB|SUB|PUB", "null", "*"]
)
def test_an_unknown_permission_denies(permission: str) -> None:
    named = with_permissions(f'"t={permission}"', default="PUB|SUB")
    assert not any(may(named, each, ResourceType.TOPIC, "t") for each in Action)
    assert may(named, Action.PUB, ResourceType.TOPIC, "u")
    by_default = with_permissions(default=f'"{permission}"')
    assert not any(may(by_default, each, ResourceType.TOPIC, "t") for each in Action)


def test_the_entry_of_a_name_counts_and_not_the_default() -> None:
    account = with_permissions("t=SUB", default="PUB")
    assert not may(account, Action.UPDATE, ResourceType.TOPIC, "t")
    assert may(account, Action.SUB, ResourceType.TOPIC, "t")
    assert not may(account, Action.PUB, ResourceType.TOPIC, "t")


PERMISSIONS = {
    "PUB": {Action.PUB},
    "SUB": {Action.SUB},
    "PUB|SUB": {Action.PUB, Action.SUB},
    "SUB|PUB": {Action.PUB, Action.SUB},
    "DENY": set(),
    "other": set(),
}


@given(
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from(sorted(PERMISSIONS))),
    st.sampled_from(sorted(PERMISSIONS)),
)
def test_decisions_are_those_of_acl_1(named: dict[str, str], default: str) -> None:
    account = with_permissions(*(f"{name}={each}" for name, each in named.items()), default=default)
    for topic in "abcde":
        allowed = PERMISSIONS[named.get(topic, default)]
        for action in (Action.PUB, Action.SUB):
            assert may(account, action, ResourceType.TOPIC, topic) == (action in allowed)


ONE = "accounts:\n  - accessKey: alice\n    secretKey: hunter2\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (ONE + "    topicPerm: [t=DENY]\n", "unknown key 'topicPerm'"),
        (ONE + "    admin: true\n    admin: false\n", "'admin' appears twice"),
        (ONE + "  - accessKey: alice\n    secretKey: x\n", "'alice' appears twice"),
        (ONE + "    topicPerms: [t]\n", "must be NAME=PERMISSION"),
        (ONE + "    topicPerms: ['t*=PUB']\n", "without *"),
        (ONE + "    topicPerms: [t=PUB, t=DENY]\n", "Topic:t appears twice"),
        (ONE + "    topicPerms: t=PUB\n", "must be a list"),
        (ONE + "    topicPerms: [[t=PUB]]\n", "must be one value"),
        (ONE + "    topicPerms: &a [t=PUB]\n    groupPerms: *a\n", "aliases"),
        (ONE + "acounts: []\n", "unknown key 'acounts'"),
        ("accounts:\n  - accessKey: alice\n", "password must not be empty"),
        ("accounts:\n  - secretKey: hunter2\n", "name must not be empty"),
        ("accounts: [hunter2]\n", "must be KEY: VALUE"),
        ("- hunter2\n", "must be KEY: VALUE"),
        ("accounts: {secretKey: hunter2\n", "no YAML"),
        ("[" * 100_000, "nested too deeply"),
        ("\0hunter2", "no YAML"),
    ],
)
def test_what_cannot_be_used_is_named_without_a_password(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)) as error:
        parse_plain_acl(text.encode())
    assert "hunter2" not in str(error.value)


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for text in (data, FILE + data, ONE.encode() + data):
        with suppress(ValueError):
            parse_plain_acl(text)


@given(st.integers(0, len(FILE) - 1), st.integers(0, 255))
def test_a_changed_byte_gives_no_more_than_the_file_says(at: int, value: int) -> None:
    """No byte makes an account with a right that no permission of the file has."""
    changed = bytearray(FILE)
    changed[at] = value
    try:
        found = parse_plain_acl(bytes(changed))
    except ValueError:
        return
    for account in found.accounts:
        for action in (Action.CREATE, Action.UPDATE, Action.DELETE):
            assert not may(account, action, ResourceType.TOPIC, "topicB")


def test_aliases_do_not_make_a_small_file_large() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="aliases"):
            parse_plain_acl("\n".join(lines).encode())
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_files_of_the_directory_conf_are_read_together(tmp_path: Path) -> None:
    (tmp_path / "acl" / "team").mkdir(parents=True)
    (tmp_path / "plain_acl.yml").write_bytes(FILE)
    (tmp_path / "acl" / "team" / "more.yaml").write_text(ONE)
    (tmp_path / "acl" / "empty.yml").write_text("")
    found = read_plain_acl(str(tmp_path))
    assert [each.name for each in found.accounts] == ["RocketMQ", "rocketmq2", "alice"]
    assert read_plain_acl(str(tmp_path / "plain_acl.yml")).accounts == found.accounts[:2]
    (tmp_path / "acl" / "twice.yml").write_text(ONE)
    with pytest.raises(ConfigError, match="is in another file too"):
        read_plain_acl(str(tmp_path))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_plain_acl(str(tmp_path / "none.yml"))
    with pytest.raises(ConfigError, match="neither plain_acl"):
        read_plain_acl(str(tmp_path))
    (tmp_path / "long.yml").write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    with pytest.raises(ConfigError, match="is longer than"):
        read_plain_acl(str(tmp_path / "long.yml"))
    (tmp_path / "bad.yml").write_text("[")
    with pytest.raises(ConfigError, match=r"bad\.yml: line \d+: no YAML"):
        read_plain_acl(str(tmp_path / "bad.yml"))
