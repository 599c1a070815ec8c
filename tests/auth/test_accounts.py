"""The table of accounts: changes, saving, and copies at replicas."""

import json

import msgspec
import pytest

from epochmq.auth.accounts import Account, AccountTable, WrongKey
from epochmq.auth.password_cipher import PasswordCipher, new_key
from epochmq.auth.policies import (
    Action,
    BadPolicy,
    PolicyEntry,
    PolicyType,
    parse_resource,
)
from epochmq.auth.users import BadUser, UserStatus, UserType
from epochmq.base import limits
from epochmq.model.data_version import DataVersion

WALL = 1_700_000_000_000
CIPHER = PasswordCipher(b"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
TOPIC = PolicyEntry(parse_resource("Topic:t"), frozenset({Action.PUB}), ("10.0.0.0/8",))


def table() -> AccountTable:
    found = AccountTable()
    found.unlock(CIPHER)
    return found


def filled() -> AccountTable:
    found = table()
    found.put_initial("admin", "a-secret", WALL)
    found.put_user("alice", WALL, password="b-secret")
    found.put_policies(account(found, "alice"), [(PolicyType.CUSTOM, [TOPIC])], WALL)
    return found


def account(of: AccountTable, name: str) -> Account:
    found = of.get(name)
    assert found is not None
    return found


def loaded(data: bytes) -> AccountTable:
    again = table()
    again.load(json.loads(data))
    return again


def same(one: AccountTable, other: AccountTable) -> bool:
    return one.all() == other.all() and one.version == other.version


def test_users_are_created_changed_and_deleted() -> None:
    found = filled()
    assert found.password(account(found, "alice")) == "b-secret"
    assert account(found, "admin").type is UserType.SUPER
    found.put_user("alice", WALL, status=UserStatus.DISABLE)
    assert account(found, "alice").status is UserStatus.DISABLE
    assert found.password(account(found, "alice")) == "b-secret"
    assert account(found, "alice").policies == {PolicyType.CUSTOM: (TOPIC,)}
    found.put_user("alice", WALL, password="new")
    assert found.password(account(found, "alice")) == "new"
    assert found.delete_user("alice", WALL)
    assert found.get("alice") is None
    assert not found.delete_user("alice", WALL)


def test_every_change_is_a_new_version() -> None:
    found, seen = table(), [DataVersion()]
    found.state_version = 3
    for change in (
        lambda: found.put_initial("admin", "s", WALL),
        lambda: found.put_user("a", WALL, password="s"),
        lambda: found.put_policies(account(found, "a"), [(PolicyType.CUSTOM, [TOPIC])], WALL),
        lambda: found.delete_policy(account(found, "a"), PolicyType.CUSTOM, None, WALL),
        lambda: found.delete_user("a", WALL),
    ):
        change()
        assert found.version > seen[-1]
        assert found.dirty
        seen.append(found.version)


def test_the_first_user_is_created_once() -> None:
    found = filled()
    found.delete_user("admin", WALL)
    assert not found.put_initial("admin", "a-secret", WALL)
    assert loaded(found.encode()).put_initial("admin", "a-secret", WALL) is False
    taken = table()
    taken.put_user("admin", WALL, password="mine")
    assert not taken.put_initial("admin", "a-secret", WALL)
    assert taken.password(account(taken, "admin")) == "mine"


def test_policies_are_deleted_singly_or_together() -> None:
    found = filled()
    everything = PolicyEntry(parse_resource("*"), TOPIC.actions)
    added = [(PolicyType.DEFAULT, [TOPIC]), (PolicyType.CUSTOM, [everything])]
    found.put_policies(account(found, "alice"), added, WALL)
    found.delete_policy(account(found, "alice"), PolicyType.CUSTOM, TOPIC.resource, WALL)
    assert [str(e.resource) for e in account(found, "alice").policies[PolicyType.CUSTOM]] == ["*"]
    assert account(found, "alice").policies[PolicyType.DEFAULT] == (TOPIC,)
    found.delete_policy(account(found, "alice"), PolicyType.CUSTOM, None, WALL)
    assert account(found, "alice").policies == {}


def test_the_file_has_everything_but_the_passwords() -> None:
    found = filled()
    data = found.encode()
    assert b"secret" not in data
    assert same(loaded(data), found)


def test_the_journal_has_each_change() -> None:
    found = filled()
    copy = loaded(json.dumps({}).encode())
    for change in (
        lambda: None,
        lambda: found.put_user("bob", WALL, password="c-secret"),
        lambda: found.delete_user("alice", WALL),
    ):
        change()
        line = msgspec.json.encode(found.pop_changes())
        assert b"secret" not in line
        copy.apply_changes(json.loads(line))
        assert same(copy, found)
    assert not copy.put_initial("admin", "x", WALL)


def test_changes_that_could_not_be_saved_are_saved_later() -> None:
    found = filled()
    found.delete_user("admin", WALL)
    changes = found.pop_changes()
    found.put_user("carol", WALL, password="s")
    found.give_back(changes)
    again = found.pop_changes()
    assert set(again["put"]) == {"alice", "carol"}
    assert again["drop"] == ["admin"]


def test_a_replica_has_the_same_accounts() -> None:
    master, replica = filled(), table()
    content = json.loads(msgspec.json.encode(master.content()))
    replica.adopt(content)
    assert same(replica, master)
    assert replica.dirty
    assert set(replica.pop_changes()["put"]) == {"admin", "alice"}
    replica.dirty = False
    replica.adopt(content)
    assert not replica.dirty, "nothing is new"
    master.delete_user("alice", WALL)
    replica.adopt(json.loads(msgspec.json.encode(master.content())))
    assert replica.pop_changes()["drop"] == ["alice"]
    assert not replica.put_initial("admin", "x", WALL)


def test_a_copy_reads_only_what_changed() -> None:
    master, replica = filled(), table()

    def copy() -> None:
        replica.adopt(json.loads(master.encoded_content()))
        assert same(replica, master)

    copy()
    kept = account(replica, "admin")
    replica.put_user("admin", WALL, password="changed here, as a master")
    master.put_user("alice", WALL, password="new")
    copy()
    assert account(replica, "admin") is kept
    assert replica.password(account(replica, "alice")) == "new"
    assert master.encoded_content() is master.encoded_content()


def test_another_key_is_noticed_before_anything_changes() -> None:
    other = AccountTable()
    other.unlock(PasswordCipher(new_key().strip()))
    other.put_user("bob", WALL, password="x")
    replica = filled()
    before = replica.all()
    with pytest.raises(WrongKey):
        replica.adopt(json.loads(msgspec.json.encode(other.content())))
    assert replica.all() == before
    locked = AccountTable()
    locked.load(json.loads(replica.encode()))
    with pytest.raises(WrongKey):
        locked.unlock(PasswordCipher(new_key().strip()))


def test_without_a_key_no_password_is_read_or_written() -> None:
    locked = AccountTable()
    with pytest.raises(WrongKey):
        locked.put_user("a", WALL, password="s")
    assert locked.get("a") is None


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "USERS_MAX", 2)
    found = filled()
    with pytest.raises(BadUser, match="2 users"):
        found.put_user("third", WALL, password="s")
    content = json.loads(found.encode())
    content["accounts"]["third"] = content["accounts"]["alice"]
    with pytest.raises(ValueError, match="more than 2"):
        table().adopt(content)
    with pytest.raises(BadUser):
        found.put_user("alice", WALL, password="")
    monkeypatch.setattr(limits, "POLICY_ENTRIES_TOTAL_MAX", 1)
    with pytest.raises(BadPolicy, match="more than 1 entries of all users"):
        found.put_policies(account(found, "admin"), [(PolicyType.CUSTOM, [TOPIC])], WALL)
    found.put_policies(account(found, "alice"), [(PolicyType.CUSTOM, [TOPIC])], WALL)


