"""The users of a broker are what the files of ACL 1.0 say (aclEnable)."""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from tests.compat.peers.process import wait_until

from epochmq.auth.accounts import AccountTable
from epochmq.auth.credentials import Credentials
from epochmq.auth.password_cipher import PasswordCipher
from epochmq.auth.users import UserType
from epochmq.base import limits
from epochmq.base.errors import ConfigError, Refused
from epochmq.broker.state import acl_files
from epochmq.broker.state.acl_files import AclFiles
from epochmq.client.aio import Admin
from epochmq.client.sync import Producer
from epochmq.model.message import Message
from epochmq.testing import MiniCluster
from epochmq.testing.mini_cluster import broker_context
from epochmq.wire.bodies.auth_bodies import UserInfo

T = TypeVar("T")

WALL = 1_700_000_000_000
WITHIN_S = 30
CIPHER = PasswordCipher(b"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")


def write(file: Path, *accounts: str) -> None:
    """Write accounts like "alice T=PUB"; each time with another time of change."""
    lines = ["accounts:"]
    for each in accounts:
        name, _, perms = each.partition(" ")
        lines += [f"- accessKey: {name}", f"  secretKey: {name}-secret"]
        lines += ["  admin: true"] if perms == "admin" else [f"  topicPerms: [{perms}]"]
    file.write_text("\n".join(lines) + "\n")
    write.times += 1  # type: ignore[attr-defined]
    os.utime(file, ns=(write.times, write.times))  # type: ignore[attr-defined]


write.times = 10**18  # type: ignore[attr-defined]


def background(call: Callable[[], T], done: Callable[[T | None], None]) -> None:
    done(call())


class Files:
    """A file, what keeps a table equal to it, and the table."""

    def __init__(self, root: Path, *kept: str) -> None:
        self.file = root / "plain_acl.yml"
        write(self.file, "alice T=PUB", "root admin")
        self.table = AccountTable()
        self.table.unlock(CIPHER)
        self.files = AclFiles(str(self.file), CIPHER, kept)
        self.apply()

    def apply(self, *, changes: bool = True) -> None:
        self.files.tick(self.table, WALL, changes=changes)

    def look(self) -> None:
        self.files.look(background)
        self.apply()

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.table.all()]


def test_the_accounts_become_users(tmp_path: Path) -> None:
    made = Files(tmp_path)
    alice, root = made.table.all()
    assert (alice.name, made.table.password(alice)) == ("alice", "alice-secret")
    assert alice.policies
    assert (root.name, root.type) == ("root", UserType.SUPER)


def test_changes_of_the_files_are_applied(tmp_path: Path) -> None:
    made = Files(tmp_path)
    before = made.table.get("root")
    write(made.file, "bob T=SUB", "root admin")
    made.look()
    assert made.names == ["bob", "root"]
    assert made.table.get("root") is before, "what is the same is not changed"
    version = made.table.version
    made.look()
    assert made.table.version is version


def test_files_that_cannot_be_used_change_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = Files(tmp_path)
    for text in ("accounts:\n- accessKey: ali", "", "accounts: []\n"):
        made.file.write_text(text)
        made.look()
        made.look()
        assert made.names == ["alice", "root"]
    made.file.unlink()
    made.look()
    assert made.names == ["alice", "root"]
    said = [each.message for each in caplog.records if "stay as they are" in each.message]
    assert len(said) == 3, "each problem is said once"
    write(made.file, "carol T=PUB")
    made.look()
    assert made.names == ["carol"]


def test_files_that_cannot_be_used_stop_the_start(tmp_path: Path) -> None:
    file = tmp_path / "plain_acl.yml"
    with pytest.raises(ConfigError, match="cannot be read"):
        AclFiles(str(file), CIPHER, ())
    file.write_text("accounts: []\n")
    with pytest.raises(ConfigError, match="has no accounts"):
        AclFiles(str(file), CIPHER, ())


def test_a_directory_of_rocketmq(tmp_path: Path) -> None:
    (tmp_path / "acl" / "more").mkdir(parents=True)
    write(tmp_path / "plain_acl.yml", "alice T=PUB")
    write(tmp_path / "acl" / "more" / "b.yaml", "bob T=PUB")
    table = AccountTable()
    table.unlock(CIPHER)
    files = AclFiles(str(tmp_path), CIPHER, ())
    files.tick(table, WALL, changes=True)
    assert [each.name for each in table.all()] == ["alice", "bob"]
    write(tmp_path / "acl" / "c.yml", "carol T=PUB")
    files.look(background)
    files.tick(table, WALL, changes=True)
    assert [each.name for each in table.all()] == ["alice", "bob", "carol"]


