"""Users and policies by request (3001 to 3010), and copies of them for replicas (34009)."""

import json

import pytest
from tests.broker.auth_harness import ADMIN, AuthHarness
from tests.broker.become import become
from tests.broker.broker_harness import BrokerHarness

from epochmq.auth.credentials import Credentials
from epochmq.base.options import HIDDEN
from epochmq.broker.serving.roles import Role
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import Command

ALICE = Credentials("alice", "alice-secret")
BOSS = Credentials("boss", "boss-secret")
INVALID = 29
NO_PERMISSION = 16


def command(code: Code, body: object = None, **ext: str) -> Command:
    return Command(code, ext=ext, body=b"" if body is None else json.dumps(body).encode())


def user(harness: AuthHarness, name: str = "alice") -> object:
    """Return the user as it is answered; None without a body."""
    answer = harness.ask(command(Code.AUTH_GET_USER, username=name))
    assert answer.code == 0
    return json.loads(bytes(answer.body)) if answer.body else None


def works(harness: AuthHarness, who: Credentials) -> bool:
    """Return whether a user's signature is accepted."""
    return harness.ask(Command(Code.MASTER_STATE), who).code == 0


# Users ---------------------------------------------------------------------------------------


def test_the_life_of_a_user() -> None:
    harness = AuthHarness()
    assert user(harness) is None
    assert harness.put_user(ALICE).code == 0
    shown = {"username": "alice", "password": HIDDEN, "userType": "Normal", "userStatus": "enable"}
    assert user(harness) == shown
    assert works(harness, ALICE)
    change = {"userStatus": "disable"}
    assert harness.ask(command(Code.AUTH_UPDATE_USER, change, username="alice")).code == 0
    assert user(harness) == {**shown, "userStatus": "disable"}
    assert not works(harness, ALICE)
    change = {"userStatus": "enable", "password": "new", "userType": ""}
    assert harness.ask(command(Code.AUTH_UPDATE_USER, change, username="alice")).code == 0
    assert not works(harness, ALICE)
    assert works(harness, Credentials("alice", "new"))
    for _ in range(2):
        assert harness.ask(command(Code.AUTH_DELETE_USER, username="alice")).code == 0
    assert user(harness) is None
    assert not works(harness, Credentials("alice", "new"))


def test_a_masked_password_that_comes_back_changes_nothing() -> None:
    harness = AuthHarness()
    harness.put_user(ALICE)
    assert harness.ask(command(Code.AUTH_UPDATE_USER, user(harness), username="alice")).code == 0
    assert works(harness, ALICE)


def test_users_are_listed() -> None:
    harness = AuthHarness()
    harness.put_user(ALICE)
    answer = harness.ask(command(Code.AUTH_LIST_USER))
    assert [each["username"] for each in json.loads(bytes(answer.body))] == ["admin", "alice"]
    answer = harness.ask(command(Code.AUTH_LIST_USER, filter="lic"))
    assert [each["username"] for each in json.loads(bytes(answer.body))] == ["alice"]
    assert not harness.ask(command(Code.AUTH_LIST_USER, filter="zzz")).body
    assert b"secret" not in bytes(answer.body)


@pytest.mark.parametrize(
    ("code", "body", "ext", "said"),
    [
        (Code.AUTH_CREATE_USER, {"password": "x"}, {"username": "admin"}, "exists already"),
        (Code.AUTH_CREATE_USER, {"password": ""}, {"username": "bob"}, "password must not be"),
        (Code.AUTH_CREATE_USER, {"password": "x"}, {}, "user name is missing"),
        (Code.AUTH_CREATE_USER, {"password": "x", "userType": "Root"}, {"username": "b"}, "type"),
        (Code.AUTH_CREATE_USER, {"password": "x"}, {"username": "a\n"}, "user name"),
        (Code.AUTH_UPDATE_USER, {"password": "x"}, {"username": "bob"}, "no user bob"),
        (Code.AUTH_GET_USER, None, {}, "user name is missing"),
        (Code.AUTH_CREATE_ACL, {"policies": []}, {"subject": "User:admin"}, "no policy entries"),
        (Code.AUTH_CREATE_ACL, {"policies": []}, {"subject": "Role:admin"}, "User:NAME"),
        (Code.AUTH_CREATE_ACL, {"policies": []}, {"subject": "User:bob"}, "no user bob"),
        (Code.AUTH_DELETE_ACL, None, {"subject": "User:admin", "resource": "x"}, "resource 'x'"),
    ],
)
def test_wrong_requests_say_what_is_wrong(
    code: Code, body: object, ext: dict[str, str], said: str
) -> None:
    harness = AuthHarness()
    before = harness.node.accounts.version
    answer = harness.ask(command(code, body, **ext))
    assert (answer.code, said in (answer.remark or "")) == (INVALID, True), answer.remark
    assert harness.node.accounts.version is before