@pytest.mark.parametrize(
    ("field", "value"),
    [("userType", "Root"), ("userStatus", 1), ("policies", {"Custom": [{"resource": "x"}]}),
     ("password", None), ("policies", {"Other": []}),
     ("policies", {"Custom": [{"resource": "Topic:t", "actions": ["Fly"], "decision": "Allow"}]})],
)  # fmt: skip
def test_a_damaged_row_is_no_account(field: str, value: object) -> None:
    content = json.loads(filled().encode())
    content["accounts"]["alice"][field] = value
    with pytest.raises(ValueError):
        table().load(content)
    assert issubclass(BadPolicy, ValueError)


def configured(*names: str, entries: int = 0) -> list[Account]:
    rules = tuple(
        PolicyEntry(parse_resource(f"Topic:t{n}"), frozenset({Action.PUB})) for n in range(entries)
    )
    policies = {PolicyType.CUSTOM: rules} if rules else {}
    return [Account(name, CIPHER.encrypt("s"), policies=policies) for name in names]


def test_configured_users_are_created_once() -> None:
    found = filled()
    before = account(found, "alice")
    assert found.put_once(configured("alice", "bob"), WALL) == []
    assert account(found, "alice") == before
    assert found.password(account(found, "bob")) == "s"
    found.delete_user("bob", WALL)
    found.delete_user("alice", WALL)
    again = loaded(found.encode())
    assert again.put_once(configured("alice", "bob", "carol"), WALL) == []
    assert [each.name for each in again.all()] == ["admin", "carol"]


def test_configured_users_beyond_the_limits_are_named_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "USERS_MAX", 3)
    found = filled()
    assert found.put_once(configured("bob", "carol"), WALL) == ["carol"]
    found.delete_user("bob", WALL)
    assert found.put_once(configured("bob", "carol"), WALL) == []
    assert account(found, "carol").name == "carol"
    monkeypatch.setattr(limits, "USERS_MAX", 10)
    monkeypatch.setattr(limits, "POLICY_ENTRIES_TOTAL_MAX", 4)
    assert found.put_once(configured("dave", "erin", entries=2), WALL) == ["erin"]
