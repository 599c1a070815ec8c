"""Signed sends through the native code: from the second one on, and no longer than allowed."""

import pytest
from tests.broker.auth_harness import ADMIN, AuthHarness
from tests.broker.broker_harness import Client, send

from epochmq.auth.connection_signature import nonce_of
from epochmq.auth.credentials import Credentials
from epochmq.auth.native_signatures import make_native_signatures
from epochmq.auth.policies import Action, PolicyEntry, PolicyType, parse_resource
from epochmq.native.library import library
from epochmq.wire.bodies.auth_bodies import UserInfo
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import Command, encode_frame

pytestmark = pytest.mark.skipif(
    make_native_signatures(library(), connection_signatures_only=False) is None,
    reason="no native code or no libcrypto: Python checks all signatures",
)
ALICE = Credentials("alice", "alice-secret")
REFUSED = 16


class Writer:
    """A broker with the topics T and U, and a connection of alice, who may send to T."""

    def __init__(self, **changes: object) -> None:
        self.harness = AuthHarness(**changes)
        for topic in ("T", "U"):
            self.harness.topic(topic)
        accounts = self.harness.node.accounts
        accounts.put_user("alice", 1, password=ALICE.secret_key)
        account = accounts.get("alice")
        assert account is not None
        rule = PolicyEntry(parse_resource("Topic:T"), frozenset({Action.PUB}))
        accounts.put_policies(account, [(PolicyType.CUSTOM, [rule])], 1)
        self.client = self.harness.client()
        self.opaque = 10

    def send(
        self, user: Credentials | None = ALICE, client: Client | None = None, topic: str = "T"
    ) -> tuple[int, bool]:
        """Send once; return the code of the answer, and whether the native code took it."""
        client = client or self.client
        self.opaque += 1
        command = send(b"x", topic=topic)
        command.opaque = self.opaque
        if user is not None:
            user.sign(command)
        taken = client.put_raw(encode_frame(command))
        self.harness.turn()
        (answer,) = client.take()
        assert answer.opaque == self.opaque
        return answer.code, bool(taken)


def test_the_second_send_is_native() -> None:
    writer = Writer()
    assert writer.send() == (0, False)
    assert writer.send() == (0, True)
    assert writer.send(client=writer.harness.client()) == (0, True)  # from the same address
    assert writer.send(topic="U") == (REFUSED, False)
    assert len(writer.harness.stored("T")) == 3
    assert not writer.harness.stored("U")


def test_a_refusal_counts_at_once() -> None:
    writer = Writer()
    for _ in range(2):
        writer.send()
    writer.harness.allow(ALICE, ("Topic:U", "Pub"))  # a policy more: everything is checked again
    assert writer.send() == (0, False)
    assert writer.send() == (0, True)
    writer.harness.allow(ALICE, ("Topic:T", "Pub"), decision="Deny")
    assert writer.send() == (REFUSED, False)


def test_another_password_and_a_deleted_user_count_at_once() -> None:
    writer, new = Writer(), Credentials("alice", "new-secret")
    for _ in range(2):
        writer.send()
    body = encode_body(UserInfo(username="alice", password="new-secret"))
    change = Command(Code.AUTH_UPDATE_USER, ext={"username": "alice"}, body=body)
    assert writer.harness.ask(change).code == 0
    assert writer.send(ALICE) == (REFUSED, False)
    assert writer.send(new) == (0, False)
    assert writer.send(new) == (0, True)
    writer.harness.ask(Command(Code.AUTH_DELETE_USER, ext={"username": "alice"}))
    assert writer.send(new) == (REFUSED, False)


def test_guessing_is_not_faster_with_the_native_code() -> None:
    """After a failed login the name is Python's again, which counts failures."""
    writer, wrong = Writer(), Credentials("alice", "wrong")
    for _ in range(2):
        writer.send()
    for _ in range(12):
        assert writer.send(wrong) == (REFUSED, False)
    assert writer.send(ALICE) == (REFUSED, False)  # blocked for a moment
    writer.harness.clock.now += 2_000
    assert writer.send(ALICE) == (0, False)
    assert writer.send(ALICE) == (0, True)


def test_unsigned_sends_are_never_native() -> None:
    writer = Writer()
    for _ in range(2):
        writer.send()
    assert writer.send(None) == (REFUSED, False)


def test_sends_that_need_no_signature_give_no_right() -> None:
    writer = Writer(authentication_whitelist="310", authorization_whitelist="310")
    for _ in range(3):
        assert writer.send(None) == (0, False)
    for _ in range(3):
        assert writer.send(Credentials("alice", "wrong")) == (0, False)


def test_an_unencrypted_connection_does_not_profit_from_an_encrypted_one() -> None:
    writer = Writer(allow_plain_authentication=False)
    safe = writer.harness.client()
    safe.session.encrypted = True
    assert writer.send(client=safe) == (0, False)
    assert writer.send(client=safe) == (0, True)
    assert writer.send() == (REFUSED, False)


def test_signatures_for_the_connection() -> None:
    writer = Writer(connection_signatures_only=True)
    client = writer.harness.client()
    answer = client.ask(ALICE.ask_challenge())
    assert nonce_of(answer) is not None
    sign = ALICE.sign_for(answer, lambda: 0)
    frames = []
    for number in range(4):
        command = send(b"x")
        command.opaque = 100 + number
        sign(command)
        frames.append(encode_frame(command))
    took = []
    for frame in (frames[0], frames[1], b"".join(frames[2:])):
        took.append(client.put_raw(frame) > 0)
        writer.harness.turn()
    assert took == [False, True, True]
    assert [answer.code for answer in client.take()] == [0] * 4
    assert client.put_raw(frames[3]) == 0
    assert client.transport.cut_for is not None
    assert len(writer.harness.stored("T")) == 4
    assert writer.send(ADMIN) == (REFUSED, False)
