"""`epochmq user` on a real broker that checks signatures."""

from pathlib import Path

import pytest
from tests.admin.world import World

from epochmq.auth.password_cipher import PasswordCipher


def test_the_life_of_a_user(secure: World) -> None:
    created = secure.run("user", "create", "alice", "-o", "json", answer="alice-secret\n")
    assert created.rows == [{"user": "alice", "type": "Normal", "broker": "broker-a"}]
    rows = secure.run("user", "list", "-o", "json").rows
    assert {row["user"]: row["type"] for row in rows} == {"admin": "Super", "alice": "Normal"}
    assert secure.run("user", "update", "alice", "--disable").code == 0
    assert secure.run("user", "update", "alice", "--password", answer="new\n").code == 0
    (row,) = [r for r in secure.run("user", "list", "-o", "json").rows if r["user"] == "alice"]
    assert row["status"] == "disable"
    assert secure.run("user", "delete", "alice").code == 0
    ran = secure.run("user", "delete", "alice")
    assert (ran.code, "no user alice" in ran.err) == (5, True)


@pytest.mark.parametrize(
    ("args", "answer", "code", "said"),
    [
        (("create", "bob"), "", 2, "no password on standard input"),
        (("create", "bob", "--type", "Root"), "x\n", 2, "Root"),
        (("create", "admin"), "x\n", 1, "exists already"),
        (("update", "admin"), "", 2, "nothing is changed"),
        (("update", "nobody", "--enable"), "", 1, "no user nobody"),
        (("list", "-c", "Nowhere"), "", 5, "no cluster Nowhere"),
    ],
)
def test_wrong_use(secure: World, args: tuple[str, ...], answer: str, code: int, said: str) -> None:
    ran = secure.run("user", *args, answer=answer)
    assert (ran.code, said in ran.err) == (code, True), ran.err


def test_a_key_file_is_made_once(world: World, tmp_path: Path) -> None:
    file = tmp_path / "keys" / "auth.key"
    assert world.run("user", "new-key", str(file)).code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    PasswordCipher(file.read_bytes().strip())
    before = file.read_bytes()
    ran = world.run("user", "new-key", str(file))
    assert (ran.code, "is there already" in ran.err) == (2, True)
    assert file.read_bytes() == before


def test_no_and_wrong_credentials(secure: World) -> None:
    for env in ({}, {**secure.env, "EPOCHMQ_SECRET_KEY": "wrong"}):
        ran = World(secure.cluster, env=env).run("user", "list")
        assert (ran.code, "code 16" in ran.err) == (1, True)
        assert "secret-1" not in ran.err


def test_a_broker_without_users_says_so(world: World) -> None:
    ran = world.run("user", "create", "alice", answer="x\n")
    assert (ran.code, "this broker has no users" in ran.err) == (1, True)
