"""`epochmq acl` on a real broker: what it allows works, and what it does not allow is refused."""

import pytest
from tests.admin.world import Ran, World

from epochmq.auth.credentials import Credentials

USER = Credentials("acl-user", "acl-secret")


def as_user(secure: World) -> World:
    names = ("EPOCHMQ_ACCESS_KEY", "EPOCHMQ_SECRET_KEY")
    values = (USER.access_key, USER.secret_key)
    return World(secure.cluster, env=dict(zip(names, values, strict=True)))


def sends(user: World, topic: str) -> Ran:
    return user.mqadmin("sendMessage", "-t", topic, "-p", "body")


def test_rules_decide_what_a_user_may_do(secure: World) -> None:
    user = as_user(secure)
    secure.run("user", "create", USER.access_key, answer=f"{USER.secret_key}\n")
    for topic in ("acl-open", "acl-shut"):
        assert secure.run("topic", "create", topic, "--queues", "1").code == 0
    assert sends(user, "acl-open").code == 1
    allowed = secure.run("acl", "allow", USER.access_key, "Topic:acl-*", "Pub", "-o", "json")
    assert allowed.rows[0]["decision"] == "Allow"
    assert secure.run("acl", "deny", USER.access_key, "Topic:acl-shut", "All").code == 0
    assert sends(user, "acl-open").code == 0
    ran = sends(user, "acl-shut")
    assert (ran.code, "no permission for Pub on Topic:acl-shut" in ran.err) == (1, True), ran
    rows = secure.run("acl", "list", USER.access_key, "-o", "json").rows
    assert [(row["resource"], row["decision"]) for row in rows] == [
        ("Topic:acl-*", "Allow"),
        ("Topic:acl-shut", "Deny"),
    ]
    assert secure.run("acl", "delete", USER.access_key, "Topic:acl-shut").code == 0
    assert sends(user, "acl-shut").code == 0
    assert secure.run("acl", "delete", USER.access_key).code == 0
    assert secure.run("acl", "list", USER.access_key, "-o", "json").rows == []
    assert sends(user, "acl-open").code == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("allow", "nobody", "Topic:t", "Pub"), "no user nobody"),
        (("allow", "admin", "t", "Pub"), "must be '*'"),
        (("allow", "admin", "Topic:t", "Fly"), "action 'Fly'"),
        (("allow", "admin", "Topic:t", "Pub", "--from", "host"), "not an IP address"),
    ],
)
def test_wrong_rules(secure: World, args: tuple[str, ...], said: str) -> None:
    ran = secure.run("acl", *args)
    assert (ran.code, said in ran.err) == (1, True), ran.err


def test_default_rules_and_addresses(secure: World) -> None:
    args = ("allow", "admin", "Topic:t", "Pub,Sub", "--from", "10.0.0.0/8,::1", "--default")
    assert secure.run("acl", *args).code == 0
    (row,) = secure.run("acl", "list", "admin", "-o", "json").rows
    assert (row["type"], row["from"]) == ("Default", "10.0.0.0/8,::1")
    assert secure.run("acl", "delete", "admin", "Topic:t", "--default").code == 0
    assert secure.run("acl", "list", "admin", "-o", "json").rows == []