def test_only_a_super_user_changes_super_users() -> None:
    harness = AuthHarness()
    harness.put_user(ALICE)
    harness.put_user(BOSS, user_type="Super")
    harness.allow(ALICE, ("Cluster:c", "Update"))
    for request in (
        command(Code.AUTH_CREATE_USER, {"password": "x", "userType": "Super"}, username="new"),
        command(Code.AUTH_UPDATE_USER, {"userType": "Super"}, username="alice"),
        command(Code.AUTH_UPDATE_USER, {"password": "x"}, username="boss"),
        command(Code.AUTH_DELETE_USER, username="boss"),
    ):
        assert harness.ask(request, ALICE).code == NO_PERMISSION
    assert works(harness, BOSS)
    new = command(Code.AUTH_CREATE_USER, {"password": "x"}, username="new")
    assert harness.ask(new, ALICE).code == 0
    assert harness.ask(command(Code.AUTH_DELETE_USER, username="boss"), BOSS).code == 0


# Policies ------------------------------------------------------------------------------------


def policies(harness: AuthHarness, name: str = "alice") -> dict[str, list[tuple[str, str]]]:
    """Return (resource, decision) by type, as they are answered."""
    answer = harness.ask(command(Code.AUTH_GET_ACL, subject=f"User:{name}"))
    assert answer.code == 0
    if not answer.body:
        return {}
    found = json.loads(bytes(answer.body))
    assert found["subject"] == f"User:{name}"
    return {
        policy["policyType"]: [(e["resource"], e["decision"]) for e in policy["entries"]]
        for policy in found["policies"]
    }


def test_the_life_of_a_policy() -> None:
    harness = AuthHarness()
    harness.put_user(ALICE)
    assert policies(harness) == {}
    assert harness.allow(ALICE, ("Topic:t*", "Pub,Sub"), ("Group:g", "Sub")).code == 0
    harness.allow(ALICE, ("Topic:t*", "Pub"), decision="Deny")
    assert policies(harness) == {"Custom": [("Topic:t*", "Deny"), ("Group:g", "Allow")]}
    gone = {"subject": "User:alice", "policyType": "Custom", "resource": "Topic:t*"}
    assert harness.ask(command(Code.AUTH_DELETE_ACL, **gone)).code == 0
    assert policies(harness) == {"Custom": [("Group:g", "Allow")]}
    assert harness.ask(command(Code.AUTH_DELETE_ACL, subject="User:alice")).code == 0
    assert policies(harness) == {}


def test_a_wrong_entry_changes_nothing() -> None:
    harness = AuthHarness()
    harness.put_user(ALICE)
    assert harness.allow(ALICE, ("Topic:t", "Pub"), ("Topic:u", "Fly")).code == INVALID
    assert policies(harness) == {}