def test_a_replica_changes_nothing_until_it_is_master(tmp_path: Path) -> None:
    made = Files(tmp_path)
    write(made.file, "bob T=PUB")
    made.files.look(background)
    made.apply(changes=False)
    assert made.names == ["alice", "root"], "as its master says"
    made.table.put_user("other", WALL, password="other-secret")  # copied from the master
    made.apply(changes=True)
    assert made.names == ["bob"]


def test_the_first_super_user_stays(tmp_path: Path) -> None:
    made = Files(tmp_path, "admin")
    made.table.put_initial("admin", "other-secret", WALL)
    write(made.file, "bob T=PUB", "admin T=PUB")
    made.look()
    assert made.names == ["admin", "bob"]
    admin = made.table.all()[0]
    assert (admin.type, made.table.password(admin)) == (UserType.SUPER, "other-secret")


@pytest.mark.parametrize("limit", ["USERS_MAX", "POLICY_ENTRIES_TOTAL_MAX"])
def test_more_than_the_limits_allow_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, limit: str
) -> None:
    made = Files(tmp_path, "kept")
    made.table.put_user("kept", WALL, password="kept-secret")
    write(made.file, *(f"user{n} T=PUB" for n in range(4)))
    made.files.look(background)
    monkeypatch.setattr(limits, limit, 4)
    made.apply()
    assert made.names == ["alice", "kept", "root"]
    assert "stay as they are: there would be more than 4" in caplog.text


# A broker ------------------------------------------------------------------------------------


@pytest.fixture
def acl(tmp_path: Path) -> Path:
    file = tmp_path / "plain_acl.yml"
    write(file, "alice T=PUB", "root admin")
    return file


@pytest.fixture(params=[1])
def cluster(
    request: pytest.FixtureRequest, acl: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MiniCluster]:
    monkeypatch.setattr(acl_files, "LOOK_MS", 50)
    inner = '{"accessKey":"inner-user","secretKey":"inner-secret"}'
    options = {
        "aclEnable": "true",
        "plainAclPath": str(acl),
        "innerClientAuthenticationCredentials": inner,
    }
    with MiniCluster(request.param, options=options) as made:
        yield made


def send(cluster: MiniCluster, name: str, topic: str = "T") -> None:
    credentials = Credentials(name, f"{name}-secret")
    with Producer(cluster.namesrv, "p", credentials=credentials, timeout_ms=10_000) as producer:
        producer.send(Message(topic, name.encode()))


def is_allowed(cluster: MiniCluster, name: str) -> bool:
    try:
        send(cluster, name)
    except Refused:
        return False
    return True


def test_clients_have_the_permissions_of_the_file(cluster: MiniCluster, acl: Path) -> None:
    send(cluster, "root")  # creates the topic
    send(cluster, "alice")
    with pytest.raises(Refused, match="the user or the signature is wrong"):
        send(cluster, "bob")
    with pytest.raises(Refused, match="Topic:Other"):
        send(cluster, "alice", "Other")
    write(acl, "bob T=PUB", "root admin")
    wait_until(lambda: is_allowed(cluster, "bob"), WITHIN_S, "the file is applied")
    assert not is_allowed(cluster, "alice")


def test_users_are_changed_in_the_file_only(cluster: MiniCluster) -> None:
    async def create() -> None:
        root = Credentials("root", "root-secret")
        async with Admin(cluster.namesrv, credentials=root) as admin:
            (address,) = (await admin.masters()).values()
            await admin.create_user(address, UserInfo(username="eve", password="eve-secret"))

    with pytest.raises(Refused, match="accounts of files"):
        asyncio.run(create())


@pytest.mark.parametrize("cluster", [3], indirect=True)
def test_a_new_master_has_the_same_users(cluster: MiniCluster, acl: Path) -> None:
    send(cluster, "root")
    write(acl, "bob T=PUB", "root admin")
    wait_until(lambda: is_allowed(cluster, "bob"), WITHIN_S, "the file is applied")
    before = broker_context(cluster).accounts.version
    cluster.kill("master")
    wait_until(lambda: is_allowed(cluster, "bob"), WITHIN_S, "a new master")
    assert not is_allowed(cluster, "alice")
    assert broker_context(cluster).accounts.version == before, "the same files change nothing"
