"""Who may send a request: signatures, states of users, policies, addresses, white lists."""

from typing import Any

import pytest
from tests.broker.fake_session import FakeSession

from epochmq.auth.access_control import AccessControl, AccessRefused, AccessRules
from epochmq.auth.accounts import AccountTable
from epochmq.auth.credentials import Credentials
from epochmq.auth.failed_logins import BLOCK_MS, FREE_FAILURES
from epochmq.auth.password_cipher import PasswordCipher
from epochmq.auth.policies import (
    Action,
    Need,
    PolicyEntry,
    PolicyType,
    ResourceType,
    parse_resource,
)
from epochmq.auth.users import UserStatus, UserType
from epochmq.wire.command import Command

WALL = 1_700_000_000_000
CIPHER = PasswordCipher(b"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
PUB = frozenset({Action.PUB})
ALICE = Credentials("alice", "alice-secret")
ROOT = Credentials("root", "root-secret")
INNER = Credentials("inner", "inner-secret")
SEND = 310


class Door:
    """Access control with users alice (may publish to `orders`) and root (Super)."""

    def __init__(self, **rules: Any) -> None:
        self.accounts = AccountTable()
        self.accounts.unlock(CIPHER)
        self.accounts.put_user("alice", WALL, password=ALICE.secret_key)
        self.accounts.put_user("root", WALL, password=ROOT.secret_key, type=UserType.SUPER)
        self.give("Topic:orders")
        given = {
            "authenticates": True,
            "authorizes": True,
            "supers": (INNER,),
            "allows_plain": True,
        }
        self.access = AccessControl(AccessRules(**{**given, **rules}), self.accounts)
        self.session = FakeSession()

    def give(self, resource: str) -> None:
        account = self.accounts.get("alice")
        assert account is not None
        rule = PolicyEntry(parse_resource(resource), PUB)
        self.accounts.put_policies(account, [(PolicyType.CUSTOM, [rule])], WALL)

    def check(
        self, user: Credentials | None, topic: str = "orders", *, code: int = SEND, now: int = 0
    ) -> str:
        """Return the name of the sender; raises `AccessRefused`."""
        command = Command(code, ext={"b": topic}, body=b"x")
        if user is not None:
            user.sign(command)
        needs = [Need(ResourceType.TOPIC, topic, PUB)]
        return self.access.check(command, lambda _: needs, self.session, now).name


def reason_of(door: Door, user: Credentials | None, topic: str = "orders", **more: Any) -> str:
    with pytest.raises(AccessRefused) as refused:
        door.check(user, topic, **more)
    assert refused.value.code == 16
    assert "secret" not in refused.value.remark.replace("secret key", "")
    return refused.value.reason


def test_who_is_let_in() -> None:
    door = Door()
    assert door.check(ALICE) == "alice"
    assert door.check(ROOT, "anything") == "root"
    assert door.check(INNER, "anything") == "inner"


def test_who_is_refused() -> None:
    door = Door()
    assert reason_of(door, None) == "not signed"
    assert reason_of(door, Credentials("alice", "wrong")) == "wrong signature"
    assert reason_of(door, Credentials("bob", "alice-secret")) == "unknown user"
    assert reason_of(door, Credentials("inner", "wrong")) == "wrong signature"
    assert reason_of(door, ALICE, "payments") == "Pub on Topic:payments"


def test_the_answer_does_not_say_whether_user_or_signature_is_wrong() -> None:
    door, said = Door(), set()
    door.accounts.put_user("carol", WALL, password="c", status=UserStatus.DISABLE)
    for user in (
        Credentials("alice", "wrong"),
        Credentials("bob", "x"),
        Credentials("carol", "c"),
    ):
        with pytest.raises(AccessRefused) as refused:
            door.check(user)
        said.add(refused.value.remark)
    assert len(said) == 1


def test_changes_count_from_the_next_request_on() -> None:
    door = Door()
    assert reason_of(door, ALICE, "payments")
    door.give("Topic:payments")
    door.check(ALICE, "payments")
    door.accounts.put_user("alice", WALL, password="new")
    assert reason_of(door, ALICE) == "wrong signature"
    door.check(Credentials("alice", "new"))
    door.accounts.put_user("alice", WALL, status=UserStatus.DISABLE)
    assert reason_of(door, Credentials("alice", "new")) == "disabled user"
    door.accounts.put_user("alice", WALL, status=UserStatus.ENABLE)
    door.accounts.delete_user("alice", WALL)
    assert reason_of(door, Credentials("alice", "new")) == "unknown user"


def test_a_changed_field_or_body_is_noticed() -> None:
    door = Door()
    for change in (lambda c: c.ext.update(b="other"), lambda c: setattr(c, "body", b"y")):
        command = Command(SEND, ext={"b": "orders"}, body=b"x")
        ALICE.sign(command)
        change(command)
        with pytest.raises(AccessRefused):
            door.access.check(command, lambda _: [], door.session, 0)


def test_white_lists() -> None:
    door = Door(unauthenticated_codes=frozenset({34, 35}), unauthorized_codes=frozenset({11, 34}))
    assert door.check(None, code=34) == "-"
    for user in (None, ROOT):  # without its signature a name means nothing
        assert reason_of(door, user, code=35) == "Pub on Topic:orders"
    command = Command(34, ext={"AccessKey": "root"})
    assert not door.access.principal_of(command).is_super
    assert door.check(ALICE, "payments", code=11) == "alice"
    assert reason_of(door, ALICE, "payments", code=310)
    assert reason_of(door, None, code=11) == "not signed"


def test_signatures_alone() -> None:
    door = Door(authorizes=False)
    assert door.check(ALICE, "payments") == "alice"
    assert reason_of(door, None)


@pytest.mark.parametrize(
    ("peer", "encrypted", "accepted"),
    [("127.0.0.1:1", False, True), ("[::1]:1", False, True), ("10.0.0.9:1", False, False),
     ("10.0.0.9:1", True, True), ("", False, False)],
)  # fmt: skip
def test_signatures_over_plain_connections(peer: str, encrypted: bool, accepted: bool) -> None:
    door = Door(allows_plain=False)
    door.session = FakeSession(peer=peer)
    door.session.encrypted = encrypted
    if accepted:
        door.check(ALICE)
    else:
        assert reason_of(door, ALICE) == "not encrypted"


def test_many_failures_are_refused_unseen_for_a_while() -> None:
    door, wrong = Door(), Credentials("alice", "wrong")
    for _ in range(FREE_FAILURES):
        assert reason_of(door, wrong) == "wrong signature"
    assert reason_of(door, ALICE) == "too many failures"
    door.check(ROOT)
    door.check(ALICE, now=BLOCK_MS)
    door.check(ALICE, now=BLOCK_MS)


def test_the_sender_of_a_checked_request() -> None:
    door = Door()
    command = Command(SEND, ext={"b": "orders"})
    ROOT.sign(command)
    assert door.access.principal_of(command).is_super
    ALICE.sign(command)
    assert not door.access.principal_of(command).is_super
