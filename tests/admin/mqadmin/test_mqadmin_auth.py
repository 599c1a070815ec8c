"""The twelve commands of users and policies, on a real broker of ours."""

import pytest
from tests.admin.world import World

USERS = "#UserName         #Password               #UserType               #UserStatus           "
WHERE = ("-c", "DefaultCluster")


def test_users(secure: World) -> None:
    done = f"to {secure.broker} success."
    ran = secure.mqadmin("createUser", *WHERE, "-u", "mq", "-p", "mq-secret")
    assert ran.lines == [f"create user {done}"]
    shown = "{:<16}  {:<22}  {:<22}  {:<22}"
    ran = secure.mqadmin("getUser", *WHERE, "-u", "mq")
    assert ran.lines == [USERS, shown.format("mq", "******", "Normal", "enable")]
    ran = secure.mqadmin("updateUser", "-b", secure.broker, "-u", "mq", "-s", "disable")
    assert ran.lines == [f"update user {done}"]
    (row,) = secure.mqadmin("listUser", *WHERE, "-f", "mq", "--output", "json").rows
    assert row == {
        "username": "mq",
        "password": "******",
        "userType": "Normal",
        "userStatus": "disable",
    }
    assert secure.mqadmin("deleteUser", *WHERE, "-u", "mq").lines == [f"delete user {done}"]
    assert secure.mqadmin("getUser", *WHERE, "-u", "mq").code == 5


def test_a_password_from_standard_input(secure: World) -> None:
    args = ("mqadmin", "createUser", *WHERE, "-u", "piped", "-p", "-")
    assert secure.run(*args, answer="").code == 2
    assert secure.run(*args, answer="piped-secret\n").code == 0
    env = {"EPOCHMQ_ACCESS_KEY": "piped", "EPOCHMQ_SECRET_KEY": "piped-secret"}
    ran = World(secure.cluster, env=env).run("user", "list")
    assert "no permission for Get on Cluster:DefaultCluster" in ran.err


def test_policies(secure: World) -> None:
    secure.mqadmin("createUser", *WHERE, "-u", "acl", "-p", "x")
    rule = ("-s", "User:acl", "-r", "Topic:a,Group:b*", "-a", "Pub,Sub", "-i", "10.0.0.0/8")
    ran = secure.mqadmin("createAcl", *WHERE, *rule, "-d", "Allow")
    assert ran.lines == [f"create acl to {secure.broker} success."]
    rule = ("-s", "User:acl", "-r", "Topic:a", "-a", "All", "-d", "Deny")
    assert secure.mqadmin("updateAcl", *WHERE, *rule).lines[0].startswith("update acl to ")
    ran = secure.mqadmin("getAcl", *WHERE, "-s", "User:acl")
    assert [line.split() for line in ran.lines] == [
        ["#Subject", "#PolicyType", "#Resource", "#Actions", "#SourceIp", "#Decision"],
        ["User:acl", "Custom", "Topic:a", "[All]", "null", "Deny"],
        ["User:acl", "Custom", "Group:b*", "[Pub,", "Sub]", "[10.0.0.0/8]", "Allow"],
    ]
    rows = secure.mqadmin("listAcl", *WHERE, "-r", "Group:", "--output", "json").rows
    assert [row["resource"] for row in rows] == ["Group:b*"]
    assert secure.mqadmin("deleteAcl", *WHERE, "-s", "User:acl", "-r", "Topic:a").code == 0
    assert len(secure.mqadmin("getAcl", *WHERE, "-s", "User:acl").lines) == 2
    assert secure.mqadmin("deleteAcl", *WHERE, "-s", "User:acl").code == 0
    assert secure.mqadmin("getAcl", *WHERE, "-s", "User:acl").code == 5


def test_copies(secure: World) -> None:
    here = secure.broker
    ran = secure.mqadmin("copyUser", "-f", here, "-t", here, "-u", "admin")
    assert (ran.code, "does not answer passwords" in ran.err) == (2, True)
    rule = ("-s", "User:admin", "-r", "Topic:c", "-a", "Pub", "-d", "Allow")
    secure.mqadmin("createAcl", *WHERE, *rule)
    ran = secure.mqadmin("copyAcl", "-f", here, "-t", here, "-s", "User:admin")
    assert ran.lines == [f"copy acl of User:admin from {here} to {here} success."]
    secure.mqadmin("deleteAcl", *WHERE, "-s", "User:admin")


@pytest.mark.parametrize(
    "args",
    [
        ("createUser", "-u", "x", "-p", "y"),
        ("createUser", *WHERE, "-u", "x"),
        ("updateUser", *WHERE, "-u", "admin"),
        ("updateUser", *WHERE, "-u", "admin", "-p", "x", "-s", "enable"),
        ("createAcl", *WHERE, "-s", "User:admin"),
        ("listUser",),
        ("copyUser", "-f", "127.0.0.1:1"),
    ],
)
def test_wrong_use(secure: World, args: tuple[str, ...]) -> None:
    assert secure.mqadmin(*args).code == 2