def test_policies_are_listed_by_parts() -> None:
    harness = AuthHarness()
    harness.put_user(ALICE)
    harness.put_user(BOSS)
    harness.allow(ALICE, ("Topic:orders", "Pub"), ("Group:g", "Sub"))
    harness.allow(BOSS, ("Topic:payments", "Pub"))

    def listed(**ext: str) -> dict[str, list[str]]:
        answer = harness.ask(command(Code.AUTH_LIST_ACL, **ext))
        found = json.loads(bytes(answer.body)) if answer.body else []
        return {
            acl["subject"]: [e["resource"] for p in acl["policies"] for e in p["entries"]]
            for acl in found
        }

    assert set(listed()) == {"User:alice", "User:boss"}
    assert listed(resourceFilter="Topic:") == {
        "User:alice": ["Topic:orders"],
        "User:boss": ["Topic:payments"],
    }
    assert set(listed(subjectFilter="bo")) == {"User:boss"}
    assert listed(resourceFilter="zzz") == {}


# Saving and copying --------------------------------------------------------------------------


def test_a_change_is_answered_when_it_is_saved_and_copied() -> None:
    harness = AuthHarness()
    replica, admin = harness.client(), harness.client()
    whole = Command(Code.GET_ALL_ACCOUNTS)
    ADMIN.sign(whole)
    copy = replica.ask(whole)
    assert b"admin-secret" not in bytes(copy.body)
    assert copy.ext is not None
    watch = {"sinceStamp": copy.ext["stamp"], "waitMillis": "1000"}
    held = Command(Code.GET_ALL_ACCOUNTS, ext=dict(watch))
    ADMIN.sign(held)
    replica.put(held)
    writes = harness.hold_writes()
    create = command(Code.AUTH_CREATE_USER, {"password": "x"}, username="alice")
    ADMIN.sign(create)
    admin.put(create)
    harness.turn()
    assert admin.take() == []
    for call, done in writes:
        call()
        done(None)
    harness.turn()
    (news,) = replica.take()
    assert admin.take() == [], "the replica has not copied it yet"
    assert news.ext is not None
    again = Command(Code.GET_ALL_ACCOUNTS, ext={**watch, "sinceStamp": news.ext["stamp"]})
    ADMIN.sign(again)
    replica.put(again)
    harness.turn()
    assert [answer.code for answer in admin.take()] == [0]


def test_a_replica_answers_changes_as_done_and_changes_nothing() -> None:
    """RocketMQ's tools send each change to all brokers of a cluster."""
    harness = AuthHarness()
    become(harness.node, Role.SLAVE)
    before = harness.node.accounts.version
    answer = harness.put_user(ALICE)
    assert (answer.code, "copies its master" in (answer.remark or "")) == (0, True)
    assert harness.node.accounts.version is before


def test_a_broker_without_a_key_has_no_users() -> None:
    harness = BrokerHarness()
    answer = harness.client().ask(command(Code.AUTH_CREATE_USER, {"password": "x"}, username="a"))
    assert (answer.code, "this broker has no users" in (answer.remark or "")) == (1, True)


def test_users_can_be_created_before_signatures_are_checked() -> None:
    """So that an open cluster becomes a secured one without an outage."""
    harness = AuthHarness(authentication_enabled=False, authorization_enabled=False)
    new = command(Code.AUTH_CREATE_USER, {"password": "x", "userType": "Super"}, username="a")
    assert harness.ask(new, None).code == 0
    answer = harness.ask(command(Code.AUTH_LIST_USER), None)
    assert [each["username"] for each in json.loads(bytes(answer.body))] == ["a", "admin"]


def test_changes_are_in_the_audit_log_without_passwords(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    harness = AuthHarness()
    harness.put_user(ALICE)
    harness.ask(command(Code.DELETE_TOPIC_IN_BROKER, topic="t"), ALICE)
    harness.ask(command(Code.DELETE_TOPIC_IN_BROKER, topic="t"), Credentials("eve", "x"))
    said = [record.getMessage() for record in caplog.records if record.name == "epochmq.audit"]
    assert [line.partition(" from=")[0] for line in said] == [
        "user=admin",
        "user=alice",
        "user=eve",
    ]
    assert "request=AUTH_CREATE_USER on=User:alice result=accepted" in said[0]
    assert said[1].endswith("result=denied: Delete on Topic:t")
    assert said[2].endswith("result=denied: unknown user")
    assert "secret" not in "".join(said)
